"""Element by element: arithmetic, comparisons, logic, selection and functions of one value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.to_onnx.activations import clip, fused
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.dtypes import chosen, with_kernel
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_dtype, needs_float, translates
from mlconverter.formats.tflite.to_onnx.tables import has_table, interpolated
from mlconverter.registry import Check

COMPARED_STEPS = 256
"""In how many steps to one quantised numbers are compared."""

Emit = Callable[[Builder, ir.Value], ir.Value]


def _binary(name: str, onnx: str, *versions: int, check: Check | None = None) -> None:
    @translates(name, *versions, check=check)
    def translate(b: Builder, op: Op, x: Operand, y: Operand) -> Stored:
        order, values = b.together(x, y)
        value = with_kernel(b, onnx, x.dtype, lambda *pair: b.emit(onnx, *pair), *values)
        return Stored(fused(b, value, getattr(op.options, "fusedActivationFunction", 0), x.dtype), order)

    translate.__doc__ = f"{name} → {onnx}, operands aligned (+ fused activation)."


def _no_plain_bytes(op: Op) -> str | None:
    dtype = op.dtype()
    return f"plain {dtype} tensors, which LiteRT's kernel takes for quantised ones" if dtype in ("int8", "uint8") else None


_binary("ADD", "Add", 1, 2, 3, 4, 5, 6)
_binary("SUB", "Sub", 1, 2, 3, 4, 5)
_binary("MUL", "Mul", 1, 2, 3, 4, 5, 6, 7, 8, check=_no_plain_bytes)
_binary("DIV", "Div", 1, 2)
_binary("MAXIMUM", "Max", 1, 2, 3, 4)
_binary("MINIMUM", "Min", 1, 2, 3, 4)
_binary("POW", "Pow", 1)
_binary("LOGICAL_AND", "And", 1)
_binary("LOGICAL_OR", "Or", 1)


def _no_short_integers(op: Op) -> str | None:
    return "int16 tensors, of which LiteRT's kernel says whether they are equal" if op.dtype() == "int16" else None


def _comparison(name: str, onnx: str, *versions: int, check: Check | None = None) -> None:
    @translates(name, *versions, check=check)
    def translate(b: Builder, op: Op, x: Operand, y: Operand) -> Stored:
        order, values = b.together(x, y)
        if x.grid is not None:
            # LiteRT brings quantised numbers to a common scale first, also where they have one.
            values = [b.emit("Round", b.emit("Mul", value, b.scalar(COMPARED_STEPS, "float32"))) for value in values]
        result = b.emit("Equal", *values) if onnx == "NotEqual" else b.emit(onnx, *values)
        return Stored(b.emit("Not", result) if onnx == "NotEqual" else result, order)

    mapping = "Not(Equal)" if onnx == "NotEqual" else onnx
    translate.__doc__ = f"{name} → {mapping}, operands aligned, quantised ones rounded to a common scale."


_comparison("EQUAL", "Equal", 1, 2, 3, 4, 5)
_comparison("NOT_EQUAL", "NotEqual", 1, 2, 3, 4, check=_no_short_integers)
_comparison("GREATER", "Greater", 1, 2)
_comparison("GREATER_EQUAL", "GreaterOrEqual", 1, 2, 3)
_comparison("LESS", "Less", 1, 2, 3)
_comparison("LESS_EQUAL", "LessOrEqual", 1, 2)


@translates("SQUARED_DIFFERENCE", 1, 2)
def squared_difference(b: Builder, op: Op, x: Operand, y: Operand) -> Stored:
    """SQUARED_DIFFERENCE → Sub, then Mul with itself."""
    order, values = b.together(x, y)
    difference = b.emit("Sub", *values)
    return Stored(b.emit("Mul", difference, difference), order)


@translates("FLOOR_DIV", 1, 2, 3)
def floor_div(b: Builder, op: Op, x: Operand, y: Operand) -> Stored:
    """FLOOR_DIV → Div rounded down: ONNX rounds integers towards zero."""
    order, (a, d) = b.together(x, y)
    if x.dtype.startswith("float"):
        return Stored(b.emit("Floor", b.emit("Div", a, d)), order)
    # Subtracting the remainder, which has the divisor's sign, leaves a division without rest.
    remainder = b.emit("Mod", a, d)
    return Stored(b.emit("Div", b.emit("Sub", a, remainder), d), order)


@translates("FLOOR_MOD", 1, 2)
def floor_mod(b: Builder, op: Op, x: Operand, y: Operand) -> Stored:
    """FLOOR_MOD → Mod with the divisor's sign."""
    order, (a, d) = b.together(x, y)
    if not x.dtype.startswith("float"):
        return Stored(b.emit("Mod", a, d), order)
    remainder = b.emit("Mod", a, d, fmod=1)
    zero = b.scalar(0, x.dtype)
    other_sign = b.emit("Less", b.emit("Mul", remainder, d), zero)
    return Stored(b.emit("Where", other_sign, b.emit("Add", remainder, d), remainder), order)


@translates("ATAN2", 1, check=needs_dtype("float32", "float16"))
def atan2(b: Builder, op: Op, y: Operand, x: Operand) -> Stored:
    """ATAN2 → Atan of the quotient of the lengths, put into its quadrant by the signs of both."""
    order, (rise, run) = b.together(y, x)
    up, along = b.emit("Abs", rise), b.emit("Abs", run)
    # Equal lengths make 45 degrees even where both are infinite, and none where both are zero.
    slope = b.emit("Where", b.emit("Equal", up, along), b.emit("Sign", up), b.emit("Div", up, along))
    angle = b.emit("Atan", slope)
    turned = b.emit("Sub", b.scalar(np.pi, y.dtype), angle)
    angle = b.emit("Where", _is_negative(b, run, y.dtype), turned, angle)
    return Stored(b.emit("Where", _is_negative(b, rise, y.dtype), b.emit("Neg", angle), angle), order)


