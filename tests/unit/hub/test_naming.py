"""New values take no name that is there."""

import numpy as np
import pytest
import torch
from onnx import helper

from mlconverter.hub.io import load_model
from mlconverter.hub.naming import Names
from tests.ops.onnx_torch.check import check
from tests.ops.onnx_torch.models import FLOAT, N, ints, model, node


def test_names_of_every_kind_of_value_are_taken():
    branch = helper.make_graph([node("Relu", "x", "inner")], "b", [], [helper.make_tensor_value_info("inner", FLOAT, None)])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch), node("Relu", "y", "z")]
    proto = model(nodes, {"x": (N, 3)}, {"z": FLOAT}, {"c": np.array(True)})
    names = Names(load_model(proto))
    assert [names.new(n) for n in ("x", "inner", "y", "c", "free", "free")] == ["x_1", "inner_1", "y_1", "c_1", "free", "free_1"]


@pytest.mark.parametrize("taken", ["parts_sizes", "parts_0", "parts_1"])
def test_a_sequence_that_becomes_a_split(taken):
    nodes = [
        node("SplitToSequence", "x sizes", "parts", axis=1),
        node("SequenceAt", "parts zero", "a"),
        node("SequenceAt", "parts one", "b"),
        node("Add", f"a {taken}", "c"),
        node("Concat", "c b", "y", axis=1),
    ]
    weights = {"sizes": ints(2, 2), "zero": np.array(0), "one": np.array(1), taken: np.array([[3, 4]], np.float32)}
    check(model(nodes, {"x": (N, 4)}, {"y": FLOAT}, weights))


def test_the_target_of_a_freed_reshape():
    nodes = [node("Reshape", "x t", "y"), node("Add", "y y_free_shape", "z")]
    made = model(nodes, {"x": (1, 6)}, {"z": FLOAT}, {"t": ints(1, 2, 3), "y_free_shape": np.ones((1, 3), np.float32)})
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("z", FLOAT, [1, 2, 3]))
    module = check(made)
    assert module(torch.zeros(5, 6)).shape == (5, 2, 3)
