"""Regions of images: picking boxes, and pooling what lies in them."""

from __future__ import annotations

from functools import reduce

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.joining import joined
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.sampling import Maths
from mlconverter.formats.tflite.from_onnx.slicing import gathered
from mlconverter.formats.tflite.from_onnx.values import Constant, Ints, Operand, Runtime, Stored, Wire
from mlconverter.formats.tflite.from_onnx.windows import VALID
from mlconverter.formats.tflite.layout import channels_last, logical

MOST = 1024
"""Classes of all items, each of which has an operator of its own."""


@translates("NonMaxSuppression", 10, 11)
def non_max_suppression(
    b: Builder,
    boxes: Operand,
    scores: Operand,
    most: Ints | Runtime | None = None,
    overlap: Operand | None = None,
    least: Operand | None = None,
    *,
    center_point_box: int,
) -> Stored | Constant:
    """NonMaxSuppression → NON_MAX_SUPPRESSION_V4 for each class, of boxes that TOPK_V2 has sorted; WHERE."""
    items, classes, count = scores.dims
    if items is None or classes is None or count is None or items * classes > MOST:
        raise Refused("boxes or classes that are too many, or whose number only the run time knows")
    picks = count if isinstance(most, Runtime) else min(most.fixed("their number")[0] if most else 0, count)
    if picks <= 0 or not items * classes:
        return Constant(np.zeros((0, 3), np.int64))
    above, never = _limit(b, Constant(np.zeros(1, np.float32)) if overlap is None else overlap)
    corners = _with_area(b, _corners(b, b.ask(boxes), bool(center_point_box)), never)
    worth, order = b.emit_several(
        "TOPK_V2", b.ask(scores), b.scalar(count, "int32"), outputs=[(scores.dims, None), (scores.dims, "int32")]
    )
    # LiteRT takes equal scores in any order, so the places in the sorted order are its scores.
    ranks = b.array(np.arange(count, 0, -1, dtype=np.float32))
    if least is not None:
        high = b.emit("GREATER", worth, _number(b, least), dims=scores.dims, dtype="bool")
        ranks = b.emit("SELECT_V2", high, ranks, b.scalar(0, "float32"), dims=scores.dims, dtype="float32")
    limits = b.scalar(picks, "int32"), above, b.scalar(0.5, "float32")
    wanted = b.cast(_number(b, most), "int32") if isinstance(most, Runtime) else None
    found, counted = [], []
    for item in range(items):
        of_item = _row(b, corners, item)
        for number in range(classes):
            sequence = _row(b, _row(b, order, item), number)
            sorted_boxes = b.emit("GATHER", of_item, sequence, dims=(count, 4), axis=0)
            values = ranks if ranks.rank == 1 else _row(b, _row(b, ranks, item), number)
            chosen, valid = b.emit_several(
                "NON_MAX_SUPPRESSION_V4", sorted_boxes, values, *limits, outputs=[((picks,), "int32"), ((), "int32")]
            )
            found.append(b.emit("GATHER", sequence, chosen, dims=(picks,), axis=0))
            # What is picked first does not depend on how many are.
            valid = valid if wanted is None else b.emit("MINIMUM", valid, wanted, dims=())
            numbers = b.array(np.arange(picks, dtype=np.int32))
            counted.append(b.emit("LESS", numbers, valid, dims=(picks,), dtype="bool"))
    one = len(found) == 1
    indices, masks = (found[0], counted[0]) if one else (joined(b, found, 0), joined(b, counted, 0))
    places = b.squeeze(b.emit("WHERE", masks, dims=(None, 1), dtype="int64"), [1])
    of = np.stack(np.meshgrid(np.arange(items), np.arange(classes), indexing="ij"), -1).reshape(-1, 2).repeat(picks, 0)
    named = b.emit("GATHER", b.array(of), places, dims=(None, 2), axis=0)
    last = b.expand_dims(b.cast(b.emit("GATHER", indices, places, dims=(None,), axis=0), "int64"), 1)
    return Stored(joined(b, [named, last], 1), logical(2))


