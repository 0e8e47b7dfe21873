"""Elements that are found, counted or set by where they are: unique ones, buckets, diagonals, updates of a part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.layout import logical
from mlconverter.formats.tflite.structure import Array
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.dtypes import chosen
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_dtype, translates
from mlconverter.formats.tflite.to_onnx.shapes import as_dtype


@translates("UNIQUE", 1)
def unique(b: Builder, op: Op, x: Operand) -> list[Stored]:
    """UNIQUE → Unique in the order of first appearance, and its inverse."""
    value = b.ask(x)
    # ONNX Runtime compares 64-bit integers only.
    wide = value if x.dtype.startswith("float") else b.cast(value, "int64")
    found, _, inverse, _ = b.emit_several("Unique", 4, wide, sorted=0)
    found = found if x.dtype.startswith("float") else as_dtype(b, found, x.dtype)
    return [Stored(found, (0,)), Stored(as_dtype(b, inverse, op.outputs[1].dtype), (0,))]


@translates("BUCKETIZE", 1)
def bucketize(b: Builder, op: Op, x: Operand) -> Stored:
    """BUCKETIZE → how many of the boundaries, in ascending order, are not above the value."""
    value, order = b.as_is(x)
    bounds = np.asarray(op.options.boundaries, "float64" if x.dtype == "float64" else "float32")
    value = value if x.dtype.startswith("float") else b.cast(value, "float32")
    below = b.emit("Not", b.emit("Less", b.emit("Unsqueeze", value, b.ints([x.rank])), b.array(bounds)))
    return Stored(b.emit("ReduceSum", b.cast(below, "int32"), b.ints([x.rank]), keepdims=0), order)


@translates("HASHTABLE_LOOKUP", 1)
def hashtable_lookup(b: Builder, op: Op, wanted: Operand, keys: Operand, rows: Operand) -> list[Stored]:
    """HASHTABLE_LOOKUP → Gather of the row whose key is Equal, zeros where there is none."""
    same = b.cast(b.emit("Equal", b.emit("Unsqueeze", b.ask(wanted), b.ints([1])), b.ask(keys)), "int32")
    hit = b.cast(b.emit("ReduceMax", same, b.ints([1]), keepdims=0), "bool")
    found = b.emit("Gather", b.ask(rows), b.emit("ArgMax", same, axis=1, keepdims=0), axis=0)
    there = b.emit("Unsqueeze", hit, b.ints(range(1, rows.rank))) if rows.rank > 1 else hit
    found = chosen(b, there, found, b.scalar(0, rows.dtype), rows.dtype)
    return [Stored(found, logical(rows.rank)), Stored(b.cast(hit, op.outputs[1].dtype), (0,))]


def _known_matrix(op: Op) -> str | None:
    axes = 1 if op.key == "MATRIX_DIAG" else 2
    return "the size of its matrices is only known at run time" if None in op.dims(op.tensor(0))[-axes:] else None


_matrices = needs_dtype("float32", "int8", "uint8", "int16", "int32", "int64")
"""The dtypes of LiteRT's kernels, which take every other for one of them."""


@translates("MATRIX_DIAG", 1, check=all_of(_known_matrix, _matrices))
def matrix_diag(b: Builder, op: Op, diagonal: Operand) -> Stored:
    """MATRIX_DIAG → Where of the diagonal, zeros elsewhere."""
    size = diagonal.dims[-1] or 0
    column = b.emit("Unsqueeze", b.ask(diagonal), b.ints([-1]))
    value = chosen(b, b.array(np.eye(size, dtype=bool)), column, b.scalar(0, diagonal.dtype), diagonal.dtype)
    return Stored(value, logical(diagonal.rank + 1))


@translates("MATRIX_SET_DIAG", 1, check=all_of(_known_matrix, _matrices))
def matrix_set_diag(b: Builder, op: Op, x: Operand, diagonal: Operand) -> Stored:
    """MATRIX_SET_DIAG → Where of the new diagonal, the matrix elsewhere."""
    rows, columns = x.dims[-2:]
    assert rows is not None
    assert columns is not None
    # The diagonal has the shorter side's length, so it lies along that side.
    lines = b.emit("Unsqueeze", b.ask(diagonal), b.ints([-1 if rows <= columns else -2]))
    return Stored(chosen(b, b.array(np.eye(rows, columns, dtype=bool)), lines, b.ask(x), x.dtype), logical(x.rank))


def known_part(op: Op) -> str | None:
    """A check that refuses updates of a part whose size nobody knows."""
    whole, part = op.dims(op.tensor(0)), op.dims(op.tensor(1))
    if any(a != b and None in (a, b) for a, b in zip(whole, part, strict=True)):
        return "the size of the part that it updates is only known at run time"
    return None


@translates("DYNAMIC_UPDATE_SLICE", 1, 2, 3, 4, 5, 6, check=known_part)
def dynamic_update_slice(b: Builder, op: Op, x: Operand, update: Operand, starts: Operand) -> Stored:
    """DYNAMIC_UPDATE_SLICE → ScatterND of the part at a start that keeps it inside."""
    return updated(b, x, update, b.cast(b.ask(starts), "int64"))


def updated(b: Builder, x: Operand, update: Operand, starts: ir.Value) -> Stored:
    """The operand with a part of it replaced, which begins at computed places, one for each logical axis."""
    partial = [axis for axis in range(x.rank) if x.dims[axis] != update.dims[axis]]
    if not partial:
        return b.as_is(update)
    # Axes that the part fills may stand behind those that it does not, and are then written whole.
    leading = list(range(partial[-1] + 1))
    if any(x.dims[axis] is None for axis in leading):
        leading = partial
    order = (*leading, *(axis for axis in range(x.rank) if axis not in leading))
    sizes = [update.dims[axis] or 0 for axis in leading]
    room = [(x.dims[axis] or 0) - size for axis, size in zip(leading, sizes, strict=True)]
    first = clamped(b, b.emit("Gather", starts, b.ints(leading)), room)
    places = b.emit("Add", b.array(grid(sizes)), first)
    return Stored(b.emit("ScatterND", b.ask(x, order), places, b.ask(update, order)), order)


def clamped(b: Builder, starts: ir.Value, room: Sequence[int]) -> ir.Value:
    """Starts (along the last axis) that leave everything inside: at least 0, at most what room there is."""
    return b.emit("Max", b.emit("Min", starts, b.ints(room)), b.ints([0]))


def grid(sizes: Sequence[int]) -> Array:
    """The places of all elements of a value of these sizes, along a further last axis."""
    return np.moveaxis(np.indices(sizes, np.int64), 0, -1)
