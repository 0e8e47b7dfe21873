"""Picking elements by index."""

from __future__ import annotations

import numpy as np

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.shaping import squeezed
from mlconverter.formats.tflite.from_onnx.slicing import one_of
from mlconverter.formats.tflite.from_onnx.values import Constant, Ints, Operand, Runtime, Stored, Wire


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


def _from_start(b: Builder, x: Operand, indices: Operand, axis: int) -> Wire:
    """Indices counted from the start of an axis, which LiteRT asks for: negative ones would read what is before the tensor."""
    size = x.dims[axis]
    if isinstance(indices, Constant):
        if (indices.value >= 0).all():
            return b.ask(indices)
        if size is not None:
            return b.constant(np.where(indices.value < 0, indices.value + size, indices.value))
    wire = b.ask(indices)
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
    picks = b.ask(Constant(_wrapped(indices, x.dims[axis])), order) if isinstance(indices, Constant) else None
    if picks is None:
        picks = _modulo(b, b.ask(indices, order), x, axis)
    y = b.move("GATHER", wire, picks, dims=picks.dims, axis=x.rank - 1, batchDims=x.rank - 1)
    return Stored(y, order)


def _wrapped(indices: Constant, size: int | None) -> np.ndarray:
    if (indices.value >= 0).all():
        return indices.value
    if size is None:
        raise Refused("negative indices along an axis whose length only the run time knows")
    return np.where(indices.value < 0, indices.value + size, indices.value)


def _modulo(b: Builder, indices: Wire, x: Operand, axis: int) -> Wire:
    size = x.dims[axis]
    if size is None:
        raise Refused("indices along an axis whose length only the run time knows")
    return b.emit("FLOOR_MOD", indices, b.scalar(size, indices.dtype), dims=indices.dims)


@translates("ArgMax", 1, 11, 12, 13)
def arg_max(b: Builder, x: Runtime, *, axis: int, keepdims: int, select_last_index: int = 0) -> Stored:
    """ArgMax → ARG_MAX."""
    return _arg(b, "ARG_MAX", x, axis, bool(keepdims), select_last_index)


@translates("ArgMin", 1, 11, 12, 13)
def arg_min(b: Builder, x: Runtime, *, axis: int, keepdims: int, select_last_index: int = 0) -> Stored:
    """ArgMin → ARG_MIN."""
    return _arg(b, "ARG_MIN", x, axis, bool(keepdims), select_last_index)


def _arg(b: Builder, op: str, x: Runtime, axis: int, keep: bool, last: int) -> Stored:
    if last:
        raise Refused("select_last_index=1")
    wire, order = x.first
    position = order.index(axis % x.rank)
    dims = (*wire.dims[:position], *wire.dims[position + 1 :])
    found = b.emit(op, wire, b.scalar(position, "int32"), dims=dims, dtype="int64", outputType=INT64)
    if not keep:
        return Stored(found, layout.without(order, [axis % x.rank]))
    return Stored(b.expand_dims(found, position), order)


INT64 = 4
"""Number of the type in the schema."""


@translates("TopK", 1, 10, 11, 24)
def top_k(b: Builder, x: Runtime, k: Ints, *, axis: int, largest: int = 1, sorted: int = 1) -> list[Stored]:
    """TopK → TOPK_V2."""
    if not largest:
        raise Refused("the smallest elements")
    wire, order = b.with_last(x, axis)
    count = k.fixed("their number")[0]
    dims = (*wire.dims[:-1], count)
    values, places = b.emit_several("TOPK_V2", wire, b.scalar(count, "int32"), outputs=[(dims, None), (dims, "int32")])
    return [Stored(values, order), Stored(b.cast(places, "int64"), order)]
