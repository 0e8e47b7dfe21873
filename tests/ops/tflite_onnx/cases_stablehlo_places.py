"""The table of operator cases, continued: StableHLO's places and products."""

from __future__ import annotations

import itertools

import numpy as np
from ai_edge_litert import schema_py_generated as S

from tests.ops.tflite_onnx.cases import add, weights
from tests.ops.tflite_onnx.cases_stablehlo import body
from tests.ops.tflite_onnx.files import File

# Gather and scatter: operand, places, and how they fit; "n" is the batch

GATHERS = {
    # name: (operand, places, offset dims, collapsed, start index map, index vector dim, slice sizes)
    "rows": ((7, 4), ("n", 3, 1), (2,), (0,), (0,), 2, (1, 4)),
    "rows of numbers": ((7, 4), ("n", 3), (2,), (0,), (0,), 2, (1, 4)),
    "columns": ((4, 7), ("n", 3, 1), (0,), (1,), (1,), 2, (4, 1)),
    "elements": ((5, 6), ("n", 2), (), (0, 1), (0, 1), 1, (1, 1)),
    "elements turned": ((5, 6), ("n", 2), (), (0, 1), (1, 0), 1, (1, 1)),
    "windows": ((5, 6, 3), ("n", 2), (1, 2, 3), (), (0, 1), 1, (2, 3, 3)),
    "windows in front": ((5, 6, 3), ("n", 2), (0, 1), (2,), (0, 2), 1, (2, 6, 1)),
    "windows of a part": ((5, 6, 3), ("n", 1), (1, 2), (0,), (0,), 1, (1, 2, 3)),
    "vector first": ((5, 6), (2, "n"), (1,), (0,), (0, 1), 0, (1, 4)),
    "all": ((2, 3), ("n", 1), (1, 2), (), (0,), 1, (2, 3)),
    "one place": ((5, 6), (2,), (0, 1), (), (0, 1), 0, (3, 2)),
}
for name, (shape, places, offsets, collapsed, named, vector, sizes) in GATHERS.items():
    for dtype, index in (("float32", "int32"), ("int32", "int64"), ("int8", "int32")):

        def gather(
            f: File,
            n: int,
            shape=shape,
            places=places,
            dtype=dtype,
            index=index,
            options=(offsets, collapsed, named, vector, sizes),
        ) -> int:
            offsets, collapsed, named, vector, sizes = options
            sizes_at = [n if d == "n" else d for d in places]
            at = f.input(sizes_at, index)
            x = f.constant(weights(*shape)) if dtype == "float32" else f.constant((weights(*shape) * 30).astype(dtype))
            options = S.StablehloGatherOptionsT(
                offsetDims=list(offsets),
                collapsedSliceDims=list(collapsed),
                startIndexMap=list(named),
                indexVectorDim=vector,
                sliceSizes=list(sizes),
            )
            batches = iter([d for axis, d in enumerate(sizes_at) if axis != vector])
            window = iter([d for axis, d in enumerate(sizes) if axis not in collapsed])
            rank = len(sizes_at) - (vector < len(sizes_at)) + len(offsets)
            result = [next(window if axis in offsets else batches) for axis in range(rank)]
            return f.op("STABLEHLO_GATHER", [x, at], dtype, options=options, shapes=[result])

        # LiteRT ends the process where a place is a number and no vector.
        alone = None
        if vector == len(places):
            rows = weights(*shape) if dtype == "float32" else (weights(*shape) * 30).astype(dtype)
            alone = lambda at, rows=rows: rows[np.clip(at, 0, len(rows) - 1)]  # noqa: E731
        add(f"STABLEHLO_GATHER {name} {dtype} {index}", gather, low=-2, high=7, expect=alone)

