"""Outputs by value, element types, what is stored, and what is refused."""

import numpy as np
import onnx
import pytest

from mlconverter import Converter
from mlconverter.errors import ConversionError, UnsupportedOpsError
from tests.ops.onnx_tflite.check import check, operators, run_tflite
from tests.ops.onnx_torch.check import feeds_of
from tests.ops.onnx_torch.models import BOOL, FLOAT, INT64, N, ints, model, node, said, weight

HALF = onnx.TensorProto.FLOAT16


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


def test_padding_to_a_size_that_no_kernel_reaches_is_refused():
    """The specification does not say where the rest goes, and ONNX Runtime leaves it away."""
    nodes = [node("ConvTranspose", "x w", "y", strides=[3], auto_pad="SAME_LOWER")]
    with pytest.raises(UnsupportedOpsError, match="more than the kernel reaches"):
        Converter(model(nodes, {"x": (N, 4, 5)}, {"y": FLOAT}, {"w": weight(4, 3, 2)}), verify=False).to_tflite()
