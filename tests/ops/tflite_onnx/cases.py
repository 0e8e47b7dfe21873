"""The table of operator cases: each writes a small file and says, where it matters, what to feed and what to expect."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as S

from tests.ops.tflite_onnx.files import File

CASES: list[Case] = []


@dataclass(frozen=True)
class Case:
    """One file and how it is checked.

    Attributes:
        build: writes the file and gives its outputs; its argument says the batch.
        low: least value that is fed.
        high: largest value that is fed.
        transposes: number of Transposes that the graph may have, where that is the point.
        batches: the batches at which it is built.
        reference: compare with LiteRT's reference kernels, where the default ones are known to round otherwise.
        expect: what the outputs should be for the inputs, where LiteRT has no kernel that says it.
        free: it is right for another batch than that of the file, too.
    """

    id: str
    build: Callable[[File, int], int | list[int]]
    low: float = -3.0
    high: float = 3.0
    transposes: int | None = None
    batches: tuple[int, ...] = (1, 3)
    reference: bool = False
    expect: Callable[..., Any] | None = None
    free: bool = True


def add(name: str, build: Callable[[File, int], int | list[int]], **how) -> None:
    CASES.append(Case(name, build, **how))


def weights(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.asarray(values, np.int32)


# Convolutions

SIZES = {"h9w6c4": (9, 6, 4), "equal": (4, 4, 4), "h1": (1, 7, 2)}


def conv(size, padding, stride, dilation, activation, bias=True, out=5, kernel=(3, 2)):
    def build(f: File, n: int) -> int:
        h, w, c = SIZES[size]
        x = f.input((n, h, w, c))
        operands = [x, f.constant(weights(out, *kernel, c)), *([f.constant(weights(out))] if bias else [])]
        options = S.Conv2DOptionsT(
            padding=padding,
            strideH=stride[0],
            strideW=stride[1],
            dilationHFactor=dilation[0],
            dilationWFactor=dilation[1],
            fusedActivationFunction=activation,
        )
        return f.op("CONV_2D", operands, options=options)

    return build


for size, padding, stride, dilation in itertools.product(SIZES, (0, 1), ((1, 1), (2, 3)), ((1, 1), (2, 1))):
    if size == "h1" and (padding == 1 or dilation != (1, 1)):
        continue
    if padding == 1 and size == "equal" and dilation != (1, 1):
        continue
    add(
        f"CONV_2D {size} {'valid' if padding else 'same'} stride{stride} dilation{dilation}",
        conv(size, padding, stride, dilation, 0),
        transposes=2,
    )
for activation in range(4):
    add(f"CONV_2D activation {activation}", conv("h9w6c4", 0, (1, 1), (1, 1), activation))
add("CONV_2D one filter", conv("h9w6c4", 0, (1, 1), (1, 1), 0, out=1, kernel=(1, 1)))


def grouped(f: File, n: int) -> int:
    x = f.input((n, 5, 6, 6))
    options = S.Conv2DOptionsT(padding=0, strideH=1, strideW=1)
    return f.op("CONV_2D", [x, f.constant(weights(4, 3, 3, 3)), f.constant(weights(4))], options=options, version=6)


add("CONV_2D grouped", grouped)


def conv_runtime_filter(f: File, n: int) -> int:
    x, w = f.input((n, 5, 6, 3)), f.input((4, 3, 3, 3))
    options = S.Conv2DOptionsT(padding=0, strideH=1, strideW=1)
    return f.op("CONV_2D", [x, w, f.constant(weights(4))], options=options)


add("CONV_2D filter computed", conv_runtime_filter)


def depthwise(multiplier, padding, stride, dilation, size="h9w6c4"):
    def build(f: File, n: int) -> int:
        h, w, c = SIZES[size]
        x = f.input((n, h, w, c))
        options = S.DepthwiseConv2DOptionsT(
            padding=padding,
            strideH=stride,
            strideW=stride,
            depthMultiplier=multiplier,
            dilationHFactor=dilation,
            dilationWFactor=dilation,
            fusedActivationFunction=1,
        )
        operands = [x, f.constant(weights(1, 3, 3, c * multiplier)), f.constant(weights(c * multiplier))]
        return f.op("DEPTHWISE_CONV_2D", operands, options=options, version=2)

    return build


for multiplier, padding, (stride, dilation) in itertools.product((1, 2), (0, 1), ((1, 1), (2, 1), (1, 2))):
    add(
        f"DEPTHWISE_CONV_2D x{multiplier} {'valid' if padding else 'same'} stride{stride} dilation{dilation}",
        depthwise(multiplier, padding, stride, dilation),
        transposes=2,
    )


def transpose_conv(padding, stride, kernel, size, bias=True, activation=0):
    def build(f: File, n: int) -> int:
        x = f.input((n, 4, 5, 3))
        shape = f.constant(ints(n, *size, 2))
        operands = [shape, f.constant(weights(2, *kernel, 3)), x, *([f.constant(weights(2))] if bias else [])]
        options = S.TransposeConvOptionsT(padding=padding, strideH=stride, strideW=stride, fusedActivationFunction=activation)
        return f.op("TRANSPOSE_CONV", operands, options=options, version=4 if activation else 3 if bias else 1)

    return build


for name, arguments in {
    "same stride2": (0, 2, (3, 3), (8, 10)),
    "same stride2 odd": (0, 2, (3, 3), (7, 9)),
    "same stride2 kernel2": (0, 2, (2, 2), (8, 10)),
    "same stride2 kernel4": (0, 2, (4, 4), (8, 10)),
    "same stride1": (0, 1, (3, 2), (4, 5)),
    "same stride3 kernel2": (0, 3, (2, 2), (12, 15)),
    "valid stride2": (1, 2, (3, 3), (9, 11)),
    "valid stride2 larger": (1, 2, (3, 3), (10, 12)),
    "valid stride1": (1, 1, (3, 2), (6, 6)),
    "no bias": (0, 2, (3, 3), (8, 10), False),
    "relu": (0, 2, (3, 3), (8, 10), True, 1),
}.items():
    add(f"TRANSPOSE_CONV {name}", transpose_conv(*arguments), transposes=2)


def mediapipe_transpose_conv(padding, stride_w, stride_h, kernel, size):
    def build(f: File, n: int) -> int:
        x = f.input((n, 4, 5, 3))
        operands = [x, f.constant(weights(2, *kernel, 3)), f.constant(weights(2))]
        options = struct.pack("<iii", padding, stride_w, stride_h)
        return f.op(None, operands, custom="Convolution2DTransposeBias", options=options, shapes=[(n, *size, 2)])

    return build


for arguments in (
    (1, 2, 2, (2, 2), (8, 10)),
    (1, 2, 2, (3, 3), (8, 10)),
    (1, 2, 2, (4, 4), (8, 10)),
    (2, 2, 2, (3, 3), (9, 11)),
    (1, 1, 1, (3, 3), (4, 5)),
    (1, 2, 1, (3, 4), (4, 10)),
):
    add(f"Convolution2DTransposeBias {arguments}", mediapipe_transpose_conv(*arguments), batches=(1,))

for padding, stride, dilation in ((0, 1, 1), (0, 2, 1), (1, 1, 1), (1, 2, 1)):

    def conv_3d(f: File, n: int, padding=padding, stride=stride, dilation=dilation) -> int:
        options = S.Conv3DOptionsT(
            padding=padding, strideD=stride, strideH=stride, strideW=1, dilationDFactor=dilation, fusedActivationFunction=1
        )
        return f.op(
            "CONV_3D", [f.input((n, 4, 5, 6, 3)), f.constant(weights(2, 3, 3, 3, 4)), f.constant(weights(4))], options=options
        )

    add(f"CONV_3D {'valid' if padding else 'same'} {stride} {dilation}", conv_3d, transposes=2)

# Pooling

for op, padding, (kernel, stride), activation in itertools.product(
    ("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"), (0, 1), ((2, 2), (3, 2), (3, 1), (1, 2)), (0, 1)
):

    def pool(f: File, n: int, op=op, padding=padding, kernel=kernel, stride=stride, activation=activation) -> int:
        x = f.input((n, 7, 6, 3))
        options = S.Pool2DOptionsT(
            padding=padding,
            strideH=stride,
            strideW=stride,
            filterHeight=kernel,
            filterWidth=kernel,
            fusedActivationFunction=activation,
        )
        return f.op(op, [x], options=options)

    add(f"{op} {'valid' if padding else 'same'} k{kernel} s{stride} a{activation}", pool, transposes=2)

add("L2_NORMALIZATION", lambda f, n: f.op("L2_NORMALIZATION", [f.input((n, 3, 4))], options=S.L2NormOptionsT()))
add(
    "LOCAL_RESPONSE_NORMALIZATION",
    lambda f, n: f.op(
        "LOCAL_RESPONSE_NORMALIZATION",
        [f.input((n, 3, 4, 7))],
        options=S.LocalResponseNormalizationOptionsT(radius=2, bias=1.0, alpha=0.3, beta=0.75),
    ),
)

# Element-wise

OPTIONS = {"ADD": S.AddOptionsT, "SUB": S.SubOptionsT, "MUL": S.MulOptionsT, "DIV": S.DivOptionsT}
SHAPES = {
    "equal": ((2, 3, 4), (2, 3, 4)),
    "cube": ((3, 3, 3), (3, 3)),
    "channels": ((2, 3, 4, 5), (5,)),
    "matrix": ((2, 3, 4, 5), (4, 5)),
    "middle": ((2, 3, 4, 5), (2, 1, 4, 1)),
    "first is smaller": ((5,), (2, 3, 4, 5)),
    "scalar": ((2, 3), ()),
}
for op, shape in itertools.product(("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"), SHAPES):
    for constant in (False, True):

        def binary(f: File, n: int, op=op, shape=shape, constant=constant) -> int:
            left, right = SHAPES[shape]
            y = f.constant(np.abs(weights(*right)) + 0.5) if constant else f.input(right)
            return f.op(op, [f.input(left), y], options=OPTIONS[op]() if op in OPTIONS else None)

        add(f"{op} {shape} {'constant' if constant else 'computed'}", binary, batches=(1,), low=0.3)

for op, activation in itertools.product(OPTIONS, range(1, 4)):
    add(
        f"{op} activation {activation}",
        lambda f, n, op=op, activation=activation: f.op(
            op, [f.input((n, 3)), f.input((n, 3))], options=OPTIONS[op](fusedActivationFunction=activation)
        ),
        low=-9.0,
        high=9.0,
    )


def in_channels_first(op, other, constant, options=None, dtypes="float32"):
    """A convolution's result and an operand of a lower rank."""

    def build(f: File, n: int) -> int:
        x = conv("equal", 0, (1, 1), (1, 1), 0, out=4)(f, n)
        y = f.constant(weights(*other)) if constant else f.input(other)
        return f.op(op, [x, y], dtypes, options=options)

    return build


