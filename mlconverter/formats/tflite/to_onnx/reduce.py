"""Reductions and positions of extremes."""

from __future__ import annotations

import onnx_ir as ir

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_constant, needs_float, translates
from mlconverter.formats.tflite.to_onnx.shapes import as_dtype


def _reduced(b: Builder, op: Op, x: Operand, onnx: str) -> Stored:
    value, order = b.as_is(x)
    axes = {a % x.rank for a in op.parameter(1).reshape(-1).tolist()}
    if not axes:
        return Stored(value, order)
    keep = bool(op.options.keepDims)
    result = b.emit(onnx, value, b.ints(layout.positions(order, axes)), keepdims=int(keep))
    return Stored(result, order if keep else layout.without(order, axes))


def _reduction(name: str, onnx: str, *versions: int, floats: bool = False) -> None:
    checks = [needs_constant(axes=1), *([needs_float] if floats else [])]

    @translates(name, *versions, check=all_of(*checks))
    def translate(b: Builder, op: Op, x: Operand, axes: Operand) -> Stored:
        return _reduced(b, op, x, onnx)

    translate.__doc__ = f"{name} → {onnx}."


_reduction("MEAN", "ReduceMean", 1, 2, 3, floats=True)
_reduction("SUM", "ReduceSum", 1, 2)
_reduction("REDUCE_PROD", "ReduceProd", 1, 2)
_reduction("REDUCE_MAX", "ReduceMax", 1, 2, 3)
_reduction("REDUCE_MIN", "ReduceMin", 1, 2, 3)


def _as_numbers(b: Builder, op: Op, x: Operand, onnx: str) -> Stored:
    value, order = b.as_is(x)
    axes = {a % x.rank for a in op.parameter(1).reshape(-1).tolist()}
    keep = bool(op.options.keepDims)
    # Runtimes lack reductions of booleans that the operator set has.
    result = b.emit(onnx, b.cast(value, "int32"), b.ints(layout.positions(order, axes)), keepdims=int(keep))
    return Stored(b.cast(result, "bool"), order if keep else layout.without(order, axes))


@translates("REDUCE_ANY", 1, check=needs_constant(axes=1))
def reduce_any(b: Builder, op: Op, x: Operand, axes: Operand) -> Stored:
    """REDUCE_ANY → ReduceMax of the truth values as integers."""
    return _as_numbers(b, op, x, "ReduceMax")


@translates("REDUCE_ALL", 1, check=needs_constant(axes=1))
def reduce_all(b: Builder, op: Op, x: Operand, axes: Operand) -> Stored:
    """REDUCE_ALL → ReduceMin of the truth values as integers."""
    return _as_numbers(b, op, x, "ReduceMin")


@translates("ARG_MAX", 1, 2, 3, check=needs_constant(axis=1))
def arg_max(b: Builder, op: Op, x: Operand, axis: Operand) -> Stored:
    """ARG_MAX → ArgMax."""
    return _position(b, op, x, "ArgMax")


@translates("ARG_MIN", 1, 2, 3, check=needs_constant(axis=1))
def arg_min(b: Builder, op: Op, x: Operand, axis: Operand) -> Stored:
    """ARG_MIN → ArgMin."""
    return _position(b, op, x, "ArgMin")


def _position(b: Builder, op: Op, x: Operand, onnx: str) -> Stored:
    axis = int(op.parameter(1).reshape(-1)[0]) % x.rank
    value, order = b.as_is(x)
    if x.dtype == "bool":
        value = b.cast(value, "int32")
    result: ir.Value = b.emit(onnx, value, axis=order.index(axis), keepdims=0)
    return Stored(as_dtype(b, result, op.outputs[0].dtype), layout.without(order, [axis]))


@translates("TOPK_V2", 1, 2, 3)
def top_k(b: Builder, op: Op, x: Operand, k: Operand) -> list[Stored]:
    """TOPK_V2 → TopK along the last axis."""
    value, order = b.as_is(x)
    number = op.constant(1)
    count = b.emit("Reshape", b.cast(b.ask(k), "int64"), b.ints([1])) if number is None else b.ints([int(number.reshape(-1)[0])])
    values, indices = b.emit_several("TopK", 2, value, count, axis=layout.positions(order, [-1])[0])
    return [Stored(values, order), Stored(as_dtype(b, indices, op.outputs[1].dtype), order)]
