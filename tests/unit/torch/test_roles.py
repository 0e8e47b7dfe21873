"""Which constants are parameters and which are buffers, where the source does not say."""

import numpy as np
import pytest
import torch

from mlconverter import Converter
from tests.ops.onnx_torch.models import FLOAT, N, ints, model, node, weight

NORM = {"v": weight(4, 3, 3, 3), "g": weight(4, 1, 1, 1, seed=1), "axes": ints(1, 2, 3)}
NORMED = [node("ReduceL2", "v axes", "norm"), node("Div", "g norm", "scale"), node("Mul", "v scale", "w")]


def kinds(module: torch.nn.Module) -> dict[str, set[str]]:
    named = {"parameters": dict(module.named_parameters()), "buffers": dict(module.named_buffers())}
    return {kind: {next(iter(module.weight_origins[n])).source for n in found} for kind, found in named.items()}


def test_what_a_weight_is_made_of_is_learned():
    """A weight that is kept as its direction and its length, as weight normalisation has it."""
    made = model([*NORMED, node("Conv", "x w", "y")], {"x": (N, 3, 5, 5)}, {"y": FLOAT}, NORM)
    assert kinds(Converter(made).to_torch()) == {"parameters": {"v", "g"}, "buffers": set()}


def test_what_an_input_is_normalised_by_is_not():
    weights = {**NORM, "mean": weight(1, 3, 1, 1), "k": weight(4, 3, 3, 3)}
    nodes = [node("Sub", "x mean", "a"), node("Conv", "a k", "y")]
    assert kinds(Converter(model(nodes, {"x": (N, 3, 5, 5)}, {"y": FLOAT}, weights)).to_torch())["buffers"] == {"mean"}


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_weights_of_a_recurrence_that_are_computed_are_learned(op):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    weights = {"v": weight(1, gates * 4, 3), "g": weight(1, gates * 4, 1), "r": weight(1, gates * 4, 4)}
    nodes = [node("Mul", "v g", "w"), node(op, "x w r", "y", hidden_size=4)]
    module = Converter(model(nodes, {"x": (5, N, 3)}, {"y": FLOAT}, weights)).to_torch()
    assert kinds(module) == {"parameters": {"v", "g", "r"}, "buffers": set()}
    module(torch.randn(5, 2, 3)).pow(2).sum().backward()
    assert all(np.any(p.grad.numpy()) for p in module.parameters())
