"""Every quantised operator gives in ONNX Runtime, and in torch, what it gives in LiteRT, within a step."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import pytest
import torch
from ai_edge_litert import schema_py_generated as S

from mlconverter import Converter
from mlconverter.formats.tflite.runner import LiteRTRunner
from mlconverter.formats.tflite.to_onnx.convert import convert
from tests.ops.tflite_onnx.files import File
from tests.ops.tflite_onnx.test_operators import onnx_outputs

RELU, RELU6 = 1, 3
SAME, VALID = 0, 1


@dataclass(frozen=True)
class Case:
    """A file of one operator.

    Attributes:
        build: writes it for a batch and gives its outputs.
        steps: by how many an output may be off.
    """

    id: str
    build: Callable[[File, int], int | list[int]]
    steps: int = 1


CASES: list[Case] = []


def add(name: str, build: Callable[[File, int], int | list[int]], **how) -> None:
    CASES.append(Case(name, build, **how))


def q(scale, zero=0, axis=0):
    scales = np.atleast_1d(np.asarray(scale, np.float32))
    zeros = np.broadcast_to(np.asarray(zero, np.int64), scales.shape).copy()
    return S.QuantizationParametersT(scale=scales, zeroPoint=zeros, quantizedDimension=axis)


def middle(kind: str) -> int:
    return {"int8": 5, "uint8": 131, "int16": 0}[kind]


def grid(kind: str, scale: float = 0.05):
    return q(scale if kind != "int16" else scale / 256, middle(kind))


def out(f: File, kind: str, scale: float = 0.05, zero: int | None = None):
    """Quantisation of an output."""
    return grid(kind, scale) if zero is None else q(scale, zero)


def op(f: File, name, inputs, kind, quantization, shape, *, options=None, version=3) -> int:
    """An operator with a quantised output."""
    result = f.op(name, inputs, kind, options=options, version=version, shapes=[shape])
    f._graph.tensors[result].quantization = quantization
    return result


def ints(shape, low=-127, high=127, dtype=np.int8, seed=3):
    return np.random.default_rng(seed).integers(low, high + 1, shape).astype(dtype)


# Products


def conv(kind: str, activation: int, per_channel: bool, padding=SAME, stride=1, depthwise=False):
    def build(f: File, n: int) -> int:
        x = f.input((n, 7, 5, 4), kind, quantization=grid(kind))
        filters = (1, 3, 2, 4) if depthwise else (6, 3, 2, 4)
        count, axis = (4, 3) if depthwise else (6, 0)
        scales = np.linspace(0.002, 0.02, count) if per_channel else 0.01
        if kind == "uint8":
            w = f.constant(ints(filters, 0, 255, np.uint8), quantization=q(scales, 120, axis))
        else:
            w = f.constant(ints(filters), quantization=q(scales, 0, axis))
        step = np.asarray(f._graph.tensors[x].quantization.scale[0] * np.atleast_1d(scales).astype(np.float32))
        terms = [f.constant(ints((count,), -900, 900, np.int64 if kind == "int16" else np.int32), quantization=q(step, 0, 0))]
        size = (n, 7, 5) if padding == SAME and stride == 1 else (n, 4, 3) if padding == SAME else (n, 3, 2)
        make = S.DepthwiseConv2DOptionsT if depthwise else S.Conv2DOptionsT
        options = make(
            padding=padding,
            strideH=stride,
            strideW=stride,
            dilationHFactor=1,
            dilationWFactor=1,
            fusedActivationFunction=activation,
        )
        if depthwise:
            options.depthMultiplier = 1
        name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        return op(f, name, [x, w, *terms], kind, out(f, kind, 0.08), (*size, count), options=options)

    return build


for kind, activation, channels in itertools.product(("int8", "uint8", "int16"), (0, RELU, RELU6), (True, False)):
    if kind == "uint8" and channels:
        continue
    suffix = f"{kind} act{activation}{' per channel' if channels else ''}"
    add(f"CONV_2D {suffix}", conv(kind, activation, channels))
    add(f"DEPTHWISE_CONV_2D {suffix}", conv(kind, activation, channels, VALID, 2, depthwise=True))
add("CONV_2D int8 strides", conv("int8", 0, True, SAME, 2))


def fully_connected(kind: str, activation: int = 0, keep: bool = False):
    def build(f: File, n: int) -> int:
        x = f.input((n, 3, 8) if keep else (n, 8), kind, quantization=grid(kind))
        w = f.constant(ints((5, 8)), quantization=q(0.01)) if kind != "uint8" else None
        if w is None:
            w = f.constant(ints((5, 8), 0, 255, np.uint8), quantization=q(0.01, 120))
        step = f._graph.tensors[x].quantization.scale[0] * np.float32(0.01)
        b = f.constant(ints((5,), -900, 900, np.int64 if kind == "int16" else np.int32), quantization=q(step))
        options = S.FullyConnectedOptionsT(fusedActivationFunction=activation, keepNumDims=keep)
        shape = (n, 3, 5) if keep else (n, 5)
        return op(f, "FULLY_CONNECTED", [x, w, b], kind, out(f, kind, 0.06), shape, options=options, version=4)

    return build


for kind in ("int8", "uint8", "int16"):
    add(f"FULLY_CONNECTED {kind}", fully_connected(kind))
    add(f"FULLY_CONNECTED {kind} relu", fully_connected(kind, RELU))
add("FULLY_CONNECTED int8 keeps dimensions", fully_connected("int8", keep=True))


def batch_matmul(f: File, n: int) -> int:
    x = f.input((n, 4, 6), "int8", quantization=grid("int8"))
    y = f.input((n, 6, 3), "int8", quantization=q(0.02, -7))
    return op(f, "BATCH_MATMUL", [x, y], "int8", out(f, "int8", 0.09), (n, 4, 3), options=S.BatchMatMulOptionsT())


add("BATCH_MATMUL int8", batch_matmul)


def transpose_conv(f: File, n: int) -> int:
    x = f.input((n, 4, 3, 4), "int8", quantization=grid("int8"))
    w = f.constant(ints((5, 3, 3, 4)), quantization=q(np.linspace(0.004, 0.02, 5), 0, 0))
    shape = f.constant(np.asarray([n, 8, 6, 5], np.int32))
    options = S.TransposeConvOptionsT(padding=SAME, strideH=2, strideW=2)
    return op(f, "TRANSPOSE_CONV", [shape, w, x], "int8", out(f, "int8", 0.06), (n, 8, 6, 5), options=options, version=2)


add("TRANSPOSE_CONV int8", transpose_conv)

# Element by element


def binary(name: str, kind: str, options=None, scale=0.07, other=(1, 1, 1, 4), same=False):
    def build(f: File, n: int) -> int:
        x = f.input((n, 3, 5, 4), kind, quantization=grid(kind))
        second = grid(kind) if same else q(0.03 if kind != "int16" else 0.0001, 0 if kind == "int16" else middle(kind) + 9)
        y = f.input((n, 3, 5, 4), kind, quantization=second) if other is None else None
        if y is None:
            dtype, low = np.dtype(kind).type, 1 if kind == "uint8" else -90
            y = f.constant(ints(other, low, 100, dtype), quantization=second)
        return op(f, name, [x, y], kind, grid(kind) if same else grid(kind, scale), (n, 3, 5, 4), options=options, version=2)

    return build


for kind in ("int8", "uint8", "int16"):
    add(f"ADD {kind}", binary("ADD", kind, S.AddOptionsT(potScaleInt16=False), other=None))
    add(f"SUB {kind}", binary("SUB", kind, S.SubOptionsT(potScaleInt16=False), other=None))
    add(f"MUL {kind}", binary("MUL", kind, S.MulOptionsT()))
    add(f"MUL {kind} relu6", binary("MUL", kind, S.MulOptionsT(fusedActivationFunction=RELU6)))
for kind in ("int8", "uint8"):
    add(f"ADD {kind} constant, relu", binary("ADD", kind, S.AddOptionsT(fusedActivationFunction=RELU)))
    add(f"MAXIMUM {kind}", binary("MAXIMUM", kind, S.MaximumMinimumOptionsT(), other=None, same=True))
    add(f"MINIMUM {kind}", binary("MINIMUM", kind, S.MaximumMinimumOptionsT(), other=None, same=True))
add("SQUARED_DIFFERENCE int8", binary("SQUARED_DIFFERENCE", "int8", scale=0.4, other=None))


def unary(name: str, kind: str, options=None, scale=0.05, zero=None, version=2, kept=False, input_scale=0.05):
    def build(f: File, n: int) -> int:
        x = f.input((n, 3, 5, 4), kind, quantization=grid(kind, input_scale))
        quantization = grid(kind, input_scale) if kept else out(f, kind, scale, zero)
        return op(f, name, [x], kind, quantization, (n, 3, 5, 4), options=options, version=version)

    return build


for kind in ("int8", "uint8"):
    add(f"LOGISTIC {kind}", unary("LOGISTIC", kind, scale=1 / 256, zero=-128 if kind == "int8" else 0))
    add(f"TANH {kind}", unary("TANH", kind, scale=1 / 128, zero=0 if kind == "int8" else 128))
    last = S.SoftmaxOptionsT(beta=1.0)
    add(f"SOFTMAX {kind}", unary("SOFTMAX", kind, last, scale=1 / 256, zero=-128 if kind == "int8" else 0))
    add(f"LEAKY_RELU {kind}", unary("LEAKY_RELU", kind, S.LeakyReluOptionsT(alpha=0.2)))
    add(f"HARD_SWISH {kind}", unary("HARD_SWISH", kind, scale=0.04, version=1))
    for name in ("RELU", "RELU6"):
        add(f"{name} {kind}", unary(name, kind))
        add(f"{name} {kind} on the same grid", unary(name, kind, kept=True))
add("LOGISTIC int16", unary("LOGISTIC", "int16", scale=1 / 32768, zero=0), steps=2)
add("TANH int16", unary("TANH", "int16", scale=1 / 32768, zero=0), steps=2)
add("SOFTMAX int8 beta", unary("SOFTMAX", "int8", S.SoftmaxOptionsT(beta=0.4), scale=1 / 256, zero=-128))
add("LOG_SOFTMAX int8", unary("LOG_SOFTMAX", "int8", scale=16 / 256, zero=127, version=2))
add("ELU int8", unary("ELU", "int8", version=1))
add("GELU int8", unary("GELU", "int8", S.GeluOptionsT()))
add("ABS int8", unary("ABS", "int8", version=2))
add("EXP int16", unary("EXP", "int16", scale=0.02, zero=0))
add("GELU int16", unary("GELU", "int16", S.GeluOptionsT(), scale=0.0002, zero=0))
add("GELU int16 by tanh", unary("GELU", "int16", S.GeluOptionsT(approximate=True), scale=0.0002, zero=0))
add("EXP int8", unary("EXP", "int8", scale=2.0, zero=-128, version=2))
add("L2_NORMALIZATION int8", unary("L2_NORMALIZATION", "int8", S.L2NormOptionsT(), scale=1 / 128, zero=0, version=2))


def positive(name: str, version: int):
    def build(f: File, n: int) -> int:
        x = f.input((n, 300), "int16", quantization=q(0.0003))
        y = op(f, "MAXIMUM", [x, f.constant(np.int16([1]), quantization=q(0.0003))], "int16", q(0.0003), (n, 300), version=2)
        return op(f, name, [y], "int16", q(0.0003), (n, 300), version=version)

    return build


add("LOG int16", positive("LOG", 2))
add("RSQRT int16", positive("RSQRT", 3))


def prelu(f: File, n: int) -> int:
    x = f.input((n, 3, 5, 4), "int8", quantization=grid("int8"))
    alpha = f.constant(ints((1, 1, 4)), quantization=q(0.01, 4))
    return op(f, "PRELU", [x, alpha], "int8", out(f, "int8", 0.06), (n, 3, 5, 4), version=1)


add("PRELU int8", prelu)

# Windows and reductions


def pool(name: str, kind: str, activation: int = 0):
    def build(f: File, n: int) -> int:
        x = f.input((n, 6, 5, 4), kind, quantization=grid(kind))
        options = S.Pool2DOptionsT(
            padding=SAME, strideH=2, strideW=2, filterHeight=3, filterWidth=2, fusedActivationFunction=activation
        )
        return op(f, name, [x], kind, grid(kind), (n, 3, 3, 4), options=options, version=2)

    return build


for kind, activation in itertools.product(("int8", "uint8", "int16"), (0, RELU)):
    add(f"AVERAGE_POOL_2D {kind} act{activation}", pool("AVERAGE_POOL_2D", kind, activation))
    add(f"MAX_POOL_2D {kind} act{activation}", pool("MAX_POOL_2D", kind, activation))


def reduction(name: str, kind: str, scale: float, keep: bool):
    def build(f: File, n: int) -> int:
        x = f.input((n, 6, 5, 4), kind, quantization=grid(kind))
        axes = f.constant(np.asarray([1, 2], np.int32))
        shape = (n, 1, 1, 4) if keep else (n, 4)
        quantization = grid(kind) if name.startswith("REDUCE") else grid(kind, scale)
        return op(f, name, [x, axes], kind, quantization, shape, options=S.ReducerOptionsT(keepDims=keep), version=2)

    return build


for kind, keep in itertools.product(("int8", "uint8", "int16"), (True, False)):
    add(f"MEAN {kind}{' keep' if keep else ''}", reduction("MEAN", kind, 0.03, keep))
for kind in ("int8", "uint8"):
    add(f"SUM {kind}", reduction("SUM", kind, 0.8, False))
    add(f"REDUCE_MAX {kind}", reduction("REDUCE_MAX", kind, 0.05, False))
    add(f"REDUCE_MIN {kind}", reduction("REDUCE_MIN", kind, 0.05, True))


def resize(name: str, options, kind="int8", target=(7, 9)):
    def build(f: File, n: int) -> int:
        x = f.input((n, 4, 5, 3), kind, quantization=grid(kind))
        size = f.constant(np.asarray(target, np.int32))
        return op(f, name, [x, size], kind, grid(kind), (n, *target, 3), options=options)

    return build


for aligned, half in ((False, False), (True, False), (False, True)):
    how = "aligned" if aligned else "half pixel" if half else "plain"
    both = {"alignCorners": aligned, "halfPixelCenters": half}
    bilinear = S.ResizeBilinearOptionsT(**both)
    add(f"RESIZE_BILINEAR int8 {how}", resize("RESIZE_BILINEAR", bilinear))
    for target in ((3, 2), (17, 31)):
        add(f"RESIZE_BILINEAR int16 {how} to {target}", resize("RESIZE_BILINEAR", bilinear, "int16", target))
    add(f"RESIZE_NEAREST_NEIGHBOR int8 {how}", resize("RESIZE_NEAREST_NEIGHBOR", S.ResizeNearestNeighborOptionsT(**both)))

# What moves elements


def moved(name: str, more: Callable[[File, int], list[int]], shape: Callable[[int], tuple], options=None, version=2, kind="int8"):
    def build(f: File, n: int) -> int:
        x = f.input((n, 4, 6, 3), kind, quantization=grid(kind))
        return op(f, name, [x, *more(f, n)], kind, grid(kind), shape(n), options=options, version=version)

    return build


def const(*values):
    return lambda f, n: [f.constant(np.asarray(v(n) if callable(v) else v, np.int32)) for v in values]


for kind in ("int8", "uint8", "int16"):
    add(f"RESHAPE {kind}", moved("RESHAPE", const(lambda n: [n, 24, 3]), lambda n: (n, 24, 3), version=1, kind=kind))
    add(f"TRANSPOSE {kind}", moved("TRANSPOSE", const([0, 3, 1, 2]), lambda n: (n, 3, 4, 6), version=2, kind=kind))
add("SLICE int8", moved("SLICE", const([0, 1, 2, 0], [-1, 2, 3, 2]), lambda n: (n, 2, 3, 2)))
MARGINS = const([[0, 0], [1, 2], [0, 1], [0, 0]])
add("PAD int8", moved("PAD", MARGINS, lambda n: (n, 7, 7, 3)))
add("MIRROR_PAD int8", moved("MIRROR_PAD", MARGINS, lambda n: (n, 7, 7, 3), S.MirrorPadOptionsT()))
add("TILE int8", moved("TILE", const([1, 2, 1, 3]), lambda n: (n, 8, 6, 9)))
add("GATHER int8", moved("GATHER", const([2, 0, 1]), lambda n: (n, 3, 6, 3), S.GatherOptionsT(axis=1)))
add("SPACE_TO_DEPTH int8", moved("SPACE_TO_DEPTH", const(), lambda n: (n, 2, 3, 12), S.SpaceToDepthOptionsT(blockSize=2)))
add(
    "STRIDED_SLICE int8",
    moved(
        "STRIDED_SLICE",
        const(lambda n: [0, 3, 0, 0], lambda n: [n, 0, 6, 2], [1, -2, 2, 1]),
        lambda n: (n, 2, 3, 2),
        S.StridedSliceOptionsT(),
    ),
)
add("CAST int8 to float32", lambda f, n: f.op("CAST", [f.input((n, 3), "int8", quantization=grid("int8"))], "float32"))


def joined(kind: str, alike: bool):
    def build(f: File, n: int) -> int:
        x = f.input((n, 3, 2), kind, quantization=grid(kind))
        y = f.input((n, 3, 4), kind, quantization=grid(kind) if alike else q(0.02, middle(kind) - 9))
        options = S.ConcatenationOptionsT(axis=2)
        return op(f, "CONCATENATION", [x, y], kind, grid(kind), (n, 3, 6), options=options, version=2)

    return build


add("CONCATENATION int8", joined("int8", True))
add("CONCATENATION uint8", joined("uint8", True))
add("CONCATENATION uint8, grids of their own", joined("uint8", False))


def copied_to_another_grid(f: File, n: int) -> int:
    x = f.input((n, 6), "int8", quantization=q(0.05, 3))
    shape = f.constant(np.asarray([n, 2, 3], np.int32))
    y = op(f, "RESHAPE", [x, shape], "int8", q(0.09, -20), (n, 2, 3), version=1)
    return f.op("DEQUANTIZE", [y], "float32", version=2)


add("RESHAPE int8 that says its integers stand for something else", copied_to_another_grid)

# From one kind of number to another


def requantised(before: str, after: str, scale: float = 0.04):
    def build(f: File, n: int) -> int:
        quantization = None if before == "float32" else grid(before)
        x = f.input((n, 3, 5), before, quantization=quantization)
        return op(f, "QUANTIZE", [x], after, q(scale, 0 if after in ("int16", "int32") else middle(after)), (n, 3, 5), version=2)

    return build


for before, after in [("float32", "int8"), ("float32", "uint8"), ("int8", "uint8"), ("uint8", "int8"), ("int8", "int8")]:
    add(f"QUANTIZE {before} to {after}", requantised(before, after))
add("QUANTIZE float32 to int16", requantised("float32", "int16", 0.0002))
add("QUANTIZE int16 to int32", requantised("int16", "int32", 1e-7), steps=8)
for kind in ("int8", "uint8", "int16"):
    add(
        f"DEQUANTIZE {kind}",
        lambda f, n, kind=kind: f.op("DEQUANTIZE", [f.input((n, 3), kind, quantization=grid(kind))], "float32", version=3),
    )


def arg_max(f: File, n: int) -> int:
    x = f.input((n, 9), "int8", quantization=grid("int8"))
    return f.op("ARG_MAX", [x, f.constant(np.asarray(1, np.int32))], "int32", options=S.ArgMaxOptionsT(outputType=2), version=2)


add("ARG_MAX int8", arg_max)


def compared(f: File, n: int) -> int:
    x = f.input((n, 9), "int8", quantization=grid("int8"))
    y = f.input((n, 9), "int8", quantization=grid("int8"))
    return f.op("LESS", [x, y], "bool", options=S.LessOptionsT(), version=2)


add("LESS int8", compared)

RUNS = [pytest.param(case, batch, id=f"{case.id} n={batch}") for case in CASES for batch in (1, 3)]


def made(case: Case, batch: int) -> bytes:
    file = File()
    outputs = case.build(file, batch)
    return file.finish(*(outputs if isinstance(outputs, list) else [outputs]))


def feeds_for(signature) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    feeds = {}
    for spec in signature.inputs:
        shape = spec.concrete()
        if spec.dtype.startswith("float"):
            feeds[spec.name] = rng.uniform(-4, 4, shape).astype(spec.dtype)
        else:
            limits = np.iinfo(spec.dtype)
            feeds[spec.name] = rng.integers(limits.min, limits.max + 1, shape).astype(spec.dtype)
    return feeds


def assert_within(got: dict[str, np.ndarray], want: dict[str, np.ndarray], steps: int) -> None:
    assert list(got) == list(want)
    for name, expected in want.items():
        assert (got[name].shape, got[name].dtype) == (expected.shape, expected.dtype)
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(got[name], expected, rtol=0, atol=1e-5 * np.abs(expected).max() + 1e-6)
        elif expected.dtype.kind == "b":
            np.testing.assert_array_equal(got[name], expected)
        else:
            apart = np.abs(got[name].astype(np.int64) - expected.astype(np.int64))
            assert apart.max() <= steps
            assert (apart > 0).mean() <= 0.25 or apart.size < 16 or expected.dtype.itemsize > 1


@pytest.mark.parametrize(("case", "batch"), RUNS)
def test_onnx(case: Case, batch: int):
    data = made(case, batch)
    hub = convert(data)
    feeds = feeds_for(hub.signature)
    with LiteRTRunner(data) as runner:
        want = runner.run(feeds)
    assert_within(onnx_outputs(hub, feeds), want, case.steps)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_torch(case: Case):
    data = made(case, 3)
    converter = Converter(data, verify=False)
    feeds = feeds_for(converter.signature)
    with LiteRTRunner(data) as runner:
        want = runner.run(feeds)
    with torch.no_grad():
        outputs = converter.to_torch()(*map(torch.from_numpy, feeds.values()))
    values = outputs if isinstance(outputs, tuple) else (outputs,)
    assert_within(dict(zip(want, (v.numpy() for v in values), strict=True)), want, case.steps)


def test_names_are_those_of_the_file():
    hub = convert(made(next(c for c in CASES if c.id == "CONV_2D int8 act1 per channel"), 1))
    graph = hub.model.graph
    (quantize,) = [n for n in graph if n.op_type == "QuantizeLinear"]
    assert quantize.outputs[0].name == f"{hub.signature.output_names[0]}__2"  # with the channels first
    assert hub.signature.outputs[0].quantization.zero_point == (5,)
    weights = {i.name: i.const_value for i in graph.initializers.values() if i.const_value.size > 1}
    assert {t.dtype for t in weights.values()} == {ir.DataType.INT8, ir.DataType.INT32, ir.DataType.FLOAT}


def test_an_activation_that_the_grid_sees_to_is_left_out():
    f = File()
    x = f.input((1, 3, 5, 4), "int8", quantization=q(0.05, 3))
    y = op(f, "ADD", [x, x], "int8", q(6 / 255, -128), (1, 3, 5, 4), options=S.AddOptionsT(fusedActivationFunction=RELU6))
    kinds = [n.op_type for n in convert(f.finish(y)).model.graph]
    assert kinds == ["DequantizeLinear", "Add", "QuantizeLinear"]
