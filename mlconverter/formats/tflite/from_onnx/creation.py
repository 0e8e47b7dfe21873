"""Tensors that are made of nothing, of a shape, of true positions, or of products so far."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.joining import joined
from mlconverter.formats.tflite.from_onnx.kernels import STORED
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.slicing import gathered, one_of
from mlconverter.formats.tflite.from_onnx.values import Array, Constant, Ints, Operand, Runtime, Stored, Wire
from mlconverter.hub.io import numpy_name

LONGEST = 64
"""Of an axis along which a product is written out."""

INT32 = 2
"""Number of the type in the schema."""


@translates("Constant", 1, 9, 11, 12, 13, 19, 21, 23, 24, 25)
def constant(b: Builder, *, value: Array | None = None, **others: Any) -> Constant:
    """Constant → a constant tensor; only one that is an output is left of them."""
    ((kind, given),) = (others or {"value": value}).items()
    if kind not in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        raise Refused(f"a constant given as {kind}")
    dtype = np.float32 if "float" in kind else None if kind == "value" else np.int64
    return Constant(np.asarray(given, dtype))


@translates("EyeLike", 9, 22)
def eye_like(b: Builder, x: Operand, *, k: int, dtype: int | None = None) -> Constant | Stored:
    """EyeLike → a constant, or a comparison of RANGEs where only the run time knows the size."""
    wanted = x.dtype if dtype is None else numpy_name(ir.DataType(dtype))
    if wanted not in STORED and wanted != "float16":
        raise Refused(f"TFLite does not compute with {wanted}")
    if isinstance(x, Constant) or None not in x.dims:
        rows, columns = (d or 0 for d in x.dims)
        return Constant(np.eye(rows, columns, k, np.dtype(wanted)))
    row, column = (positions_along(b, x, axis) for axis in (0, 1))
    moved = b.emit("ADD", b.expand_dims(row, 1), b.scalar(k, "int32"), dims=(*row.dims, 1))
    here = b.emit("EQUAL", moved, column, dims=x.dims, dtype="bool")
    return Stored(b.cast(here, "float32" if wanted == "float16" else wanted), (0, 1))


@translates("Trilu", 14)
def trilu(b: Builder, x: Runtime, k: Ints | Runtime | None = None, *, upper: int) -> Stored:
    """Trilu → SELECT_V2 by a constant triangle, or a comparison of RANGEs where only the run time knows it."""
    wire, diagonal = b.ask(x), k[0] if isinstance(k, Ints) else 0
    sizes = [d for d in x.dims[-2:] if d is not None]
    if len(sizes) == 2 and isinstance(diagonal, int) and not isinstance(k, Runtime):
        kept = b.array((np.triu if upper else np.tril)(np.ones(sizes, bool), diagonal))
    else:
        row, column = (positions_along(b, x, axis) for axis in (-2, -1))
        dims = (*row.dims, *column.dims)
        past = b.emit("SUB", column, b.expand_dims(row, 1), dims=dims)
        if isinstance(k, Runtime):
            first = b.reshape(b.cast(b.ask(k), "int32"), ())
        else:
            first = b.scalar(diagonal, "int32") if isinstance(diagonal, int) else b.reshape(b.size(diagonal), ())
        kept = b.emit("GREATER_EQUAL" if upper else "LESS_EQUAL", past, first, dims=dims, dtype="bool")
    zero = b.scalar(0, wire.dtype)
    return Stored(b.emit("SELECT_V2", kept, wire, zero, dims=wire.dims, dtype=wire.dtype), layout.logical(x.rank))


def positions_along(b: Builder, x: Runtime, axis: int) -> Wire:
    """The positions along an axis."""
    known = x.dims[axis]
    if known is not None:
        return b.array(np.arange(known, dtype=np.int32))
    size = b.reshape(b.size(x.length(axis)), ())
    return b.emit("RANGE", b.scalar(0, "int32"), size, b.scalar(1, "int32"), dims=(x.dims[axis],))


@translates("NonZero", 9, 13)
def non_zero(b: Builder, x: Runtime) -> Stored:
    """NonZero → WHERE, TRANSPOSE."""
    if not x.rank:
        raise Refused("of a single number, which has no position")
    return Stored(b.emit("WHERE", _is_true(b, b.ask(x)), dims=(None, x.rank), dtype="int64"), (1, 0))


def _is_true(b: Builder, wire: Wire) -> Wire:
    if wire.dtype == "bool":
        return wire
    return b.compute("NOT_EQUAL", wire, b.scalar(0, wire.dtype), dims=wire.dims, dtype="bool")


@translates("Compress", 9, 11, 28)
def compress(b: Builder, x: Operand, condition: Operand, *, axis: int | None = None) -> Stored:
    """Compress → GATHER of the positions that WHERE finds."""
    if axis is None:
        wire, order, position = b.reshape(b.ask(x), (None,)), layout.logical(1), 0
    else:
        wire, order = b.as_is(x)
        position = order.index(axis % x.rank)
    if isinstance(condition, Constant):
        return Stored(gathered(b, wire, np.flatnonzero(condition.value), position), order)
    places = b.squeeze(b.emit("WHERE", b.ask(condition), dims=(None, 1), dtype="int64"), [1])
    dims = (*wire.dims[:position], None, *wire.dims[position + 1 :])
    return Stored(b.move("GATHER", wire, places, dims=dims, axis=position), order)


@translates("ReverseSequence", 10, 28)
def reverse_sequence(b: Builder, x: Runtime, lengths: Operand, *, batch_axis: int, time_axis: int) -> Stored:
    """ReverseSequence → REVERSE_SEQUENCE."""
    wire, order = x.first
    along = {"seqDim": order.index(time_axis % x.rank), "batchDim": order.index(batch_axis % x.rank)}
    return Stored(b.move("REVERSE_SEQUENCE", wire, b.cast(b.ask(lengths), "int32"), dims=wire.dims, **along), order)


@translates("CumProd", 26)
def cum_prod(b: Builder, x: Runtime, axis: Ints, *, exclusive: int, reverse: int) -> Stored:
    """CumProd → MUL of each part with those before it, CONCATENATION."""
    wire, order = x.first
    along = axis.fixed("the axis")[0] % x.rank
    position = order.index(along)
    size = wire.dims[position]
    if size is None or not 0 < size <= LONGEST:
        raise Refused("a running product of more factors than are written out, or of a number that only the run time knows")
    parts = [one_of(b, x.first, along, i)[0].wire for i in (range(size)[::-1] if reverse else range(size))]
    if exclusive:
        dims = parts[0].dims
        if None in dims:
            raise Refused("exclusive=1 of a size that only the run time knows")
        parts = [b.constant(np.ones([d or 0 for d in dims], wire.dtype)), *parts[:-1]]
    for i in range(1, size):
        parts[i] = b.compute("MUL", parts[i - 1], parts[i], dims=parts[i].dims)
    return Stored(joined(b, parts[::-1] if reverse else parts, position), order)


@translates("Hardmax", 13)
def hardmax(b: Builder, x: Runtime, *, axis: int) -> Stored:
    """Hardmax → ARG_MAX, ONE_HOT."""
    wire, order = b.with_last(x, axis)
    return Stored(_hardmax(b, wire), order)


@translates("Hardmax", 1, 11)
def hardmax_flat(b: Builder, x: Runtime, *, axis: int) -> Stored:
    """Hardmax up to opset 12 → ARG_MAX, ONE_HOT over all axes from ``axis`` on."""
    axis += x.rank if axis < 0 else 0
    wire = b.ask(x)
    if axis >= x.rank or wire.dims.count(None) > 1 or None in wire.dims[axis:]:
        raise Refused("several axes together, of sizes that only the run time knows")
    flat = b.reshape(wire, [*wire.dims[:axis], math.prod(d or 1 for d in wire.dims[axis:])])
    return Stored(b.reshape(_hardmax(b, flat), wire.dims), layout.logical(x.rank))


def _hardmax(b: Builder, wire: Wire) -> Wire:
    size = wire.dims[-1]
    if size is None:
        raise Refused("an axis whose length only the run time knows")
    place = b.emit("ARG_MAX", wire, b.scalar(wire.rank - 1, "int32"), dims=wire.dims[:-1], dtype="int32", outputType=INT32)
    on, off = b.scalar(1, wire.dtype), b.scalar(0, wire.dtype)
    return b.emit("ONE_HOT", place, b.scalar(size, "int32"), on, off, dims=wire.dims, dtype=wire.dtype, axis=-1)


@translates("Col2Im", 18)
def col2im(
    b: Builder,
    x: Operand,
    image: Ints,
    block: Ints,
    *,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
) -> Stored:
    """Col2Im → SCATTER_ND, which adds up what falls on the same place."""
    sizes, kernel = image.fixed("the image"), block.fixed("the block")
    rank = len(sizes)
    steps, gaps, around = strides or [1] * rank, dilations or [1] * rank, pads or [0] * (2 * rank)
    channels = x.dims[1]
    if channels is None:
        raise Refused("a number of channels that only the run time knows")
    batch = x.dims[0] if isinstance(x, Constant) else x.length(0)
    channels //= math.prod(kernel)
    extents = [(k - 1) * g + 1 for k, g in zip(kernel, gaps, strict=True)]
    counts = [(n + around[i] + around[rank + i] - extents[i]) // steps[i] + 1 for i, n in enumerate(sizes)]
    taps = np.indices(kernel).reshape(rank, -1, 1) * np.reshape(gaps, (-1, 1, 1))
    starts = np.indices(counts).reshape(rank, 1, -1) * np.reshape(steps, (-1, 1, 1)) - np.reshape(around[:rank], (-1, 1, 1))
    places = (taps + starts).reshape(rank, -1)
    inside = np.flatnonzero(((places >= 0) & (places < np.reshape(sizes, (-1, 1)))).all(0))
    flat = np.ravel_multi_index(tuple(places[:, inside]), sizes).astype(np.int32)
    columns = b.reshape(b.ask(x), (x.dims[0], channels, places.shape[1]))
    moved = gathered(b, b.transpose(columns, (2, 0, 1)), inside, 0)
    shape, dims = b.shape([math.prod(sizes), batch, channels]), (math.prod(sizes), x.dims[0], channels)
    made = b.emit("SCATTER_ND", b.array(flat[:, None]), moved, shape, dims=dims, dtype=moved.dtype)
    return Stored(b.reshape(made, (*sizes, x.dims[0], channels)), (*range(2, rank + 2), 0, 1))
