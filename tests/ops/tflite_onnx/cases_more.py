"""The table of operator cases, continued: bits, segments, boxes, places and spectra."""

from __future__ import annotations

import itertools

import numpy as np
from ai_edge_litert import schema_py_generated as S

from tests.ops.tflite_onnx.cases import add, ints, weights
from tests.ops.tflite_onnx.cases_shapes import image
from tests.ops.tflite_onnx.files import File

# Bits

for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
    unsigned = dtype.startswith("u")
    for op in ("BITWISE_XOR", "RIGHT_SHIFT"):
        add(
            f"{op} {dtype}",
            lambda f, n, op=op, d=dtype: f.op(op, [f.input((n, 2, 9), d), f.input((n, 2, 9), d)], d),
            low=0 if unsigned else -100,
            high=120,
        )
    add(
        f"RIGHT_SHIFT {dtype} a little",
        lambda f, n, d=dtype: f.op("RIGHT_SHIFT", [f.input((n, 3, 5), d), f.constant(np.arange(5, dtype=d))], d),
        low=0 if unsigned else -100,
        high=120,
    )
for before, after in itertools.permutations(("int32", "uint32"), 2):
    add(
        f"BITCAST {before} to {after}",
        lambda f, n, b=before, a=after: f.op("BITCAST", [f.input((n, 5), b)], a),
        low=0 if before.startswith("u") else -9,
        high=9,
    )

# Element by element

for dtype in ("float32", "float16"):
    add(f"ATAN2 {dtype}", lambda f, n, d=dtype: f.op("ATAN2", [f.input((n, 3, 4), d), f.input((n, 3, 4), d)], d))


def whole_angles(f: File, n: int) -> int:
    """Signs, zeros of either sign and infinities against each other."""
    parts = np.asarray([0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan], np.float32)
    up, along = np.meshgrid(parts, parts)
    nothing = f.op("MUL", [f.input((1,)), f.constant(np.float32([0]))], options=S.MulOptionsT())
    one = f.op("EXP", [nothing])
    return f.op("ATAN2", [f.op("MUL", [f.constant(up), one], options=S.MulOptionsT()), f.constant(along)])


add("ATAN2 of zeros and infinities", whole_angles, batches=(1,))
for (low, high), bits, version in itertools.product(((-1.0, 1.0), (0.0, 6.0), (-0.31, 2.7), (1.0, 3.0)), (8, 4), (1, 2)):
    add(
        f"FAKE_QUANT {low} {high} {bits} {version}",
        lambda f, n, low=low, high=high, bits=bits, version=version: f.op(
            "FAKE_QUANT", [image(f, n)], options=S.FakeQuantOptionsT(min=low, max=high, numBits=bits), version=version
        ),
        transposes=2,
    )
add(
    "FAKE_QUANT halves",
    lambda f, n: f.op(
        "FAKE_QUANT",
        [f.op("MUL", [f.input((n, 9)), f.constant(np.float32([0.5]))], options=S.MulOptionsT())],
        options=S.FakeQuantOptionsT(min=0, max=15, numBits=4),
    ),
    low=0,
    high=32,
)

# Shapes

for left, right, dtype in (((4, 1, 3), (5, 1), "int32"), ((2,), (7, 3, 1), "int64"), ((3, 3), (3, 3), "int32")):
    add(
        f"BROADCAST_ARGS {left} {right}",
        lambda f, n, left=left, right=right, d=dtype: f.op(
            "BROADCAST_ARGS",
            [
                f.op("MINIMUM", [f.input((len(left),), d), f.constant(np.asarray(left, d))], d),
                f.constant(np.asarray(right, d)),
            ],
            d,
        ),
        low=9,
        high=9,
        batches=(1,),
        free=False,
    )

# Segments

