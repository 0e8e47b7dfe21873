"""The way to ONNX as a whole: names, signatures, free dimensions, weights and their way back, refusals."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from ai_edge_litert import schema_py_generated as S

from mlconverter.errors import TranslationError, UnsupportedOpsError
from mlconverter.formats.tflite.buffers import patch, stored_weights
from mlconverter.formats.tflite.runner import LiteRTRunner
from mlconverter.formats.tflite.schema import load
from mlconverter.formats.tflite.to_onnx.convert import convert
from mlconverter.hub.model import WEIGHT_KEY
from mlconverter.hub.weights import Cast, Reshape, Transpose, write_back
from tests.ops.tflite_onnx.files import File

RNG = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def run_onnx(hub, feeds):
    proto = ir.to_proto(hub.model)
    onnx.checker.check_model(proto, full_check=True)
    session = ort.InferenceSession(proto.SerializeToString())
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def same(data, feeds, hub=None, rtol=1e-5):
    hub = hub or convert(data)
    with LiteRTRunner(data) as runner:
        want = runner.run(feeds)
    got = run_onnx(hub, feeds)
    assert list(got) == list(want)
    for name, value in want.items():
        assert got[name].shape == value.shape
        np.testing.assert_allclose(got[name], value, rtol=0, atol=rtol * np.abs(value).max() + 1e-6)
    return hub


def conv(f, x, *, half=False, channels=4, out=5, name="w"):
    dtype = np.float16 if half else np.float32
    operands = [
        f.constant(normal(out, 3, 3, channels, dtype=dtype), name=name),
        f.constant(normal(out, dtype=dtype), name=f"{name}_bias"),
    ]
    if half:
        operands = [f.op("DEQUANTIZE", [o]) for o in operands]
    return f.op("CONV_2D", [x, *operands], options=S.Conv2DOptionsT(padding=0, strideH=1, strideW=1))


def image_file(**how):
    f = File()
    y = conv(f, f.input((1, 6, 7, 4), name="image"), **how)
    return f.finish(y), f._graph.tensors[y].name


# Names and signatures


def test_names_of_tensors():
    data, output = image_file()
    hub = same(data, {"image": normal(1, 6, 7, 4)})
    assert hub.signature.input_names == ("image",)
    assert hub.signature.output_names == (output,)
    assert hub.signature.inputs[0].layout == "channels_last"


def test_names_and_order_of_a_signature():
    f = File()
    a, b = f.input((2, 3), name="serving_a:0"), f.input((2, 3), name="serving_b:0")
    total = f.op("ADD", [a, b], options=S.AddOptionsT(), names=["total"])
    difference = f.op("SUB", [a, b], options=S.SubOptionsT(), names=["difference"])
    f.signature({"second": b, "first": a}, {"d": difference, "s": total}, key="other")
    f.signature({"b": b, "a": a}, {"minus": difference, "plus": total})
    data = f.finish(total, difference)
    hub = same(data, {"a": normal(2, 3), "b": normal(2, 3)})
    assert hub.signature.input_names == ("b", "a")
    assert hub.signature.output_names == ("minus", "plus")
    assert hub.signature.key == "serving_default"


def test_names_that_clash():
    """Tensors inside are named like the border, and like each other."""
    f = File()
    x = f.input((2, 3), name="y")
    inner = f.op("RELU", [x], names=["same"])
    inner = f.op("TANH", [inner], names=["same"])
    y = f.op("ABS", [inner], names=["x"])
    f.signature({"x": x}, {"y": y})
    same(f.finish(y), {"x": normal(2, 3)})


def test_names_that_are_missing_or_double():
    f = File()
    a, b = f.input((2,), name="x"), f.input((2,), name="x")
    y = f.op("ADD", [a, b], options=S.AddOptionsT(), names=[""])
    hub = convert(f.finish(y))
    assert hub.signature.input_names == ("x", "x__2")
    assert hub.signature.output_names == ("tensor_2",)
    run_onnx(hub, {"x": normal(2), "x__2": normal(2)})


def test_outputs_that_no_node_of_their_own_gives():
    """An input as output, one tensor under two names, a constant, a renamed transpose."""
    f = File()
    x = f.input((2, 3), name="x")
    y = f.op("TRANSPOSE", [x, f.constant(np.asarray([1, 0], np.int32))])
    z = f.op("RELU", [y])
    c = f.constant(normal(4))
    f.signature({"x": x}, {"same": x, "t": y, "once": z, "twice": z, "c": c})
    data = f.finish(x, y, z, c)
    value = normal(2, 3)
    got = run_onnx(convert(data), {"x": value})
    np.testing.assert_array_equal(got["same"], value)
    np.testing.assert_array_equal(got["t"], value.T)
    np.testing.assert_array_equal(got["once"], np.maximum(value.T, 0))
    np.testing.assert_array_equal(got["twice"], got["once"])
    assert got["c"].shape == (4,)


# Free dimensions


def test_a_free_batch():
    f = File()
    x = f.input((1, 6, 7, 4), name="image", free=(0,))
    y = conv(f, x)
    y = f.op("RESHAPE", [y, f.constant(np.asarray([-1, 6 * 7 * 5], np.int32))])
    y = f.op("FULLY_CONNECTED", [y, f.constant(normal(3, 210)), -1], options=S.FullyConnectedOptionsT())
    data = f.finish(y)
    hub = convert(data)
    assert hub.signature.inputs[0].shape == ("batch", 6, 7, 4)
    assert hub.signature.outputs[0].shape == ("batch", 3)
    for batch in (1, 3):
        same(data, {"image": normal(batch, 6, 7, 4)}, hub)


def test_free_sizes():
    f = File()
    x = f.input((1, 6, 6, 4), name="image", free=(0, 1, 2))
    w = f.constant(normal(5, 3, 3, 4))
    y = f.op(
        "CONV_2D", [x, w, f.constant(normal(5))], options=S.Conv2DOptionsT(padding=0, strideH=2, strideW=2), shapes=[(1, 3, 3, 5)]
    )
    f._graph.tensors[y].shapeSignature = np.asarray([-1, -1, -1, 5], np.int32)
    y2 = f.op(
        "RESIZE_BILINEAR",
        [y, f.constant(np.asarray([7, 5], np.int32))],
        options=S.ResizeBilinearOptionsT(),
        shapes=[(1, 7, 5, 5)],
    )
    data = f.finish(y, y2)
    hub = convert(data)
    assert hub.signature.inputs[0].shape == ("batch", "image_dim1", "image_dim2", 4)
    for size in ((1, 6, 6, 4), (2, 9, 4, 4), (1, 11, 8, 4)):
        same(data, {"image": normal(*size)}, hub)


def test_a_fixed_batch_is_not_built_in():
    """The file says 1 and none of its operators says it again: the graph runs at any batch once its input is freed."""
    data, _ = image_file()
    proto = ir.to_proto(convert(data).model)
    del proto.graph.value_info[:]
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    feed = normal(3, 6, 7, 4)
    session = ort.InferenceSession(proto.SerializeToString())
    together = session.run(None, {"image": feed})[0]
    single = [session.run(None, {"image": feed[i : i + 1]})[0] for i in range(3)]
    np.testing.assert_allclose(together, np.concatenate(single), atol=1e-6)


# Weights


def test_weights_have_links():
    data, _ = image_file(half=True)
    hub = convert(data)
    steps = {link.target: link.steps for link in hub.links}
    assert steps == {"w": (Cast("float32", "float16"), Transpose((0, 3, 1, 2))), "w_bias": (Cast("float32", "float16"),)}
    for name in steps:
        assert hub.model.graph.initializers[name].metadata_props[WEIGHT_KEY] == name
    model = load(data)
    stored = stored_weights(model, [link.source for link in hub.links])
    assert {a.dtype.name for a in stored.values()} == {"float16"}
    for link in hub.links:
        np.testing.assert_array_equal(
            link.get(stored[link.source]), hub.model.graph.initializers[link.target].const_value.numpy()
        )


def test_the_way_back():
    """Trained values, written into the file's own buffers, compute what the trained graph computes."""
    data, _ = image_file(half=True)
    hub = convert(data)
    initializers = hub.model.graph.initializers
    values = {link.target: initializers[link.target].const_value.numpy() for link in hub.links}
    stored = stored_weights(load(data), [link.source for link in hub.links])
    assert patch(data, write_back(stored, hub.links, values)) == data
    trained = {name: (value * 1.5).astype(np.float16).astype(np.float32) for name, value in values.items()}
    tuned = patch(data, write_back(stored, hub.links, trained))
    assert len(tuned) == len(data)
    assert tuned != data
    for name, value in trained.items():
        initializers[name].const_value = ir.Tensor(value)
    same(tuned, {"image": normal(1, 6, 7, 4)}, hub)


