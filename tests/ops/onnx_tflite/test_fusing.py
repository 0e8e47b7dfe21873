"""What LiteRT computes within one operator, and what stays apart."""

import numpy as np
import pytest

from tests.ops.onnx_tflite.check import check, fused, operators
from tests.ops.onnx_torch.models import FLOAT, N, ints, model, node, weight


def number(value: float) -> np.ndarray:
    return np.array(value, np.float32)


@pytest.mark.parametrize("size", [(5, 5), (6, 7)])
def test_a_layer_is_one_operator(size):
    c = 5
    weights = {"w": weight(c, 3, 3, 3), "s": weight(c), "b": weight(c), "m": weight(c), "v": np.abs(weight(c)) + 0.5}
    nodes = [node("Conv", "x w", "a", pads=[1] * 4), node("BatchNormalization", "a s b m v", "n"), node("Relu", "n", "y")]
    made = check(model(nodes, {"x": (N, 3, *size)}, {"y": FLOAT}, weights))
    assert fused(made) == [("TRANSPOSE", 0), ("CONV_2D", 1), ("TRANSPOSE", 0)]


@pytest.mark.parametrize(
    ("bounds", "activation"), [((0, 6), 3), ((-1, 1), 2), ((0, 3.4028234663852886e38), 1), ((0, 5), None), ((-2, 6), None)]
)
def test_clips_that_have_a_name_are_fused(bounds, activation):
    weights = {"w": weight(4, 6), "low": number(bounds[0]), "high": number(bounds[1])}
    nodes = [node("MatMul", "x w", "a"), node("Clip", "a low high", "y")]
    made = check(model(nodes, {"x": (N, 4)}, {"y": FLOAT}, weights))
    assert fused(made)[0] == ("FULLY_CONNECTED", activation or 0)
    assert len(fused(made)) == (1 if activation else 3)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 4, 1, 1), (1,), ()])
@pytest.mark.parametrize("first", [True, False])
def test_constants_of_channels_become_part_of_a_convolution(op, shape, first):
    weights = {"w": weight(4, 3, 3, 3), "c": weight(*shape) if shape else number(1.5)}
    made = check(
        model([node("Conv", "x w", "a"), node(op, "a c" if first else "c a", "y")], {"x": (N, 3, 5, 5)}, {"y": FLOAT}, weights)
    )
    folded = first or op != "Sub"
    assert operators(made)["CONV_2D"] == 1 and sum(operators(made).values()) == 3 + (not folded)


@pytest.mark.parametrize("shape", [(4,), (4, 4), (3, 4, 1, 1), (1, 1, 4, 1)])
def test_constants_of_other_axes_do_not(shape):
    weights = {"w": weight(4, 3, 3, 3), "c": weight(*shape)}
    batch = 3 if shape[0] == 3 else N
    made = check(model([node("Conv", "x w", "a"), node("Add", "a c", "y")], {"x": (batch, 3, 6, 6)}, {"y": FLOAT}, weights))
    assert operators(made)["ADD"] == 1


@pytest.mark.parametrize("bias", [True, False])
def test_a_hard_sigmoid_moves_the_bias_before_it(bias):
    weights = {"w": weight(4, 3, 3, 3), **({"b": weight(4)} if bias else {})}
    nodes = [node("Conv", "x w b" if bias else "x w", "a"), node("HardSigmoid", "a", "y", alpha=1 / 6, beta=0.5)]
    made = check(model(nodes, {"x": (N, 3, 5, 6)}, {"y": FLOAT}, weights))
    assert fused(made) == [("TRANSPOSE", 0), ("CONV_2D", 3), ("MUL", 0), ("TRANSPOSE", 0)]


def test_what_two_read_is_not_fused():
    nodes = [node("Conv", "x w", "a"), node("Relu", "a", "b"), node("Add", "a b", "y")]
    made = check(model(nodes, {"x": (N, 3, 5, 6)}, {"y": FLOAT}, {"w": weight(4, 3, 3, 3)}))
    assert operators(made)["RELU"] == 1


def test_what_is_an_output_as_well_is_not_fused():
    nodes = [node("Conv", "x w", "a"), node("Relu", "a", "y")]
    check(model(nodes, {"x": (N, 3, 5, 6)}, {"y": FLOAT, "a": FLOAT}, {"w": weight(4, 3, 3, 3)}))


def test_what_another_name_is_read_by_is_not_fused():
    nodes = [
        node("Conv", "x w", "a"),
        node("Transpose", "a", "t", perm=[0, 2, 3, 1]),
        node("Relu", "t", "r"),
        node("Neg", "a", "y"),
    ]
    check(model(nodes, {"x": (N, 3, 5, 5)}, {"y": FLOAT, "r": FLOAT}, {"w": weight(5, 3, 3, 3)}))


def test_what_two_read_under_another_name_is_not_fused():
    nodes = [node("Conv", "x w", "a"), node("Dropout", "a", "d"), node("Relu", "d", "r"), node("Neg", "d", "y")]
    check(model(nodes, {"x": (N, 3, 5, 6)}, {"y": FLOAT, "r": FLOAT}, {"w": weight(4, 3, 3, 3)}, opset=13))


def test_what_is_reshaped_there_and_back_is_not_fused_where_something_else_reads_it():
    nodes = [node("MatMul", "x w", "a"), node("Reshape", "a there", "b"), node("Reshape", "b back", "c"), node("Relu", "c", "r")]
    nodes.append(node("Neg", "b", "y"))
    weights = {"w": weight(4, 6), "there": ints(-1, 2, 3), "back": ints(-1, 6)}
    check(model(nodes, {"x": (N, 4)}, {"y": FLOAT, "r": FLOAT}, weights))