for dtype in ("float32", "int32"):
    for name, ids in {"dense": (0, 0, 1, 2, 2), "one": (0, 0, 0, 0, 0)}.items():
        add(
            f"SEGMENT_SUM {name} {dtype}",
            lambda f, n, ids=ids, d=dtype: f.op("SEGMENT_SUM", [f.input((5, n, 3), d), f.constant(ints(*ids))], d),
        )
add("SEGMENT_SUM of a vector", lambda f, n: f.op("SEGMENT_SUM", [f.input((4,)), f.constant(ints(0, 1, 1, 2))]), batches=(1,))
for op, dtype in itertools.product(("SUM", "PROD", "MAX", "MIN"), ("float32", "int32")):
    add(
        f"UNSORTED_SEGMENT_{op} {dtype}",
        lambda f, n, op=op, d=dtype: f.op(
            f"UNSORTED_SEGMENT_{op}", [f.input((5, n, 3), d), f.constant(ints(3, 0, 3, -1, 0)), f.constant(np.int32(5))], d
        ),
    )
    add(
        f"UNSORTED_SEGMENT_{op} {dtype} of two axes",
        lambda f, n, op=op, d=dtype: f.op(
            f"UNSORTED_SEGMENT_{op}",
            [f.input((2, 3, n), d), f.constant([[1, 0, 1], [2, 2, 1]], "int32"), f.constant(np.int32(3))],
            d,
        ),
    )
for rank, many in (((1,), True), ((2, 3), True), ((4,), False), ((), False)):
    for dtype in ("float32", "int32", "int64", "int8", "uint8"):

        def to_dense(f: File, n: int, rank=rank, many=many, dtype=dtype) -> int:
            shape = ints(6, 5, 4)[: (len(rank) and (rank[-1] if len(rank) > 1 else 1)) or 1]
            places = {(): np.int32(3), (1,): ints(2), (4,): ints(0, 2, 3, 5), (2, 3): ints(0, 1, 2, 3, 4, 0).reshape(2, 3)}[rank]
            size = (rank[0],) if many else ()
            return f.op(
                "SPARSE_TO_DENSE",
                [f.constant(places), f.constant(shape), f.input(size, dtype), f.constant(np.asarray(7, dtype))],
                dtype,
                options=S.SparseToDenseOptionsT(),
                version=3,
            )

        add(f"SPARSE_TO_DENSE {rank} {'many' if many else 'one'} {dtype}", to_dense, low=0, high=9, batches=(1,))
for combiner, width in itertools.product((0, 1, 2), ((4,), (3, 2))):
    add(
        f"EMBEDDING_LOOKUP_SPARSE {combiner} {width}",
        lambda f, n, combiner=combiner, width=width: f.op(
            "EMBEDDING_LOOKUP_SPARSE",
            [
                f.input((5,), "int32"),
                f.constant([[0, 0], [0, 1], [0, 2], [2, 0], [2, 1]], "int32"),
                f.constant(ints(4, 3)),
                f.constant(np.float32([1, 2, 0.5, 1.5, 3])),
                f.constant(weights(7, *width)),
            ],
            options=S.EmbeddingLookupSparseOptionsT(combiner=combiner),
        ),
        low=0,
        high=6,
        batches=(1,),
    )

# Places

for dtype, index in itertools.product(("float32", "int32", "int64", "int16", "int8", "uint8"), ("int32", "int64")):
    add(
        f"UNIQUE {dtype} {index}",
        lambda f, n, d=dtype, i=index: f.op(
            "UNIQUE", [f.input((9,), d)], [d, i], options=S.UniqueOptionsT(idxOutType=2 if i == "int32" else 4)
        ),
        low=1,
        high=4,
        batches=(1,),
    )
for dtype in ("float32", "float64", "int32", "int64"):
    add(
        f"BUCKETIZE {dtype}",
        lambda f, n, d=dtype: f.op(
            "BUCKETIZE", [f.input((n, 3, 4), d)], "int32", options=S.BucketizeOptionsT(boundaries=[-2.0, 0.0, 1.0])
        ),
    )
