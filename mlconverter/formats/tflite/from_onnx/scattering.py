"""Writing elements at positions."""

from __future__ import annotations

import math

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.creation import positions_along
from mlconverter.formats.tflite.from_onnx.indexing import from_start, places_from_start
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.values import Constant, Dims, Operand, Runtime, Stored, Wire
from mlconverter.formats.tflite.layout import logical

REDUCTIONS = {"max": "MAXIMUM", "min": "MINIMUM", "mul": "MUL"}
"""What becomes of an element and of what several updates give together."""

SEGMENTS = {"max": "UNSORTED_SEGMENT_MAX", "min": "UNSORTED_SEGMENT_MIN", "mul": "UNSORTED_SEGMENT_PROD"}
"""What several updates of one element give together."""


@translates("ScatterND", 11, 13, 16, 18)
def scatter_nd(b: Builder, x: Operand, indices: Operand, updates: Operand, *, reduction: str = "none") -> Stored:
    """ScatterND → SCATTER_ND, SELECT_V2 of what it wrote and what was there; ADD or UNSORTED_SEGMENT_… for reductions."""
    return _scattered(b, x, places_from_start(b, x, indices), b.ask(updates), reduction)


def _sizes(wire: Wire, what: str) -> list[int]:
    sizes = [d for d in wire.dims if d is not None]
    if len(sizes) != wire.rank:
        raise Refused(what)
    return sizes


def _scattered(b: Builder, x: Operand, places: Wire, values: Wire, reduction: str) -> Stored:
    wire, order = b.ask(x), logical(x.rank)
    if reduction in SEGMENTS:
        shape = _sizes(wire, "reducing into a tensor of a size that only the run time knows")
        return Stored(_reduced(b, wire, places, values, shape, reduction), order)
    into = b.shape(x.sizes) if isinstance(x, Runtime) else b.ints(x.dims)
    if reduction == "add":
        written = b.emit("SCATTER_ND", places, values, into, dims=wire.dims, dtype=wire.dtype)
        return Stored(b.compute("ADD", wire, written, dims=wire.dims), order)
    written = b.emit("SCATTER_ND", places, values, into, dims=wire.dims, dtype=wire.dtype)
    hit = _hit(b, places, values, into, wire.dims)
    return Stored(b.emit("SELECT_V2", hit, written, wire, dims=wire.dims, dtype=wire.dtype), order)


def _hit(b: Builder, places: Wire, values: Wire, into: Wire, dims: Dims) -> Wire:
    """Which elements are written."""
    one = b.scalar(1, "int32")
    if None in values.dims:
        sizes = b.emit("SHAPE", values, dims=(values.rank,), dtype="int32", outType=2)
        marks = b.emit("FILL", sizes, one, dims=values.dims)
    else:
        marks = b.array(np.ones([d or 0 for d in values.dims], np.int32))
    count = b.emit("SCATTER_ND", places, marks, into, dims=dims, dtype="int32")
    return b.emit("GREATER", count, b.scalar(0, "int32"), dims=dims, dtype="bool")


def _reduced(b: Builder, wire: Wire, places: Wire, values: Wire, shape: list[int], reduction: str) -> Wire:
    """Elements together with all updates of theirs."""
    depth = places.dims[-1] or 0
    count, rest = math.prod(_sizes(places, "a number of updates that only the run time knows")[:-1]), shape[depth:]
    total, parts = math.prod(shape[:depth]), math.prod(rest)
    steps = b.ints([math.prod(shape[i + 1 : depth]) for i in range(depth)])
    numbers = b.emit("SUM", b.emit("MUL", places, steps, dims=places.dims), b.ints([places.rank - 1]), dims=places.dims[:-1])
    numbers = b.reshape(numbers, (count,))
    flat = b.reshape(values, (count, parts))
    op = SEGMENTS[reduction]
    found = b.reshape(b.emit(op, flat, numbers, b.scalar(total, "int32"), dims=(total, parts)), wire.dims)
    together = b.compute(REDUCTIONS[reduction], wire, found, dims=wire.dims)
    if reduction == "mul":
        return together
    # Where nothing is written LiteRT gives the end of the range, beyond which there are infinities.
    hit = _hit(b, b.reshape(numbers, (count, 1)), b.array(np.zeros((count, 1), np.int32)), b.ints([total, 1]), (total, 1))
    hit = b.reshape(hit, (*shape[:depth], *[1] * len(rest)))
    return b.emit("SELECT_V2", hit, together, wire, dims=wire.dims, dtype=wire.dtype)


@translates("ScatterElements", 11, 13, 16, 18)
def scatter_elements(b: Builder, x: Operand, indices: Operand, updates: Operand, *, axis: int, reduction: str = "none") -> Stored:
    """ScatterElements → as ScatterND, at positions along all axes."""
    axis %= x.rank
    own = b.cast(from_start(b, x, indices, axis), "int32")
    if isinstance(indices, Runtime) and None in own.dims:
        return _scattered(b, x, _places(b, indices, own, axis), b.ask(updates), reduction)
    grid = np.moveaxis(np.indices([d or 0 for d in own.dims], np.int32), 0, -1).copy()
    if isinstance(indices, Constant):
        grid[..., axis] = own.array
        return _scattered(b, x, b.array(grid), b.ask(updates), reduction)
    grid[..., axis] = 0
    along = b.array(np.eye(x.rank, dtype=np.int32)[axis])
    moved = b.emit("MUL", b.expand_dims(own, x.rank), along, dims=grid.shape)
    return _scattered(b, x, b.emit("ADD", moved, b.array(grid), dims=grid.shape), b.ask(updates), reduction)


def _places(b: Builder, indices: Runtime, own: Wire, axis: int) -> Wire:
    """Positions along all axes, of as many updates as only the run time knows."""
    nowhere = b.emit("MUL", own, b.scalar(0, "int32"), dims=own.dims)
    columns = [own] * own.rank
    for other in (a for a in range(own.rank) if a != axis):
        numbers = b.reshape(positions_along(b, indices, other), (own.dims[other], *[1] * (own.rank - 1 - other)))
        columns[other] = b.emit("ADD", nowhere, numbers, dims=own.dims)
    return b.emit("PACK", *columns, dims=(*own.dims, own.rank), axis=own.rank, valuesCount=own.rank)


@translates("Scatter", 9, 11)
def scatter(b: Builder, x: Operand, indices: Operand, updates: Operand, *, axis: int) -> Stored:
    """Scatter → as ScatterElements."""
    return scatter_elements(b, x, indices, updates, axis=axis)
