"""Elementary functions that LiteRT lacks, of what it has; each as accurate as single precision allows."""

from __future__ import annotations

import math
from collections.abc import Callable

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import translates
from mlconverter.formats.tflite.from_onnx.values import Runtime, Stored, Wire

FAR = 1e4
"""From here on 1 is nothing beside the square, which may be too large to be a number."""


class _Maths:
    """Arithmetic on tensors of one shape, and numbers."""

    def __init__(self, b: Builder, x: Wire) -> None:
        self.b, self.x = b, x

    def __call__(self, op: str, *operands: Wire | float) -> Wire:
        wires = [self.b.scalar(o, self.x.dtype) if isinstance(o, (int, float)) else o for o in operands]
        return self.b.emit(op, *wires, dims=self.x.dims)

    def where_less(self, a: Wire, bound: float, yes: Wire, no: Wire) -> Wire:
        """One of two tensors, as the numbers of a third are below a bound or not."""
        less = self.b.emit("LESS", a, self.b.scalar(bound, a.dtype), dims=a.dims, dtype="bool")
        return self.b.emit("SELECT_V2", less, yes, no, dims=a.dims, dtype=yes.dtype)

    def angle(self, y: Wire, x: Wire | None = None) -> Wire:
        """ATAN2, which reads beyond a tensor that is smaller than the other; of a slope where there is no second one."""
        if x is None:
            above = self.b.emit("GREATER_EQUAL", self("ABS", y), self.b.scalar(0, y.dtype), dims=y.dims, dtype="bool")
            x = self.b.cast(above, y.dtype)
        return self("ATAN2", y, x)

    def across(self) -> Wire:
        """The leg of a right triangle whose other leg is x and whose hypotenuse is 1."""
        return self("SQRT", self("MUL", self("SUB", 1, self.x), self("ADD", self.x, 1)))

    def log_1p(self, y: Wire) -> Wire:
        """Logarithm of 1 + y. LiteRT's LOG is not exact enough near 1; there it is the series of the area tangent."""
        s = self("DIV", y, self("ADD", y, 2))
        square = self("MUL", s, s)
        series = self("MUL", square, 1 / 13)
        for n in (11, 9, 7, 5, 3):
            series = self("MUL", self("ADD", series, 1 / n), square)
        near = self("MUL", self("ADD", series, 1), self("ADD", s, s))
        return self.where_less(y, 1, near, self("LOG", self("ADD", y, 1)))

    def signed(self, size: Wire) -> Wire:
        """The numbers with the signs of x."""
        return self("MUL", self("SIGN", self.x), size)

    def halves(self) -> tuple[Wire, Wire]:
        """Half of EXP of |x| and of -|x|, through EXP of the half, whose square is no infinity too soon."""
        root = self("EXP", self("MUL", self("ABS", self.x), 0.5))
        return self("MUL", self("MUL", root, 0.5), root), self("DIV", self("DIV", 0.5, root), root)


def _asin(m: _Maths) -> Wire:
    return m.angle(m.x, m.across())


def _acos(m: _Maths) -> Wire:
    return m.angle(m.across(), m.x)


def _sinh(m: _Maths) -> Wire:
    # Near zero the difference of two powers is lost in rounding; the first terms of the series are not.
    size, square = m("ABS", m.x), m("MUL", m.x, m.x)
    series = m("MUL", square, 1 / math.factorial(11))
    for n in (9, 7, 5, 3):
        series = m("MUL", m("ADD", series, 1 / math.factorial(n)), square)
    near = m("MUL", m("ADD", series, 1), size)
    up, down = m.halves()
    return m.signed(m.where_less(size, 1, near, m("SUB", up, down)))


def _cosh(m: _Maths) -> Wire:
    # LiteRT's EXP takes what is no number for infinity.
    size = m("ABS", m.x)
    return m.where_less(size, math.inf, m("ADD", *m.halves()), size)


def _log_of_twice(m: _Maths, x: Wire) -> Wire:
    # LiteRT's LOG of the largest numbers is infinite.
    return m("ADD", m("LOG", m("MUL", x, 0.25)), math.log(8))


def _asinh(m: _Maths) -> Wire:
    size, square = m("ABS", m.x), m("MUL", m.x, m.x)
    above = m("DIV", square, m("ADD", m("SQRT", m("ADD", square, 1)), 1))
    near, far = m.log_1p(m("ADD", size, above)), _log_of_twice(m, size)
    return m.signed(m.where_less(size, FAR, near, far))


def _acosh(m: _Maths) -> Wire:
    over = m("SUB", m.x, 1)
    near = m.log_1p(m("ADD", over, m("MUL", m("SQRT", over), m("SQRT", m("ADD", over, 2)))))
    return m.where_less(m.x, FAR, near, _log_of_twice(m, m.x))


def _atanh(m: _Maths) -> Wire:
    size = m("ABS", m.x)
    rest = m("SUB", 1, size)
    near, far = m.log_1p(m("DIV", m("ADD", size, size), rest)), m("LOG", m("DIV", m("ADD", size, 1), rest))
    return m.signed(m("MUL", m.where_less(size, 0.5, near, far), 0.5))


def _function(op: str, versions: tuple[int, ...], becomes: str, function: Callable[[_Maths], Wire]) -> None:
    def translator(b: Builder, x: Runtime) -> Stored:
        wire, order = x.first
        return Stored(function(_Maths(b, wire)), order)

    translator.__name__ = op.lower()
    translator.__doc__ = f"{op} → {becomes}."
    translates(op, *versions)(translator)


_function("Atan", (7, 22), "ATAN2", lambda m: m.angle(m.x))
_function("Asin", (7, 22), "ATAN2, SQRT", _asin)
_function("Acos", (7, 22), "ATAN2, SQRT", _acos)
_function("Sinh", (9, 22), "EXP, and its series near zero", _sinh)
_function("Cosh", (9, 22), "EXP", _cosh)
_function("Asinh", (9, 22), "LOG, SQRT", _asinh)
_function("Acosh", (9, 22), "LOG, SQRT", _acosh)
_function("Atanh", (9, 22), "LOG", _atanh)


@translates("IsInf", 10, 20)
def is_inf(b: Builder, x: Runtime, *, detect_negative: int, detect_positive: int) -> Stored:
    """IsInf → EQUAL to infinity."""
    wire, order = x.first
    if not detect_negative and not detect_positive:
        return Stored(b.emit("LESS", wire, wire, dims=wire.dims, dtype="bool"), order)
    both = detect_negative and detect_positive
    size = b.emit("ABS", wire, dims=wire.dims) if both else wire
    end = b.scalar(math.inf if detect_positive else -math.inf, wire.dtype)
    return Stored(b.emit("EQUAL", size, end, dims=wire.dims, dtype="bool"), order)
