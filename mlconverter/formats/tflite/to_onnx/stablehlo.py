"""StableHLO, element by element and shape by shape: operators that say in another way what TFLite's own say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.to_onnx.bodies import listed, paired
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.dtypes import chosen, converted, with_kernel
from mlconverter.formats.tflite.to_onnx.joining import joined
from mlconverter.formats.tflite.to_onnx.operands import Constant, Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import needs_dtype, needs_float, translates
from mlconverter.formats.tflite.to_onnx.shapes import reshaped, transposed
from mlconverter.formats.tflite.to_onnx.slicing import Cuts
from mlconverter.registry import Check

_COMPARISONS = {0: "Equal", 2: "GreaterOrEqual", 3: "Greater", 4: "LessOrEqual", 5: "Less"}
"""``StablehloComparisonDirection`` in the schema; 1 is "not equal"."""

NOT_EQUAL, TOTAL_ORDER = 1, 2


def _paired(name: str, kind: str, mapping: str) -> None:
    @translates(f"STABLEHLO_{name}", 1)
    def translate(b: Builder, op: Op, x: Operand, y: Operand) -> Stored:
        order, (left, right) = b.together(x, y)
        return Stored(paired(b, kind, left, right, x.dtype), order)

    translate.__doc__ = f"STABLEHLO_{name} → {mapping}."


_paired("ADD", "add", "Add; Or of truth values")
_paired("MULTIPLY", "mul", "Mul; And of truth values")
_paired("MAXIMUM", "max", "Max; Or of truth values")
_paired("MINIMUM", "min", "Min; And of truth values")


def _binary(name: str, onnx: str, check: Check | None = None, **attributes: int) -> None:
    @translates(f"STABLEHLO_{name}", 1, check=check)
    def translate(b: Builder, op: Op, x: Operand, y: Operand) -> Stored:
        order, values = b.together(x, y)
        return Stored(with_kernel(b, onnx, x.dtype, lambda x, y: b.emit(onnx, x, y, **attributes), *values), order)

    translate.__doc__ = f"STABLEHLO_{name} → {onnx}."


_binary("SUBTRACT", "Sub")
_binary("DIVIDE", "Div")
_binary("REMAINDER", "Mod", fmod=1)
_binary("POWER", "Pow", check=needs_float)


def _logic(name: str, truth: str, bits: str) -> None:
    @translates(f"STABLEHLO_{name}", 1)
    def translate(b: Builder, op: Op, x: Operand, y: Operand) -> Stored:
        order, values = b.together(x, y)
        return Stored(b.emit(truth if x.dtype == "bool" else bits, *values), order)

    translate.__doc__ = f"STABLEHLO_{name} → {truth} of truth values, {bits} of integers."


_logic("AND", "And", "BitwiseAnd")
_logic("OR", "Or", "BitwiseOr")


def _unary(name: str, mapping: str, emit: Callable[[Builder, ir.Value], ir.Value], check: Check | None = needs_float) -> None:
    @translates(f"STABLEHLO_{name}", 1, check=check)
    def translate(b: Builder, op: Op, x: Operand) -> Stored:
        value, order = b.as_is(x)
        return Stored(emit(b, value), order)

    translate.__doc__ = f"STABLEHLO_{name} → {mapping}."


def _same(name: str, onnx: str, check: Check | None = needs_float) -> None:
    _unary(name, onnx, lambda b, x: b.emit(onnx, x), check=check)


_same("LOGISTIC", "Sigmoid")
_same("COSINE", "Cos")
_same("EXPONENTIAL", "Exp")
_same("FLOOR", "Floor")
_same("LOG", "Log")
_same("TANH", "Tanh")
_same("ABS", "Abs", check=None)
_same("NEGATE", "Neg", check=needs_dtype("float32", "float16", "float64", "int8", "int16", "int32", "int64"))
_unary("RSQRT", "Reciprocal(Sqrt)", lambda b, x: b.emit("Reciprocal", b.emit("Sqrt", x)))


@translates("STABLEHLO_CBRT", 1, check=needs_float)
def stablehlo_cbrt(b: Builder, op: Op, x: Operand) -> Stored:
    """STABLEHLO_CBRT → Pow of the absolute value, with the sign put back."""
    value, order = b.as_is(x)
    root = b.emit("Pow", b.emit("Abs", value), b.scalar(1 / 3, x.dtype))
    return Stored(b.emit("Mul", root, b.emit("Sign", value)), order)


@translates("STABLEHLO_SHIFT_LEFT", 1)
def stablehlo_shift_left(b: Builder, op: Op, x: Operand, places: Operand) -> Stored:
    """STABLEHLO_SHIFT_LEFT → BitShift; nothing is left where all bits are shifted out."""
    order, (value, count) = b.together(x, places)
    count = b.cast(count, "uint64")
    inside = b.emit("Less", count, b.scalar(np.dtype(x.dtype).itemsize * 8, "uint64"))
    shifted = b.emit("BitShift", b.cast(value, "uint64"), b.emit("Mod", count, b.scalar(64, "uint64")), direction="LEFT")
    return Stored(chosen(b, inside, b.cast(shifted, x.dtype), b.scalar(0, x.dtype), x.dtype), order)


@translates("STABLEHLO_CLAMP", 1)
def stablehlo_clamp(b: Builder, op: Op, low: Operand, x: Operand, high: Operand) -> Stored:
    """STABLEHLO_CLAMP → Max with the lower bound, Min with the upper one."""
    order, (least, value, most) = b.together(low, x, high)
    return Stored(paired(b, "min", paired(b, "max", value, least, x.dtype), most, x.dtype), order)


def _plain_order(op: Op) -> str | None:
    return "a comparison that puts NaN in an order" if op.options.compareType == TOTAL_ORDER else None


@translates("STABLEHLO_COMPARE", 1, check=_plain_order)
def stablehlo_compare(b: Builder, op: Op, x: Operand, y: Operand) -> Stored:
    """STABLEHLO_COMPARE → Equal, Not(Equal), Greater, GreaterOrEqual, Less or LessOrEqual."""
    order, values = b.together(x, y)
    if x.dtype == "bool":
        values = [b.cast(value, "int32") for value in values]
    direction = op.options.comparisonDirection
    if direction == NOT_EQUAL:
        return Stored(b.emit("Not", b.emit("Equal", *values)), order)
    return Stored(b.emit(_COMPARISONS[direction], *values), order)


@translates("STABLEHLO_SELECT", 1)
def stablehlo_select(b: Builder, op: Op, condition: Operand, x: Operand, y: Operand) -> Stored:
    """STABLEHLO_SELECT → Where."""
    order, (where, left, right) = b.together(condition, x, y)
    return Stored(chosen(b, where, left, right, x.dtype), order)


@translates("STABLEHLO_CONVERT", 1)
def stablehlo_convert(b: Builder, op: Op, x: Operand) -> Stored:
    """STABLEHLO_CONVERT → Cast, of a floating-point number kept within the integer's range."""
    value, order = b.as_is(x)
    return Stored(converted(b, value, x.dtype, op.outputs[0].dtype), order)


