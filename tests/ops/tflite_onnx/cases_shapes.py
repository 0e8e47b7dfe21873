"""The table of operator cases, continued: whatever moves elements about."""

from __future__ import annotations

import itertools

import numpy as np
from ai_edge_litert import schema_py_generated as S

from tests.ops.tflite_onnx.cases import add, conv, ints, weights
from tests.ops.tflite_onnx.files import File


def image(f: File, n: int) -> int:
    """A convolution's result, (n, 9, 6, 4) stored channels-first."""
    return conv("h9w6c4", 0, (1, 1), (1, 1), 0, out=4)(f, n)


# Resizing

for op, (align, half), (size, target) in itertools.product(
    ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"),
    ((False, False), (True, False), (False, True), (True, True)),
    (
        ((4, 5), (8, 10)),
        ((4, 5), (9, 7)),
        ((6, 8), (3, 4)),
        ((7, 5), (4, 3)),
        ((4, 4), (1, 1)),
        ((1, 1), (3, 3)),
        ((3, 5), (3, 5)),
        ((10, 6), (30, 10)),
    ),
):
    if op == "RESIZE_BILINEAR" and align and half:
        continue

    def resize(f: File, n: int, op=op, align=align, half=half, size=size, target=target) -> int:
        kind = S.ResizeBilinearOptionsT if op == "RESIZE_BILINEAR" else S.ResizeNearestNeighborOptionsT
        options = kind(alignCorners=align, halfPixelCenters=half)
        return f.op(op, [f.input((n, *size, 3)), f.constant(ints(*target))], options=options, version=3)

    add(f"{op} {size} to {target} align={align} half={half}", resize, transposes=2)

for op in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"):
    kind = S.DepthToSpaceOptionsT if op == "DEPTH_TO_SPACE" else S.SpaceToDepthOptionsT
    for block, shape in ((2, (4, 6, 8)), (2, (4, 4, 4)), (3, (3, 6, 18))):
        add(
            f"{op} {block} {shape}",
            lambda f, n, o=op, k=kind, b=block, s=shape: f.op(o, [f.input((n, *s))], options=k(blockSize=b)),
        )

# Padding

PADS = [[0, 0], [1, 2], [0, 3], [2, 0]]
for op, source in itertools.product(("PAD", "PADV2", "MIRROR_PAD reflect", "MIRROR_PAD symmetric"), ("input", "channels first")):

    def pad(f: File, n: int, op=op, source=source) -> int:
        x = f.input((n, 4, 5, 3)) if source == "input" else image(f, n)
        operands = [x, f.constant(np.asarray(PADS, np.int32))]
        name, _, mode = op.partition(" ")
        if name == "PADV2":
            operands.append(f.constant(np.float32(-1.5)))
        options = S.MirrorPadOptionsT(mode=0 if mode == "reflect" else 1) if mode else None
        return f.op(name, operands, options=options)

    add(f"{op} {source}", pad, transposes=0 if source == "input" else 2)
add("PAD batch", lambda f, n: f.op("PAD", [f.input((n, 3)), f.constant(np.asarray([[1, 1], [0, 2]], np.int32))]))
add("PAD none", lambda f, n: f.op("PAD", [f.input((n, 3)), f.constant(np.zeros((2, 2), np.int32))]))

# Reshaping


def reshape(before, after, option=False, channels_first=False):
    def build(f: File, n: int) -> int:
        x = image(f, n) if channels_first else f.input((n, *before))
        shape = [n if d == "n" else d for d in after]
        if option:
            return f.op("RESHAPE", [x], options=S.ReshapeOptionsT(newShape=ints(*shape)))
        return f.op("RESHAPE", [x, f.constant(ints(*shape))], options=S.ReshapeOptionsT())

    return build


for before, after in (
    ((4, 5, 3), ("n", 20, 3)),
    ((4, 5, 3), ("n", -1)),
    ((4, 5, 3), (-1, 3)),
    ((6,), ("n", 1, 2, 3)),
    ((1, 1, 6), ("n", 6)),
    ((4, 4), ("n", 2, 8)),
):
    for option in (False, True):
        add(f"RESHAPE {before} to {after} {'by option' if option else ''}", reshape(before, after, option))
for after, transposes in (
    (("n", 9 * 6, 4), 2),
    (("n", 9, 6, 2, 2), 2),
    (("n", 9, 2, 3, 4), 2),
    (("n", -1), 2),
    (("n", 9, 24), 2),
    (("n", 1, 9, 6, 4), 2),
    ((-1, 9, 6, 4), 2),
):
    add(f"RESHAPE channels first to {after}", reshape(None, after, channels_first=True), transposes=transposes)


