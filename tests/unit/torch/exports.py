"""Modules there and back: what they compute, and whose parameters come back."""

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
import torch
from torch import nn

from mlconverter import Converter
from tests.ops.onnx_torch.check import compare

Given = Callable[[int], tuple[torch.Tensor, ...]]
RTOL = 1e-4


class Does(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def seeded(module: nn.Module) -> nn.Module:
    """The module in eval mode, no weight and no statistic of it being what leaves a mistake unseen."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in (*module.parameters(), *(b for b in module.buffers() if b.is_floating_point())):
            tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.3)
    return module.eval()


def normal(*shape: int) -> Given:
    """One input of this shape behind the batch."""
    return lambda batch: (torch.randn(batch, *shape, generator=torch.Generator().manual_seed(batch)),)


def run(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[np.ndarray]:
    with torch.no_grad():
        result = module(*(x.clone() for x in inputs))
    return [t.numpy() for t in (result if isinstance(result, tuple) else (result,))]


def there_and_back(module: nn.Module, given: Given, **options) -> onnx.ModelProto:
    """Export, compare with the module at a batch of 1 and of 3, convert back, compare that and its parameters; the graph."""
    converter = Converter(module, input_shape=given(2), **options)
    proto = converter.to_onnx()
    onnx.checker.check_model(proto)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    back = Converter(proto).to_torch()
    for batch in (1, 3):
        inputs = given(batch)
        want = run(module, inputs)
        feeds = {info.name: x.numpy() for info, x in zip(session.get_inputs(), inputs, strict=True)}
        compare(session.run(None, feeds), want, RTOL)
        compare(run(back, inputs), want, RTOL)
    same_parameters(module, back)
    return proto


def same_parameters(module: nn.Module, back: nn.Module) -> None:
    """All parameters of the module are parameters of what came back, each with its own values, and there are no others.

    What two layers share has two names, of which the graph keeps one; a matrix may have become that of a linear layer.
    """
    ours, theirs = dict(back.named_parameters()), dict(module.named_parameters(remove_duplicate=False))
    links = [link for link in back.origin.links if link.source in theirs]
    assert len(ours) == len({id(theirs[link.source]) for link in links}) == len(list(module.parameters()))
    for link in links:
        got, want = back.get_parameter(link.target), theirs[link.source]
        assert got.requires_grad
        assert torch.equal(got, want) or torch.equal(got, want.mT), link.source
