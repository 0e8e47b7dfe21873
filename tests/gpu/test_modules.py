"""Modules that lie on a GPU, where their conversions and their way back are the same as on the CPU."""

import pytest
import torch
from torch import nn

from mlconverter import Converter
from tests.unit.torch.test_trained import plain

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no NVIDIA GPU")]


def test_a_trained_module_on_a_gpu_comes_back() -> None:
    converter = Converter(plain())
    module = converter.to_torch().to("cuda").half()
    tuned = converter.to_origin_type(module)
    assert converter.report.verdict == "verified" and tuned != plain()
    assert {p.device.type for p in module.parameters()} == {"cuda"}
    assert converter.to_origin_type(module.state_dict()) == tuned


def test_examples_lie_where_the_module_is() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).to("cuda")
    converter = Converter(net, input_shape=("n", 4))
    converter.to_onnx()
    assert converter.report.verdict == "verified"
