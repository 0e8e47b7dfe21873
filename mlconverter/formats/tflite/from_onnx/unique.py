"""Elements that are different from all others."""

from __future__ import annotations

import math

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.indexing import mirrored
from mlconverter.formats.tflite.from_onnx.joining import joined
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.slicing import gathered
from mlconverter.formats.tflite.from_onnx.values import Runtime, Stored, Wire


@translates("Unique", 11, 28)
def unique(b: Builder, x: Runtime, *, axis: int | None = None, sorted: int) -> list[Stored]:
    """Unique → TOPK_V2 of the negative, NOT_EQUAL to the one before, WHERE."""
    sizes = [d for d in x.dims if d is not None]
    count = math.prod(sizes)
    if axis is not None and x.rank > 1:
        raise Refused("slices that are different from all others")
    if len(sizes) != x.rank or not count:
        raise Refused("elements of none, or of a number that only the run time knows")
    flat = b.reshape(b.ask(x), (count,))
    values, order = b.emit_several(
        "TOPK_V2", mirrored(b, flat), b.scalar(count, "int32"), outputs=[((count,), None), ((count,), "int32")]
    )
    values = mirrored(b, values)
    # In sorted order equal elements stand together, the first of them first.
    one = b.array(np.ones(1, bool))
    before, behind = (gathered(b, values, np.arange(count - 1) + i, 0) for i in (0, 1))
    changes = b.compute("NOT_EQUAL", before, behind, dims=(count - 1,), dtype="bool") if count > 1 else None
    starts = one if changes is None else joined(b, [one, changes], 0)
    groups = _ranks(b, starts, count)
    group = _placed(b, order, groups, count)
    heads = _where(b, starts)
    first = b.emit("GATHER", order, heads, dims=(None,), axis=0)
    ones = b.array(np.ones(count, np.int32))
    counts = _placed(b, groups, ones, count)
    if not sorted:
        new = b.cast(_placed(b, order, b.cast(starts, "int32"), count), "bool")
        ranks = _ranks(b, new, count)
        place = _where(b, new)
        kept = b.move("GATHER", flat, place, dims=(None,), axis=0)
        own = b.emit("GATHER", ranks, b.emit("GATHER", first, group, dims=(count,), axis=0), dims=(count,), axis=0)
        often = b.emit("GATHER", counts, b.emit("GATHER", group, place, dims=(None,), axis=0), dims=(None,), axis=0)
        found = [kept, place, own, often]
    else:
        often = b.emit("GATHER", counts, b.emit("GATHER", groups, heads, dims=(None,), axis=0), dims=(None,), axis=0)
        found = [b.move("GATHER", values, heads, dims=(None,), axis=0), first, group, often]
    return [Stored(found[0], (0,)), *(Stored(b.cast(w, "int64"), (0,)) for w in found[1:])]


def _where(b: Builder, marks: Wire) -> Wire:
    """Positions of what is marked."""
    return b.cast(b.squeeze(b.emit("WHERE", marks, dims=(None, 1), dtype="int64"), [1]), "int32")


def _ranks(b: Builder, marks: Wire, count: int) -> Wire:
    """How many are marked before or at each position, but the first."""
    so_far = b.emit("CUMSUM", b.cast(marks, "int32"), b.scalar(0, "int32"), dims=(count,))
    return b.emit("SUB", so_far, b.scalar(1, "int32"), dims=(count,))


def _placed(b: Builder, places: Wire, numbers: Wire, count: int) -> Wire:
    """Numbers at the places that are theirs, added up where they share one."""
    column = b.reshape(places, (count, 1))
    return b.emit("SCATTER_ND", column, numbers, b.ints([count]), dims=(count,), dtype="int32")
