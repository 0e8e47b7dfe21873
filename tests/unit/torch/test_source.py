"""Modules as source: readable code, and files that need torch alone."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn

from mlconverter import ConversionError, Converter
from mlconverter.formats.torch.source import write_source
from tests.ops.onnx_torch.models import FLOAT, N, model, node, weight
from tests.ops.onnx_torch.test_control import branches, looping
from tests.unit.torch.test_storage import half_stored

ALONE = """
import sys
sys.modules.update(dict.fromkeys(("onnx", "onnx_ir", "onnxruntime", "mlconverter", "safetensors", "numpy.typing")))
import importlib.util, torch
spec = importlib.util.spec_from_file_location("written", {path!r})
written = importlib.util.module_from_spec(spec)
sys.modules["written"] = written
spec.loader.exec_module(written)
module = written.load()
inputs = torch.load({inputs!r})
with torch.no_grad():
    torch.save(module(*inputs), {outputs!r})
print(len(list(module.parameters())))
"""


def alone(path, inputs, tmp_path):
    """What a written module gives in a process that has nothing but torch, and how many parameters it has."""
    torch.save(inputs, tmp_path / "inputs.pt")
    code = ALONE.format(path=str(path), inputs=str(tmp_path / "inputs.pt"), outputs=str(tmp_path / "outputs.pt"))
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return torch.load(tmp_path / "outputs.pt"), int(result.stdout)


class Tied(nn.Module):
    """Numbered layers, a weight that is used twice, a buffer and a parameter of the module's own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 1))
        self.first = nn.Linear(6, 6, bias=False)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.scale = nn.Parameter(torch.rand(6))
        self.register_buffer("offset", torch.rand(1, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x).mean((2, 3))
        return self.second(torch.relu(self.first(y))) * self.scale + self.offset


def test_a_written_module_needs_torch_alone(tmp_path):
    module = Converter(Converter(Tied().eval(), input_shape=("n", 3, 8, 8)).to_onnx()).to_torch(save_source=tmp_path / "net.py")
    x = torch.rand(2, 3, 8, 8)
    got, count = alone(tmp_path / "net.py", (x,), tmp_path)
    torch.testing.assert_close(got, module(x).detach())
    assert count == len(list(module.parameters()))
    assert (tmp_path / "net.safetensors").is_file()


def test_code_reads_like_code_of_a_person(tmp_path):
    module = Converter(Converter(Tied().eval(), input_shape=("n", 3, 8, 8)).to_onnx()).to_torch()
    assert "getattr" not in module.code and "= None" not in module.code
    assert "self.layers[0](x)" in module.code
    write_source(module, tmp_path / "net.py")
    text = (tmp_path / "net.py").read_text()
    assert 'put(self, "layers.0", nn.Conv2d(3, 6, kernel_size=(3, 3), stride=(1, 1), bias=False))' in text
    assert textwrap.indent(module.code, "    ").rstrip() in text


@pytest.mark.parametrize("yes", [True, False])
def test_branches_and_their_weights_are_written(yes, tmp_path):
    module = Converter(branches()).to_torch(save_source=tmp_path / "net.py")
    inputs = (torch.rand(3, 4), torch.tensor(yes))
    got, count = alone(tmp_path / "net.py", inputs, tmp_path)
    torch.testing.assert_close(got, module(*inputs).detach())
    assert count == 2, "the weight that both use is one"


def test_loops_are_written(tmp_path):
    module = Converter(looping(), verify=False).to_torch(save_source=tmp_path / "net.py")
    inputs = (torch.rand(3, 4), torch.tensor(4), torch.tensor(True))
    got, _ = alone(tmp_path / "net.py", inputs, tmp_path)
    for g, w in zip(got, module(*inputs), strict=True):
        torch.testing.assert_close(g, w.detach())


def test_weights_in_half_precision_are_written_as_they_are_stored(tmp_path):
    converter = Converter(half_stored())
    module = converter.to_torch()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1e-4)
    write_source(module, tmp_path / "net.py")
    inputs = tuple(torch.rand([2 if isinstance(d, str) else d for d in s.shape]) for s in converter.signature.inputs)
    got, _ = alone(tmp_path / "net.py", inputs, tmp_path)
    torch.testing.assert_close(got, module(*inputs).detach())


def test_names_that_code_uses_otherwise(tmp_path):
    nodes = [node("MatMul", "torch self", "F"), node("Relu", "F", "runtime"), node("Neg", "runtime", "nn")]
    made = model(nodes, {"torch": [N, 4]}, {"nn": FLOAT}, {"self": weight(4, 4)})
    module = Converter(made).to_torch(save_source=tmp_path / "net.py")
    x = torch.rand(2, 4)
    got, _ = alone(tmp_path / "net.py", (x,), tmp_path)
    torch.testing.assert_close(got, module(x).detach())


def test_only_converted_modules_are_written(tmp_path):
    with pytest.raises(ConversionError, match="has its own already"):
        write_source(nn.Linear(2, 2), tmp_path / "net.py")


class Own(nn.Module):
    def forward(self, x):
        return x


def test_a_layer_of_somebody_is_refused_and_nothing_written(tmp_path):
    made = model([node("MatMul", "x w", "y")], {"x": [N, 4]}, {"y": FLOAT}, {"w": weight(4, 4).astype(np.float32)})
    module = Converter(made).to_torch()
    module.w = Own()
    with pytest.raises(ConversionError, match="Own cannot be written as source"):
        write_source(module, tmp_path / "net.py")
    assert not list(tmp_path.iterdir())


def _scaled(layer: nn.Module) -> None:
    layer.register_forward_hook(lambda layer, inputs, result: result * 2)


def _replaced(layer: nn.Module) -> None:
    layer.forward = lambda x: x


def _counting(layer: nn.Module) -> None:
    layer.calls = 3


@pytest.mark.parametrize("change", [_scaled, _replaced, _counting])
def test_a_layer_that_was_changed_is_refused(change, tmp_path):
    made = model([node("MatMul", "x w", "y")], {"x": [N, 4]}, {"y": FLOAT}, {"w": weight(4, 4)})
    module = Converter(made).to_torch()
    change(module.w)
    with pytest.raises(ConversionError, match="has something that its text does not say"):
        write_source(module, tmp_path / "net.py")
    assert not list(tmp_path.iterdir())