def _number(b: Builder, value: Operand) -> Wire:
    """The only element of a tensor, as one of rank 0."""
    return b.reshape(b.ask(value), ())


def _limit(b: Builder, overlap: Operand) -> tuple[Wire, Wire]:
    """What LiteRT is to drop from, which drops what overlaps by just as much, too; and whether nothing is ever dropped."""
    m, limit = Maths(b), _number(b, overlap)
    if limit.data is not None:
        if limit.array < 0:
            raise Refused("a limit below nothing")
        next_up = np.nextafter(limit.array, np.float32(2), dtype=np.float32)
        return b.array(np.clip(next_up, np.finfo(np.float32).tiny, np.float32(1))), b.array(limit.array >= 1)
    least = int(np.finfo(np.float32).tiny.view(np.int32))
    bits = m("MAXIMUM", m("ADD", b.bits(limit, "int32"), 1), least)
    return m("MINIMUM", b.bits(bits, "float32"), 1), m("GREATER_EQUAL", limit, 1, dtype="bool")


def _row(b: Builder, wire: Wire, index: int) -> Wire:
    """One of the parts along the first axis."""
    return b.move("GATHER", wire, b.scalar(index, "int32"), dims=wire.dims[1:], axis=0)


def _corners(b: Builder, boxes: Wire, centred: bool) -> Wire:
    """Boxes as two opposite corners."""
    if not centred:
        return boxes
    m, last = Maths(b), boxes.rank - 1
    centre, size = gathered(b, boxes, np.arange(2), last), gathered(b, boxes, np.arange(2, 4), last)
    half = m("MUL", size, 0.5)
    return joined(b, [m("SUB", centre, half), m("ADD", centre, half)], last)


def _with_area(b: Builder, corners: Wire, never: Wire) -> Wire:
    """Boxes, and boxes far from all others in place of those without area, from which LiteRT gets lost.

    So are all of them where nothing is ever dropped.
    """
    m, count, last = Maths(b), corners.dims[1] or 0, corners.rank - 1
    low, high = gathered(b, corners, np.arange(2), last), gathered(b, corners, np.arange(2, 4), last)
    area = b.emit("REDUCE_PROD", m("ABS", m("SUB", high, low)), b.ints([last]), dims=(*low.dims[:-1], 1), keepDims=True)
    every = list(range(corners.rank))
    reach = b.emit("REDUCE_MAX", m("ABS", corners), b.ints(every), dims=(1,) * corners.rank, keepDims=True)
    rows = np.arange(count, dtype=np.float32)[:, None]
    apart = m("MUL", m("MAXIMUM", reach, 1), b.array(np.concatenate([-2 * rows - 3, 0 * rows, -2 * rows - 2, 0 * rows + 1], 1)))
    empty = m("LESS_EQUAL", area, 0, dtype="bool")
    return m.select(b.emit("LOGICAL_OR", empty, never, dims=empty.dims), apart, corners)


@translates("RoiAlign", 10, 16, 22)
def roi_align(
    b: Builder,
    x: Operand,
    rois: Operand,
    items: Operand,
    *,
    mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
    coordinate_transformation_mode: str = "output_half_pixel",
) -> Stored:
    """RoiAlign → GATHER of the neighbours of each point, MUL, AVERAGE_POOL_2D or MAX_POOL_2D over each cell."""
    if sampling_ratio <= 0:
        raise Refused("sampling_ratio=0: as many points as a region is large, which only the run time knows")
    image, half = b.image(x), coordinate_transformation_mode == "half_pixel"
    batch, height, width, channels = image.dims
    if height is None or width is None or channels is None:
        raise Refused("an image of a size that only the run time knows")
    flat = b.reshape(image, (None if batch is None else batch * height * width, channels))
    m, boxes = Maths(b), b.ask(rois)
    boxes = m("SUB", m("MUL", boxes, spatial_scale), 0.5 if half else 0.0)
    rows = _points(m, boxes, 1, output_height, sampling_ratio, height, half)
    columns = _points(m, boxes, 0, output_width, sampling_ratio, width, half)
    first = m("MUL", b.expand_dims(b.cast(b.ask(items), "int32"), 1), height)
    values = []
    for row, of_row in rows:
        line = b.expand_dims(m("MUL", m("ADD", first, row), width), 2)
        for column, of_column in columns:
            place = m("ADD", line, b.expand_dims(column, 1))
            share = m("MUL", b.expand_dims(of_row, 2), b.expand_dims(of_column, 1))
            elements = b.emit("GATHER", flat, place, dims=(*place.dims, channels), axis=0)
            values.append(m("MUL", elements, b.expand_dims(share, 3)))
    # The largest is that of the weighted neighbours, not of what they sum up to.
    total = reduce(lambda p, q: m("MAXIMUM" if mode == "max" else "ADD", p, q), values)
    pooled = b.emit(
        "MAX_POOL_2D" if mode == "max" else "AVERAGE_POOL_2D",
        total,
        dims=(total.dims[0], output_height, output_width, channels),
        padding=VALID,
        filterHeight=sampling_ratio,
        filterWidth=sampling_ratio,
        strideH=sampling_ratio,
        strideW=sampling_ratio,
    )
    return Stored(pooled, channels_last(4))