add(
    "BUCKETIZE channels first",
    lambda f, n: f.op("BUCKETIZE", [image(f, n)], "int32", options=S.BucketizeOptionsT(boundaries=[-0.5, 0.5])),
    transposes=2,
)
for dtype, width in (("float32", (3,)), ("float32", ()), ("float32", (2, 3))):
    add(
        f"HASHTABLE_LOOKUP {dtype} {width}",
        lambda f, n, d=dtype, w=width: f.op(
            "HASHTABLE_LOOKUP",
            [f.input((6,), "int32"), f.constant(ints(-2, 0, 3, 5)), f.constant(weights(4, *w).astype(d))],
            [d, "uint8"],
        ),
        low=-2,
        high=5,
        batches=(1,),
    )
for dtype in ("float32", "int32", "int64", "int16", "int8", "uint8"):
    add(f"MATRIX_DIAG {dtype}", lambda f, n, d=dtype: f.op("MATRIX_DIAG", [f.input((n, 2, 3), d)], d), low=0)
    for size in ((3, 3), (2, 4), (4, 2)):
        add(
            f"MATRIX_SET_DIAG {size} {dtype}",
            lambda f, n, d=dtype, s=size: f.op("MATRIX_SET_DIAG", [f.input((n, *s), d), f.input((n, min(s)), d)], d),
            low=0,
        )
add("MATRIX_DIAG of a vector", lambda f, n: f.op("MATRIX_DIAG", [f.input((4,))]), batches=(1,))

for name, (part, index) in {
    "rows": (("n", 2, 3), "int32"),
    "inner": (("n", 5, 1), "int32"),
    "corner": (("n", 2, 2), "int64"),
    "all": (("n", 5, 3), "int32"),
    "first": ((1, 5, 3), "int32"),
}.items():
    for dtype in ("float32", "int32", "int64", "bool", "int8", "float16"):

        def update(f: File, n: int, part=part, index=index, dtype=dtype) -> int:
            shape = [n if d == "n" else d for d in part]
            return f.op("DYNAMIC_UPDATE_SLICE", [f.input((n, 5, 3), dtype), f.input(shape, dtype), f.input((3,), index)], dtype)

        add(f"DYNAMIC_UPDATE_SLICE {name} {dtype}", update)
add(
    "DYNAMIC_UPDATE_SLICE channels first",
    lambda f, n: f.op("DYNAMIC_UPDATE_SLICE", [image(f, n), f.input((n, 2, 6, 4)), f.constant(ints(0, 3, 0, 0))]),
)

# Boxes


def boxes(version, most, overlap, least, *, computed=False):
    def build(f: File, _: int) -> list[int]:
        corners = np.random.default_rng(3).uniform(0, 1, (12, 4)).astype(np.float32)
        corners[0] = corners[1]
        size = f.constant(np.int32(most))
        if computed:
            size = f.op("MINIMUM", [f.input((), "int32", name="size"), size], "int32")
        operands = [f.constant(corners), f.input((12,)), size, f.constant(np.float32(overlap)), f.constant(np.float32(least))]
        if version == 5:
            return f.op("NON_MAX_SUPPRESSION_V5", [*operands, f.constant(np.float32(0))], ["int32", "float32", "int32"])
        return f.op("NON_MAX_SUPPRESSION_V4", operands, ["int32", "int32"])

    return build


for version, (most, overlap, least) in itertools.product(
    (4, 5), ((5, 0.5, 0.0), (20, 0.3, 0.2), (3, 0.1, 0.9), (4, 1.0, 0.1), (12, 0.01, 0.0))
):
    name = f"NON_MAX_SUPPRESSION_V{version} {most} {overlap} {least}"
    add(name, boxes(version, most, overlap, least), low=0, high=1, batches=(1,))
    add(f"{name} of a computed size", boxes(version, most, overlap, least + 99, computed=True), low=99, high=110, batches=(1,))

