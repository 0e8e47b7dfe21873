"""Graphs of several nodes: which transposes are left, free sizes, and more axes than the kernels take."""

import numpy as np
import onnx
import pytest

from mlconverter import Converter
from tests.ops.onnx_tflite.check import check, operators, run_tflite
from tests.ops.onnx_torch.models import FLOAT, INT64, N, ints, model, node, said, weight

# -- transposes --------------------------------------------------------------------------------------------------------


def test_a_chain_of_convolutions_has_two():
    nodes = [
        node("Conv", "x w0", "a"),
        node("Relu", "a", "b"),
        node("MaxPool", "b", "c", kernel_shape=[2, 2]),
        node("Conv", "c w1", "d"),
    ]
    nodes += [
        node("Concat", "c d2", "e", axis=1),
        node("Resize", "e _ s", "y", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    ]
    nodes.insert(4, node("Pad", "d p", "d2"))
    weights = {
        "w0": weight(4, 3, 3, 3),
        "w1": weight(4, 4, 2, 2),
        "p": ints(0, 0, 0, 0, 0, 0, 1, 1),
        "s": np.array([1, 1, 2, 2], np.float32),
    }
    made = check(model(nodes, {"x": (N, 3, 8, 8)}, {"y": FLOAT}, weights))
    assert operators(made)["TRANSPOSE"] == 2


def test_axes_that_are_only_renamed():
    nodes = [
        node("Transpose", "x", "a", perm=[0, 2, 3, 1]),
        node("MatMul", "a w", "b"),
        node("Transpose", "b", "y", perm=[0, 3, 1, 2]),
    ]
    made = check(model(nodes, {"x": (N, 4, 5, 6)}, {"y": FLOAT}, {"w": weight(4, 4)}))
    assert operators(made)["TRANSPOSE"] == 2
    whole = said(model(nodes, {"x": (N, 4, 5, 6)}, {"y": FLOAT}, {"w": weight(4, 4)}), N, 4, 5, 6)
    assert operators(Converter(whole).to_tflite(io_layout="channels_last")) == {"FULLY_CONNECTED": 1}


@pytest.mark.parametrize("size", [4, 6])
def test_a_channel_shuffle_has_one(size):
    nodes = [
        node("Conv", "x w", "a"),
        node("Reshape", "a split", "b"),
        node("Transpose", "b", "c", perm=[0, 2, 1, 3, 4]),
        node("Reshape", "c joined", "d"),
        node("Conv", "d w", "y"),
    ]
    weights = {"w": weight(4, 4, 1, 1), "split": ints(-1, 2, 2, size, 4), "joined": ints(-1, 4, size, 4)}
    made = check(model(nodes, {"x": (N, 4, size, 4)}, {"y": FLOAT}, weights))
    assert operators(made)["TRANSPOSE"] == 3  # and one at each border


@pytest.mark.parametrize("size", [4, 5])
def test_a_flattened_image_is_in_the_order_of_the_model(size):
    nodes = [node("Conv", "x w", "a"), node("Flatten", "a", "b"), node("MatMul", "b m", "y")]
    check(model(nodes, {"x": (N, 3, size, 4)}, {"y": FLOAT}, {"w": weight(4, 3, 1, 1), "m": weight(4 * size * 4, 3)}))


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 4), (4, 4, 4), (1, 4, 1, 1), (4, 1, 4)])
@pytest.mark.parametrize("op", ["Add", "Mul", "Div"])
def test_constants_of_a_lower_rank_are_aligned_before_anything_moves(op, shape):
    nodes = [node("MaxPool", "x", "a", kernel_shape=[1, 1]), node(op, "a c", "y")]
    check(model(nodes, {"x": (N, 4, 4, 4)}, {"y": FLOAT}, {"c": np.abs(weight(*shape)) + 1}))


def test_operands_of_a_lower_rank_are_aligned_before_anything_moves():
    nodes = [node("MaxPool", "x", "a", kernel_shape=[1, 1]), node("Sub", "c a", "y")]
    for shape in ((4,), (4, 4), (4, 1, 4)):
        check(model(nodes, {"x": (N, 4, 4, 4), "c": shape}, {"y": FLOAT}))


# -- sizes -------------------------------------------------------------------------------------------------------------


def flatten_by_shape() -> onnx.ModelProto:
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "n", axis=0),
        node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 rest", "target", axis=0),
        node("Reshape", "x target", "y"),
    ]
    return model(nodes, {"x": (N, 3, 4)}, {"y": FLOAT}, {"zero": np.array(0, np.int64), "axis": ints(0), "rest": ints(-1)})


def test_a_flatten_spelled_out_with_shapes_is_one_reshape():
    assert operators(check(flatten_by_shape())) == {"RESHAPE": 1}


def test_a_free_batch_is_free_in_the_file():
    made = check(flatten_by_shape())
    tensors = made.structure.subgraphs[0].tensors
    assert [(t.shape, t.shape_signature) for t in tensors[:2]] == [((1, 3, 4), (-1, 3, 4)), ((1, 12), (-1, 12))]
    for batch in (1, 3, 8):
        x = weight(batch, 3, 4)
        np.testing.assert_array_equal(run_tflite(made, {"x": x})["y"], x.reshape(batch, 12))