SCATTERS = {
    # name: (operand, places, updates, update window dims, inserted, scatter dims, index vector dim)
    "rows": ((7, 4), (3, 1), (3, 4), (1,), (0,), (0,), 1),
    "rows of numbers": ((7, 4), (3,), (3, 4), (1,), (0,), (0,), 1),
    "columns": ((4, 7), (3, 1), (4, 3), (0,), (1,), (1,), 1),
    "elements": ((5, 6), (4, 2), (4,), (), (0, 1), (0, 1), 1),
    "elements turned": ((5, 6), (4, 2), (4,), (), (0, 1), (1, 0), 1),
    "windows": ((5, 6, 3), (3, 2), (3, 2, 3, 3), (1, 2, 3), (), (0, 1), 1),
    "windows of a part": ((5, 6), (3, 1), (3, 2), (1,), (0,), (0,), 1),
    "vector first": ((5, 6), (2, 3), (3, 4), (1,), (0,), (0, 1), 0),
    "one place": ((5, 6), (2,), (3, 2), (0, 1), (), (0, 1), 0),
}
BODIES = {
    "add": "STABLEHLO_ADD",
    "multiply": "STABLEHLO_MULTIPLY",
    "maximum": "STABLEHLO_MAXIMUM",
    "minimum": "STABLEHLO_MINIMUM",
}
for name, (kind, dtype) in itertools.product(
    SCATTERS, (("add", "float32"), ("multiply", "float32"), ("maximum", "int32"), ("minimum", "float32"), ("replace", "int32"))
):

    def scatter(f: File, n: int, name=name, kind=kind, dtype=dtype) -> int:
        shape, places, updates, window, inserted, named, vector = SCATTERS[name]
        options = S.StablehloScatterOptionsT(
            updateWindowDims=list(window),
            insertedWindowDims=list(inserted),
            scatterDimsToOperandDims=list(named),
            indexVectorDim=vector,
            updateComputationSubgraphIndex=body(f, BODIES.get(kind), dtype),
        )
        # Places that are all different, so that the last to write is no question; some lie outside.
        at = (
            np.random.default_rng(5).permutation(8)[: int(np.prod(places))]
            if np.prod(places) <= 8
            else np.arange(np.prod(places))
        )
        at = f.constant((at - 1).reshape(places), "int32")
        operands = [f.input(shape, dtype), at, f.input(updates, dtype)]
        return f.op("STABLEHLO_SCATTER", operands, dtype, options=options, shapes=[shape])

    def scatter_rows(x, rows, kind=kind):
        for at, row in zip(np.random.default_rng(5).permutation(8)[:3] - 1, rows, strict=True):
            if 0 <= at < len(x):
                x[at] = row if kind == "replace" else getattr(np, kind)(x[at], row)
        return x

    alone = SCATTERS[name][-1] == len(SCATTERS[name][1])
    expect = (lambda x, rows, f=scatter_rows: f(x.copy(), rows)) if alone else None
    add(f"STABLEHLO_SCATTER {name} {kind} {dtype}", scatter, batches=(1,), expect=expect)
add(
    "STABLEHLO_SCATTER computed places",
    lambda f, n: f.op(
        "STABLEHLO_SCATTER",
        [f.input((7, 4)), f.input((9, 1), "int32"), f.input((9, 4))],
        options=S.StablehloScatterOptionsT(
            updateWindowDims=[1],
            insertedWindowDims=[0],
            scatterDimsToOperandDims=[0],
            indexVectorDim=1,
            updateComputationSubgraphIndex=body(f, "STABLEHLO_ADD"),
        ),
    ),
    low=-2,
    high=8,
    batches=(1,),
)

# Slices at computed places


def cut(x, *starts, sizes):
    first = [int(np.clip(s, 0, d - z)) for s, d, z in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(s, s + z) for s, z in zip(first, sizes, strict=True))


for sizes, dtype in itertools.product(((2, 3), (5, 1), (5, 6)), ("float32", "int32", "bool")):

    def dynamic_slice(f: File, n: int, sizes=sizes, dtype=dtype) -> int:
        operands = [f.input((5, 6), dtype), f.input((), "int32"), f.input((), "int32")]
        options = S.StablehloDynamicSliceOptionsT(sliceSizes=list(sizes))
        return f.op("STABLEHLO_DYNAMIC_SLICE", operands, dtype, options=options, shapes=[sizes])

    def dynamic_update(f: File, n: int, sizes=sizes, dtype=dtype) -> int:
        operands = [f.input((5, 6), dtype), f.input(sizes, dtype), f.input((), "int32"), f.input((), "int32")]
        return f.op("STABLEHLO_DYNAMIC_UPDATE_SLICE", operands, dtype, shapes=[(5, 6)])

    def put(x, update, *starts, sizes=sizes):
        x[cut(x, *starts, sizes=sizes)] = update
        return x

    for high in (-1, 2, 8):
        how = {"low": high - 1, "high": high, "batches": (1,)}
        add(
            f"STABLEHLO_DYNAMIC_SLICE {sizes} {dtype} at {high}",
            dynamic_slice,
            expect=lambda x, *starts, sizes=sizes: x[cut(x, *starts, sizes=sizes)],
            **how,
        )
        add(
            f"STABLEHLO_DYNAMIC_UPDATE_SLICE {sizes} {dtype} at {high}",
            dynamic_update,
            expect=lambda x, *rest, put=put: put(x.copy(), *rest),
            **how,
        )