def test_what_is_no_weight():
    """Single numbers and integers are plain constants; a bias of one element is a weight."""
    f = File()
    x = f.op("MUL", [f.input((1, 6, 7, 4), name="x"), f.constant(np.float32([0.5]))], options=S.MulOptionsT())
    y = f.op("RESHAPE", [conv(f, x, out=1), f.constant(np.asarray([1, 42], np.int32))])
    hub = same(f.finish(y), {"x": normal(1, 6, 7, 4)})
    assert [link.target for link in hub.links] == ["w", "w_bias"]


def test_tied_weights_stay_one():
    f = File()
    data = normal(4, 1, 1, 4)
    buffer = f.buffer(data)
    x = f.input((1, 3, 2, 4), name="x")
    filters, matrix = f.constant(data, buffer=buffer, name="w"), f.constant(data.reshape(4, 4), buffer=buffer)
    bias = f.constant(normal(4), name="bias")
    y = f.op("CONV_2D", [x, filters, bias], options=S.Conv2DOptionsT(padding=0, strideH=1, strideW=1))
    y = f.op("FULLY_CONNECTED", [y, matrix, -1], options=S.FullyConnectedOptionsT(keepNumDims=True), version=5)
    y = f.op("CONV_2D", [y, filters, bias], options=S.Conv2DOptionsT(padding=0, strideH=1, strideW=1))
    hub = same(f.finish(y), {"x": normal(1, 3, 2, 4)})
    assert [link.target for link in hub.links] == ["w", "bias"]
    assert hub.links[0].source == f"buffer:{buffer}"
    trained = normal(4, 4, 1, 1)
    hub.model.graph.initializers["w"].const_value = ir.Tensor(trained)
    stored = stored_weights(load(f._pack()), [hub.links[0].source])
    tuned = patch(f._pack(), write_back(stored, hub.links[:1], {"w": trained}))
    same(tuned, {"x": normal(1, 3, 2, 4)}, hub)