for other in ((4,), (4, 4), (1, 1, 4), (4, 1, 1), (1, 4, 1), (1,), (), (1, 4, 4, 1), (1, 1, 1, 4)):
    for constant in (False, True):
        add(
            f"ADD channels first with {other} {'constant' if constant else 'computed'}",
            in_channels_first("ADD", other, constant, S.AddOptionsT()),
        )
        if other and constant and len(other) < 4:
            add(f"PRELU channels first with {other}", in_channels_first("PRELU", other, constant))
add("GREATER channels first", in_channels_first("GREATER", (4, 4), False, dtypes="bool"))


def two_layouts(f: File, n: int) -> int:
    """Operands that stand in different orders: one Transpose in, one out, one for the operand."""
    x = conv("equal", 0, (1, 1), (1, 1), 0, out=4)(f, n)
    return f.op("MUL", [x, f.input((n, 4, 4, 4))], options=S.MulOptionsT())


add("MUL of two orders", two_layouts, transposes=3)

for op in ("FLOOR_DIV", "FLOOR_MOD"):
    for dtype in ("float32", "int32"):
        add(
            f"{op} {dtype}",
            lambda f, n, op=op, dtype=dtype: f.op(
                op, [f.input((n, 40), dtype), f.constant(np.asarray([-3], dtype))], dtype, version=1
            ),
            low=-9,
            high=9,
        )
