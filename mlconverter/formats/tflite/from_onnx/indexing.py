"""Picking elements by index."""

from __future__ import annotations

import numpy as np

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.shaping import squeezed
from mlconverter.formats.tflite.from_onnx.slicing import one_of
from mlconverter.formats.tflite.from_onnx.values import Constant, Ints, Operand, Runtime, Stored, Wire
from mlconverter.formats.tflite.layout import Order


@translates("Gather", 1, 11, 13)
def gather(b: Builder, x: Operand, indices: Operand, *, axis: int) -> Stored:
    """Gather → GATHER; STRIDED_SLICE for one constant index."""
    axis %= x.rank
    if isinstance(x, Runtime) and isinstance(indices, Constant) and indices.rank == 0:
        return squeezed(b, one_of(b, x.first, axis, int(indices.number()))[0], [axis])
    wire, order = b.as_is(x)
    if indices.rank > 1 and order != layout.logical(x.rank):
        wire, order = b.ask(x), layout.logical(x.rank)
    position = order.index(axis)
    picks = _from_start(b, x, indices, axis)
    dims = (*wire.dims[:position], *picks.dims, *wire.dims[position + 1 :])
    y = b.move("GATHER", wire, picks, dims=dims, axis=position)
    if indices.rank == 1:
        return Stored(y, order)
    return Stored(y, layout.without(order, [axis]) if indices.rank == 0 else layout.logical(len(dims)))


def _from_start(b: Builder, x: Operand, indices: Operand, axis: int, order: Order | None = None) -> Wire:
    """Indices counted from the start of an axis, which LiteRT asks for: negative ones would read what is before the tensor."""
    size = x.dims[axis]
    if isinstance(indices, Constant) and (size is not None or (indices.value >= 0).all()):
        found = indices.value if (indices.value >= 0).all() else np.where(indices.value < 0, indices.value + size, indices.value)
        return b.ask(Constant(found, indices.name), order)
    wire = b.ask(indices, order)
    if size is None:
        assert isinstance(x, Runtime)
        length = b.cast(b.reshape(b.size(x.length(axis)), ()), wire.dtype)
    else:
        length = b.scalar(size, wire.dtype)
    return b.emit("FLOOR_MOD", wire, length, dims=wire.dims)


@translates("GatherElements", 11, 13)
def gather_elements(b: Builder, x: Operand, indices: Operand, *, axis: int) -> Stored:
    """GatherElements → GATHER along the last axis with all others as batch axes."""
    axis %= x.rank
    others = [(d, i) for a, (d, i) in enumerate(zip(x.dims, indices.dims, strict=True)) if a != axis]
    if any(d != i or d is None for d, i in others):
        raise Refused("indices of another shape than the data")
    wire, order = b.with_last(x, axis)
    picks = _from_start(b, x, indices, axis, order)
    return Stored(b.move("GATHER", wire, picks, dims=picks.dims, axis=x.rank - 1, batchDims=x.rank - 1), order)


@translates("GatherND", 11, 12, 13)
def gather_nd(b: Builder, x: Operand, indices: Operand, *, batch_dims: int = 0) -> Stored:
    """GatherND → GATHER_ND."""
    if batch_dims:
        raise Refused("batch_dims")
    places = _places_from_start(b, x, indices)
    depth = places.dims[-1]
    assert depth is not None
    wire = b.ask(x)
    dims = (*places.dims[:-1], *wire.dims[depth:])
    return Stored(b.move("GATHER_ND", wire, places, dims=dims), layout.logical(len(dims)))


def _places_from_start(b: Builder, x: Operand, places: Operand) -> Wire:
    """Positions over the first axes, each counted from the start of its axis."""
    depth = places.dims[-1]
    if depth is None:
        raise Refused("positions over a number of axes that only the run time knows")
    sizes = x.dims[:depth]
    if isinstance(places, Constant) and (places.value >= 0).all():
        return b.cast(b.ask(places), "int32")  # none of them counts from the end
    wire = b.cast(b.ask(places), "int32")
    lengths = b.shape(x.sizes[:depth]) if isinstance(x, Runtime) else b.ints(s or 0 for s in sizes)
    return b.emit("FLOOR_MOD", wire, lengths, dims=wire.dims)