# Sorting

for axis, greater, swapped, dtype in itertools.product((0, 1, -1), (False, True), (False, True), ("float32", "int32", "int64")):

    def sort(f: File, n: int, axis=axis, greater=greater, swapped=swapped, dtype=dtype, others=0):
        def comparator() -> int:
            pairs = [(f.input((), d), f.input((), d)) for d in (dtype, *["float32"] * others)]
            x, y = pairs[0]
            direction = 3 if greater != swapped else 5
            options = S.StablehloCompareOptionsT(comparisonDirection=direction)
            return f.op("STABLEHLO_COMPARE", [y, x] if swapped else [x, y], "bool", options=options, shapes=[()])

        options = S.StablehloSortOptionsT(dimension=axis, comparatorSubgraphIndex=f.subgraph(comparator))
        operands = [f.input((3, 4, 5), dtype), *(f.input((3, 4, 5)) for _ in range(others))]
        dtypes = [dtype, *["float32"] * others]
        return f.op("STABLEHLO_SORT", operands, dtypes, options=options, shapes=[(3, 4, 5)] * len(dtypes))

    def sorted_in_numpy(x, *others, axis=axis, greater=greater):
        order = np.argsort(-x if greater else x, axis, kind="stable")
        return [np.take_along_axis(v, order, axis) for v in (x, *others)]

    add(f"STABLEHLO_SORT {axis} {greater} {swapped} {dtype}", sort, batches=(1,), expect=sorted_in_numpy)
    add(
        f"STABLEHLO_SORT {axis} {greater} {swapped} {dtype} with others",
        lambda f, n, sort=sort: sort(f, n, others=2),
        batches=(1,),
        expect=sorted_in_numpy,
    )

# Products

DOTS = {
    "matrix": (("n", 3), (3, 5), ((), ()), ((1,), (0,)), "ab,bc->ac"),
    "turned": (("n", 3), (5, 3), ((), ()), ((1,), (1,)), "ab,cb->ac"),
    "batches": (("n", 3, 4), ("n", 4, 5), ((0,), (0,)), ((2,), (1,)), "abc,acd->abd"),
    "two batches": ((2, "n", 3, 4), ("n", 4, 2, 5), ((1, 0), (0, 2)), ((3,), (1,)), "abcd,bdae->bace"),
    "two sums": (("n", 3, 4), (4, 3, 5), ((), ()), ((2, 1), (0, 1)), "abc,cbd->ad"),
    "vectors": ((4,), (4,), ((), ()), ((0,), (0,)), "a,a->"),
    "outer": (("n",), (4,), ((), ()), ((), ()), "a,b->ab"),
    "equal": ((3, 3), (3, 3), ((), ()), ((0,), (1,)), "ab,ca->bc"),
}
for name, dtype, constant in itertools.product(DOTS, ("float32", "int32", "int8"), (False, True)):
    left, right, batches, sums, equation = DOTS[name]
    if constant and "n" in right:
        continue

    def dot(f: File, n: int, name=name, dtype=dtype, constant=constant) -> int:
        left, right, batches, sums, equation = DOTS[name]
        shapes = [[n if d == "n" else d for d in shape] for shape in (left, right)]
        x = f.input(shapes[0], dtype)
        y = f.constant((weights(*shapes[1]) * 3).astype(dtype)) if constant else f.input(shapes[1], dtype)
        options = S.StablehloDotGeneralOptionsT(
            lhsBatchingDimensions=list(batches[0]),
            rhsBatchingDimensions=list(batches[1]),
            lhsContractingDimensions=list(sums[0]),
            rhsContractingDimensions=list(sums[1]),
        )
        out = "int32" if dtype == "int8" else dtype
        result = np.einsum(equation, *(np.zeros(s) for s in shapes)).shape
        return f.op("STABLEHLO_DOT_GENERAL", [x, y], out, options=options, shapes=[result])

    def dot_in_numpy(x, y=None, equation=equation, right=right, dtype=dtype):
        y = (weights(*right) * 3).astype(dtype) if y is None else y
        out = "int32" if dtype == "int8" else dtype
        return np.asarray(np.einsum(equation, x.astype(out), y.astype(out)))

    add(f"STABLEHLO_DOT_GENERAL {name} {dtype} {constant}", dot, expect=dot_in_numpy)