for op, dtype in itertools.product(("ADD", "SUB", "MUL", "DIV"), ("int32", "int64")):
    if (op, dtype) == ("DIV", "int64"):
        continue
    add(
        f"{op} {dtype}",
        lambda f, n, op=op, dtype=dtype: f.op(
            op, [f.input((n, 5), dtype), f.constant(np.asarray([3, -2, 1, 7, -5], dtype))], dtype, options=OPTIONS[op]()
        ),
        low=-20,
        high=20,
    )
add("POW", lambda f, n: f.op("POW", [f.input((n, 5)), f.input((1,))]), low=0.1)
add("ADD_N", lambda f, n: f.op("ADD_N", [f.input((n, 5)), f.input((n, 5)), f.input((n, 5))]))
for op in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
    for dtype in ("float32", "int32", "int64"):
        add(
            f"{op} {dtype}",
            lambda f, n, op=op, dtype=dtype: f.op(op, [f.input((n, 2, 9), dtype), f.input((9,), dtype)], "bool"),
            low=-2,
            high=2,
        )
for op in ("LOGICAL_AND", "LOGICAL_OR"):
    add(op, lambda f, n, op=op: f.op(op, [f.input((n, 5), "bool"), f.input((n, 5), "bool")], "bool"))
add("LOGICAL_NOT", lambda f, n: f.op("LOGICAL_NOT", [f.input((n, 5), "bool")], "bool"))
add("SELECT_V2", lambda f, n: f.op("SELECT_V2", [f.input((4,), "bool"), f.input((n, 3, 4)), f.input((1, 3, 1))]))
add("SELECT", lambda f, n: f.op("SELECT", [f.input((n, 4), "bool"), f.input((n, 4)), f.input((n, 4))]))
add("SELECT rows", lambda f, n: f.op("SELECT", [f.input((5,), "bool"), f.input((5, 3, 2)), f.input((5, 3, 2))]))

