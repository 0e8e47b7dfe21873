"""Names that dimensions have in files: anything, and none of it in the way of a conversion."""

import onnx
import pytest
import torch
from onnx import helper

from mlconverter import Converter
from mlconverter.hub.io import dim_of, load_model, signature_of
from tests.ops.onnx_torch.check import check
from tests.ops.onnx_torch.models import FLOAT, model, node, weight

UNKNOWN = ["", "?", "-1"]
NAMES = [
    "batch size",
    "unk__1",
    "N+1",
    "N//2",
    "max(a, b)",
    "x",
    "w",
    "y",
    "batch",
    "self",
    "lambda",
    "None",
    "3",
    "1x",
    "a.b",
    "é",
    "'",
    "{x}",
    "%s",
    "(",
    "\\",
    " ",
    "\n",
    "s0",
]


def first_axis(name: str) -> onnx.ModelProto:
    return model([node("MatMul", "x w", "y")], {"x": (name, 3)}, {"y": FLOAT}, {"w": weight(3, 3)})


def later_axis(name: str) -> onnx.ModelProto:
    """Behind a batch of one, which is freed, and the same in two inputs."""
    nodes = [node("MatMul", "x w", "h"), node("Add", "h z", "y")]
    made = model(nodes, {"x": (1, name, 3), "z": (1, name, 3)}, {"y": FLOAT}, {"w": weight(3, 3)})
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, (1, name, 3)))
    return made


@pytest.mark.parametrize("made", [first_axis, later_axis])
@pytest.mark.parametrize("name", [*NAMES, *UNKNOWN])
def test_there_and_back(name, made):
    converter = Converter(made(name))
    module = converter.to_torch()
    assert converter.report.verdict == "verified"
    assert converter.to_origin_type() == made(name)
    assert Converter(made(name)).to_onnx() == made(name)
    sizes = [(5, 3)] if made is first_axis else [(1, 5, 3)] * 2
    with torch.no_grad():
        next(module.parameters()).mul_(2)
        assert module(*[torch.zeros(s) for s in sizes]).shape == sizes[0]
    assert converter.to_origin_type() != made(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_kept(name):
    for made in (first_axis, later_axis):
        assert name in signature_of(load_model(made(name))).free_dims


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_names_nothing_is_unknown(name):
    for made in (first_axis, later_axis):
        assert signature_of(load_model(made(name))).free_dims == ()


def test_two_unknown_sizes_are_not_one():
    """Inference would take two axes called ``?`` to be equally long."""
    proto = model([node("Add", "x z", "y")], {"x": ("?", 3), "z": ("?", 3)}, {"y": FLOAT})
    check(proto, {"x": weight(4, 3), "z": weight(1, 3)})


@pytest.mark.parametrize(("dim", "want"), [(4, 4), (0, 0), (-1, None), (None, None), ("n", "n"), ("-12", None), ("- 1", "- 1")])
def test_dimensions(dim, want):
    assert dim_of(dim) == want
