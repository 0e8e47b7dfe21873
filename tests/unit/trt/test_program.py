"""Engines within torch programs: saved and loaded by torch itself, in a process that knows the operator and nothing else."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from mlconverter import Converter, NotConvertibleError, NotRunnableError
from mlconverter.formats.trt.engine import TRTEngine
from mlconverter.formats.trt.program import TRTModule, engines_in, spec_of
from mlconverter.signature import TensorSpec
from tests.contract.test_formats import small_onnx

built = pytest.mark.skipif(importlib.util.find_spec("tensorrt_rtx") is None, reason="tensorrt_rtx is not installed")
blind = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")

CONTENT = bytes(range(256)) * 5
INPUTS = [TensorSpec("x", ("batch", 3), "float32"), TensorSpec("y", ("batch", "length"), "int64")]
OUTPUTS = [TensorSpec("a", ("batch", 10), "float16"), TensorSpec("b", ("length", "found"), "int64")]

FRESH = """
import sys
import torch
import mlconverter.formats.trt.program

heavy = {"onnx", "onnx_ir", "onnxruntime", "tensorrt", "tensorrt_rtx", "torch_tensorrt", "mlconverter.base"} & set(sys.modules)
assert not heavy, heavy
program = torch.export.load(sys.argv[1])
(content, spec), = mlconverter.formats.trt.program.engines_in(program)
assert content == open(sys.argv[2], "rb").read(), "other bytes"
(size,) = program.range_constraints.values()
print(size.lower, size.upper, [tuple(node.meta["val"].shape[1:]) for node in list(program.graph.nodes)[-1].args[0]])
try:
    program.module()(torch.zeros(3, 3, 8, 6))
except mlconverter.errors.NotRunnableError as error:
    print(error)
"""


class Beside(nn.Module):
    """An engine between ordinary layers."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.engine = nn.Linear(4, 3), TRTModule(CONTENT, spec_of(CONTENT, "tensorrt_rtx", INPUTS, OUTPUTS))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = self.engine(self.before(x), y)
        return first.float().relu(), second


def test_shapes_and_types_are_known_without_running(tmp_path: Path) -> None:
    batch, length = torch.export.Dim("batch", min=2, max=9), torch.export.Dim("length", min=2, max=99)
    examples = torch.zeros(2, 4), torch.zeros(2, 5, dtype=torch.int64)
    program = torch.export.export(Beside(), examples, dynamic_shapes=({0: batch}, {0: batch, 1: length}))
    torch.export.save(program, tmp_path / "net.pt2")
    loaded = torch.export.load(tmp_path / "net.pt2")
    inputs = [n.meta["val"] for n in loaded.graph.nodes if n.op == "placeholder"][-2:]
    first, second = (node.meta["val"] for node in list(loaded.graph.nodes)[-1].args[0])
    assert first.shape[0] == inputs[0].shape[0] and first.shape[1] == 10 and first.dtype == torch.float32
    assert second.shape[0] == inputs[1].shape[1] and second.dtype == torch.int64
    assert not isinstance(second.shape[1], int), "what only a run can tell is told"
    assert engines_in(loaded) == [(CONTENT, spec_of(CONTENT, "tensorrt_rtx", INPUTS, OUTPUTS))]
    assert set(loaded.state_dict) == {"before.weight", "before.bias", "engine.engine"}


@blind
def test_running_without_a_gpu_says_so() -> None:
    with pytest.raises(NotRunnableError, match="no GPU"):
        Beside()(torch.zeros(2, 4), torch.zeros(2, 5, dtype=torch.int64))


@built
@blind
def test_a_fresh_process_with_torch_and_the_operator(tmp_path: Path) -> None:
    engine = Converter(small_onnx()).to_trt(dynamic_shapes={"batch": (1, 2, 7)})
    path, own = engine.save(tmp_path / "net.pt2"), tmp_path / "engine.bin"
    own.write_bytes(engine.content)
    result = subprocess.run([sys.executable, "-c", FRESH, path, own], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    shapes = [spec.shape[1:] for spec in engine.signature.outputs]
    assert first == f"1 7 {shapes}" and second.startswith("no GPU")


@built
def test_a_program_is_written_by_its_extension_or_by_name(tmp_path: Path) -> None:
    converter = Converter(small_onnx())
    engine = converter.to_trt()
    converter.save(tmp_path / "net.pt2", format="trt")
    engine.save(tmp_path / "net.anything", output_format="exported_program")
    for name in ("net.pt2", "net.anything"):
        assert engines_in(torch.export.load(tmp_path / name))[0][0] == engine.content
    torch.export.save(torch.export.export(nn.Linear(2, 2), (torch.zeros(1, 2),)), tmp_path / "other.pt2")
    with pytest.raises(NotConvertibleError, match="engine"):
        TRTEngine.load(tmp_path / "other.pt2")


@built
@blind
def test_an_engine_does_not_run_without_a_gpu() -> None:
    engine = Converter(small_onnx()).to_trt()
    with pytest.raises(NotRunnableError, match="no GPU"):
        engine.run({"image": torch.zeros(1, 3, 8, 6).numpy()})
    with pytest.raises(NotRunnableError, match="no GPU"):
        engine.to_module()(torch.zeros(1, 3, 8, 6))


@blind
def test_gradients_end_before_an_engine() -> None:
    program = torch.export.export(Beside().train(), (torch.zeros(2, 4), torch.zeros(2, 5, dtype=torch.int64)))
    (node,) = [n for n in program.graph.nodes if n.target is torch.ops.mlconverter.run_engine.default]
    assert node.args[0][0].target is torch.ops.aten.detach.default
    with pytest.raises(NotRunnableError, match="no GPU"):
        torch.compile(Beside(), backend="aot_eager")(torch.zeros(2, 4), torch.zeros(2, 5, dtype=torch.int64))
