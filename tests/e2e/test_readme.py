"""Every example of the README runs as it stands there, one after the other, in a folder with the files that it names."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests import zoo
from tests.ops.tflite_onnx.test_quantised import CASES, made

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
EXAMPLES = [code for language, code in BLOCKS if language == "python"]
COMMANDS = [
    line for language, code in BLOCKS if language == "sh" for line in code.splitlines() if line.startswith("mlconverter ")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files by the names that the README gives them; what one example writes the next one finds."""
    import torch

    from mlconverter import Converter

    folder = tmp_path_factory.mktemp("readme")
    (folder / "model.tflite").write_bytes(zoo.model("mediapipe", "face_detection_short_range.tflite").read_bytes())
    (folder / "unsupported.tflite").write_bytes(zoo.model("mediapipe", "face_landmark_with_attention.tflite").read_bytes())
    (folder / "quantised.tflite").write_bytes(made(next(case for case in CASES if case.id == "FULLY_CONNECTED int8"), 1))
    (folder / "meta.json").write_text('{"labels": ["cat", "dog"]}')
    (folder / "train.yaml").write_text("optimiser: {name: adam, lr: 0.001}")
    network = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()
    Converter(model=network, input_shape=("batch", 8)).save(folder / "net.onnx")
    return folder


def test_there_are_examples():
    assert len(EXAMPLES) >= 6 and len(COMMANDS) >= 6


def test_examples_run(folder, monkeypatch, capsys):
    from mlconverter.formats.tflite.to_onnx.convert import translates

    monkeypatch.chdir(folder)
    monkeypatch.setattr(translates, "_by_version", dict(translates._by_version))  # an example adds an operator
    for number, code in enumerate(EXAMPLES, 1):
        exec(compile(code, f"README example {number}", "exec"), {"__name__": "readme"})
        printed = capsys.readouterr().out
        # Where an example says in a comment what it prints, that is what it prints.
        for claim in re.findall(r"^print\(.*\)  # (\{.*\}|verified)$", code, re.MULTILINE):
            assert claim in printed, f"example {number} prints {printed!r}"
    assert (folder / "tuned.tflite").stat().st_size == (folder / "model.tflite").stat().st_size
    for name in ("tuned.onnx", "exported.onnx", "exported.tflite", "small.tflite", "three.tflite", "tagged.onnx"):
        assert (folder / name).is_file()


def test_commands_run(folder):
    for command in COMMANDS:
        arguments = shlex.split(command, comments=True)[1:]
        result = subprocess.run(
            [sys.executable, "-m", "mlconverter", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