for op in ("ABS", "NEG", "EXP", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "SQUARE", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"):
    add(op, lambda f, n, op=op: f.op(op, [f.input((n, 4, 5))]), low=-8.0, high=8.0)
for op in ("ELU", "LOGISTIC", "TANH", "HARD_SWISH", "LOG_SOFTMAX", "SIGN", "ZEROS_LIKE"):
    add(op, lambda f, n, op=op: f.op(op, [f.input((n, 4, 5))]), low=-5.0, high=5.0)
for op in ("LOG", "SQRT", "RSQRT"):
    add(op, lambda f, n, op=op: f.op(op, [f.input((n, 4, 5))]), low=0.1)
add(
    "ROUND halves",
    lambda f, n: f.op(
        "ROUND",
        [
            f.op(
                "FLOOR_DIV",
                [
                    f.op("MUL", [f.input((n, 9)), f.constant(np.float32([2]))], options=S.MulOptionsT()),
                    f.constant(np.float32([1])),
                ],
                version=2,
            )
        ],
    ),
    low=-9,
    high=9,
)
for alpha in (0.0, 0.2):
    add(f"LEAKY_RELU {alpha}", lambda f, n, a=alpha: f.op("LEAKY_RELU", [f.input((n, 5))], options=S.LeakyReluOptionsT(alpha=a)))
for approximate in (False, True):
    add(
        f"GELU {approximate}",
        lambda f, n, a=approximate: f.op("GELU", [f.input((n, 5))], options=S.GeluOptionsT(approximate=a)),
    )
for beta, shape in itertools.product((1.0, 0.5), ((3,), (4, 5), (2, 3, 3, 4))):
    add(
        f"SOFTMAX beta {beta} {shape}",
        lambda f, n, b=beta, s=shape: f.op("SOFTMAX", [f.input((n, *s))], options=S.SoftmaxOptionsT(beta=b)),
    )
add(
    "SOFTMAX channels first",
    lambda f, n: f.op("SOFTMAX", [conv("h9w6c4", 0, (1, 1), (1, 1), 0)(f, n)], options=S.SoftmaxOptionsT(beta=1.0)),
    transposes=2,
)

# Matrix products


def dense(shape, units, bias, keep, activation=0, computed=False):
    def build(f: File, n: int) -> int:
        k = shape[-1] if keep else int(np.prod(shape))
        x = f.input((n, *shape))
        w = f.input((units, k)) if computed else f.constant(weights(units, k))
        operands = [x, w, f.constant(weights(units)) if bias else -1]
        options = S.FullyConnectedOptionsT(keepNumDims=keep, fusedActivationFunction=activation)
        return f.op("FULLY_CONNECTED", operands, options=options, version=5)

    return build


for shape, keep, bias in itertools.product(((6,), (3, 6), (2, 3, 4)), (False, True), (False, True)):
    add(f"FULLY_CONNECTED {shape} keep={keep} bias={bias}", dense(shape, 5, bias, keep))
add("FULLY_CONNECTED one unit", dense((6,), 1, True, False))
add("FULLY_CONNECTED relu6", dense((6,), 5, True, False, 3))
add("FULLY_CONNECTED computed weights", dense((6,), 5, True, False, computed=True))
add("FULLY_CONNECTED computed weights kept", dense((3, 6), 5, True, True, computed=True))


def dense_after_conv(f: File, n: int) -> int:
    x = conv("h9w6c4", 0, (2, 2), (1, 1), 0)(f, n)
    flat = f.op("RESHAPE", [x, f.constant(ints(-1, 5 * 3 * 5))], options=S.ReshapeOptionsT())
    return f.op("FULLY_CONNECTED", [flat, f.constant(weights(3, 75)), f.constant(weights(3))], options=S.FullyConnectedOptionsT())


add("FULLY_CONNECTED after CONV_2D", dense_after_conv, transposes=2)

for (left, right), (adj_x, adj_y) in itertools.product(
    (((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((1, 2, 3, 4), (5, 1, 4, 3)), ((2, 3, 3), (2, 3, 3))),
    itertools.product((False, True), repeat=2),
):
    for constant in (False, True):

        def batch_matmul(f: File, n: int, left=left, right=right, adj_x=adj_x, adj_y=adj_y, constant=constant) -> int:
            swap = lambda s, adj: (*s[:-2], s[-1], s[-2]) if adj else s  # noqa: E731
            right = swap(right, adj_y)
            y = f.constant(weights(*right)) if constant else f.input(right)
            options = S.BatchMatMulOptionsT(adjX=adj_x, adjY=adj_y)
            return f.op("BATCH_MATMUL", [f.input(swap(left, adj_x)), y], options=options)

        add(f"BATCH_MATMUL {left} {right} {adj_x} {adj_y} {'constant' if constant else ''}", batch_matmul, batches=(1,))

# Reductions

REDUCTIONS = ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN")
for op, axes, keep in itertools.product(REDUCTIONS, ((1,), (1, 2), (-1,), (0, 3), (0, 1, 2, 3)), (False, True)):
    add(
        f"{op} {axes} keep={keep}",
        lambda f, n, op=op, axes=axes, keep=keep: f.op(
            op, [f.input((n, 3, 4, 5)), f.constant(ints(*axes))], options=S.ReducerOptionsT(keepDims=keep)
        ),
        low=0.5,
        high=1.5,
    )
    if op in ("MEAN", "REDUCE_MAX"):
        add(
            f"{op} channels first {axes} keep={keep}",
            lambda f, n, op=op, axes=axes, keep=keep: f.op(
                op,
                [conv("h9w6c4", 0, (1, 1), (1, 1), 0)(f, n), f.constant(ints(*axes))],
                options=S.ReducerOptionsT(keepDims=keep),
            ),
        )
for op in ("REDUCE_ANY", "REDUCE_ALL"):
    add(
        op,
        lambda f, n, op=op: f.op(
            op, [f.input((n, 3, 4), "bool"), f.constant(ints(1))], "bool", options=S.ReducerOptionsT(keepDims=False)
        ),
    )
for op, axis, dtype in itertools.product(("ARG_MAX", "ARG_MIN"), (-1, 0, 1), ("int32", "int64")):
    options = S.ArgMaxOptionsT if op == "ARG_MAX" else S.ArgMinOptionsT
    add(
        f"{op} {axis} {dtype}",
        lambda f, n, op=op, axis=axis, dtype=dtype, options=options: f.op(
            op, [f.input((n, 3, 4)), f.constant(np.int32(axis))], dtype, options=options(outputType=2 if dtype == "int32" else 4)
        ),
    )
add(
    "ARG_MAX channels first",
    lambda f, n: f.op(
        "ARG_MAX",
        [conv("h9w6c4", 0, (1, 1), (1, 1), 0)(f, n), f.constant(np.int32(3))],
        "int32",
        options=S.ArgMaxOptionsT(outputType=2),
    ),
    transposes=1,
)
add("TOPK_V2", lambda f, n: f.op("TOPK_V2", [f.input((n, 3, 9)), f.constant(np.int32(4))], ["float32", "int32"]))
for exclusive, reverse in itertools.product((False, True), repeat=2):
    add(
        f"CUMSUM {exclusive} {reverse}",
        lambda f, n, e=exclusive, r=reverse: f.op(
            "CUMSUM", [f.input((n, 5)), f.constant(np.int32(1))], options=S.CumsumOptionsT(exclusive=e, reverse=r)
        ),
    )
