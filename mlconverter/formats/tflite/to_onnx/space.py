"""Moving elements between the axes of an image: depth, space and batch."""

from __future__ import annotations

from collections.abc import Sequence

from mlconverter.formats.tflite.layout import Order, arranged, channels_first, logical
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.dtypes import with_kernel
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Runtime, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_constant, needs_rank, translates

IMAGE = channels_first(4)


def _movable(op: Op) -> str | None:
    dtype = op.dtype()
    return f"{dtype} images, for which ONNX Runtime has no such kernel" if dtype in ("int64", "uint64") else None


@translates("DEPTH_TO_SPACE", 1, 2, check=all_of(needs_rank(4), _movable))
def depth_to_space(b: Builder, op: Op, image: Operand) -> Stored:
    """DEPTH_TO_SPACE → DepthToSpace, depth-column-row."""
    size = op.options.blockSize
    move = lambda v: b.emit("DepthToSpace", v, blocksize=size, mode="DCR")  # noqa: E731
    return Stored(with_kernel(b, "DepthToSpace", image.dtype, move, b.ask(image, IMAGE)), IMAGE)


@translates("SPACE_TO_DEPTH", 1, 2, check=all_of(needs_rank(4), _movable))
def space_to_depth(b: Builder, op: Op, image: Operand) -> Stored:
    """SPACE_TO_DEPTH → SpaceToDepth."""
    size = op.options.blockSize
    move = lambda v: b.emit("SpaceToDepth", v, blocksize=size)  # noqa: E731
    return Stored(with_kernel(b, "SpaceToDepth", image.dtype, move, b.ask(image, IMAGE)), IMAGE)


def _known_sizes(op: Op) -> str | None:
    if None in op.dims(op.tensor(0))[1:]:
        return "its sizes are only known at run time"
    return None


_blocks = all_of(needs_constant(block_shape=1, margins=2), _known_sizes)


@translates("SPACE_TO_BATCH_ND", 1, 2, 3, 4, check=_blocks)
def space_to_batch_nd(b: Builder, op: Op, x: Operand, block_shape: Operand, paddings: Operand) -> Stored:
    """SPACE_TO_BATCH_ND → Pad, Reshape, Transpose, Reshape: the places within a block go in front of the batch."""
    order = _batch_first(x)
    value = b.ask(x, order)
    blocks, widths = _per_axis(op, x.rank)
    begins, ends = (arranged(order, [w[side] for w in widths]) for side in (0, 1))
    if any((*begins, *ends)):
        margins = b.ints([*begins, *ends])
        value = with_kernel(b, "Pad", x.dtype, lambda v: b.emit("Pad", v, margins), value)
    counts = [((size or 0) + sum(w)) // block for size, w, block in zip(x.dims, widths, blocks, strict=True)]
    split, places = _interleaved(order, counts, blocks, _blocked(op))
    value = b.emit("Reshape", value, b.ints(split))
    inner = [places[axis] + 1 for axis in _blocked(op)]
    value = b.emit("Transpose", value, perm=[*inner, *(places[axis] for axis in order)])
    return Stored(b.emit("Reshape", value, b.ints([-1, *arranged(order, counts)[1:]])), order)


@translates("BATCH_TO_SPACE_ND", 1, 2, 3, 4, check=_blocks)
def batch_to_space_nd(b: Builder, op: Op, x: Operand, block_shape: Operand, crops: Operand) -> Stored:
    """BATCH_TO_SPACE_ND → Reshape, Transpose, Reshape, Slice: the places within a block come from the batch."""
    order = _batch_first(x)
    blocks, widths = _per_axis(op, x.rank)
    blocked = _blocked(op)
    sizes = [size or 0 for size in x.dims]
    value = b.emit("Reshape", b.ask(x, order), b.ints([*(blocks[a] for a in blocked), -1, *arranged(order, sizes)[1:]]))
    perm = []
    for place, axis in enumerate(order, start=len(blocked)):
        perm += [place, blocked.index(axis)] if axis in blocked else [place]
    value = b.emit("Transpose", value, perm=perm)
    whole = [size * block for size, block in zip(sizes, blocks, strict=True)]
    value = b.emit("Reshape", value, b.ints([-1, *arranged(order, whole)[1:]]))
    cropped = [axis for axis in blocked if any(widths[axis])]
    if cropped:
        starts, ends = [widths[a][0] for a in cropped], [whole[a] - widths[a][1] for a in cropped]
        value = b.emit("Slice", value, b.ints(starts), b.ints(ends), b.ints(order.index(a) for a in cropped))
    return Stored(value, order)


def _batch_first(x: Operand) -> Order:
    """The order at hand if it has the batch in front, which the blocks are put before."""
    if isinstance(x, Runtime) and x.first.order[0] == 0:
        return x.first.order
    return logical(x.rank)


def _blocked(op: Op) -> list[int]:
    """The logical axes that are cut into blocks."""
    return list(range(1, 1 + op.parameter(1).size))


def _per_axis(op: Op, rank: int) -> tuple[list[int], list[list[int]]]:
    """Block size, and margin before and after, of every logical axis."""
    blocks, widths = op.parameter(1).reshape(-1).tolist(), op.parameter(2).tolist()
    rest = rank - 1 - len(blocks)
    return [1, *blocks, *[1] * rest], [[0, 0], *widths, *[[0, 0]] * rest]


def _interleaved(
    order: Order, counts: Sequence[int], blocks: Sequence[int], blocked: Sequence[int]
) -> tuple[list[int], dict[int, int]]:
    """The shape with every blocked axis as (blocks, places within one), and where each axis begins in it."""
    shape: list[int] = []
    places = {}
    for axis in order:
        places[axis] = len(shape)
        shape.append(counts[axis] if axis else -1)
        if axis in blocked:
            shape.append(blocks[axis])
    return shape, places