@translates("ScatterND", 11, 13, 16, 18)
def scatter_nd(b: Builder, x: Operand, indices: Operand, updates: Operand, *, reduction: str = "none") -> Stored:
    """ScatterND → SCATTER_ND, and SELECT_V2 between what it wrote and what was there; ADD with reduction=add."""
    if reduction not in ("none", "add"):
        raise Refused(f"reduction={reduction}")
    return _scattered(b, x, _places_from_start(b, x, indices), b.ask(updates), reduction)


def _scattered(b: Builder, x: Operand, places: Wire, values: Wire, reduction: str) -> Stored:
    wire, order = b.ask(x), layout.logical(x.rank)
    if None in wire.dims:
        raise Refused("writing into a tensor of a size that only the run time knows")
    shape = b.ints([d for d in wire.dims if d is not None])
    written = b.emit("SCATTER_ND", places, values, shape, dims=wire.dims, dtype=wire.dtype)
    if reduction == "add":
        return Stored(b.compute("ADD", wire, written, dims=wire.dims), order)
    if None in values.dims:
        raise Refused("a number of updates that only the run time knows")
    marks = b.array(np.ones([d or 0 for d in values.dims], np.int32))
    count = b.emit("SCATTER_ND", places, marks, shape, dims=wire.dims, dtype="int32")
    hit = b.emit("GREATER", count, b.scalar(0, "int32"), dims=wire.dims, dtype="bool")
    return Stored(b.emit("SELECT_V2", hit, written, wire, dims=wire.dims, dtype=wire.dtype), order)


@translates("ScatterElements", 11, 13, 16, 18)
def scatter_elements(b: Builder, x: Operand, indices: Operand, updates: Operand, *, axis: int, reduction: str = "none") -> Stored:
    """ScatterElements → as ScatterND."""
    if reduction not in ("none", "add"):
        raise Refused(f"reduction={reduction}")
    axis %= x.rank
    size = x.dims[axis]
    if size is None:
        raise Refused("positions along an axis whose length only the run time knows")
    if None in indices.dims:
        raise Refused("a number of updates that only the run time knows")
    places = np.moveaxis(np.indices([d or 0 for d in indices.dims], np.int32), 0, -1).copy()
    if isinstance(indices, Constant):
        places[..., axis] = np.where(indices.value < 0, indices.value + size, indices.value)
        return _scattered(b, x, b.array(places), b.ask(updates), reduction)
    along = b.cast(_from_start(b, x, indices, axis), "int32")
    others = [b.array(places[..., a : a + 1]) for a in range(x.rank)]
    others[axis] = b.expand_dims(along, x.rank)
    joined = b.emit("CONCATENATION", *others, dims=(*indices.dims, x.rank), axis=x.rank) if x.rank > 1 else others[0]
    return _scattered(b, x, joined, b.ask(updates), reduction)


@translates("Scatter", 9, 11)
def scatter(b: Builder, x: Operand, indices: Operand, updates: Operand, *, axis: int) -> Stored:
    """Scatter → as ScatterElements."""
    return scatter_elements(b, x, indices, updates, axis=axis)


@translates("ArgMax", 1, 11, 12, 13)
def arg_max(b: Builder, x: Runtime, *, axis: int, keepdims: int, select_last_index: int = 0) -> Stored:
    """ArgMax → ARG_MAX, of the reversed axis for the last of equal maxima."""
    return _arg(b, "ARG_MAX", x, axis, bool(keepdims), bool(select_last_index))


@translates("ArgMin", 1, 11, 12, 13)
def arg_min(b: Builder, x: Runtime, *, axis: int, keepdims: int, select_last_index: int = 0) -> Stored:
    """ArgMin → ARG_MIN, of the reversed axis for the last of equal minima."""
    return _arg(b, "ARG_MIN", x, axis, bool(keepdims), bool(select_last_index))