@pytest.mark.parametrize("sizes", [(1, 2, 3), (3, 4, 4), (2, 7, 5)])
def test_several_free_sizes(sizes):
    nodes = [
        node("Shape", "x", "s"),
        node("Slice", "s a b", "h"),
        node("Slice", "s b c", "w"),
        node("Slice", "s zero a", "n"),
        node("Mul", "h two", "h2"),
        node("Concat", "n four h2 minus", "target", axis=0),
        node("Reshape", "x target", "y"),
        node("Concat", "n h w", "filled", axis=0),
        node("ConstantOfShape", "filled", "z"),
    ]
    weights = {"zero": ints(0), "a": ints(1), "b": ints(2), "c": ints(3), "two": ints(2), "four": ints(4), "minus": ints(-1)}
    made = model(nodes, {"x": ("n", "h", "w", 8)}, {"y": FLOAT, "z": FLOAT}, weights)
    check(made, {"x": weight(*sizes, 8)})


@pytest.mark.parametrize("length", [2, 5, 8])
def test_half_of_a_free_length(length):
    nodes = [node("Shape", "x", "s", start=1, end=2), node("Add", "s three", "more"), node("Div", "more two", "half")]
    nodes.append(node("Slice", "x zero half axis", "y"))
    weights = {"three": ints(3), "two": ints(2), "zero": ints(0), "axis": ints(1)}
    check(model(nodes, {"x": (N, "length", 4)}, {"y": FLOAT}, weights), {"x": weight(3, length, 4)})


def test_half_of_what_may_be_negative():
    """Towards zero, as ONNX divides, is not down, as FLOOR_DIV does."""
    nodes = [node("Shape", "x", "s", start=1, end=2), node("Sub", "s three", "less"), node("Div", "less two", "half")]
    made = model(nodes, {"x": (N, "length", 4)}, {"half": INT64}, {"three": ints(3), "two": ints(2)})
    for length in (1, 2, 3, 4, 5):
        check(made, {"x": weight(1, length, 4)})


def test_a_convolution_over_free_sizes():
    nodes = [node("Conv", "x w", "a", pads=[1] * 4, strides=[2, 2]), node("GlobalAveragePool", "a", "g"), node("Mul", "a g", "y")]
    made = model(nodes, {"x": (N, 3, "h", "w")}, {"y": FLOAT}, {"w": weight(4, 3, 3, 3)})
    for size in ((1, 8, 9), (3, 5, 4), (2, 6, 6)):
        check(made, {"x": weight(size[0], 3, *size[1:])})


def test_expand_by_the_size_of_another_input():
    nodes = [node("Shape", "y", "s"), node("Expand", "x s", "z")]
    made = model(nodes, {"x": ("n", 1), "y": ("m", 3)}, {"z": FLOAT})
    for n, m in ((1, 4), (4, 1), (4, 4)):
        check(made, {"x": weight(n, 1), "y": weight(m, 3)})


def test_a_shape_as_output():
    check(model([node("Shape", "x", "y")], {"x": (N, 3)}, {"y": INT64}))


# -- more axes than the kernels take -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((N, 2, 3, 2, 3, 2, 2), [0, 1, 3, 5, 2, 4, 6]),
        ((N, 2, 3, 4, 1, 2, 1, 3), [0, 1, 3, 5, 2, 4, 7, 6]),
        ((2, 1, 2, 1, 3, 1, 2, 2), [6, 7, 0, 1, 2, 5, 3, 4]),
        ((2, 1, 3, 1, 2, 1, 1), [4, 5, 6, 2, 3, 0, 1]),
    ],
)
def test_transposes_of_many_axes(shape, perm):
    made = check(model([node("Transpose", "x", "y", perm=perm)], {"x": shape}, {"y": FLOAT}))
    assert operators(made)["TRANSPOSE"] <= 1


@pytest.mark.parametrize(
    ("axes", "starts", "ends", "steps"),
    [([2], [1], [3], [1]), ([0, 5], [1, 0], [9, 2], [1, 1]), ([1, 3, 4], [0, -1, 1], [2, -9, 9], [2, -1, 1])],
)
def test_slices_of_many_axes(axes, starts, ends, steps):
    settings = {"s": starts, "e": ends, "a": axes, "t": steps}
    weights = {k: np.array(v, np.int64) for k, v in settings.items()}
    check(model([node("Slice", "x s e a t", "y")], {"x": (3, 2, 4, 2, 3, 4)}, {"y": FLOAT}, weights))


def test_an_element_of_many_axes():
    weights = {"i": np.array(1, np.int64)}
    check(model([node("Gather", "x i", "y", axis=3)], {"x": (N, 2, 4, 2, 3, 4)}, {"y": FLOAT}, weights))


def test_joining_nothing():
    weights = {k: np.array([v], np.int64) for k, v in {"zero": 0, "one": 1}.items()}
    nodes = [node("Slice", "x zero zero one", "none"), node("Concat", "x none", "y", axis=1)]
    made = check(model(nodes, {"x": (N, 3, 4)}, {"y": FLOAT}, weights))
    assert "CONCATENATION" not in operators(made)
