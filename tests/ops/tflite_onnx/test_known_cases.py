"""Files that converters from TFLite have got wrong, each with its neighbours: other flags, sizes, kinds of numbers."""

import itertools

import numpy as np
import pytest
import torch
from ai_edge_litert import schema_py_generated as S
from torch import nn

from mlconverter import Converter
from mlconverter.formats.tflite.runner import LiteRTRunner
from mlconverter.formats.tflite.to_onnx.convert import convert
from tests.ops.tflite_onnx.cases import ints, weights
from tests.ops.tflite_onnx.files import File
from tests.ops.tflite_onnx.test_operators import onnx_outputs
from tests.ops.tflite_onnx.test_quantised import grid, op, q

SAME = 0
RELU, RELU6 = 1, 3
SIZES = pytest.mark.parametrize("size", [(6, 6, 6), (7, 5, 3), (4, 9, 2)], ids=["equal", "unequal", "wide"])


def verified(data: bytes) -> Converter:
    """Both ways are right by the package's own thorough comparison."""
    converter = Converter(data, verify="full")
    for to in ("onnx", "torch"):
        converter.to(to)
        assert converter.report.steps[-1].verdict == "verified"
    return converter


def agrees(data: bytes, batch: int = 1, limit: float = 1e-5) -> None:
    """The graph gives what LiteRT gives, within a part of the largest value."""
    hub = convert(data)
    rng = np.random.default_rng(5)
    feeds = {s.name: rng.uniform(-3, 3, s.concrete({"batch": batch})).astype(s.dtype) for s in hub.signature.inputs}
    with LiteRTRunner(data) as runner:
        want = runner.run(feeds)
    got = onnx_outputs(hub, feeds)
    assert list(got) == list(want)
    for name, expected in want.items():
        assert (got[name].shape, got[name].dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(got[name], expected, rtol=0, atol=limit * np.abs(expected).max() + 1e-6)


def conv(f: File, x: int, count: int, channels: int, *, stride: int = 1, activation: int = 0, kernel=(3, 3)) -> int:
    options = S.Conv2DOptionsT(
        padding=SAME, strideH=stride, strideW=stride, dilationHFactor=1, dilationWFactor=1, fusedActivationFunction=activation
    )
    return f.op("CONV_2D", [x, f.constant(weights(count, *kernel, channels)), f.constant(weights(count))], options=options)


# -- a quantised inverted residual, scales by channel --------------------------------------------------------------------


def quantised_conv(f: File, x: int, name: str, shape: tuple, step: float, out: tuple, activation: int) -> int:
    """A convolution of a tensor quantised by 0.05."""
    depthwise = name.startswith("DEPTH")
    count, axis = (shape[3], 3) if depthwise else (shape[0], 0)
    scales = np.linspace(0.002, 0.02, count).astype(np.float32)
    w = f.constant(np.random.default_rng(2).integers(-127, 128, shape).astype(np.int8), quantization=q(scales, 0, axis))
    bias = np.random.default_rng(3).integers(-900, 900, count).astype(np.int32)
    b = f.constant(bias, quantization=q(np.float32(0.05) * scales, 0, 0))
    make = S.DepthwiseConv2DOptionsT if depthwise else S.Conv2DOptionsT
    options = make(padding=SAME, strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1, fusedActivationFunction=activation)
    if depthwise:
        options.depthMultiplier = 1
    return op(f, name, [x, w, b], "int8", q(step, -10), out, options=options)


@SIZES
@pytest.mark.parametrize("activation", [0, RELU6])
def test_a_quantised_inverted_residual(size, activation):
    f = File()
    h, w, c = size
    x = f.input((1, h, w, c), "int8", quantization=grid("int8"))
    wide = quantised_conv(f, x, "CONV_2D", (2 * c, 1, 1, c), 0.05, (1, h, w, 2 * c), activation)
    deep = quantised_conv(f, wide, "DEPTHWISE_CONV_2D", (1, 3, 3, 2 * c), 0.05, (1, h, w, 2 * c), activation)
    thin = quantised_conv(f, deep, "CONV_2D", (c, 1, 1, 2 * c), 0.05, (1, h, w, c), 0)
    y = op(f, "ADD", [x, thin], "int8", q(0.08, 4), (1, h, w, c), options=S.AddOptionsT(), version=2)
    data = f.finish(y)
    converter = verified(data)
    assert all(p.requires_grad for p in converter.to_torch().parameters())
    assert bytes(converter.to_origin_type()) == data


# -- what stands around a resize ----------------------------------------------------------------------------------------


@SIZES
@pytest.mark.parametrize(("aligned", "half"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("name", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("target", [(13, 11), (3, 4), (12, 12)])
def test_a_resize_between_padding_and_activations(size, aligned, half, name, target):
    f = File()
    h, w, c = size
    x = conv(f, f.input((1, h, w, c)), c, c, activation=RELU)
    padded = f.op("PAD", [x, f.constant(ints(0, 0, 1, 0, 2, 1, 0, 0).reshape(4, 2))])
    make = S.ResizeBilinearOptionsT if name == "RESIZE_BILINEAR" else S.ResizeNearestNeighborOptionsT
    options = make(alignCorners=aligned, halfPixelCenters=half)
    resized = f.op(name, [padded, f.constant(ints(*target))], options=options, version=3)
    # LiteRT computes places in single precision, and the convolution adds up what that is off.
    agrees(f.finish(conv(f, resized, 4, c, activation=RELU6)), limit=1e-4)


# -- free batch ----------------------------------------------------------------------------------------------------------


@SIZES
def test_a_free_batch_stays_free(size):
    f = File()
    h, w, c = size
    y = conv(f, f.input((1, h, w, c), free=[0], name="x"), 4, c, stride=2, activation=RELU)
    pooled = f.op("MEAN", [y, f.constant(ints(1, 2))], options=S.ReducerOptionsT(keepDims=False))
    data = f.finish(f.op("FULLY_CONNECTED", [pooled, f.constant(weights(5, 4)), -1], options=S.FullyConnectedOptionsT()))
    assert convert(data).signature.inputs[0].shape == ("batch", h, w, c)
    for batch in (1, 2, 5):
        agrees(data, batch)
    module = Converter(data).to_torch()
    with torch.no_grad():
        assert module(torch.rand(5, h, w, c)).shape == (5, 5)


# -- transposed convolutions ----------------------------------------------------------------------------------------------


def transposed(f: File, x: int, out: tuple[int, int], count: int, channels: int, stride: int) -> int:
    shape = f.constant(ints(1, *out, count))
    options = S.TransposeConvOptionsT(padding=SAME, strideH=stride, strideW=stride)
    return f.op("TRANSPOSE_CONV", [shape, f.constant(weights(count, 3, 3, channels)), x], options=options)


@pytest.mark.parametrize(("h", "w", "stride"), [(h, w, s) for h, w in [(3, 4), (4, 4), (5, 2)] for s in (2, 3)])
@pytest.mark.parametrize("less", itertools.product((0, 1), repeat=2))
def test_a_transposed_convolution_of_odd_size(h, w, stride, less):
    f = File()
    out = (h * stride - less[0], w * stride - less[1])
    agrees(f.finish(transposed(f, f.input((1, h, w, 3)), out, 5, 3, stride)))


def test_a_transposed_convolution_is_a_layer():
    f = File()
    x = conv(f, f.input((1, 6, 5, 3)), 4, 3, activation=RELU)
    converter = verified(f.finish(transposed(f, x, (12, 10), 2, 4, 2)))
    module = converter.to_torch()
    layers = [type(m) for m in module.modules()]
    assert nn.Conv2d in layers and nn.ConvTranspose2d in layers
    assert sorted(tuple(p.shape) for p in module.parameters()) == [(4,), (4, 2, 3, 3), (4, 3, 3, 3)]
    module(torch.rand(2, 6, 5, 3)).sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in module.parameters())


# -- how weights lie and are stored ------------------------------------------------------------------------------------------


@SIZES
@pytest.mark.parametrize("shared", [(1, 1, "c"), ("h", "w", "c"), (1, "w", 1)])
def test_a_slope_for_each_channel(size, shared):
    f = File()
    h, w, c = size
    named = {"h": h, "w": w, "c": c}
    x = conv(f, f.input((1, h, w, c)), c, c)
    alpha = f.constant(weights(*(named.get(d, d) for d in shared)))
    agrees(f.finish(f.op("PRELU", [x, alpha])))


@SIZES
def test_half_precision_weights_behind_dequantize(size):
    f = File()
    h, w, c = size
    kernel = f.op("DEQUANTIZE", [f.constant(weights(4, 3, 2, c).astype(np.float16))], version=3)
    bias = f.op("DEQUANTIZE", [f.constant(weights(4).astype(np.float16))], version=3)
    options = S.Conv2DOptionsT(padding=SAME, strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1)
    data = f.finish(f.op("CONV_2D", [f.input((1, h, w, c)), kernel, bias], options=options))
    agrees(data)
    converter = Converter(data)
    assert {tuple(p.shape) for p in converter.to_torch().parameters()} == {(4, c, 3, 2), (4,)}
    assert bytes(converter.to_origin_type()) == data


@SIZES
def test_inputs_keep_their_layout(size):
    f = File()
    h, w, c = size
    y = conv(f, f.input((1, h, w, c), name="image"), 4, c, kernel=(3, 2))
    hub = convert(f.finish(y))
    assert hub.signature.inputs[0].shape == (1, h, w, c) and hub.signature.outputs[0].shape == (1, h, w, 4)
    assert [n.op_type for n in hub.model.graph].count("Transpose") == 2
    agrees(f.finish(y))