def computed_shape(f: File, n: int) -> int:
    """What Keras writes for Flatten: the batch is read from the input's shape."""
    x = image(f, n)
    sizes = f.op("SHAPE", [x], "int32", options=S.ShapeOptionsT(outType=2))
    first = f.op(
        "STRIDED_SLICE",
        [sizes, f.constant(ints(0)), f.constant(ints(1)), f.constant(ints(1))],
        "int32",
        options=S.StridedSliceOptionsT(shrinkAxisMask=1),
    )
    shape = f.op(
        "PACK", [first, f.constant(np.int32(54)), f.constant(np.int32(4))], "int32", options=S.PackOptionsT(valuesCount=3)
    )
    return f.op("RESHAPE", [x, shape], options=S.ReshapeOptionsT())


add("RESHAPE computed", computed_shape)
add("SHAPE channels first", lambda f, n: f.op("SHAPE", [image(f, n)], "int32", options=S.ShapeOptionsT(outType=2)), transposes=1)
add("SHAPE int64", lambda f, n: f.op("SHAPE", [f.input((n, 3, 4))], "int64", options=S.ShapeOptionsT(outType=4)))
add(
    "RANK",
    lambda f, n: f.op("ADD", [f.op("RANK", [x := f.input((n, 3, 4), "int32")], "int32"), x], "int32", options=S.AddOptionsT()),
)

for axes, shape in (((1,), (1, 4, 5)), ((), (1, 4, 5)), ((-1, 1), (1, 4, 1)), ((2,), (4, 1, 4))):
    add(
        f"SQUEEZE {axes} of {shape}",
        lambda f, n, a=axes, s=shape: f.op("SQUEEZE", [f.input((n, *s))], options=S.SqueezeOptionsT(squeezeDims=ints(*a))),
        batches=(3,) if not axes else (1, 3),
    )
for axis in (0, 1, 2, -1):
    add(f"EXPAND_DIMS {axis}", lambda f, n, a=axis: f.op("EXPAND_DIMS", [f.input((n, 3)), f.constant(ints(a))]))
    add(f"EXPAND_DIMS channels first {axis}", lambda f, n, a=axis: f.op("EXPAND_DIMS", [image(f, n), f.constant(ints(a))]))


def global_pool_and_squeeze(f: File, n: int) -> int:
    x = f.op("MEAN", [image(f, n), f.constant(ints(1, 2))], options=S.ReducerOptionsT(keepDims=True))
    return f.op("SQUEEZE", [x], options=S.SqueezeOptionsT(squeezeDims=ints(1, 2)))


add("SQUEEZE after MEAN", global_pool_and_squeeze, transposes=1)

for perm in ((0, 2, 1), (2, 0, 1), (0, 1, 2)):
    add(f"TRANSPOSE {perm}", lambda f, n, p=perm: f.op("TRANSPOSE", [f.input((n, 3, 4)), f.constant(ints(*p))]))
add(
    "TRANSPOSE to channels first is free",
    lambda f, n: f.op("TRANSPOSE", [image(f, n), f.constant(ints(0, 3, 1, 2))]),
    transposes=1,
)
add(
    "TRANSPOSE of a constant",
    lambda f, n: f.op(
        "ADD",
        [f.input((n, 4, 3)), f.op("TRANSPOSE", [f.constant(weights(3, 4)), f.constant(ints(1, 0))])],
        options=S.AddOptionsT(),
    ),
    transposes=0,
)


def transposed_twice(f: File, n: int) -> int:
    x = f.op("TRANSPOSE", [f.input((n, 3, 4)), f.constant(ints(0, 2, 1))])
    return f.op("TRANSPOSE", [f.op("RELU", [x]), f.constant(ints(0, 2, 1))])


add("TRANSPOSE there and back", transposed_twice, transposes=0)
add("BROADCAST_TO", lambda f, n: f.op("BROADCAST_TO", [f.input((n, 1, 4)), f.constant(ints(n, 3, 4))], version=2))
add("BROADCAST_TO rank", lambda f, n: f.op("BROADCAST_TO", [f.input((4,)), f.constant(ints(n, 3, 4))], version=2))
add("TILE", lambda f, n: f.op("TILE", [f.input((n, 3, 4)), f.constant(ints(1, 2, 3))]))
add("TILE channels first", lambda f, n: f.op("TILE", [image(f, n), f.constant(ints(1, 2, 1, 3))]), transposes=2)
add(
    "FILL",
    lambda f, n: f.op(
        "ADD", [f.input((n, 3)), f.op("FILL", [f.constant(ints(n, 3)), f.constant(np.float32(2.5))])], options=S.AddOptionsT()
    ),
)
add(
    "RANGE",
    lambda f, n: f.op("RANGE", [f.constant(np.int32(1)), f.input((), "int32"), f.constant(np.int32(2))], "int32"),
    low=7,
    high=9,
)