def _points(m: Maths, boxes: Wire, axis: int, cells: int, sampling: int, size: int, half: bool) -> list[tuple[Wire, Wire]]:
    """The two neighbours of each point along an axis, and their shares: nothing of what lies beyond the image."""
    start, end = (gathered(m.b, boxes, np.array([column]), 1) for column in (axis, axis + 2))
    length = m("SUB", end, start)
    length = length if half else m("MAXIMUM", length, 1)
    steps = (np.arange(cells)[:, None] + (np.arange(sampling) + 0.5) / sampling).reshape(1, -1).astype(np.float32)
    at = m("ADD", start, m("MUL", m("MUL", length, 1 / cells), m.b.array(steps)))
    inside = m.b.emit(
        "LOGICAL_AND", m("GREATER_EQUAL", at, -1, dtype="bool"), m("LESS_EQUAL", at, size, dtype="bool"), dims=at.dims
    )
    counts = m.b.cast(inside, "float32")
    at = m.within(at, 0, size - 1)
    low = m("FLOOR", at)
    rest = m("SUB", at, low)
    below, above = m.whole(low, size), m.whole(m("ADD", low, 1), size)
    return [(below, m("MUL", m("SUB", 1, rest), counts)), (above, m("MUL", rest, counts))]


@translates("TensorScatter", 24)
def tensor_scatter(b: Builder, past: Operand, update: Operand, starts: Operand | None = None, *, axis: int, mode: str) -> Stored:
    """TensorScatter → GATHER of what each place is written with, SELECT_V2."""
    axis %= past.rank
    size, length = past.dims[axis], update.dims[axis]
    if size is None or length is None:
        raise Refused("a length that only the run time knows")
    if not 0 < length <= size:
        raise Refused("an update of no length, or one that is longer than what it is written into")
    order = (0, axis, *(a for a in range(1, past.rank) if a != axis))
    m, old, new = Maths(b), b.ask(past, order), b.ask(update, order)
    numbers = b.array(np.arange(size, dtype=np.int32)[None])
    first = b.array(np.zeros((1, 1), np.int32)) if starts is None else b.expand_dims(b.cast(b.ask(starts), "int32"), 1)
    place = m("SUB", numbers, first)
    if mode == "circular":
        place = m("FLOOR_MOD", place, size)
    written = b.emit(
        "LOGICAL_AND", m("GREATER_EQUAL", place, 0, dtype="bool"), m("LESS", place, length, dtype="bool"), dims=place.dims
    )
    for position in range(2, past.rank):
        written = b.expand_dims(written, position)
    place = m.within(place, 0, length - 1)
    if starts is None:
        found = b.move("GATHER", new, b.reshape(place, (size,)), dims=old.dims, axis=1)
    else:
        found = b.move("GATHER", new, place, dims=old.dims, axis=1, batchDims=1)
    return Stored(b.emit("SELECT_V2", written, found, old, dims=old.dims, dtype=old.dtype), order)
