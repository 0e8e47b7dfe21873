"""The table of operator cases, continued: StableHLO, and windows. What LiteRT has no kernel for is said in numpy."""

from __future__ import annotations

import itertools

import numpy as np
from ai_edge_litert import schema_py_generated as S
from flatbuffers import flexbuffers

from tests.ops.tflite_onnx.cases import add, ints, weights
from tests.ops.tflite_onnx.cases_shapes import image
from tests.ops.tflite_onnx.files import File


def body(f: File, op: str | None, dtype: str = "float32", swapped: bool = False) -> int:
    """A subgraph of two scalars: an operator of them, or the second one."""

    def build() -> int:
        x, y = f.input((), dtype), f.input((), dtype)
        return y if op is None else f.op(op, [y, x] if swapped else [x, y], dtype, shapes=[()])

    return f.subgraph(build)


# Element by element

PAIRS = {"ADD": np.add, "MULTIPLY": np.multiply, "MAXIMUM": np.maximum, "MINIMUM": np.minimum}
TRUTHS = {"ADD": np.logical_or, "MULTIPLY": np.logical_and, "MAXIMUM": np.logical_or, "MINIMUM": np.logical_and}
for op, dtype in itertools.product(PAIRS, ("float32", "float16", "int8", "int16", "int32", "int64", "uint8", "uint32", "bool")):
    add(
        f"STABLEHLO_{op} {dtype}",
        lambda f, n, op=op, d=dtype: f.op(f"STABLEHLO_{op}", [f.input((n, 3, 4), d), f.input((n, 3, 4), d)], d),
        low=0 if dtype.startswith("u") else -9,
        high=9,
    )
add("STABLEHLO_ADD channels first", lambda f, n: f.op("STABLEHLO_ADD", [image(f, n), f.input((n, 9, 6, 4))]), transposes=3)
for dtype in ("bool", "int8", "int32", "int64", "uint8"):
    add(
        f"STABLEHLO_AND {dtype}",
        lambda f, n, d=dtype: f.op("STABLEHLO_AND", [f.input((n, 9), d), f.input((n, 9), d)], d),
        low=0,
        high=99,
    )
for dtype in ("int8", "int16", "int32"):
    count = np.arange(9, dtype=dtype) % 7
    add(
        f"STABLEHLO_SHIFT_LEFT {dtype}",
        lambda f, n, d=dtype: f.op(
            "STABLEHLO_SHIFT_LEFT", [f.input((n, 9), d), f.constant(np.tile(np.arange(9, dtype=d) % 7, (n, 1)))], d
        ),
        low=-120,
        high=120,
        free=False,
    )


def plain(name, expect, *dtypes, out=None, low=-3.0, high=3.0, options=None):
    """Operands of one shape and an operator that LiteRT does not know."""
    for dtype in dtypes:
        count = expect.nin if isinstance(expect, np.ufunc) else expect.__code__.co_argcount

        def build(f: File, n: int, dtype=dtype, count=count) -> int:
            operands = [f.input((n, 3, 4), dtype) for _ in range(count)]
            return f.op(f"STABLEHLO_{name}", operands, out or dtype, options=options, shapes=[(n, 3, 4)])

        label = f" {options.comparisonDirection}" if options else ""
        add(f"STABLEHLO_{name} {dtype}{label}", build, low=low, high=high, expect=expect)


def logistic(x):
    return (1 / (1 + np.exp(-x))).astype(x.dtype)


def rsqrt(x):
    return (1 / np.sqrt(x)).astype(x.dtype)


def trunc_divide(x, y):
    return np.trunc(x / y).astype(x.dtype)


plain("SUBTRACT", np.subtract, "float32", "int32", "int64", "int8")
plain("DIVIDE", np.divide, "float32", low=0.5)
plain("DIVIDE", trunc_divide, "int32", "int64", low=1, high=60)
plain("REMAINDER", np.fmod, "float32", "int32", "int64", low=1, high=60)
plain("POWER", np.power, "float32", low=0.2)
plain("OR", np.bitwise_or, "int32", "int8", "uint8", low=0, high=99)
plain("OR", np.logical_or, "bool")
plain("LOGISTIC", logistic, "float32")
plain("COSINE", np.cos, "float32")
plain("EXPONENTIAL", np.exp, "float32")
plain("FLOOR", np.floor, "float32")
plain("LOG", np.log, "float32", low=0.1)
plain("TANH", np.tanh, "float32")
plain("ABS", np.abs, "float32", "int32", "int64")
plain("NEGATE", np.negative, "float32", "int32", "int64", "int8")
plain("RSQRT", rsqrt, "float32", low=0.1)
plain("CBRT", np.cbrt, "float32", low=-30, high=30)
COMPARISONS = (np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less)
for number, compare in enumerate(COMPARISONS):
    options = S.StablehloCompareOptionsT(comparisonDirection=number, compareType=1)
    plain("COMPARE", compare, "float32", "int32", "int64", "bool", "int8", out="bool", low=-2, high=2, options=options)