# Spectra

PARTS = ("REAL", "IMAG", "COMPLEX_ABS")
for part, size, length in itertools.product(PARTS, ((8, 8), (4, 16), (6, 5)), ((8, 8), (4, 16), (1, 8))):

    def spectrum(f: File, n: int, part=part, size=size, length=length) -> int:
        x = f.op("RFFT2D", [f.input((n, *size)), f.constant(ints(*length))], "complex64")
        return f.op(part, [x])

    add(f"RFFT2D {size} {length} {part}", spectrum)


def parts(f: File, n: int) -> list[int]:
    x = f.op("RFFT2D", [f.input((n, 2, 4, 8)), f.constant(ints(4, 8))], "complex64")
    return [f.op(name, [x]) for name in PARTS]


add("RFFT2D with all parts", parts)

# Transposed convolutions of volumes

for padding, stride, size, bias in (
    (0, (2, 2, 2), (8, 10, 12), True),
    (0, (2, 1, 3), (7, 5, 18), False),
    (1, (2, 2, 2), (9, 11, 13), True),
    (1, (1, 1, 1), (6, 7, 8), False),
    (1, (2, 2, 2), (10, 12, 14), False),
):

    def volume(f: File, n: int, padding=padding, stride=stride, size=size, bias=bias) -> int:
        options = S.Conv3DOptionsT(
            padding=padding, strideD=stride[0], strideH=stride[1], strideW=stride[2], fusedActivationFunction=1 if bias else 0
        )
        operands = [f.constant(ints(n, *size, 2)), f.constant(weights(3, 3, 3, 2, 3)), f.input((n, 4, 5, 6, 3))]
        return f.op("CONV_3D_TRANSPOSE", [*operands, *([f.constant(weights(2))] if bias else [])], options=options)

    add(f"CONV_3D_TRANSPOSE {padding} {stride} {size}", volume, transposes=2)

# What is computed where it mostly is a constant


def at_run_time(f: File, values, dtype="int32") -> int:
    """Numbers that are only known at run time: what is fed is positive and changes nothing."""
    nothing = f.op("MINIMUM", [f.input((), dtype), f.constant(np.asarray(0, dtype))], dtype)
    return f.op("ADD", [nothing, f.constant(np.asarray(values, dtype))], dtype, options=S.AddOptionsT())


RUN_TIME = {"low": 50, "high": 60}
for name, (begin, end, strides, masks) in {
    "plain": ((0, 1, 1), (1, 3, 4), (1, 1, 2), {}),
    "masks": ((9, 1, 9), (9, 9, 3), (1, 1, 1), {"beginMask": 0b101, "endMask": 0b011}),
    "negative": ((0, -1, -1), (1, -4, -5), (1, -1, -2), {"beginMask": 1, "endMask": 0b011}),
    "shrink": ((0, 1, -1), (1, 2, 0), (1, 1, 1), {"beginMask": 1, "endMask": 1, "shrinkAxisMask": 0b110}),
    "shrink all": ((0, 2, -2), (1, 3, -1), (1, 1, 1), {"shrinkAxisMask": 0b111}),
    "shrink and mask": ((0, 1, 2), (1, 2, 3), (1, 1, 1), {"endMask": 1, "beginMask": 0b010, "shrinkAxisMask": 0b010}),
    "ellipsis": ((0, 1), (0, 3), (1, 1), {"ellipsisMask": 1}),
    "new axis": ((0, 0, 1, 0), (9, 0, 3, 2), (1, 1, 1, 1), {"newAxisMask": 0b10, "endMask": 1}),
    "fewer": ((0, 1), (9, 3), (1, 1), {"endMask": 1}),
}.items():
    for computed in ((), (1,), (2,), (1, 2)):

        def strided(f: File, n: int, row=(begin, end, strides), masks=masks, computed=computed) -> int:
            x = f.input((1, 3, 4))
            bounds = [at_run_time(f, v) if i in computed else f.constant(ints(*v)) for i, v in enumerate(row, 1)]
            options = S.StridedSliceOptionsT(**masks)
            return f.op("STRIDED_SLICE", [x, *bounds], options=options, version=6)

        add(f"STRIDED_SLICE {name} computed {computed}", strided, batches=(1,), free=False, **RUN_TIME)
