"""Reductions and positions of extremes."""

from __future__ import annotations

import onnx_ir as ir

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.dtypes import with_kernel
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_constant, translates
from mlconverter.formats.tflite.to_onnx.shapes import as_dtype
from mlconverter.registry import Check


def _reduced(b: Builder, op: Op, x: Operand, onnx: str) -> Stored:
    value, order = b.as_is(x)
    axes = {a % x.rank for a in op.parameter(1).reshape(-1).tolist()}
    if not axes:
        return Stored(value, order)
    keep = bool(op.options.keepDims)
    places = b.ints(layout.positions(order, axes))
    result = with_kernel(b, onnx, x.dtype, lambda v: b.emit(onnx, v, places, keepdims=int(keep)), value)
    return Stored(result, order if keep else layout.without(order, axes))


def _reduction(name: str, onnx: str, *versions: int, check: Check | None = None) -> None:
    @translates(name, *versions, check=all_of(needs_constant(axes=1), *([check] if check else [])))
    def translate(b: Builder, op: Op, x: Operand, axes: Operand) -> Stored:
        return _reduced(b, op, x, onnx)

    translate.__doc__ = f"{name} → {onnx}."


def _no_short_integers(op: Op) -> str | None:
    dtype = op.dtype()
    return (
        f"plain {dtype} tensors, which LiteRT's kernel takes for quantised ones" if dtype in ("int8", "uint8", "int16") else None
    )


_reduction("SUM", "ReduceSum", 1, 2, check=_no_short_integers)
_reduction("REDUCE_PROD", "ReduceProd", 1, 2)
_reduction("REDUCE_MAX", "ReduceMax", 1, 2, 3)
_reduction("REDUCE_MIN", "ReduceMin", 1, 2, 3)


@translates("MEAN", 1, 2, 3, check=all_of(needs_constant(axes=1), _no_short_integers))
def mean(b: Builder, op: Op, x: Operand, axes: Operand) -> Stored:
    """MEAN → ReduceMean; of integers the sum, divided and cut to a whole number."""
    if x.dtype.startswith("float"):
        return _reduced(b, op, x, "ReduceMean")
    value, order = b.as_is(x)
    gone = {a % x.rank for a in op.parameter(1).reshape(-1).tolist()}
    keep = bool(op.options.keepDims)
    places = b.ints(layout.positions(order, gone))
    total = b.emit("ReduceSum", b.cast(value, "int64"), places, keepdims=int(keep), noop_with_empty_axes=1)
    count = b.emit("ReduceProd", b.emit("Gather", b.emit("Shape", value), places), keepdims=0)
    return Stored(b.cast(b.emit("Div", total, count), x.dtype), order if keep else layout.without(order, gone))


def _as_numbers(b: Builder, op: Op, x: Operand, onnx: str) -> Stored:
    value, order = b.as_is(x)
    axes = {a % x.rank for a in op.parameter(1).reshape(-1).tolist()}
    if not axes:
        return Stored(value, order)
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