def test_tied_weights_of_two_precisions():
    """A half-precision buffer that is used once as it is and once dequantised."""
    f = File()
    half = f.constant(normal(2, 3, dtype=np.float16), name="w")
    x = f.input((2, 3), name="x")
    y = f.op("ADD", [x, f.op("DEQUANTIZE", [half])], options=S.AddOptionsT(), shapes=[(2, 3)])
    z = f.op(
        "CAST", [f.op("TRANSPOSE", [half, f.constant(np.asarray([1, 0], np.int32))], "float16", shapes=[(3, 2)])], shapes=[(3, 2)]
    )
    hub = convert(f.finish(y, z))
    assert len(hub.links) == 1
    got = list(run_onnx(hub, {"x": np.zeros((2, 3), np.float32)}).values())
    np.testing.assert_array_equal(got[0], got[1].T)


def test_a_zero_bias_that_shares_a_buffer_with_an_integer():
    f = File()
    zeros = f.buffer(np.zeros(4, np.float32))
    shape = f.tensor((4,), "int32", buffer=zeros)
    bias = f.tensor((4,), "float32", buffer=zeros, name="bias")
    x = f.input((1, 3, 2, 4), name="x")
    y = f.op("ADD", [f.op("SLICE", [x, shape, f.constant(np.asarray([-1] * 4, np.int32))]), bias], options=S.AddOptionsT())
    hub = same(f.finish(y), {"x": normal(1, 3, 2, 4)})
    assert [(link.source, link.target, link.steps) for link in hub.links] == [(f"buffer:{zeros}", "bias", ())]