def signed_remainder(f: File, n: int) -> int:
    return f.op("STABLEHLO_REMAINDER", [f.input((n, 9), "int32"), f.constant(ints(-4))], "int32", shapes=[(n, 9)])


add("STABLEHLO_REMAINDER of both signs", signed_remainder, low=-20, high=20, expect=lambda x: np.fmod(x, np.int32(-4)))
add(
    "STABLEHLO_DIVIDE of both signs",
    lambda f, n: f.op("STABLEHLO_DIVIDE", [f.input((n, 9), "int32"), f.constant(ints(-4))], "int32", shapes=[(n, 9)]),
    low=-20,
    high=20,
    expect=lambda x: np.trunc(x / -4).astype(np.int32),
)
for dtype, shape in itertools.product(("float32", "int32", "int16", "bool"), ((), (3, 4))):

    def select(f: File, n: int, dtype=dtype, shape=shape) -> int:
        which = f.input((n, *shape) if shape else (), "bool")
        return f.op("STABLEHLO_SELECT", [which, f.input((n, 3, 4), dtype), f.input((n, 3, 4), dtype)], dtype, shapes=[(n, 3, 4)])

    add(f"STABLEHLO_SELECT {dtype} {shape}", select, expect=np.where)
for dtype in ("float32", "int32", "int8"):

    def clamp(f: File, n: int, dtype=dtype) -> int:
        low, high = f.constant(np.asarray(-1, dtype)), f.constant(np.asarray(2, dtype))
        return f.op("STABLEHLO_CLAMP", [low, f.input((n, 3, 4), dtype), high], dtype, shapes=[(n, 3, 4)])

    add(f"STABLEHLO_CLAMP {dtype}", clamp, low=-5, high=5, expect=lambda x: np.clip(x, x.dtype.type(-1), x.dtype.type(2)))


def saturated(to):
    def expect(x):
        if x.dtype.kind != "f" or np.dtype(to).kind not in "iu":
            return x.astype(to)
        limits = np.iinfo(to)
        return np.clip(np.trunc(x.astype(np.float64)), limits.min, limits.max).astype(to)

    return expect


for before, after in itertools.permutations(("float32", "float16", "int32", "uint8", "int8", "bool", "int64"), 2):
    add(
        f"STABLEHLO_CONVERT {before} to {after}",
        lambda f, n, b=before, a=after: f.op("STABLEHLO_CONVERT", [f.input((n, 9), b)], a, shapes=[(n, 9)]),
        low=0 if before == "uint8" else -120,
        high=120,
        expect=saturated(after),
    )
    if before.startswith("float") and not after.startswith("float"):
        add(
            f"CAST {before} to {after} beyond its range",
            lambda f, n, b=before, a=after: f.op("CAST", [f.input((n, 40), b)], a, options=S.CastOptionsT()),
            low=-5e4 if before == "float16" else -4e9,
            high=5e4 if before == "float16" else 4e9,
        )

# Shapes

for before, after in (((3, 4), ("n", 12)), ((3, 4), ("n", 2, 6)), ((4,), (1, "n", 4)), ((1, 1), ("n",))):

    def stablehlo_reshape(f: File, n: int, before=before, after=after) -> int:
        shape = [n if d == "n" else d for d in after]
        return f.op("STABLEHLO_RESHAPE", [f.input((n, *before))], shapes=[shape])

    add(
        f"STABLEHLO_RESHAPE {before} {after}",
        stablehlo_reshape,
        expect=lambda x, after=after: x.reshape([len(x) if d == "n" else d for d in after]),
        free=after[0] == "n",
    )
for perm in ((0, 2, 1), (2, 0, 1), (0, 1, 2)):
    add(
        f"STABLEHLO_TRANSPOSE {perm}",
        lambda f, n, p=perm: f.op(
            "STABLEHLO_TRANSPOSE",
            [f.input((n, 3, 4))],
            options=S.StablehloTransposeOptionsT(permutation=list(p)),
            shapes=[[(n, 3, 4)[a] for a in p]],
        ),
        expect=lambda x, p=perm: x.transpose(p),
    )
