"""Gradients that a module stops are stopped in what comes back, and nothing else changes for it."""

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from mlconverter import Converter

SHAPE = (2, 3)


class Stopped(nn.Module):
    """Two layers, the first of which gets no gradient through the second."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 4)

    def forward(self, x):
        y = self.first(x)
        return y + self.second(y.detach())


class StraightThrough(Stopped):
    """Rounding whose gradient is that of the value itself."""

    def forward(self, x):
        y = self.first(x) * 3
        return self.second(y + (y.round() - y).detach())


class Frozen(Stopped):
    """A weight that is read without being trained there."""

    def forward(self, x):
        return self.second(nn.functional.linear(x, self.first.weight.detach(), self.first.bias))


MODULES = [Stopped, StraightThrough, Frozen]


def gradients(module):
    module.zero_grad()
    module(torch.rand(SHAPE, generator=torch.Generator().manual_seed(1))).square().sum().backward()
    return {name: p.grad for name, p in module.named_parameters()}


@pytest.mark.parametrize("make", MODULES)
@pytest.mark.parametrize("saved", [False, True])
def test_gradients_are_the_same(make, saved, tmp_path):
    torch.manual_seed(0)
    original = make().eval()
    proto = Converter(original, input_shape=[SHAPE], verify=False).to_onnx()
    if saved:
        onnx.save(proto, tmp_path / "stopped.onnx")
        proto = onnx.load(tmp_path / "stopped.onnx")
    module = Converter(proto).to_torch()
    want, got = gradients(original), gradients(module)
    assert got.keys() == want.keys()
    for name, gradient in want.items():
        if gradient is None:
            assert got[name] is None, name
        else:
            torch.testing.assert_close(got[name], gradient, msg=name)


@pytest.mark.parametrize("make", MODULES)
def test_deployed_models_do_not_care(make):
    original = make().eval()
    made = Converter(original, input_shape=[SHAPE]).to_tflite()
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    with made.runner() as runner:
        (got,) = runner.run({made.signature.input_names[0]: x}).values()
    np.testing.assert_allclose(got, original(torch.from_numpy(x)).detach().numpy(), rtol=1e-4, atol=1e-5)