def convolved(x, w, *, strides, edges, spread, dilations, turned, groups):
    """(n, c, height, width) with (out, in, height, width), one output element after the other."""
    if spread != (1, 1):
        wide = np.zeros((*x.shape[:2], *((d - 1) * s + 1 for d, s in zip(x.shape[2:], spread, strict=True))), x.dtype)
        wide[:, :, :: spread[0], :: spread[1]] = x
        x = wide
    if turned:
        w = w[:, :, ::-1, ::-1]
    (top, bottom), (before, after) = edges
    x = np.pad(x, ((0, 0), (0, 0), (max(top, 0), max(bottom, 0)), (max(before, 0), max(after, 0))))
    x = x[:, :, max(-top, 0) : x.shape[2] - max(-bottom, 0), max(-before, 0) : x.shape[3] - max(-after, 0)]
    kernel = [(d - 1) * s + 1 for d, s in zip(w.shape[2:], dilations, strict=True)]
    size = [(d - k) // s + 1 for d, k, s in zip(x.shape[2:], kernel, strides, strict=True)]
    out = np.zeros((len(x), len(w), *size), x.dtype)
    for i, j, o in np.ndindex(*size, len(w)):
        group = o // (len(w) // groups) * w.shape[1]
        part = x[
            :,
            group : group + w.shape[1],
            i * strides[0] : i * strides[0] + kernel[0] : dilations[0],
            j * strides[1] : j * strides[1] + kernel[1] : dilations[1],
        ]
        out[:, o, i, j] = (part * w[o]).sum((1, 2, 3))
    return out


LAYOUTS = {
    "channels last": ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)),
    "channels first": ((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3)),
    "mixed": ((1, 0, 3, 2), (2, 3, 1, 0), (3, 1, 0, 2)),
}
"""For operand, filters and result: where batch (or output), feature and the two spatial axes stand."""
PLAIN = {"strides": (1, 1), "edges": ((0, 0), (0, 0)), "spread": (1, 1), "dilations": (1, 1), "turned": False, "groups": 1}
CONVOLUTIONS = {
    "plain": {},
    "strides": {"strides": (2, 3), "edges": ((1, 2), (0, 1))},
    "spread": {"spread": (2, 3), "edges": ((1, 1), (2, 0))},
    "dilated": {"dilations": (2, 1)},
    "turned": {"turned": True},
    "groups": {"groups": 2},
    "cut": {"edges": ((-1, 1), (1, -2))},
}


def placed(array, axes):
    """An array given batch first as the axes say that it stands."""
    return array.transpose(np.argsort(axes))


for name, layout in itertools.product(CONVOLUTIONS, LAYOUTS):

    def convolution(f: File, n: int, name=name, layout=layout) -> int:
        how, (image, kernel, result) = PLAIN | CONVOLUTIONS[name], LAYOUTS[layout]
        w = weights(6, 4 // how["groups"], 3, 2)
        out = convolved(np.zeros((n, 4, 7, 8), np.float32), w, **how).shape
        options = S.StablehloConvolutionOptionsT(
            windowStrides=list(how["strides"]),
            padding=[e for pair in how["edges"] for e in pair],
            lhsDilation=list(how["spread"]),
            rhsDilation=list(how["dilations"]),
            windowReversal=[how["turned"]] * 2,
            inputBatchDimension=image[0],
            inputFeatureDimension=image[1],
            inputSpatialDimensions=list(image[2:]),
            kernelOutputFeatureDimension=kernel[0],
            kernelInputFeatureDimension=kernel[1],
            kernelSpatialDimensions=list(kernel[2:]),
            outputBatchDimension=result[0],
            outputFeatureDimension=result[1],
            outputSpatialDimensions=list(result[2:]),
            featureGroupCount=how["groups"],
            batchGroupCount=1,
        )
        shape = np.asarray((n, 4, 7, 8))[np.argsort(image)]
        operands = [f.input([int(d) for d in shape]), f.constant(np.ascontiguousarray(placed(w, kernel)))]
        return f.op("STABLEHLO_CONVOLUTION", operands, options=options, shapes=[np.asarray(out)[np.argsort(result)]])

    def convolved_in_numpy(x, name=name, layout=layout):
        how, (image, _, result) = PLAIN | CONVOLUTIONS[name], LAYOUTS[layout]
        w = weights(6, 4 // how["groups"], 3, 2)
        return placed(convolved(x.transpose(image), w, **how), result)

    add(
        f"STABLEHLO_CONVOLUTION {name} {layout}",
        convolution,
        expect=convolved_in_numpy,
        free=layout != "mixed",
        transposes={"channels last": 2, "channels first": 0}.get(layout),
    )
