"""Operators that work element by element on broadcast operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import DTYPES, Const, Tensor, rank_of
from mlconverter.hub.nodes import Call, stops_gradient


def _check_broadcast(call: Call) -> str | None:
    axis = call.attributes.get("axis")
    if call.version < 7 and call.attributes.get("broadcast") and axis is not None:
        return "broadcast along an axis of opset 6 and older"
    return None


def tensors(g: Builder, a: Any, b: Any) -> tuple[Any, Any]:
    """Both operands as tensors, for functions that take no numbers."""
    return g.tensor(a), g.tensor(b)


def operands(g: Builder, a: Any, b: Any) -> tuple[Any, Any]:
    """Both operands as recorded code takes them: a one-element constant as a number where that changes neither rank nor dtype."""
    return _operand(g, a, b), _operand(g, b, a)


def _operand(g: Builder, value: Any, other: Any) -> Any:
    if not isinstance(value, Const):
        return value
    if value.is_number and isinstance(other, Tensor) and value.value.ndim <= (rank_of(other) or 0):
        return value.number()
    return g.tensor(value)


def _binary(op: str, versions: tuple[int, ...], code: str, function: Callable[[Any, Any], Any], pair: Any = operands) -> None:
    def translator(
        g: Builder,
        a: Tensor | Const,
        b: Tensor | Const,
        *,
        axis: int | None = None,
        broadcast: int = 0,
        consumed_inputs: Any = None,
    ) -> Any:
        return function(*pair(g, a, b))

    translator.__name__ = op.lower()
    translator.__doc__ = f"{op} → {code}."
    translates(op, *versions, check=_check_broadcast)(translator)


_binary("Add", (1, 6, 7, 13, 14), "a + b", lambda a, b: a + b)
_binary("Sub", (1, 6, 7, 13, 14), "a - b", lambda a, b: a - b)
_binary("Mul", (1, 6, 7, 13, 14), "a * b", lambda a, b: a * b)
_binary("And", (1, 7), "torch.logical_and", torch.logical_and, tensors)
_binary("Or", (1, 7), "torch.logical_or", torch.logical_or, tensors)
_binary("Xor", (1, 7), "torch.logical_xor", torch.logical_xor, tensors)
_binary("Equal", (1, 7, 11, 13, 19), "a == b", lambda a, b: a == b)
_binary("Less", (1, 7, 9, 13), "a < b", lambda a, b: a < b)
_binary("LessOrEqual", (12, 16), "a <= b", lambda a, b: a <= b)
_binary("Greater", (1, 7, 9, 13), "a > b", lambda a, b: a > b)
_binary("GreaterOrEqual", (12, 16), "a >= b", lambda a, b: a >= b)


@translates("Div", 1, 6, 7, 13, 14, check=_check_broadcast)
def div(
    g: Builder, a: Tensor | Const, b: Tensor | Const, *, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = None
) -> Any:
    """Div → a / b; integers round towards zero."""
    x, y = operands(g, a, b)
    if _dtype(g, a).is_floating_point:
        return x / y
    return torch.div(x, y, rounding_mode="trunc")


def _dtype(g: Builder, value: Any) -> torch.dtype:
    """Element type of an operand."""
    return DTYPES[value.value.dtype.name] if isinstance(value, Const) else value.dtype


@translates("Pow", 1, 7, 12, 13, 15, check=_check_broadcast)
def pow_(g: Builder, a: Tensor | Const, b: Tensor | Const, *, axis: int | None = None, broadcast: int = 0) -> Any:
    """Pow → torch.pow in the dtype of the base."""
    x, y = operands(g, a, b)
    dtype = _dtype(g, a)
    result = torch.pow(x, y)
    same = dtype.is_floating_point and (isinstance(y, (int, float)) or _dtype(g, b) == dtype)
    return result if same else result.to(dtype)


_binary("BitwiseAnd", (18,), "a & b", lambda a, b: a & b)
_binary("BitwiseOr", (18,), "a | b", lambda a, b: a | b)
_binary("BitwiseXor", (18,), "a ^ b", lambda a, b: a ^ b)


@translates("BitShift", 11, 28)
def bit_shift(g: Builder, x: Tensor, by: Tensor, *, direction: str) -> Any:
    """BitShift → a shift in 64 bits, cut to the bits of the dtype."""
    return g.call(runtime.bit_shift, x, by, x.dtype.itemsize * 8, x.dtype.is_signed, direction == "LEFT")


@translates("Mod", 10, 13, 28)
def mod(g: Builder, a: Tensor | Const, b: Tensor | Const, *, fmod: int) -> Any:
    """Mod → torch.remainder, torch.fmod with fmod=1."""
    return (torch.fmod if fmod else torch.remainder)(*operands(g, a, b))


def _variadic(op: str, versions: tuple[int, ...], code: str, function: Callable[[Any, Any], Any]) -> None:
    def translator(g: Builder, *xs: Tensor, consumed_inputs: Any = None) -> Any:
        return reduce(function, xs)

    translator.__name__ = op.lower()
    translator.__doc__ = f"{op} → {code}."
    translates(op, *versions)(translator)


_variadic("Sum", (1, 6, 8, 13), "a + b + …", lambda a, b: a + b)
_variadic("Max", (1, 6, 8, 12, 13), "torch.maximum", torch.maximum)
_variadic("Min", (1, 6, 8, 12, 13), "torch.minimum", torch.minimum)


@translates("Mean", 1, 6, 8, 13)
def mean(g: Builder, *xs: Tensor, consumed_inputs: Any = None) -> Any:
    """Mean → (a + b + …) / count."""
    total: Any = reduce(lambda a, b: a + b, xs)
    return total / len(xs)


@translates("Where", 9, 16)
def where(g: Builder, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Where → torch.where."""
    return torch.where(condition, a, b)