def _one_free_size(op: Op) -> str | None:
    return "a shape with several free sizes" if op.out_dims.count(None) > 1 else None


@translates("STABLEHLO_RESHAPE", 1, check=_one_free_size)
def stablehlo_reshape(b: Builder, op: Op, x: Operand) -> Stored | Constant:
    """STABLEHLO_RESHAPE → Reshape to the shape of its result; a step of a constant's chain."""
    if isinstance(x, Constant):
        return x.reshaped(op.outputs[0].shape)
    return reshaped(b, x, [-1 if d is None else d for d in op.out_dims], op.out_dims)


@translates("STABLEHLO_TRANSPOSE", 1)
def stablehlo_transpose(b: Builder, op: Op, x: Operand) -> Operand:
    """STABLEHLO_TRANSPOSE → nothing: it renames the axes of what is there."""
    return transposed(op, x, listed(op.options.permutation))


@translates("STABLEHLO_CONCATENATE", 1)
def stablehlo_concatenate(b: Builder, op: Op, *parts: Operand) -> Stored:
    """STABLEHLO_CONCATENATE → Concat."""
    return joined(b, parts, op.options.dimension)


@translates("STABLEHLO_SLICE", 1)
def stablehlo_slice(b: Builder, op: Op, x: Operand) -> Stored:
    """STABLEHLO_SLICE → Slice."""
    options, cuts = op.options, Cuts(x.dims)
    bounds = zip(listed(options.startIndices), listed(options.limitIndices), listed(options.strides), strict=True)
    for axis, (start, end, step) in enumerate(bounds):
        cuts.add(axis, start, end, step)
    return cuts.emit(b, x)


def _known_growth(op: Op) -> str | None:
    axes = listed(op.options.broadcastDimensions)
    sizes = dict(zip(axes, op.dims(op.tensor(0)), strict=True))
    if any(size is None and sizes.get(axis) is not None for axis, size in enumerate(op.out_dims)) or (
        None in op.out_dims and any(axis not in sizes for axis, size in enumerate(op.out_dims) if size is None)
    ):
        return "a size that it repeats to is only known at run time"
    return None


@translates("STABLEHLO_BROADCAST_IN_DIM", 1, check=_known_growth)
def stablehlo_broadcast_in_dim(b: Builder, op: Op, x: Operand) -> Stored:
    """STABLEHLO_BROADCAST_IN_DIM → Unsqueeze of the axes that are new, and Expand."""
    axes, rank = listed(op.options.broadcastDimensions), len(op.out_dims)
    ascending = tuple(sorted(range(x.rank), key=axes.__getitem__))
    value = b.ask(x, ascending)
    if new := [axis for axis in range(rank) if axis not in axes]:
        value = b.emit("Unsqueeze", value, b.ints(new))
    before = dict(zip(axes, x.dims, strict=True))
    target = [1 if size == before.get(axis, 1) else size or 1 for axis, size in enumerate(op.out_dims)]
    return Stored(b.emit("Expand", value, b.ints(target)), layout.logical(rank))


def _known_result(op: Op) -> str | None:
    return "a size that is only known at run time" if None in op.out_dims else None


@translates("STABLEHLO_IOTA", 1, check=_known_result)
def stablehlo_iota(b: Builder, op: Op) -> Stored:
    """STABLEHLO_IOTA → the numbers along an axis, Expanded."""
    shape, axis, dtype = op.outputs[0].shape, op.options.iotaDimension, op.outputs[0].dtype
    numbers = np.arange(shape[axis]).astype(dtype).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return Stored(b.emit("Expand", b.array(numbers), b.ints(shape)), layout.logical(len(shape)))