def test_per_channel_weights_behind_dequantize():
    f = File()
    stored = RNG.integers(-127, 128, (5, 3), dtype=np.int8)
    q = S.QuantizationParametersT(
        scale=np.float32([0.1, 0.2, 0.3, 0.4, 0.5]), zeroPoint=np.zeros(5, np.int64), quantizedDimension=0
    )
    w = f.op("DEQUANTIZE", [f.constant(stored, quantization=q, name="w")], version=5, shapes=[(5, 3)])
    y = f.op("FULLY_CONNECTED", [f.input((2, 3), name="x"), w, -1], options=S.FullyConnectedOptionsT())
    data = f.finish(y)
    hub = same(data, {"x": normal(2, 3)})
    (link,) = hub.links
    want = stored * np.float32([[0.1], [0.2], [0.3], [0.4], [0.5]])
    np.testing.assert_allclose(link.get(stored), want, rtol=1e-6)


def test_alpha_of_prelu():
    f = File()
    y = f.op("PRELU", [conv(f, f.input((1, 6, 7, 4), name="x")), f.constant(normal(1, 1, 5), name="alpha")])
    hub = same(f.finish(y), {"x": normal(1, 6, 7, 4)})
    (alpha,) = [link for link in hub.links if link.target == "alpha"]
    assert alpha.steps == (Transpose((2, 0, 1)),)
    f = File()
    y = f.op("PRELU", [conv(f, f.input((1, 6, 7, 4), name="x")), f.constant(normal(5), name="alpha")])
    hub = same(f.finish(y), {"x": normal(1, 6, 7, 4)})
    (alpha,) = [link for link in hub.links if link.target == "alpha"]
    assert alpha.steps == (Reshape((5, 1, 1)),)


# Refusals


def test_all_refusals_at_once():
    f = File()
    x = f.input((1, 6, 7, 4), name="x")
    q = S.QuantizationParametersT(scale=np.full(4, 0.1, np.float32), zeroPoint=np.full(4, 3), quantizedDimension=3)
    custom = [f.op(None, [x], custom="Landmarks", options=b"", version=2, shapes=[(1, 6, 7, 4)]) for _ in range(3)]
    small = f.tensor((1, 6, 7, 4), "int8", quantization=q)
    f._graph.operators.append(S.OperatorT(opcodeIndex=0, inputs=[x], outputs=[small]))
    f.op("ADD", [small, small], options=S.AddOptionsT(), shapes=[(1, 6, 7, 4)])
    f.op("ADD", [x, x], options=S.AddOptionsT(fusedActivationFunction=5), shapes=[(1, 6, 7, 4)])
    f.op("ADD", [x, x], options=S.AddOptionsT(), version=99, shapes=[(1, 6, 7, 4)])
    with pytest.raises(UnsupportedOpsError) as caught:
        convert(f.finish(custom[-1]))
    assert caught.value.route == "tflite-onnx"
    found = {(o.op, o.version, o.count): o.reason for o in caught.value.ops}
    assert found[("custom::Landmarks", 2, 4)] == "no translator"
    assert "not reviewed" in found[("ADD", 99, 1)]
    reasons = [o.reason for o in caught.value.ops if (o.op, o.version) == ("ADD", 1)]
    assert reasons[0].endswith("which is computed, has a scale for each index of an axis")
    assert reasons[1:] == ["fused activation SIGN_BIT, which LiteRT's kernels do not compute"]


def test_an_operator_before_its_input():
    f = File()
    missing = f.tensor((2,), name="missing")
    y = f.op("RELU", [missing], shapes=[(2,)])
    with pytest.raises(TranslationError, match="used before"):
        convert(f.finish(y))


def test_a_shape_in_the_file_that_is_wrong():
    f = File()
    y = f.op("MEAN", [f.input((2, 3, 4)), f.constant(np.int32([1]))], options=S.ReducerOptionsT(), shapes=[(2, 3, 4)])
    with pytest.raises(TranslationError, match="rank 3 in the file, not 2"):
        convert(f.finish(y))