@translates("Clip", 1, 6, 11, 12, 13)
def clip(
    g: Builder,
    x: Tensor,
    low: Const | Tensor | None = None,
    high: Const | Tensor | None = None,
    *,
    consumed_inputs: Any = None,
) -> Tensor:
    """Clip → F.relu6 for [0, 6], torch.clamp elsewhere."""
    bounds: list[Any] = [_within(b, x) if isinstance(b, Const) else b for b in (low, high)]
    if any(isinstance(b, Tensor) for b in bounds):
        # The upper bound wins where the two contradict each other.
        for bound, pick in zip(bounds, (torch.maximum, torch.minimum), strict=True):
            if bound is not None:
                x = pick(x, bound if isinstance(bound, Tensor) else torch.full_like(x, bound))
        return x
    if bounds[0] is None and bounds[1] is None:
        return x
    if bounds[0] == 0 and isinstance(bounds[1], float) and bounds[1] == 6:
        return torch.nn.functional.relu6(x)
    return torch.clamp(x, bounds[0], bounds[1])


def _within(bound: Const, x: Tensor) -> float | int | None:
    """A bound as a number; ``None`` for one beyond the range of half precision, as old opsets write "none" for every dtype."""
    number = bound.number()
    if x.dtype in (torch.float16, torch.bfloat16) and abs(number) > torch.finfo(x.dtype).max and abs(number) != float("inf"):
        return None
    return number


def _unary(op: str, versions: tuple[int, ...], code: str, function: Callable[[Any], Any]) -> None:
    def translator(g: Builder, x: Tensor, *, consumed_inputs: Any = None) -> Any:
        return function(x)

    translator.__name__ = op.lower()
    translator.__doc__ = f"{op} → {code}."
    translates(op, *versions)(translator)


_unary("Abs", (1, 6, 13), "torch.abs", torch.abs)
_unary("Neg", (1, 6, 13), "-x", lambda x: -x)
_unary("Exp", (1, 6, 13), "torch.exp", torch.exp)
_unary("Log", (1, 6, 13), "torch.log", torch.log)
_unary("Sqrt", (1, 6, 13), "torch.sqrt", torch.sqrt)
_unary("Reciprocal", (1, 6, 13), "torch.reciprocal", torch.reciprocal)
_unary("Floor", (1, 6, 13), "torch.floor", torch.floor)
_unary("Ceil", (1, 6, 13), "torch.ceil", torch.ceil)
_unary("Round", (11, 22), "torch.round, halves to even", torch.round)
_unary("Sign", (9, 13), "torch.sign", torch.sign)
_unary("Sin", (7, 22), "torch.sin", torch.sin)
_unary("Cos", (7, 22), "torch.cos", torch.cos)
_unary("Tan", (7, 22), "torch.tan", torch.tan)
_unary("Asin", (7, 22), "torch.asin", torch.asin)
_unary("Acos", (7, 22), "torch.acos", torch.acos)
_unary("Atan", (7, 22), "torch.atan", torch.atan)
_unary("Sinh", (9, 22), "torch.sinh", torch.sinh)
_unary("Cosh", (9, 22), "torch.cosh", torch.cosh)
_unary("Asinh", (9, 22), "torch.asinh", torch.asinh)
_unary("Acosh", (9, 22), "torch.acosh", torch.acosh)
_unary("Atanh", (9, 22), "torch.atanh", torch.atanh)
_unary("Erf", (9, 13), "torch.erf", torch.erf)
_unary("BitwiseNot", (18,), "~x", torch.bitwise_not)
_unary("Not", (1,), "torch.logical_not", torch.logical_not)
_unary("Det", (11, 22), "torch.linalg.det", torch.linalg.det)
_unary("IsNaN", (9, 13, 20), "torch.isnan", torch.isnan)


@translates("Identity", 1, 13, 14, 16, 19, 21, 23, 24, 25)
def identity(g: Builder, x: Tensor) -> Tensor:
    """Identity → the value itself; detached, where torch's exporter says that it was."""
    return x.detach() if g.node is not None and stops_gradient(g.node) else x


@translates("IsInf", 10, 20)
def is_inf(g: Builder, x: Tensor, *, detect_negative: int, detect_positive: int) -> Any:
    """IsInf → torch.isinf, torch.isposinf or torch.isneginf."""
    if detect_negative and detect_positive:
        return torch.isinf(x)
    if detect_positive:
        return torch.isposinf(x)
    return torch.isneginf(x) if detect_negative else torch.zeros_like(x, dtype=torch.bool)