for axis, dtype in itertools.product((-1, 0, 1), ("int32", "int64")):
    add(
        f"ONE_HOT {axis} {dtype} of a computed depth",
        lambda f, n, a=axis, d=dtype: f.op(
            "ONE_HOT",
            [f.input((n, 3), d), at_run_time(f, 6), f.constant(np.float32(2)), f.constant(np.float32(-1))],
            options=S.OneHotOptionsT(axis=a),
        ),
        low=-1,
        high=9,
    )
EDGES = np.asarray([[0, 0], [1, 2], [0, 3]], np.int32)
for name, build in {
    "PAD": lambda f, n: f.op("PAD", [f.input((n, 3, 4)), at_run_time(f, EDGES)]),
    "PADV2": lambda f, n: f.op("PADV2", [f.input((n, 3, 4)), at_run_time(f, EDGES), f.constant(np.float32(7))]),
    "TILE": lambda f, n: f.op("TILE", [f.input((n, 3, 4)), at_run_time(f, (1, 2, 3))]),
    "BROADCAST_TO": lambda f, n: f.op("BROADCAST_TO", [f.input((1, 3, 1)), at_run_time(f, (2, 3, 4))], version=2),
    "FILL": lambda f, n: f.op("FILL", [at_run_time(f, (2, 3)), f.input(())]),
    "RESHAPE": lambda f, n: f.op("RESHAPE", [f.input((n, 3, 4)), at_run_time(f, (4, -1))], options=S.ReshapeOptionsT()),
    "SLICE": lambda f, n: f.op("SLICE", [f.input((n, 3, 4)), f.constant(ints(0, 1, 2)), at_run_time(f, (-1, 2, 1))]),
    "TOPK_V2": lambda f, n: f.op("TOPK_V2", [f.input((n, 9)), at_run_time(f, 4)], ["float32", "int32"]),
    "RESIZE_BILINEAR": lambda f, n: f.op(
        "RESIZE_BILINEAR", [f.input((n, 4, 5, 3)), at_run_time(f, (7, 8))], options=S.ResizeBilinearOptionsT()
    ),
    "GATHER": lambda f, n: f.op("GATHER", [f.input((n, 5)), at_run_time(f, (1, 4))], options=S.GatherOptionsT(axis=1)),
    "CUMSUM": lambda f, n: f.op("CUMSUM", [f.input((n, 5)), f.constant(np.int32(-1))], options=S.CumsumOptionsT()),
    "REVERSE_SEQUENCE": lambda f, n: f.op(
        "REVERSE_SEQUENCE", [f.input((2, 5, n)), at_run_time(f, (2, 4))], options=S.ReverseSequenceOptionsT(seqDim=1)
    ),
}.items():
    add(f"{name} computed", build, batches=(1,), free=False, **RUN_TIME)

# Constants without elements, and sizes of 1

for op in ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"):
    add(
        f"{op} of no axes",
        lambda f, n, op=op: f.op(op, [f.input((n, 3, 4)), f.constant(ints())], options=S.ReducerOptionsT(keepDims=False)),
    )
add(
    "RESHAPE to a scalar",
    lambda f, n: f.op("RESHAPE", [f.input((1, 1)), f.constant(ints())], options=S.ReshapeOptionsT()),
    batches=(1,),
    free=False,
)

# Dtypes that runtimes treat with differences

