"""Rows that meet where their places say: segments, sparse embeddings and sparse tensors."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.layout import logical
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import translates

SUM, MEAN = 0, 1
"""``CombinerType`` in the schema; the other value is SQRTN."""


@translates("SEGMENT_SUM", 1)
def segment_sum(b: Builder, op: Op, x: Operand, ids: Operand) -> Stored:
    """SEGMENT_SUM → ScatterND into zeros, one row for each segment up to the last."""
    value, places = b.ask(x), b.cast(b.ask(ids), "int64")
    last = b.emit("Slice", places, b.ints([-1]), b.ints([np.iinfo(np.int64).max]))
    shape = b.emit("Concat", b.emit("Add", last, b.ints([1])), b.emit("Shape", value, start=1), axis=0)
    return Stored(_gathered(b, value, places, shape, b.scalar(0, x.dtype)), logical(x.rank))


def _gathered(b: Builder, value: ir.Value, ids: ir.Value, shape: ir.Value, empty: ir.Value, reduction: str = "add") -> ir.Value:
    """Rows put together in a new value by the number that each has, onto what an empty place holds."""
    places = b.emit("Unsqueeze", ids, b.ints([-1]))
    return b.emit("ScatterND", b.emit("Expand", empty, shape), places, value, reduction=reduction)


def _unsorted(name: str, reduction: str, mapping: str) -> None:
    @translates(name, 1)
    def translate(b: Builder, op: Op, x: Operand, ids: Operand, count: Operand) -> Stored:
        value, places = b.ask(x), b.cast(b.ask(ids), "int64")
        rows = b.emit("Reshape", b.cast(b.ask(count), "int64"), b.ints([1]))
        # Rows with a negative number belong nowhere; ONNX would count them from the end. They meet behind the last row.
        places = b.emit("Where", b.emit("Less", places, b.scalar(0, "int64")), rows, places)
        shape = b.emit("Concat", b.emit("Add", rows, b.ints([1])), b.emit("Shape", value, start=ids.rank), axis=0)
        result = _gathered(b, value, places, shape, b.scalar(_empty(reduction, x.dtype), x.dtype), reduction)
        return Stored(b.emit("Slice", result, b.ints([0]), rows), logical(x.rank - ids.rank + 1))

    translate.__doc__ = f"{name} → {mapping}; rows with a negative number are left out."


def _empty(reduction: str, dtype: str) -> float | int:
    """What a reduction of nothing gives."""
    if reduction in ("add", "mul"):
        return float(reduction == "mul")
    if dtype.startswith("float"):
        return float(np.finfo(dtype).min if reduction == "max" else np.finfo(dtype).max)
    return int(np.iinfo(dtype).min if reduction == "max" else np.iinfo(dtype).max)


_unsorted("UNSORTED_SEGMENT_SUM", "add", "ScatterND that adds, into zeros")
_unsorted("UNSORTED_SEGMENT_PROD", "mul", "ScatterND that multiplies, into ones")
_unsorted("UNSORTED_SEGMENT_MAX", "max", "ScatterND of the largest, into the least number")
_unsorted("UNSORTED_SEGMENT_MIN", "min", "ScatterND of the least, into the largest number")


@translates("SPARSE_TO_DENSE", 1, 2, 3)
def sparse_to_dense(b: Builder, op: Op, indices: Operand, shape: Operand, values: Operand, default: Operand) -> Stored:
    """SPARSE_TO_DENSE → ScatterND into the default value."""
    rank = len(op.out_dims)
    places = b.cast(b.ask(indices), "int64")
    if indices.rank < 2:
        places = b.emit("Reshape", places, b.ints([-1, 1] if rank == 1 else [1, rank]))
    updates = b.ask(values)
    if not values.rank:
        updates = b.emit("Expand", updates, b.emit("Shape", places, end=1))
    dense = b.emit("Expand", b.ask(default), b.cast(b.ask(shape), "int64"))
    return Stored(b.emit("ScatterND", dense, places, updates), logical(rank))


@translates("EMBEDDING_LOOKUP_SPARSE", 1)
def embedding_lookup_sparse(
    b: Builder, op: Op, ids: Operand, indices: Operand, shape: Operand, weights: Operand, table: Operand
) -> Stored:
    """EMBEDDING_LOOKUP_SPARSE → Gather of rows, weighed, and ScatterND that adds them; divided by what weighed them."""
    combiner, width = op.options.combiner, table.rank - 1
    factors = b.ask(weights)
    wide = b.emit("Unsqueeze", factors, b.ints(range(1, 1 + width)))
    rows = b.emit("Mul", b.emit("Gather", b.ask(table), b.ask(ids), axis=0), wide)
    places = b.emit("Slice", b.cast(b.ask(indices), "int64"), b.ints([0]), b.ints([-1]), b.ints([1]))
    bags = b.emit("Slice", b.cast(b.ask(shape), "int64"), b.ints([0]), b.ints([-1]))

    def put(value: ir.Value) -> ir.Value:
        target = b.emit("Concat", bags, b.emit("Shape", value, start=1), axis=0)
        return b.emit("ScatterND", b.emit("Expand", b.scalar(0, table.dtype), target), places, value, reduction="add")

    total = put(rows)
    if combiner != SUM:
        weight = put(factors) if combiner == MEAN else b.emit("Sqrt", put(b.emit("Mul", factors, factors)))
        # Nothing has divided a bag in which nothing is.
        empty = b.emit("Equal", put(b.emit("Abs", b.emit("Sign", factors))), b.scalar(0, table.dtype))
        weight = b.emit("Where", empty, b.scalar(1, table.dtype), weight)
        total = b.emit("Div", total, b.emit("Unsqueeze", weight, b.ints(range(-width, 0))))
    return Stored(total, logical(len(op.out_dims)))