def _is_negative(b: Builder, value: ir.Value, dtype: str) -> ir.Value:
    """The sign bit: zero has one too, which its reciprocal shows."""
    zero = b.scalar(0, dtype)
    return b.emit("Or", b.emit("Less", value, zero), b.emit("Less", b.emit("Reciprocal", value), zero))


def _wide_range(op: Op) -> str | None:
    return "a narrow range, which LiteRT's kernel does not compute" if op.options.narrowRange else None


@translates("FAKE_QUANT", 1, 2, check=all_of(needs_dtype("float32"), _wide_range))
def fake_quant(b: Builder, op: Op, x: Operand) -> Stored:
    """FAKE_QUANT → Clip, and rounding to a grid that has a place at zero."""
    value, order = b.as_is(x)
    low, high, scale = _grid(op.options)
    value = b.emit("Sub", clip(b, value, low, high, x.dtype), b.scalar(low, x.dtype))
    value = b.emit("Mul", value, b.scalar(float(np.float32(1) / np.float32(scale)), x.dtype))
    # Halves go up, where Round would take them to the even neighbour.
    whole = b.emit("Floor", value)
    half = b.emit("GreaterOrEqual", b.emit("Sub", value, whole), b.scalar(0.5, x.dtype))
    value = b.emit("Mul", b.emit("Add", whole, b.cast(half, x.dtype)), b.scalar(scale, x.dtype))
    return Stored(b.emit("Add", value, b.scalar(low, x.dtype)), order)


def _grid(options: Any) -> tuple[float, float, float]:
    """Least and largest value of a FAKE_QUANT, moved so that zero is on the grid, and the distance of its places."""
    least, largest, last = np.float32(options.min), np.float32(options.max), np.float32(2**options.numBits - 1)
    scale = (largest - least) / last
    zero = np.clip(np.floor(np.float32(0.5) - least / scale), np.float32(0), last)
    return float(-zero * scale), float((last - zero) * scale), float(scale)


@translates("ADD_N", 1)
def add_n(b: Builder, op: Op, *terms: Operand) -> Stored:
    """ADD_N → Sum."""
    order, values = b.together(*terms)
    if terms[0].dtype.startswith("float"):
        return Stored(b.emit("Sum", *values), order)
    total = values[0]
    for value in values[1:]:
        total = b.emit("Add", total, value)
    return Stored(total, order)


@translates("SELECT_V2", 1, 2)
def select_v2(b: Builder, op: Op, condition: Operand, x: Operand, y: Operand) -> Stored:
    """SELECT_V2 → Where, operands aligned."""
    order, (where, a, c) = b.together(condition, x, y)
    return Stored(chosen(b, where, a, c, x.dtype), order)


@translates("SELECT", 1, 2, 3, 4)
def select(b: Builder, op: Op, condition: Operand, x: Operand, y: Operand) -> Stored:
    """SELECT → Where; a vector of conditions picks whole rows along the first axis."""
    if condition.rank != 1 or x.rank == 1:
        return select_v2(b, op, condition, x, y)
    order, (a, c) = b.together(x, y)
    first = order.index(0)
    after = x.rank - 1 - first
    rows = b.ask(condition)
    if after:
        rows = b.emit("Unsqueeze", rows, b.ints(range(1, after + 1)))
    return Stored(chosen(b, rows, a, c, x.dtype), order)


def _unary(name: str, mapping: str, emit: Emit, *versions: int, floats: bool = True) -> None:
    @translates(name, *versions, check=needs_float if floats else None)
    def translate(b: Builder, op: Op, x: Operand) -> Stored:
        if has_table(op):
            return interpolated(b, op, x)
        value, order = b.as_is(x)
        return Stored(emit(b, value), order)

    translate.__doc__ = f"{name} → {mapping}."


def _same(name: str, onnx: str, *versions: int, floats: bool = True) -> None:
    _unary(name, onnx, lambda b, x: b.emit(onnx, x), *versions, floats=floats)


_same("ABS", "Abs", 1, 2, 3, 4, 5, floats=False)
_same("NEG", "Neg", 1, floats=False)
_same("SIGN", "Sign", 1, 2, floats=False)
_same("EXP", "Exp", 1, 2)
_same("LOG", "Log", 1, 2)
_same("SQRT", "Sqrt", 1, 2)
_same("SIN", "Sin", 1, 2)
_same("COS", "Cos", 1, 2)
_same("FLOOR", "Floor", 1)
_same("CEIL", "Ceil", 1)
_same("ROUND", "Round", 1)
_same("LOGICAL_NOT", "Not", 1, floats=False)
_unary("RSQRT", "Reciprocal(Sqrt)", lambda b, x: b.emit("Reciprocal", b.emit("Sqrt", x)), 1, 2, 3)
_unary("SQUARE", "Mul with itself", lambda b, x: b.emit("Mul", x, x), 1)


@translates("ZEROS_LIKE", 1)
def zeros_like(b: Builder, op: Op, x: Operand) -> Stored:
    """ZEROS_LIKE → zero, Expanded to the input's shape."""
    value, order = b.as_is(x)
    zeros = b.emit("Expand", b.scalar(0, x.dtype), b.emit("Shape", value))
    return Stored(zeros, order)
