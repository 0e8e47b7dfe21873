"""The demo keeps its promises: with a few training steps here, since what is promised does not depend on how many."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from mlconverter import Converter

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def examples():
    """The modules of the folder, which are run as files and so are no package."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield {
            name: importlib.import_module(name)
            for name in ("demo", "every_direction", "finetune_tflite", "handwriting", "real_models")
        }
    finally:
        sys.path.remove(str(EXAMPLES))


def test_the_demo_runs_and_says_what_it_did(examples, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(examples["finetune_tflite"], "STEPS", 15)
    train = examples["finetune_tflite"].train
    monkeypatch.setattr(examples["finetune_tflite"], "train", lambda model: train(model, 15))
    examples["demo"].main()
    printed = capsys.readouterr().out
    for text in ("TFLite → ONNX", "the identical bytes", "training, 15 steps", "0 others", "written back into the origin"):
        assert text in printed
    assert {p.name for p in (tmp_path / "build/demo").iterdir()} >= {"model.onnx", "tuned.tflite", "before_after.png"}


def test_the_picture_shows_every_file_beside_what_it_sees(examples, tmp_path):
    from PIL import Image

    pictures, masks = examples["handwriting"].scenes(3, examples["handwriting"].TEST, seed=0)
    examples["demo"].draw(tmp_path / "sheet.png", pictures, masks, masks, rows=2)
    assert Image.open(tmp_path / "sheet.png").size == (3 * 256, 2 * 144)


def test_the_measures_of_the_demo_can_fail(examples):
    demo = examples["demo"]
    model = Converter(model_path=examples["real_models"].selfie_segmentation()).to_tflite()
    content = bytearray(bytes(model))
    content[20] ^= 1  # in the root table
    extent = max(model.structure.buffers, key=lambda e: e.length)
    content[extent.offset] ^= 1
    assert demo.changed_bytes(model, _Damaged(bytes(content))) == (1, 1)
    there = np.zeros((1, 2, 2, 1), np.float32)
    there[0, 0] = 1
    assert demo.overlap(there, there) == 1 and demo.overlap(1 - there, there) == 0
    assert demo.loss(there, there) < 1e-5 and demo.loss(1 - there, there) > 1


def test_training_and_test_data_are_apart_and_repeatable(examples):
    data = examples["handwriting"]
    assert len(data.TRAIN) + len(data.TEST) == len(data.DIGITS)
    first, again, other = (data.scenes(2, data.TRAIN, seed=s) for s in (0, 0, 1))
    assert np.array_equal(first[0], again[0]) and not np.array_equal(first[0], other[0])
    pictures, masks = first
    assert pictures.shape == (2, 144, 256, 3) and pictures.dtype == np.float32 and 0 <= pictures.min() and pictures.max() <= 1
    assert masks.shape == (2, 144, 256, 1) and 0 < masks.mean() < 0.5


class _Damaged:
    def __init__(self, content):
        self._content = content

    def __bytes__(self):
        return self._content