def _arg(b: Builder, op: str, x: Runtime, axis: int, keep: bool, last: bool) -> Stored:
    wire, order = x.first
    position = order.index(axis % x.rank)
    dims = (*wire.dims[:position], *wire.dims[position + 1 :])
    size = wire.dims[position]
    if last and size is None:
        raise Refused("select_last_index=1 along an axis whose length only the run time knows")
    data = b.move("REVERSE_V2", wire, b.ints([position]), dims=wire.dims) if last else wire
    found = b.emit(op, data, b.scalar(position, "int32"), dims=dims, dtype="int64", outputType=INT64)
    if last and size is not None:
        found = b.emit("SUB", b.scalar(size - 1, "int64"), found, dims=dims)
    if not keep:
        return Stored(found, layout.without(order, [axis % x.rank]))
    return Stored(b.expand_dims(found, position), order)


INT64 = 4
"""Number of the type in the schema."""


@translates("TopK", 1, 10, 11, 24)
def top_k(b: Builder, x: Runtime, k: Ints | Runtime, *, axis: int, largest: int = 1, sorted: int = 1) -> list[Stored]:
    """TopK → TOPK_V2, of the negative for the smallest."""
    wire, order = b.with_last(x, axis)
    count = None if isinstance(k, Runtime) else k.fixed("their number")[0]
    number = b.reshape(b.setting(k), ()) if isinstance(k, Runtime) else b.scalar(count or 0, "int32")
    dims = (*wire.dims[:-1], count)
    data = wire if largest else _mirrored(b, wire)
    values, places = b.emit_several("TOPK_V2", data, number, outputs=[(dims, None), (dims, "int32")])
    found = values if largest else _mirrored(b, values)
    return [Stored(found, order), Stored(b.cast(places, "int64"), order)]


def _mirrored(b: Builder, wire: Wire) -> Wire:
    """The numbers in the opposite order: the negative, one less for integers, of which the lowest has no negative."""
    if wire.dtype == "float32":
        return b.emit("NEG", wire, dims=wire.dims)
    return b.emit("SUB", b.scalar(-1, wire.dtype), wire, dims=wire.dims)


@translates("OneHot", 9, 11, 28)
def one_hot(b: Builder, indices: Runtime, depth: Operand, values: Operand, *, axis: int) -> Stored:
    """OneHot → ONE_HOT."""
    fixed = int(depth.number()) if isinstance(depth, Constant) else None
    count = b.reshape(b.setting(depth), ()) if isinstance(depth, Runtime) else b.scalar(fixed or 0, "int32")
    wire = b.ask(indices)
    if wire.dtype not in ("int32", "int64"):
        raise Refused(f"indices of {wire.dtype}")
    below = b.emit("LESS", wire, b.scalar(0, wire.dtype), dims=wire.dims, dtype="bool")
    moved = b.emit("ADD", wire, b.cast(count, wire.dtype), dims=wire.dims)
    places = b.emit("SELECT_V2", below, moved, wire, dims=wire.dims, dtype=wire.dtype)
    off, on = (_element(b, values, i) for i in (0, 1))
    place = axis % (indices.rank + 1)
    dims = (*wire.dims[:place], fixed, *wire.dims[place:])
    made = b.emit("ONE_HOT", places, count, on, off, dims=dims, dtype=values.dtype, axis=place)
    return Stored(made, layout.logical(len(dims)))


def _element(b: Builder, vector: Operand, index: int) -> Wire:
    """One element of a vector as a tensor without axes."""
    if isinstance(vector, Constant):
        return b.scalar(vector.value[index].item(), vector.dtype)
    (wire, _), _ = one_of(b, vector.first, 0, index)
    return b.reshape(wire, ())


@translates("CumSum", 11, 14)
def cum_sum(b: Builder, x: Runtime, axis: Ints | Runtime, *, exclusive: int, reverse: int) -> Stored:
    """CumSum → CUMSUM."""
    wire, order = x.first
    if isinstance(axis, Runtime):
        wire, place = b.ask(x), b.reshape(b.setting(axis), ())
        made = b.emit("CUMSUM", wire, place, dims=wire.dims, exclusive=bool(exclusive), reverse=bool(reverse))
        return Stored(made, layout.logical(x.rank))
    position = order.index(axis.fixed("the axis")[0] % x.rank)
    place = b.scalar(position, "int32")
    made = b.emit("CUMSUM", wire, place, dims=wire.dims, exclusive=bool(exclusive), reverse=bool(reverse))
    return Stored(made, order)
