"""Shapes that are computed from free sizes, which have names."""

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from mlconverter.hub.named_sizes import expanded, reshaped
from mlconverter.hub.normalise import normalise
from tests.ops.onnx_torch.check import check
from tests.ops.onnx_torch.models import FLOAT, model, node


@pytest.mark.parametrize(
    ("given", "target", "wanted"),
    [
        (["n", 12, 32], ["n", 12, -1, 8], ["n", 12, 4, 8]),
        (["n", 12, 32], [-1, 12, 4, 8], ["n", 12, 4, 8]),
        (["n", 12, 32], [0, 0, 4, 8], ["n", 12, 4, 8]),
        (["n", "m", 32], ["n", "m", -1, 8], ["n", "m", 4, 8]),
        (["n", "m", 32], [0, -1, 4, 8], ["n", "m", 4, 8]),
        (["n", "m", 32], ["m", "n", 32], ["m", "n", 32]),
        (["n", "n", 6], ["n", 6, -1], ["n", 6, "n"]),
        (["n", 6], [-1, 3], None),  # two for each of n
        (["n", "m"], [-1], None),
        (["n", 6], ["m", 6], None),
        (["n", 6], ["n", "n", -1], None),
        (["n", 6], ["n", 4], None),
        (["n", 6], ["n", -1, 4], None),
        (["n", 0], ["n", -1], None),
        ([2, 6], [3, -1], [3, 4]),
        ([], [1, -1], [1, 1]),
    ],
)
def test_what_a_shape_becomes(given, target, wanted):
    assert reshaped(given, target) == wanted


@pytest.mark.parametrize(
    ("given", "target", "wanted"),
    [
        ([1, 12], ["n", 12], ["n", 12]),
        ([12], ["n", 12], ["n", 12]),
        (["n", 1], [-1, 7], ["n", 7]),
        (["n", 1], [1, 7], ["n", 7]),
        (["n", 7], ["n", 1], ["n", 7]),
        (["n", 7], [7], ["n", 7]),
        (["n"], ["m"], None),
        ([3], [4], None),
        (["n", 1], ["m", 4], None),
    ],
)
def test_what_a_repeated_shape_becomes(given, target, wanted):
    assert expanded(given, target) == wanted


def split_heads(last):
    """Heads of a sequence, as torch's exporter writes ``view(batch, length, -1, 8)``."""
    return [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "size"),
        node("Concat", f"size {last}", "target", axis=0),
        node("Reshape", "x target", "y"),
    ]


NUMBERS = {"zero": np.array([0]), "rest": np.array([5, -1, 8]), "changed": np.array([-1, 4])}


def test_a_target_with_one_free_size_is_constant():
    made = model(split_heads("rest"), {"x": ("batch", 5, 32)}, {"y": FLOAT}, {k: NUMBERS[k] for k in ("zero", "rest")}, 18)
    graph = normalise(ir.from_proto(made)).graph
    assert [n.op_type for n in graph] == ["Reshape"]
    (reshape,) = graph
    assert reshape.inputs[1].const_value.numpy().tolist() == [-1, 5, 4, 8]
    assert list(map(str, reshape.outputs[0].shape)) == ["batch", "5", "4", "8"]
    check(made)


def test_sizes_of_which_nobody_knows_the_name_stay():
    nodes = [node("NonZero", "x", "found"), *split_heads("changed")]
    nodes[1] = node("Shape", "found", "shape")
    nodes[-1] = node("Reshape", "found target", "y")
    made = model(nodes, {"x": ("batch", 4)}, {"y": helper.TensorProto.INT64}, {k: NUMBERS[k] for k in ("zero", "changed")}, 18)
    assert "Shape" not in [n.op_type for n in normalise(ir.from_proto(made)).graph]  # two rows, whatever is found
    nodes[1] = node("Shape", "found", "shape", start=1)
    made = model(nodes, {"x": ("batch", 4)}, {"y": helper.TensorProto.INT64}, {k: NUMBERS[k] for k in ("zero", "changed")}, 18)
    assert "Shape" in [n.op_type for n in normalise(ir.from_proto(made)).graph]