for axis in (0, 1, 2):
    add(
        f"STABLEHLO_CONCATENATE {axis}",
        lambda f, n, a=axis: f.op(
            "STABLEHLO_CONCATENATE",
            [f.input((n, 3, 4)), f.input((n, 3, 4)), f.input((n, 3, 4))],
            options=S.StablehloConcatenateOptionsT(dimension=a),
            shapes=[[d * 3 if i == a else d for i, d in enumerate((n, 3, 4))]],
        ),
        expect=lambda x, y, z, a=axis: np.concatenate([x, y, z], a),
    )
for start, end, step in (((0, 1, 0), (1, 3, 4), (1, 1, 2)), ((0, 0, 3), (1, 3, 4), (1, 2, 1))):
    add(
        f"STABLEHLO_SLICE {start} {end} {step}",
        lambda f, n, s=start, e=end, t=step: f.op(
            "STABLEHLO_SLICE",
            [f.input((n, 3, 4))],
            options=S.StablehloSliceOptionsT(startIndices=list(s), limitIndices=[n, *e[1:]], strides=list(t)),
            shapes=[[n, *(-(-(b - a) // c) for a, b, c in zip(s[1:], e[1:], t[1:], strict=True))]],
        ),
        expect=lambda x, s=start, e=end, t=step: x[:, s[1] : e[1] : t[1], s[2] : e[2] : t[2]],
        free=False,
    )
for before, axes, after in (
    (("n", 4), (0, 2), ("n", 3, 4)),
    (("n", 1, 4), (0, 1, 2), ("n", 3, 4)),
    ((4,), (2,), (3, 3, 4)),
    ((), (), (3, 4)),
    ((3, 2), (1, 0), (2, 3, 4)),
):

    def broadcast(f: File, n: int, before=before, axes=axes, after=after) -> int:
        sizes = [[n if d == "n" else d for d in shape] for shape in (before, after)]
        options = S.StablehloBroadcastInDimOptionsT(broadcastDimensions=list(axes))
        return f.op("STABLEHLO_BROADCAST_IN_DIM", [f.input(sizes[0])], options=options, shapes=[sizes[1]])

    def broadcast_in_numpy(x, axes=axes, after=after):
        shape = [len(x) if d == "n" else d for d in after]
        order = sorted(range(x.ndim), key=lambda a: axes[a])
        x = x.transpose(order)
        return np.broadcast_to(np.expand_dims(x, [a for a in range(len(after)) if a not in axes]), shape)

    add(f"STABLEHLO_BROADCAST_IN_DIM {before} {axes} {after}", broadcast, expect=broadcast_in_numpy)
for axis, dtype in itertools.product((0, 1), ("float32", "int32", "int64")):

    def iota(f: File, n: int, axis=axis, dtype=dtype) -> int:
        numbers = f.op("STABLEHLO_IOTA", [], dtype, options=S.StablehloIotaOptionsT(iotaDimension=axis), shapes=[(3, 4)])
        return f.op("STABLEHLO_SUBTRACT", [f.input((3, 4), dtype), numbers], dtype, shapes=[(3, 4)])

    add(
        f"STABLEHLO_IOTA {axis} {dtype}",
        iota,
        batches=(1,),
        expect=lambda x, a=axis: x - np.broadcast_to(np.arange((3, 4)[a]).astype(x.dtype).reshape(((-1, 1), (1, -1))[a]), (3, 4)),
    )

# Padding and windows

for dtype in ("float32", "int32", "int16", "int8", "bool"):
    for steps in ((1, 1, 1), (1, 2, 3), (2, 1, 1)):
        add(
            f"DILATE {steps} {dtype}",
            lambda f, n, s=steps, d=dtype: f.op(
                "DILATE",
                [f.input((n, 3, 4), d), f.constant(ints(*s)), f.constant(np.asarray(1, d))],
                d,
                options=S.DilateOptionsT(),
            ),
            free=steps[0] == 1,
        )
for low, high, between in (
    ((0, 1, 2), (0, 3, 0), (0, 0, 0)),
    ((0, -1, 0), (0, 0, -2), (0, 0, 0)),
    ((0, 1, 0), (0, 0, 2), (0, 1, 2)),
    ((0, -1, 2), (0, -2, -3), (0, 2, 1)),
    ((1, 0, 0), (1, 0, 0), (1, 0, 0)),
    ((0, 0, 0), (0, 0, 0), (0, 0, 0)),
):
    for dtype in ("float32", "int32", "int8", "bool"):
        add(
            f"STABLEHLO_PAD {low} {high} {between} {dtype}",
            lambda f, n, low=low, high=high, between=between, d=dtype: f.op(
                "STABLEHLO_PAD",
                [f.input((n, 4, 5), d), f.constant(np.asarray(1, d))],
                d,
                options=S.StablehloPadOptionsT(
                    edgePaddingLow=list(low), edgePaddingHigh=list(high), interiorPadding=list(between)
                ),
            ),
            free=not between[0],
        )
add(
    "STABLEHLO_PAD channels first",
    lambda f, n: f.op(
        "STABLEHLO_PAD",
        [image(f, n), f.constant(np.float32(2))],
        options=S.StablehloPadOptionsT(edgePaddingLow=[0, 1, 0, 2], edgePaddingHigh=[0, 0, 1, 0], interiorPadding=[0, 1, 0, 0]),
    ),
    transposes=2,
)
WINDOWS = {
    "plain": ((1, 2, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), [0] * 6),
    "strides": ((1, 2, 3), (1, 2, 2), (1, 1, 1), (1, 1, 1), [0] * 6),
    "dilated": ((1, 2, 2), (1, 1, 1), (1, 2, 3), (1, 1, 1), [0] * 6),
    "padded": ((1, 3, 3), (1, 2, 1), (1, 1, 1), (1, 1, 1), [0, 0, 1, 2, 0, 1]),
    "spread": ((1, 2, 2), (1, 1, 1), (1, 1, 1), (1, 2, 3), [0, 0, 0, 1, 0, 0]),
    "cut": ((1, 2, 2), (1, 1, 1), (1, 1, 1), (1, 1, 1), [0, 0, -1, 0, 1, -2]),
    "running": ((1, 5, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), [0, 0, 4, 0, 0, 0]),
    "nothing": ((1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), [0] * 6),
}
for name, (op, dtype, start) in itertools.product(
    WINDOWS,
    (
        ("STABLEHLO_ADD", "float32", 0),
        ("STABLEHLO_MAXIMUM", "float32", -np.inf),
        ("STABLEHLO_MINIMUM", "int32", 100),
        ("STABLEHLO_MULTIPLY", "float32", 2),
        ("STABLEHLO_AND", "bool", 1),
        ("STABLEHLO_ADD", "int32", 3),
        ("STABLEHLO_MAXIMUM", "int8", -100),
    ),
):

    def window(f: File, n: int, name=name, op=op, dtype=dtype, start=start) -> int:
        size, strides, dilations, spreads, padding = WINDOWS[name]
        options = S.StablehloReduceWindowOptionsT(
            windowDimensions=list(size),
            windowStrides=list(strides),
            windowDilations=list(dilations),
            baseDilations=list(spreads),
            padding=list(padding),
            bodySubgraphIndex=body(f, op, dtype),
        )
        return f.op(
            "STABLEHLO_REDUCE_WINDOW", [f.input((n, 5, 6), dtype), f.constant(np.asarray(start, dtype))], dtype, options=options
        )

    add(f"STABLEHLO_REDUCE_WINDOW {name} {op} {dtype} {start}", window)
    if any((*WINDOWS[name][4], *(spread - 1 for spread in WINDOWS[name][3]))):
        continue

    def plain_window(f: File, n: int, name=name, op=op, dtype=dtype, start=start) -> int:
        size, strides, dilations, *_ = (f.constant(np.asarray(row, np.int64)) for row in WINDOWS[name])
        kinds = {"STABLEHLO_ADD": 1, "STABLEHLO_MULTIPLY": 2, "STABLEHLO_MINIMUM": 3, "STABLEHLO_MAXIMUM": 4, "STABLEHLO_AND": 5}
        operands = [f.input((n, 5, 6), dtype), f.constant(np.asarray(start, dtype)), size, strides, dilations]
        return f.op("REDUCE_WINDOW", operands, dtype, options=S.ReduceWindowOptionsT(reduceFunction=kinds[op]))

    add(f"REDUCE_WINDOW {name} {op} {dtype} {start}", plain_window)

POOLS = {
    "valid": ((1, 2, 3, 1), (1, 2, 1, 1), (1, 1, 1, 1), [0] * 8),
    "padded": ((1, 3, 3, 1), (1, 2, 2, 1), (1, 1, 1, 1), [0, 0, 1, 2, 0, 1, 0, 0]),
    "dilated": ((1, 3, 2, 1), (1, 1, 1, 1), (1, 2, 3, 1), [0, 0, 1, 1, 0, 0, 0, 0]),
    "channels": ((1, 1, 2, 2), (1, 1, 1, 2), (1, 1, 1, 1), [0, 0, 0, 0, 1, 0, 0, 1]),
    "wide margins": ((1, 2, 2, 1), (1, 1, 1, 1), (1, 1, 1, 1), [0, 0, 3, 0, 0, 2, 0, 0]),
}
for name, (op, start), source in itertools.product(
    POOLS, (("MAXIMUM", -np.inf), ("MAXIMUM", 0.5), ("ADD", 0), ("ADD", 1)), ("input", "channels first")
):

    def pool(f: File, n: int, name=name, op=op, start=start, source=source) -> int:
        size, strides, dilations, padding = POOLS[name]
        options = S.StablehloReduceWindowOptionsT(
            windowDimensions=list(size),
            windowStrides=list(strides),
            windowDilations=list(dilations),
            baseDilations=[1] * 4,
            padding=list(padding),
            bodySubgraphIndex=body(f, f"STABLEHLO_{op}"),
        )
        x = f.input((n, 9, 6, 4)) if source == "input" else image(f, n)
        return f.op("STABLEHLO_REDUCE_WINDOW", [x, f.constant(np.float32(start))], options=options)

    add(f"STABLEHLO_REDUCE_WINDOW {name} {op} {start} {source}", pool)

REDUCTIONS = {"ADD": np.add, "MULTIPLY": np.multiply, "MAXIMUM": np.maximum, "MINIMUM": np.minimum}
for (op, reduction), axes, (dtype, start) in itertools.product(
    REDUCTIONS.items(), ((1,), (2, 0), (0, 1, 2), ()), (("float32", 1.5), ("float32", None), ("int32", 2), ("int8", 3))
):
    neutral = {"ADD": 0, "MULTIPLY": 1, "MAXIMUM": -np.inf, "MINIMUM": np.inf}[op]

    def reduce(f: File, n: int, op=op, axes=axes, dtype=dtype, start=neutral if start is None else start) -> int:
        options = S.StablehloReduceOptionsT(
            dimensions=list(axes), bodySubgraphIndex=body(f, f"STABLEHLO_{op}", dtype, swapped=True)
        )
        shape = [d for a, d in enumerate((n, 3, 4)) if a not in axes]
        operands = [f.input((n, 3, 4), dtype), f.constant(np.asarray(start, dtype))]
        return f.op("STABLEHLO_REDUCE", operands, dtype, options=options, shapes=[shape])

    def reduce_in_numpy(x, reduction=reduction, axes=axes, start=neutral if start is None else start):
        return reduction(reduction.reduce(x, axes, dtype=x.dtype) if axes else x, x.dtype.type(start))

    add(f"STABLEHLO_REDUCE {op} {axes} {dtype} {start}", reduce, low=1, high=2, expect=reduce_in_numpy)
for op, reduction in {"AND": np.logical_and, "OR": np.logical_or, "ADD": np.logical_or}.items():

    def reduce_truth(f: File, n: int, op=op) -> int:
        options = S.StablehloReduceOptionsT(dimensions=[1], bodySubgraphIndex=body(f, f"STABLEHLO_{op}", "bool"))
        first = f.constant(np.asarray(op == "AND"))
        return f.op("STABLEHLO_REDUCE", [f.input((n, 3, 4), "bool"), first], "bool", options=options, shapes=[(n, 4)])

    add(f"STABLEHLO_REDUCE {op} of truth", reduce_truth, expect=lambda x, r=reduction: r.reduce(x, 1))

# Parts of the model with a name


def composite(f: File, n: int, nested=False) -> int:
    """A part that is computed twice, of two values and a constant of its own."""

    def build() -> int:
        x, y = f.input((n, 3)), f.input((n, 3))
        scaled = f.op("MUL", [x, f.constant(weights(3))], options=S.MulOptionsT(), shapes=[(n, 3)])
        if nested:
            scaled = call([scaled, y], f.subgraph(inner))
        return f.op("SUB", [scaled, y], options=S.SubOptionsT(), shapes=[(n, 3)])

    def inner() -> int:
        return f.op("MAXIMUM", [f.input((n, 3)), f.input((n, 3))], shapes=[(n, 3)])

    def call(operands, number) -> int:
        nothing = list(flexbuffers.Dumps({}))
        options = S.StableHLOCompositeOptionsT(name="test.part", decompositionSubgraphIndex=number, compositeAttributes=nothing)
        return f.op("STABLEHLO_COMPOSITE", operands, options=options, shapes=[(n, 3)])

    number = f.subgraph(build)
    x, y = f.input((n, 3)), f.input((n, 3))
    return call([call([x, y], number), x], number)


add("STABLEHLO_COMPOSITE", composite)
add("STABLEHLO_COMPOSITE nested", lambda f, n: composite(f, n, nested=True))