def test_an_activation_is_fused_through_renamed_axes():
    nodes = [node("Conv", "x w", "a"), node("Transpose", "a", "t", perm=[0, 2, 3, 1]), node("Relu", "t", "y")]
    made = check(model(nodes, {"x": (N, 3, 5, 6)}, {"y": FLOAT}, {"w": weight(4, 3, 3, 3)}))
    assert fused(made) == [("TRANSPOSE", 0), ("CONV_2D", 1)]


WITH_ACTIVATION = {
    "Add": [node("Add", "x x", "a")],
    "Sub": [node("Sub", "x c", "a")],
    "Mul": [node("Mul", "x x", "a")],
    "Div": [node("Div", "x c", "a")],
    "Conv": [node("Conv", "x w", "a")],
    "depthwise": [node("Conv", "x d", "a", group=4)],
    "MaxPool": [node("MaxPool", "x", "a", kernel_shape=[2, 2])],
    "AveragePool": [node("AveragePool", "x", "a", kernel_shape=[2, 2])],
}


@pytest.mark.parametrize("before", WITH_ACTIVATION)
@pytest.mark.parametrize("bounds", [(0, 6), (-1, 1), (0, 3.4028234663852886e38)])
def test_activations_within_the_operator_before(before, bounds):
    weights = {
        "c": number(1.5),
        "w": weight(5, 4, 3, 3),
        "d": weight(4, 1, 3, 3),
        "low": number(bounds[0]),
        "high": number(bounds[1]),
    }
    nodes = [*WITH_ACTIVATION[before], node("Clip", "a low high", "y")]
    made = check(model(nodes, {"x": (N, 4, 6, 7)}, {"y": FLOAT}, weights), low=-4, high=4)
    assert [a for _, a in fused(made) if a] == [{(0, 6): 3, (-1, 1): 2, (0, 3.4028234663852886e38): 1}[bounds]]


def test_a_filter_that_two_use_is_scaled_for_one():
    nodes = [node("Conv", "x w", "a"), node("Mul", "a c", "p"), node("Conv", "x w", "b"), node("Add", "p b", "y")]
    check(model(nodes, {"x": (N, 3, 5, 6)}, {"y": FLOAT}, {"w": weight(4, 3, 3, 3), "c": number(3)}))


def test_a_clipped_sum_and_a_second_activation():
    nodes = [node("Add", "x y", "a"), node("Relu", "a", "b"), node("Clip", "b low high", "z")]
    made = check(model(nodes, {"x": (N, 3), "y": (N, 3)}, {"z": FLOAT}, {"low": number(-1), "high": number(1)}))
    assert fused(made) == [("ADD", 1), ("RELU_N1_TO_1", 0)]


def test_dense_layers_of_keras():
    nodes = [
        node("MatMul", "x k", "a"),
        node("Add", "a b", "c"),
        node("Relu", "c", "d"),
        node("MatMul", "d l", "e"),
        node("Add", "m e", "f"),
    ]
    weights = {"k": weight(4, 8), "b": weight(8), "l": weight(8, 2), "m": weight(2)}
    made = check(model(nodes, {"x": (N, 4)}, {"f": FLOAT}, weights))
    assert fused(made) == [("FULLY_CONNECTED", 1), ("FULLY_CONNECTED", 0)]


HARD_SWISH = {
    "mul, div": [
        node("Add", "x three", "a"),
        node("Clip", "a zero six", "c"),
        node("Mul", "x c", "m"),
        node("Div", "m six", "y"),
    ],
    "div, mul": [
        node("Add", "three x", "a"),
        node("Clip", "a zero six", "c"),
        node("Div", "c six", "m"),
        node("Mul", "m x", "y"),
    ],
    "sigmoid": [node("HardSigmoid", "x", "a", alpha=1 / 6, beta=0.5), node("Mul", "a x", "y")],
}


@pytest.mark.parametrize("form", HARD_SWISH)
def test_hard_swish_that_is_written_out(form):
    weights = {"three": number(3), "zero": number(0), "six": number(6)}
    made = check(model(HARD_SWISH[form], {"x": (N, 7)}, {"y": FLOAT}, weights), low=-5, high=5)
    assert operators(made) == {"HARD_SWISH": 1}


@pytest.mark.parametrize("three", [3, 2.5])
def test_what_only_looks_like_hard_swish(three):
    nodes = [node("Add", "x three", "a"), node("Clip", "a zero six", "c"), node("Mul", "z c", "m"), node("Div", "m six", "y")]
    weights = {"three": number(three), "zero": number(0), "six": number(6)}
    made = check(model(nodes, {"x": (N, 7), "z": (N, 7)}, {"y": FLOAT}, weights), low=-5, high=5)
    assert "HARD_SWISH" not in operators(made)


GELU = {
    "half last": [node("Mul", "x p", "m"), node("Mul", "m half", "y")],
    "half first": [node("Mul", "x half", "h"), node("Mul", "h p", "y")],
    "half between": [node("Mul", "p half", "m"), node("Mul", "m x", "y")],
}


@pytest.mark.parametrize("form", GELU)
@pytest.mark.parametrize("divided", [True, False])
def test_gelu_that_is_written_out(form, divided):
    first = node("Div", "x root", "i") if divided else node("Mul", "x inverse", "i")
    nodes = [first, node("Erf", "i", "e"), node("Add", "e one", "p"), *GELU[form]]
    weights = {"root": number(2**0.5), "inverse": number(0.5**0.5), "one": number(1), "half": number(0.5)}
    made = check(model(nodes, {"x": (N, 9)}, {"y": FLOAT}, weights), low=-4, high=4)
    assert operators(made) == {"GELU": 1}
