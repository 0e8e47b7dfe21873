"""Picking elements by index."""

from __future__ import annotations

import numpy as np

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.elementwise import kept
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.shaping import squeezed
from mlconverter.formats.tflite.from_onnx.slicing import Part, one_of, sliced
from mlconverter.formats.tflite.from_onnx.values import Constant, Ints, Operand, Runtime, Stored, Wire
from mlconverter.formats.tflite.layout import Order
from mlconverter.hub.io import dim_of

MOST_BATCH_AXES = 6
"""Of more axes all but the last are taken for one."""


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
    picks = from_start(b, x, indices, axis)
    dims = (*wire.dims[:position], *picks.dims, *wire.dims[position + 1 :])
    y = b.move("GATHER", wire, picks, dims=dims, axis=position)
    if indices.rank == 1:
        return Stored(y, order)
    return Stored(y, layout.without(order, [axis]) if indices.rank == 0 else layout.logical(len(dims)))


def from_start(b: Builder, x: Operand, indices: Operand, axis: int, order: Order | None = None) -> Wire:
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
    others = {a: (d, i) for a, (d, i) in enumerate(zip(x.dims, indices.dims, strict=True)) if a != axis}
    if any(None in sizes and not _alike(b, a) for a, sizes in others.items()):
        raise Refused("indices or data of a size that only the run time knows")
    shorter = {a: Part(0, i, 1, i) for a, (d, i) in others.items() if d != i}
    if shorter:  # what lies beyond the indices is not looked at
        x = kept(sliced(b, b.as_is(x), shorter))
    wire, order = b.with_last(x, axis)
    picks = from_start(b, x, indices, axis, order)
    if x.rank <= MOST_BATCH_AXES:
        return Stored(b.move("GATHER", wire, picks, dims=picks.dims, axis=x.rank - 1, batchDims=x.rank - 1), order)
    rows = [b.reshape(w, (None, w.dims[-1])) for w in (wire, picks)]
    found = b.move("GATHER", *rows, dims=rows[1].dims, axis=1, batchDims=1)
    return Stored(b.reshape(found, picks.dims), order)


def _alike(b: Builder, axis: int) -> bool:
    """Whether the first two inputs are known to be as long along an axis, however long that is."""
    assert b.node is not None
    names = [None if v is None or v.shape is None else dim_of(v.shape[axis]) for v in b.node.inputs[:2]]
    return names[0] is not None and names[0] == names[1]


@translates("GatherND", 11, 12, 13)
def gather_nd(b: Builder, x: Operand, indices: Operand, *, batch_dims: int = 0) -> Stored:
    """GatherND → GATHER_ND; the places of batch axes are put before those that are given."""
    places = places_from_start(b, x, indices, batch_dims)
    wire = b.ask(x)
    if batch_dims:
        sizes = [d for d in places.dims if d is not None]
        if len(sizes) != places.rank:
            raise Refused("batch_dims of sizes that only the run time knows")
        grid = np.moveaxis(np.indices(sizes[:-1], np.int32), 0, -1)[..., :batch_dims]
        last = places.rank - 1
        whole = (*sizes[:-1], sizes[-1] + batch_dims)
        places = b.emit("CONCATENATION", b.array(np.ascontiguousarray(grid)), places, dims=whole, axis=last)
    depth = places.dims[-1]
    assert depth is not None
    dims = (*places.dims[:-1], *wire.dims[depth:])
    return Stored(b.move("GATHER_ND", wire, places, dims=dims), layout.logical(len(dims)))


def places_from_start(b: Builder, x: Operand, places: Operand, first: int = 0) -> Wire:
    """Positions over axes from the first one on, each counted from the start of its axis."""
    depth = places.dims[-1]
    if depth is None:
        raise Refused("positions over a number of axes that only the run time knows")
    sizes = x.dims[first : first + depth]
    if isinstance(places, Constant) and (places.value >= 0).all():
        return b.cast(b.ask(places), "int32")  # none of them counts from the end
    wire = b.cast(b.ask(places), "int32")
    lengths = b.shape(x.sizes[first : first + depth]) if isinstance(x, Runtime) else b.ints(s or 0 for s in sizes)
    return b.emit("FLOOR_MOD", wire, lengths, dims=wire.dims)


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
    number = k[0] if isinstance(k, Ints) else None
    if isinstance(k, Runtime):
        size = b.reshape(b.setting(k), ())
    else:
        size = b.scalar(number, "int32") if isinstance(number, int) else b.reshape(b.size(k[0]), ())
    dims = (*wire.dims[:-1], number if isinstance(number, int) else None)
    data = wire if largest else mirrored(b, wire)
    values, places = b.emit_several("TOPK_V2", data, size, outputs=[(dims, None), (dims, "int32")])
    found = values if largest else mirrored(b, values)
    return [Stored(found, order), Stored(b.cast(places, "int64"), order)]


def mirrored(b: Builder, wire: Wire) -> Wire:
    """The numbers in the opposite order: the negative, one less for integers, of which the lowest has no negative."""
    if wire.dtype == "float32":
        return b.emit("NEG", wire, dims=wire.dims)
    return b.emit("SUB", b.scalar(-1, wire.dtype), wire, dims=wire.dims)


@translates("OneHot", 9, 11, 28)
def one_hot(b: Builder, indices: Runtime, depth: Operand, values: Operand, *, axis: int) -> Stored:
    """OneHot → ONE_HOT."""
    wire = b.ask(indices)
    if wire.dtype not in ("int32", "int64"):
        wire = b.cast(wire, "int64")
    count = int(depth.number()) if isinstance(depth, Constant) else None
    if count is None:
        size = b.cast(b.ask(depth), "int32")
        size = b.reshape(size, ()) if size.rank else size
    else:
        size = b.scalar(count, "int32")
    below = b.emit("LESS", wire, b.scalar(0, wire.dtype), dims=wire.dims, dtype="bool")
    moved = b.emit("ADD", wire, b.cast(size, wire.dtype), dims=wire.dims)
    places = b.emit("SELECT_V2", below, moved, wire, dims=wire.dims, dtype=wire.dtype)
    if isinstance(values, Constant):
        off, on = (b.scalar(v.item(), values.dtype) for v in values.value.reshape(-1))
    else:
        off, on = (b.move("GATHER", b.ask(values), b.scalar(i, "int32"), dims=(), axis=0) for i in (0, 1))
    place = axis % (indices.rank + 1)
    dims = (*wire.dims[:place], count, *wire.dims[place:])
    made = b.emit("ONE_HOT", places, size, on, off, dims=dims, dtype=on.dtype, axis=place)
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
