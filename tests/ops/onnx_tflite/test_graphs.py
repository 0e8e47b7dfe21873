"""Graphs of several nodes: what is fused, which transposes are left, free sizes, outputs by value, and what is refused."""

import numpy as np
import onnx
import pytest
from onnx import helper

from mlconverter import Converter
from mlconverter.errors import ConversionError, UnsupportedOpsError
from tests.ops.onnx_tflite.check import check, fused, operators, run_tflite
from tests.ops.onnx_torch.check import feeds_of
from tests.ops.onnx_torch.models import BOOL, FLOAT, INT64, N, ints, model, node, weight

HALF = onnx.TensorProto.FLOAT16


def said(made: onnx.ModelProto, *shape) -> onnx.ModelProto:
    """The model with the shape of its last output said."""
    value = made.graph.output[-1]
    value.CopyFrom(helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shape))
    return made


def number(value: float) -> np.ndarray:
    return np.array(value, np.float32)


# -- fusing ------------------------------------------------------------------------------------------------------------


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


# -- the border --------------------------------------------------------------------------------------------------------


def test_names_and_their_order_stay():
    nodes = [node("Sub", "b x/y:0", "z"), node("Add", "z a", "m"), node("Neg", "m", "b_out")]
    made = check(model(nodes, {"b": (N, 3), "a": (N, 3), "x/y:0": (N, 3)}, {"z": FLOAT, "b_out": FLOAT, "m": FLOAT}))
    assert made.signature.input_names == ("b", "a", "x/y:0")
    assert made.signature.output_names == ("z", "b_out", "m")
    graph = made.structure.subgraphs[0]
    assert [graph.tensors[i].name for i in (*graph.inputs, *graph.outputs)] == ["b", "a", "x/y:0", "z", "b_out", "m"]
    (signature,) = made.structure.signatures
    assert (signature.key, list(signature.inputs), list(signature.outputs)) == (
        "serving_default",
        ["b", "a", "x/y:0"],
        ["z", "b_out", "m"],
    )


def test_one_value_as_two_outputs():
    check(model([node("Relu", "x", "y"), node("Identity", "y", "z")], {"x": (N, 3)}, {"y": FLOAT, "z": FLOAT}))


def test_an_input_as_output():
    check(said(model([node("Relu", "x", "y")], {"x": (N, 3), "other": (N, 2)}, {"y": FLOAT, "other": FLOAT}), N, 2))


def test_a_constant_as_output():
    check(
        model([node("Identity", "w", "y"), node("Neg", "x", "z")], {"x": (N, 3)}, {"y": FLOAT, "z": FLOAT}, {"w": weight(2, 3)})
    )


def test_integers_and_truths_keep_their_types():
    nodes = [node("Add", "x x", "y"), node("Greater", "x zero", "z")]
    check(model(nodes, {"x": (INT64, (N, 3))}, {"y": INT64, "z": BOOL}, {"zero": ints(0)}))


def test_half_precision_at_the_border():
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "y")]
    made = model(nodes, {"x": (HALF, (N, 4))}, {"y": HALF}, {"w": weight(4, 5).astype(np.float16)})
    check(made, rtol=2e-3)


def test_outputs_of_a_split_in_reverse():
    parts = node("Split", "x sizes", "a b c", axis=1)
    check(model([parts], {"x": (N, 6)}, {"c": FLOAT, "a": FLOAT, "b": FLOAT}, {"sizes": ints(1, 3, 2)}))


def test_channels_last_on_request():
    made = said(model([node("Conv", "x w", "y")], {"x": (N, 3, 6, 5)}, {"y": FLOAT}, {"w": weight(4, 3, 3, 3)}), N, 4, 4, 3)
    assert operators(Converter(made, verify="full").to_tflite(io_layout="channels_last")) == {"CONV_2D": 1}


# -- weights -----------------------------------------------------------------------------------------------------------


def test_equal_constants_are_stored_once():
    nodes = [node("MatMul", "x w", "a"), node("MatMul", "a v", "y")]
    w = weight(64, 64, scale=0.1)
    made = check(model(nodes, {"x": (N, 64)}, {"y": FLOAT}, {"w": w, "v": w.copy()}))
    assert len(made) < 1.5 * w.nbytes


