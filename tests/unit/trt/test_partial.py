"""What torch_tensorrt is told, by one of our own: the real one cannot even be imported without a GPU."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from mlconverter import ConversionError, Converter, MissingDependencyError, NotRunnableError, SaveError, SignatureError
from mlconverter.formats.trt import execution
from tests.contract.test_formats import small_onnx

SHAPE = ("batch", 3, 8, 8)


def converter() -> Converter:
    return Converter(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval(), input_shape=SHAPE, verify=False)


@pytest.fixture
def said(monkeypatch) -> dict[str, Any]:
    """What it was called with."""
    calls: dict[str, Any] = {}

    def compile(program: torch.export.ExportedProgram, **settings: Any) -> Any:
        calls["settings"] = settings
        return program.module()

    def save(module: Any, path: str, **choices: Any) -> None:
        calls["saved"] = choices
        Path(path).write_bytes(b"program")

    stub = SimpleNamespace(dynamo=SimpleNamespace(compile=compile), save=save, Input=lambda **given: given)
    monkeypatch.setitem(sys.modules, "torch_tensorrt", stub)
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: stub if name == "torch_tensorrt" else found(name))
    monkeypatch.setattr(execution, "require_gpu", lambda: None)
    return calls


def test_ranges_and_precision_are_passed_on(said, tmp_path: Path) -> None:
    made = converter().to_trt(partial=True, precision="fp16", dynamic_shapes={"batch": (1, 2, 4)}, workspace=1 << 20)
    (given,) = said["settings"]["arg_inputs"]
    assert (given["min_shape"], given["opt_shape"], given["max_shape"]) == ((1, 3, 8, 8), (2, 3, 8, 8), (4, 3, 8, 8))
    assert given["dtype"] is torch.float32
    assert said["settings"]["autocast_low_precision_type"] is torch.float16 and said["settings"]["workspace_size"] == 1 << 20
    assert not said["settings"]["require_full_compilation"]
    path = made.save(tmp_path / "net.pt2")
    assert path.read_bytes() == b"program" and said["saved"]["output_format"] == "exported_program"
    with pytest.raises(SaveError, match="exported_program"):
        made.save(tmp_path / "net.engine", output_format="engine")
    assert [p.name for p in tmp_path.iterdir()] == ["net.pt2"]


def test_what_it_fails_with_is_one_error(said, monkeypatch) -> None:
    def fail(*arguments: Any, **settings: Any) -> None:
        raise RuntimeError("no kernel")

    monkeypatch.setattr(sys.modules["torch_tensorrt"].dynamo, "compile", fail)
    with pytest.raises(ConversionError, match="no kernel"):
        converter().to_trt(partial=True)


def test_options_that_mean_nothing(said) -> None:
    for options in ({"precision": "int8"}, {"compute_capability": "SM89"}, {"runtime": "tensorrt"}):
        with pytest.raises(SignatureError, match="partial"):
            converter().to_trt(partial=True, **options)
    with pytest.raises(SignatureError, match="torch"):
        Converter(small_onnx()).to_trt(partial=True)


@pytest.mark.skipif(importlib.util.find_spec("torch_tensorrt") is not None, reason="torch_tensorrt is installed")
def test_without_it_the_extra_is_named() -> None:
    with pytest.raises(MissingDependencyError, match=r"mlconverter\[torch-tensorrt\]"):
        converter().to_trt(partial=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(said, monkeypatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: SimpleNamespace())
    with pytest.raises(NotRunnableError, match="no GPU"):
        converter().to_trt(partial=True)