# Joining and splitting

for axis in (0, 1, 3, -1):
    add(
        f"CONCATENATION {axis}",
        lambda f, n, a=axis: f.op(
            "CONCATENATION", [f.input((n, 2, 3, 4)), f.input((n, 2, 3, 4))], options=S.ConcatenationOptionsT(axis=a)
        ),
        transposes=0,
    )
    add(
        f"CONCATENATION channels first {axis}",
        lambda f, n, a=axis: f.op(
            "CONCATENATION",
            [x := image(f, n), f.op("RELU", [x]), f.constant(weights(n, 9, 6, 4))],
            options=S.ConcatenationOptionsT(axis=a),
        ),
        transposes=2,
    )
for axis in (0, 1, -1):
    add(
        f"PACK {axis}",
        lambda f, n, a=axis: f.op("PACK", [f.input((n, 3)), f.input((n, 3))], options=S.PackOptionsT(valuesCount=2, axis=a)),
    )
    add(
        f"UNPACK {axis}",
        lambda f, n, a=axis: f.op("UNPACK", [f.input((2, 2, 2))], ["float32"] * 2, options=S.UnpackOptionsT(num=2, axis=a)),
    )
    add(
        f"SPLIT {axis}",
        lambda f, n, a=axis: f.op(
            "SPLIT", [f.constant(np.int32(a)), f.input((2, 4, 6))], ["float32"] * 2, options=S.SplitOptionsT(numSplits=2)
        ),
    )
add("UNPACK channels first", lambda f, n: f.op("UNPACK", [image(f, n)], ["float32"] * 4, options=S.UnpackOptionsT(num=4, axis=3)))
add(
    "SPLIT channels first",
    lambda f, n: f.op("SPLIT", [f.constant(np.int32(3)), image(f, n)], ["float32"] * 2, options=S.SplitOptionsT(numSplits=2)),
    transposes=3,
)
for sizes in ((1, 3, 2), (1, -1, 2)):
    add(
        f"SPLIT_V {sizes}",
        lambda f, n, s=sizes: f.op(
            "SPLIT_V",
            [f.input((n, 6)), f.constant(ints(*s)), f.constant(np.int32(1))],
            ["float32"] * 3,
            options=S.SplitVOptionsT(numSplits=3),
        ),
    )

# Slices

for begin, size in (((0, 1, 0), (-1, 2, -1)), ((0, 0, 0), (1, 3, 4)), ((0, 2, 1), (1, 1, 3))):
    add(
        f"SLICE {begin} {size}",
        lambda f, n, b=begin, s=size: f.op("SLICE", [f.input((n, 3, 4)), f.constant(ints(*b)), f.constant(ints(*s))]),
    )
add(
    "SLICE channels first",
    lambda f, n: f.op("SLICE", [image(f, n), f.constant(ints(0, 1, 2, 3)), f.constant(ints(-1, 3, 2, 1))]),
    transposes=2,
)
add(
    "SLICE computed",
    lambda f, n: f.op(
        "SLICE",
        [
            f.input((n, 3, 4)),
            f.op("MINIMUM", [f.input((3,), "int32"), f.constant(ints(0, 0, 0))], "int32"),
            f.constant(ints(-1, 2, -1)),
        ],
    ),
    low=1,
    high=3,
)

for name, (begin, end, strides, masks) in {
    "plain": ((0, 1, 1), (1, 3, 4), (1, 1, 2), {}),
    "masks": ((9, 1, 9), (9, 9, 3), (1, 1, 1), {"beginMask": 0b101, "endMask": 0b011}),
    "negative": ((0, -1, -1), (1, -4, -5), (1, -1, -2), {"beginMask": 1, "endMask": 0b011}),
    "shrink": ((0, 1, -1), (1, 2, 0), (1, 1, 1), {"beginMask": 1, "endMask": 1, "shrinkAxisMask": 0b110}),
    "shrink first": ((0, 0, 0), (1, 9, 9), (1, 1, 1), {"endMask": 0b110, "shrinkAxisMask": 0b001}),
    "ellipsis": ((0, 1), (0, 3), (1, 1), {"ellipsisMask": 1}),
    "ellipsis last": ((0, 1, 0), (1, 3, 0), (1, 1, 1), {"ellipsisMask": 0b100, "endMask": 1}),
    "new axis": ((0, 0, 1, 0), (9, 0, 3, 2), (1, 1, 1, 1), {"newAxisMask": 0b10, "endMask": 1}),
    "fewer": ((0, 1), (9, 3), (1, 1), {"endMask": 1}),
    "new axis and shrink": ((0, 0, 1), (0, 9, 2), (1, 1, 1), {"newAxisMask": 1, "endMask": 0b10, "shrinkAxisMask": 0b100}),
}.items():
    for source in ("input", "channels first"):

        def strided(f: File, n: int, begin=begin, end=end, strides=strides, masks=masks, source=source) -> int:
            x = (
                f.input((n, 3, 4))
                if source == "input"
                else f.op("MEAN", [image(f, n), f.constant(ints(1))], options=S.ReducerOptionsT())
            )
            operands = [x, *(f.constant(ints(*v)) for v in (begin, end, strides))]
            return f.op("STRIDED_SLICE", operands, options=S.StridedSliceOptionsT(**masks), version=6)

        add(f"STRIDED_SLICE {name} {source}", strided)