for dtype in ("int32", "int64"):
    for axes, keep in (((1,), False), ((0, 2), True), ((0, 1, 2), False)):
        add(
            f"MEAN {axes} {keep} {dtype}",
            lambda f, n, a=axes, k=keep, d=dtype: f.op(
                "MEAN", [f.input((n, 3, 4), d), f.constant(ints(*a))], d, options=S.ReducerOptionsT(keepDims=k)
            ),
            low=-99,
            high=99,
        )
for op, dtype in itertools.product(("REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"), ("int8", "uint8", "int16")):
    add(
        f"{op} {dtype}",
        lambda f, n, op=op, d=dtype: f.op(
            op, [f.input((n, 3, 4), d), f.constant(ints(1))], d, options=S.ReducerOptionsT(keepDims=False)
        ),
        low=0,
        high=100,
    )
for op, dtype in itertools.product(("MAXIMUM", "MINIMUM"), ("int8", "uint8", "int16", "int32", "int64")):
    add(f"{op} {dtype}", lambda f, n, op=op, d=dtype: f.op(op, [f.input((n, 9), d), f.input((n, 9), d)], d), low=0, high=99)
for op, (dtype, activation) in itertools.product(("ADD", "MUL"), itertools.product(("int16", "int32", "int64"), (1, 3))):
    kind = S.AddOptionsT if op == "ADD" else S.MulOptionsT
    add(
        f"{op} {dtype} activation {activation}",
        lambda f, n, op=op, d=dtype, k=kind, a=activation: f.op(
            op, [f.input((n, 9), d), f.input((n, 9), d)], d, options=k(fusedActivationFunction=a)
        ),
        low=-9,
        high=9,
    )
for dtype in ("int16", "uint16", "uint64", "bool", "int8", "float64"):
    add(
        f"SELECT_V2 {dtype}",
        lambda f, n, d=dtype: f.op("SELECT_V2", [f.input((n, 1, 4), "bool"), f.input((n, 3, 4), d), f.input((3, 1), d)], d),
        low=0,
    )
for op, dtype in itertools.product(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), ("int8", "uint8", "int32")):
    kind = S.DepthToSpaceOptionsT if op == "DEPTH_TO_SPACE" else S.SpaceToDepthOptionsT
    add(
        f"{op} {dtype}",
        lambda f, n, op=op, d=dtype, k=kind: f.op(op, [f.input((n, 4, 6, 8), d)], d, options=k(blockSize=2)),
        low=0,
        high=127,
    )
add("PAD int16", lambda f, n: f.op("PAD", [f.input((n, 3, 4), "int16"), f.constant(EDGES)], "int16"))
for mode, dtype in itertools.product((0, 1), ("int16", "uint16", "int32", "bool")):
    add(
        f"MIRROR_PAD {mode} {dtype}",
        lambda f, n, m=mode, d=dtype: f.op(
            "MIRROR_PAD", [f.input((n, 3, 5), d), f.constant(EDGES)], d, options=S.MirrorPadOptionsT(mode=m)
        ),
        low=0,
        high=99,
    )
for dtype in ("float32", "int32", "int64", "uint8", "int8", "uint32", "bool"):
    add(f"WHERE {dtype}", lambda f, n, d=dtype: f.op("WHERE", [f.input((n, 3, 4), d)], "int64", shapes=[(5, 3)]), low=0, high=2)
for axis, batch, shape in ((2, 1, (2,)), (1, 1, (2, 3)), (3, 1, (2,)), (3, 2, (4, 2)), (-1, 1, ())):

    def gather(f: File, n: int, axis=axis, batch=batch, shape=shape) -> int:
        size = (n, 4, 5, 3)
        rows = size[:batch] if batch == 1 else (n, 4)
        places = np.arange(int(np.prod(rows + shape[batch - 1 :]))).reshape(rows + shape[batch - 1 :]) % 3
        operands = [f.input(size), f.constant(places, "int32")]
        return f.op("GATHER", operands, options=S.GatherOptionsT(axis=axis, batchDims=batch), version=5)

    add(f"GATHER axis {axis} batches {batch} {shape}", gather, free=False)
