"""Operators that work element by element on broadcast operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.fusing import activate, scaled
from mlconverter.formats.tflite.from_onnx.integers import floor_mod, quotient, remainder
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.reduction import absolute
from mlconverter.formats.tflite.from_onnx.values import Array, Constant, Operand, Runtime, Stored, Wire, broadcast_dims
from mlconverter.hub.nodes import Call


def _check_broadcast(call: Call) -> str | None:
    axis = call.attributes.get("axis")
    if call.version < 7 and call.attributes.get("broadcast") and axis is not None:
        return "broadcast along an axis of opset 6 and older"
    return None


def pointwise(b: Builder, op: str, *operands: Operand, dtype: str | None = None) -> Stored:
    """An operator on operands that are broadcast against each other."""
    order, wires = b.together(*operands)
    return Stored(b.compute(op, *wires, dims=broadcast_dims(*(w.dims for w in wires)), dtype=dtype), order)


def vector_along(x: Runtime, constant: Operand) -> tuple[int, Array] | None:
    """A constant that is a vector along one axis of ``x``, or one number: the axis, which may be any then, and the vector."""
    if not isinstance(constant, Constant) or constant.dtype != "float32" or constant.rank > x.rank:
        return None
    shape = (1,) * (x.rank - constant.rank) + constant.dims
    long = [axis for axis, size in enumerate(shape) if size != 1]
    if len(long) > 1 or constant.value.size == 0:
        return None
    return (long[0] if long else -1), constant.value.reshape(-1)


def _folded(b: Builder, a: Operand, c: Operand, *, scale: bool, negative: bool = False) -> Stored | None:
    """A constant factor or summand within the filter and bias of the operator before."""
    if not isinstance(a, Runtime) or (found := vector_along(a, c)) is None:
        return None
    axis, vector = found
    if vector.size == 1:
        axis = a.first.order[-1] if a.rank else 0
    if a.rank == 0 or broadcast_dims(a.dims, c.dims) != a.dims:
        return None
    return scaled(b, a, axis, vector, None) if scale else scaled(b, a, axis, None, -vector if negative else vector)


Binary = Callable[[Builder, Operand, Operand], Stored]


def _arithmetic(op: str, versions: tuple[int, ...], becomes: str, translate: Binary) -> None:
    def translator(
        b: Builder,
        x: Operand,
        y: Operand,
        *,
        axis: int | None = None,
        broadcast: int = 0,
        consumed_inputs: Any = None,
    ) -> Stored:
        return translate(b, x, y)

    translator.__name__ = op.lower()
    translator.__doc__ = f"{op} → {becomes}."
    translates(op, *versions, check=_check_broadcast)(translator)


def _add(b: Builder, x: Operand, y: Operand) -> Stored:
    return _folded(b, x, y, scale=False) or _folded(b, y, x, scale=False) or pointwise(b, "ADD", x, y)


def _sub(b: Builder, x: Operand, y: Operand) -> Stored:
    return _folded(b, x, y, scale=False, negative=True) or pointwise(b, "SUB", x, y)


def _mul(b: Builder, x: Operand, y: Operand) -> Stored:
    return _folded(b, x, y, scale=True) or _folded(b, y, x, scale=True) or pointwise(b, "MUL", x, y)


def _div(b: Builder, x: Operand, y: Operand) -> Stored:
    if x.dtype not in ("int64", "uint32", "uint64"):
        return pointwise(b, "DIV", x, y)
    order, (left, right) = b.together(x, y)
    return Stored(quotient(b, left, right, broadcast_dims(left.dims, right.dims)), order)


_arithmetic("Add", (1, 6, 7, 13, 14), "ADD, or part of the bias before it", _add)
_arithmetic("Sub", (1, 6, 7, 13, 14), "SUB, or part of the bias before it", _sub)
_arithmetic("Mul", (1, 6, 7, 13, 14), "MUL, or part of the filter before it", _mul)
_arithmetic("Div", (1, 6, 7, 13, 14), "DIV; FLOOR_MOD, DIV, ROUND and MUL for 64 bits", _div)
_arithmetic("And", (1, 7), "LOGICAL_AND", lambda b, x, y: pointwise(b, "LOGICAL_AND", x, y))
_arithmetic("Or", (1, 7), "LOGICAL_OR", lambda b, x, y: pointwise(b, "LOGICAL_OR", x, y))
_arithmetic("Xor", (1, 7), "NOT_EQUAL", lambda b, x, y: pointwise(b, "NOT_EQUAL", x, y))


def _comparison(op: str, versions: tuple[int, ...], kernel: str) -> None:
    _arithmetic(op, versions, kernel, lambda b, x, y: pointwise(b, kernel, x, y, dtype="bool"))


_comparison("Equal", (1, 7, 11, 13, 19), "EQUAL")
_comparison("Less", (1, 7, 9, 13), "LESS")
_comparison("LessOrEqual", (12, 16), "LESS_EQUAL")
_comparison("Greater", (1, 7, 9, 13), "GREATER")
_comparison("GreaterOrEqual", (12, 16), "GREATER_EQUAL")


@translates("Pow", 1, 7, 12, 13, 15, check=_check_broadcast)
def pow_(b: Builder, x: Operand, y: Operand, *, axis: int | None = None, broadcast: int = 0) -> Stored:
    """Pow → POW; MUL for 2, SQRT for 0.5."""
    if isinstance(y, Constant) and y.value.size == 1 and y.rank <= x.rank:
        exponent, (wire, order) = y.number(), b.as_is(x)
        if exponent == 1:
            return Stored(wire, order)
        if exponent == 2:
            return Stored(b.compute("MUL", wire, wire, dims=wire.dims), order)
        if exponent == 0.5 and wire.dtype == "float32":
            return Stored(b.emit("SQRT", wire, dims=wire.dims), order)
    order, (base, power) = b.together(x, y)
    if base.dtype != power.dtype and base.dtype != "float32":
        raise Refused(f"a power of {x.dtype} to {y.dtype}")
    dims = broadcast_dims(base.dims, power.dims)
    return Stored(b.emit("POW", base, b.cast(power, base.dtype), dims=dims), order)


@translates("Mod", 10, 13, 28)
def mod(b: Builder, x: Operand, y: Operand, *, fmod: int) -> Stored:
    """Mod → FLOOR_MOD; with fmod=1 of the absolute values, with the sign of the first."""
    order, (left, right) = b.together(x, y)
    dims = broadcast_dims(left.dims, right.dims)
    if left.dtype == "uint64":
        return Stored(remainder(b, left, right, dims), order)
    if not fmod or left.dtype.startswith("uint"):
        return Stored(floor_mod(b, left, right, dims), order)
    rest = floor_mod(b, absolute(b, left), absolute(b, right), dims)
    negative = b.compute("LESS", left, b.scalar(0, left.dtype), dims=left.dims, dtype="bool")
    minus = b.compute("NEG", rest, dims=dims)
    return Stored(b.emit("SELECT_V2", negative, minus, rest, dims=dims, dtype=rest.dtype), order)


def _variadic(op: str, versions: tuple[int, ...], becomes: str, step: Binary) -> None:
    def translator(b: Builder, *xs: Operand, consumed_inputs: Any = None) -> Stored | Operand:
        return reduce(lambda x, y: kept(step(b, x, y)), xs)

    translator.__name__ = op.lower()
    translator.__doc__ = f"{op} → {becomes}."
    translates(op, *versions)(translator)


def kept(stored: Stored) -> Runtime:
    """A stored value as an operand of what follows in the same translator."""
    wire, order = stored
    dims: list[int | None] = [None] * len(order)
    for position, axis in enumerate(order):
        dims[axis] = wire.dims[position]
    return Runtime(wire.name, tuple(dims), wire.dtype, {order: wire})


_variadic("Sum", (1, 6, 8, 13), "ADD", lambda b, x, y: pointwise(b, "ADD", x, y))
_variadic("Max", (1, 6, 8, 12, 13), "MAXIMUM", lambda b, x, y: pointwise(b, "MAXIMUM", x, y))
_variadic("Min", (1, 6, 8, 12, 13), "MINIMUM", lambda b, x, y: pointwise(b, "MINIMUM", x, y))


@translates("Mean", 1, 6, 8, 13)
def mean(b: Builder, *xs: Operand, consumed_inputs: Any = None) -> Stored:
    """Mean → ADD, MUL."""
    total: Operand = reduce(lambda x, y: kept(pointwise(b, "ADD", x, y)), xs)
    return pointwise(b, "MUL", total, Constant(np.asarray(1 / len(xs), np.float32)))


@translates("Where", 9, 16)
def where(b: Builder, condition: Operand, x: Operand, y: Operand) -> Stored:
    """Where → SELECT_V2."""
    order, wires = b.together(condition, x, y)
    return Stored(b.emit("SELECT_V2", *wires, dims=broadcast_dims(*(w.dims for w in wires)), dtype=wires[1].dtype), order)


CLIPS = {(0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1", (0.0, None): "RELU"}
"""Bounds that have an operator of their own."""


@translates("Clip", 1, 6, 11, 12, 13)
def clip(
    b: Builder, x: Operand, low: Operand | None = None, high: Operand | None = None, *, consumed_inputs: Any = None
) -> Stored | Operand:
    """Clip → RELU6, RELU_N1_TO_1 or RELU, fused where possible; MAXIMUM, MINIMUM elsewhere."""
    floor, ceiling = _number(low, x), _number(high, x)
    constant = not isinstance(low, Runtime) and not isinstance(high, Runtime)
    if isinstance(x, Runtime) and x.first.wire.dtype == "float32" and constant:
        found = next((op for bounds, op in CLIPS.items() if bounds == (floor, ceiling)), None)
        if found is not None:
            return activate(b, x, found)
    for bound, number, op in ((low, floor, "MAXIMUM"), (high, ceiling, "MINIMUM")):
        if bound is not None and (number is not None or isinstance(bound, Runtime)):
            x = kept(pointwise(b, op, x, bound))
    return x


def _number(bound: Operand | None, x: Operand) -> float | int | None:
    """A bound as a number; ``None`` for one at the end of the range, as old opsets write "none"."""
    if not isinstance(bound, Constant):
        return None
    number = bound.number()
    return None if x.dtype.startswith("float") and abs(number) >= float(np.finfo(x.dtype).max) else number


def _unary(op: str, versions: tuple[int, ...], becomes: str, function: Callable[[Builder, Wire], Wire]) -> None:
    def translator(b: Builder, x: Runtime, *, consumed_inputs: Any = None) -> Stored:
        wire, order = x.first
        return Stored(function(b, wire), order)

    translator.__name__ = op.lower()
    translator.__doc__ = f"{op} → {becomes}."
    translates(op, *versions)(translator)


def _kernel(op: str) -> Callable[[Builder, Wire], Wire]:
    return lambda b, wire: b.compute(op, wire, dims=wire.dims)


def _reciprocal(b: Builder, wire: Wire) -> Wire:
    return b.emit("DIV", b.scalar(1, wire.dtype), wire, dims=wire.dims)


def _tangent(b: Builder, wire: Wire) -> Wire:
    return b.emit("DIV", b.emit("SIN", wire, dims=wire.dims), b.emit("COS", wire, dims=wire.dims), dims=wire.dims)


def _is_nan(b: Builder, wire: Wire) -> Wire:
    return b.emit("NOT_EQUAL", wire, wire, dims=wire.dims, dtype="bool")


for _op, _versions, _becomes in (
    ("Neg", (1, 6, 13), "NEG"),
    ("Exp", (1, 6, 13), "EXP"),
    ("Log", (1, 6, 13), "LOG"),
    ("Sqrt", (1, 6, 13), "SQRT"),
    ("Floor", (1, 6, 13), "FLOOR"),
    ("Ceil", (1, 6, 13), "CEIL"),
    ("Round", (11, 22), "ROUND"),
    ("Sign", (9, 13), "SIGN"),
    ("Sin", (7, 22), "SIN"),
    ("Cos", (7, 22), "COS"),
    ("Not", (1,), "LOGICAL_NOT"),
):
    _unary(_op, _versions, _becomes, _kernel(_becomes))

_unary("Abs", (1, 6, 13), "ABS", absolute)
_unary("Reciprocal", (1, 6, 13), "DIV", _reciprocal)
_unary("Tan", (7, 22), "SIN, COS, DIV", _tangent)
_unary("IsNaN", (9, 13, 20), "NOT_EQUAL with itself", _is_nan)