add(
    "STRIDED_SLICE offset",
    lambda f, n: f.op(
        "STRIDED_SLICE",
        [f.input((n, 6)), f.constant(ints(0, 2)), f.constant(ints(n, 3)), f.constant(ints(1, 1))],
        options=S.StridedSliceOptionsT(offset=True),
        version=8,
    ),
)
for axis, shape in itertools.product((0, 1, -1), ((), (4,), (2, 3))):
    add(
        f"GATHER {axis} {shape}",
        lambda f, n, a=axis, s=shape: f.op(
            "GATHER",
            [f.input((4, 4, 5)), f.constant(np.arange(int(np.prod(s))).reshape(s) % 4, "int32")],
            options=S.GatherOptionsT(axis=a),
        ),
        batches=(1,),
    )
add(
    "GATHER embedding",
    lambda f, n: f.op("GATHER", [f.constant(weights(9, 4)), f.input((n, 3), "int32")], options=S.GatherOptionsT()),
    low=0,
    high=8,
)
add(
    "GATHER batches",
    lambda f, n: f.op(
        "GATHER", [f.input((n, 5, 3)), f.input((n, 2), "int32")], options=S.GatherOptionsT(axis=1, batchDims=1), version=5
    ),
    low=0,
    high=4,
)
add("GATHER_ND", lambda f, n: f.op("GATHER_ND", [f.input((3, 4, 5)), f.constant([[0, 1], [2, 3]], "int32")]))
for axes in ((1,), (1, 2)):
    add(f"REVERSE_V2 {axes}", lambda f, n, a=axes: f.op("REVERSE_V2", [f.input((n, 3, 4)), f.constant(ints(*a))]))

# Storage

for source, target in (
    ("float32", "int32"),
    ("int32", "float32"),
    ("bool", "float32"),
    ("float32", "bool"),
    ("int64", "int32"),
    ("uint8", "float32"),
):
    add(
        f"CAST {source} to {target}",
        lambda f, n, s=source, t=target: f.op("CAST", [f.input((n, 5), s)], t, options=S.CastOptionsT()),
        low=0,
        high=9,
    )
add(
    "DEQUANTIZE half computed",
    lambda f, n: f.op("DEQUANTIZE", [f.op("CAST", [f.input((n, 5))], "float16", options=S.CastOptionsT())]),
)


def half_weights(f: File, n: int) -> int:
    w = f.op("DEQUANTIZE", [f.constant(weights(5, 3, 2, 4).astype(np.float16))])
    b = f.op("DEQUANTIZE", [f.constant(weights(5).astype(np.float16))])
    options = S.Conv2DOptionsT(padding=0, strideH=1, strideW=1)
    return f.op("CONV_2D", [f.input((n, 9, 6, 4)), w, b], options=options)


add("DEQUANTIZE half weights", half_weights, transposes=2)


def tied(f: File, n: int) -> int:
    """One buffer as a filter, as a matrix and as a plain operand."""
    data = weights(4, 1, 1, 4)
    buffer = f.buffer(data)
    filters, matrix = f.constant(data, buffer=buffer), f.constant(data.reshape(4, 4), buffer=buffer)
    options = S.Conv2DOptionsT(padding=0, strideH=1, strideW=1)
    x = f.op("CONV_2D", [f.input((n, 3, 4, 4)), filters, f.constant(weights(4))], options=options)
    y = f.op("FULLY_CONNECTED", [x, matrix, -1], options=S.FullyConnectedOptionsT(keepNumDims=True), version=5)
    return f.op("MUL", [y, matrix], options=S.MulOptionsT())


add("weights that are tied", tied)

# Blocks