def test_half_precision_weights():
    nodes = [node("Conv", "x w b", "a"), node("Flatten", "a", "f"), node("MatMul", "f m", "y")]
    weights = {"w": weight(8, 3, 3, 3), "b": weight(8), "m": weight(8 * 16, 32, scale=0.1)}
    whole = model(nodes, {"x": (N, 3, 6, 6)}, {"y": FLOAT}, weights)
    made = check(whole, rtol=2e-3, weights="float16")
    assert operators(made)["DEQUANTIZE"] == 2
    # What is stored is the weight rounded, and nothing else is.
    rounded = {k: v.astype(np.float16).astype(np.float32) if v.ndim > 1 else v for k, v in weights.items()}
    feeds = feeds_of(whole, 2)
    want = run_tflite(check(model(nodes, {"x": (N, 3, 6, 6)}, {"y": FLOAT}, rounded)), feeds)["y"]
    np.testing.assert_allclose(run_tflite(made, feeds)["y"], want, rtol=1e-5, atol=1e-5)


def test_weights_beyond_half_precision_stay():
    made = Converter(model([node("MatMul", "x w", "y")], {"x": (N, 4)}, {"y": FLOAT}, {"w": weight(4, 4) + 1e6}), verify=False)
    assert operators(made.to_tflite(weights="float16")) == {"FULLY_CONNECTED": 1}


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_everything_that_is_unsupported_is_named_at_once():
    grams = {"max_gram_length": 1, "min_gram_length": 1, "max_skip_count": 0, "mode": "TF", "ngram_counts": [0]}
    nodes = [
        node("TfIdfVectorizer", "t", "a", ngram_indexes=[0], pool_int64s=[2], **grams),
        node("ImageDecoder", "b", "c"),
        node("Relu", "x", "y"),
    ]
    made = model(
        nodes,
        {"x": (N, 4, 4), "t": (onnx.TensorProto.INT64, (N, 3)), "b": (onnx.TensorProto.UINT8, (N,))},
        {"a": FLOAT, "c": onnx.TensorProto.UINT8, "y": FLOAT},
    )
    with pytest.raises(UnsupportedOpsError) as caught:
        Converter(made, verify=False).to_tflite()
    assert {o.op for o in caught.value.ops} == {"TfIdfVectorizer", "ImageDecoder"}
    assert caught.value.route == "onnx-tflite"


def test_what_kernels_lack_is_named_at_once():
    double = onnx.TensorProto.DOUBLE
    nodes = [node("Exp", "x", "a"), node("Sqrt", "a", "y"), node("Sign", "i", "z")]
    made = model(nodes, {"x": (double, (N, 3)), "i": (INT64, (N, 3))}, {"y": double, "z": INT64})
    with pytest.raises(UnsupportedOpsError) as caught:
        Converter(made, verify=False).to_tflite()
    assert {(o.op, o.reason) for o in caught.value.ops} == {
        ("Exp", "LiteRT's EXP does not take float64"),
        ("Sqrt", "LiteRT's SQRT does not take float64"),
        ("Sign", "LiteRT's SIGN does not take int64"),
    }


def test_a_batch_is_freed_on_request_and_only_where_that_is_right():
    nodes = [node("Reshape", "x target", "a"), node("Neg", "a", "y")]
    made = said(model(nodes, {"x": (1, 3, 4)}, {"y": FLOAT}, {"target": ints(1, -1)}), 1, 12)
    assert Converter(made, verify=False).to_tflite().signature.inputs[0].shape == (1, 3, 4)
    freed = Converter(made, verify=False).to_tflite(dynamic_batch=True)
    assert run_tflite(freed, {"x": weight(3, 3, 4)})["y"].shape == (3, 12)
    mixed = said(model([node("Softmax", "x", "y", axis=0)], {"x": (1, 4)}, {"y": FLOAT}), 1, 4)
    with pytest.raises(ConversionError, match="cannot be freed"):
        Converter(mixed, verify=False).to_tflite(dynamic_batch=True)


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


def test_padding_to_a_size_that_no_kernel_reaches_is_refused():
    """The specification does not say where the rest goes, and ONNX Runtime leaves it away."""
    nodes = [node("ConvTranspose", "x w", "y", strides=[3], auto_pad="SAME_LOWER")]
    with pytest.raises(UnsupportedOpsError, match="more than the kernel reaches"):
        Converter(model(nodes, {"x": (N, 4, 5)}, {"y": FLOAT}, {"w": weight(4, 3, 2)}), verify=False).to_tflite()