BLOCKS = {"square": (2, 2), "uneven": (1, 3), "equal": (3, 3)}
for name, block in BLOCKS.items():
    for source in ("input", "channels first"):

        def to_batch(f: File, n: int, block=block, source=source) -> int:
            x = f.input((n, 9, 6, 4)) if source == "input" else image(f, n)
            margins = [[1, -(9 + 1) % block[0]], [0, -6 % block[1]]]
            return f.op("SPACE_TO_BATCH_ND", [x, f.constant(ints(*block)), f.constant(np.asarray(margins, np.int32))])

        def to_space(f: File, n: int, block=block, source=source) -> int:
            x = to_batch(f, n, block, source)
            return f.op(
                "BATCH_TO_SPACE_ND", [f.op("RELU", [x]), f.constant(ints(*block)), f.constant(ints(1, 0, 0, 1).reshape(2, 2))]
            )

        add(f"SPACE_TO_BATCH_ND {name} {source}", to_batch)
        add(f"BATCH_TO_SPACE_ND {name} {source}", to_space)
add(
    "SPACE_TO_BATCH_ND rank 3",
    lambda f, n: f.op(
        "SPACE_TO_BATCH_ND", [f.input((n, 6, 4)), f.constant(ints(3)), f.constant(np.asarray([[1, 2]], np.int32))], version=3
    ),
)


def dilated(f: File, n: int) -> int:
    """How Keras wrote a dilated convolution: blocks, a plain convolution, blocks back; no Transpose of the whole image."""
    x = f.op("SPACE_TO_BATCH_ND", [image(f, n), f.constant(ints(2, 2)), f.constant(ints(2, 3, 2, 2).reshape(2, 2))])
    options = S.DepthwiseConv2DOptionsT(padding=1, strideH=1, strideW=1, depthMultiplier=1)
    x = f.op("DEPTHWISE_CONV_2D", [x, f.constant(weights(1, 3, 3, 4)), f.constant(weights(4))], options=options)
    return f.op("BATCH_TO_SPACE_ND", [x, f.constant(ints(2, 2)), f.constant(ints(0, 1, 0, 0).reshape(2, 2))])


add("BATCH_TO_SPACE_ND after DEPTHWISE_CONV_2D", dilated, transposes=4)

# Places

add("EMBEDDING_LOOKUP", lambda f, n: f.op("EMBEDDING_LOOKUP", [f.input((n,), "int32"), f.constant(weights(9, 4))]), low=0, high=8)
add(
    "SCATTER_ND",
    lambda f, n: f.op("SCATTER_ND", [f.constant([[1], [4], [1]], "int32"), f.input((3, 2)), f.constant(ints(6, 2))]),
    batches=(1,),
)
add("WHERE", lambda f, n: f.op("WHERE", [f.input((n, 3, 4), "bool")], "int64", shapes=[(5, 3)]))
for sequence, batch in ((1, 0), (2, 1), (0, 2), (3, 0)):
    add(
        f"REVERSE_SEQUENCE {sequence} {batch}",
        lambda f, n, s=sequence, b=batch: f.op(
            "REVERSE_SEQUENCE",
            [f.input((2, 3, 4, 5)), f.constant(np.asarray([1, 2, 2, 1][: (2, 3, 4, 5)[b]], np.int32))],
            options=S.ReverseSequenceOptionsT(seqDim=s, batchDim=b),
            shapes=[(2, 3, 4, 5)],
        ),
        batches=(1,),
    )
for axis in (-1, 0, 1):
    add(
        f"ONE_HOT {axis}",
        lambda f, n, a=axis: f.op(
            "ONE_HOT",
            [f.input((n, 3), "int32"), f.constant(np.int32(4)), f.constant(np.float32(2)), f.constant(np.float32(-1))],
            options=S.OneHotOptionsT(axis=a),
        ),
        low=-1,
        high=5,
    )


def constants_on_the_way(f: File, n: int) -> int:
    """What only moves a constant's elements is part of how the constant is seen."""
    w = f.op("CAST", [f.constant(weights(6, 1, 4).astype(np.float16))], options=S.CastOptionsT())
    w = f.op("RESHAPE", [w, f.constant(ints(1, 3, 2, -1))], options=S.ReshapeOptionsT())
    w = f.op("SQUEEZE", [w], options=S.SqueezeOptionsT(squeezeDims=ints(0)))
    w = f.op("EXPAND_DIMS", [w, f.constant(ints(1))])
    return f.op("ADD", [f.input((n, 1, 2, 4)), w], options=S.AddOptionsT())


add("constants on the way", constants_on_the_way, transposes=0, batches=(1, 3))
