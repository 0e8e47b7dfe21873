"""Reductions. They work in whatever order is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.values import Ints, Runtime, Stored, Wire
from mlconverter.formats.tflite.layout import logical, permutation, positions, without

EXTREMES = ("REDUCE_MAX", "REDUCE_MIN")
"""Of nothing they are infinite, which only real numbers can be."""


Axes = Sequence[int] | Wire
"""Logical axes, or a tensor of them."""


def reduced(b: Builder, op: str, x: Runtime | Stored, axes: Axes, *, keep: bool) -> Stored:
    """A value reduced over logical axes.

    Raises:
        Refused: LiteRT does not reduce such data.
    """
    wire, order = x.first if isinstance(x, Runtime) else x
    if isinstance(axes, Wire):
        return _reduced_over(b, op, Stored(wire, order), axes, keep)
    along = {a % len(order) for a in axes}
    if not along:
        return Stored(wire, order)
    places = positions(order, along)
    if any(wire.dims[p] == 0 for p in places) and (op == "MEAN" or (op in EXTREMES and wire.dtype != "float32")):
        raise Refused(f"{op} of nothing")
    dims = tuple(1 if i in places else d for i, d in enumerate(wire.dims) if keep or i not in places)
    result = b.move(op, wire, b.ints(places), dims=dims, keepDims=keep)
    return Stored(result, order if keep else without(order, along))


def _reduced_over(b: Builder, op: str, x: Stored, axes: Wire, keep: bool) -> Stored:
    """A value reduced over axes that are computed."""
    wire = b.transpose(x.wire, permutation(x.order, logical(x.wire.rank)))
    if 0 in wire.dims:
        raise Refused(f"{op} of nothing")
    dims = b.out_dims()
    return Stored(b.move(op, wire, axes, dims=dims, keepDims=keep), logical(len(dims)))


def each(b: Builder, op: str, stored: Stored) -> Stored:
    """An operator of one operand on a stored value."""
    return Stored(b.emit(op, stored.wire, dims=stored.wire.dims), stored.order)


Step = Callable[[Builder, Stored, Axes, bool], Stored]


def _reduction(name: str, versions: tuple[int, ...], becomes: str, step: Step) -> None:
    def translator(
        b: Builder, x: Runtime, axes: Ints | Runtime | None = None, *, keepdims: int, noop_with_empty_axes: int = 0, **_: Any
    ) -> Stored:
        if isinstance(axes, Runtime):
            if axes.dims != (0,):
                if None in axes.dims:
                    raise Refused("a number of axes that only the run time knows")  # of none there would be another meaning
                return step(b, x.first, b.setting(axes), bool(keepdims))
            axes = None
        every = [] if noop_with_empty_axes else list(range(x.rank))
        return step(b, x.first, axes.fixed("an axis") if axes else every, bool(keepdims))

    translator.__name__ = name.lower()
    translator.__doc__ = f"{name} → {becomes}."
    translates(name, *versions)(translator)


def _plain(op: str) -> Step:
    return lambda b, x, axes, keep: reduced(b, op, x, axes, keep=keep)


def _sum_of_squares(b: Builder, x: Stored, axes: Axes, keep: bool) -> Stored:
    squares = Stored(b.compute("MUL", x.wire, x.wire, dims=x.wire.dims), x.order)
    return reduced(b, "SUM", squares, axes, keep=keep)


def _log_sum_exp(b: Builder, x: Stored, axes: Axes, keep: bool) -> Stored:
    # The largest is taken out first: without that exp overflows.
    largest = reduced(b, "REDUCE_MAX", x, axes, keep=True)
    rest = Stored(b.emit("SUB", x.wire, largest.wire, dims=x.wire.dims), x.order)
    if isinstance(axes, Wire):
        sums = each(b, "LOG", reduced(b, "SUM", each(b, "EXP", rest), axes, keep=keep)).wire
        highest = reduced(b, "REDUCE_MAX", x, axes, keep=keep)
        return Stored(b.emit("ADD", sums, highest.wire, dims=sums.dims), highest.order)
    logs = each(b, "LOG", reduced(b, "SUM", each(b, "EXP", rest), axes, keep=True))
    total = Stored(b.emit("ADD", logs.wire, largest.wire, dims=logs.wire.dims), x.order)
    if keep:
        return total
    along = {a % len(x.order) for a in axes}
    return Stored(b.squeeze(total.wire, positions(x.order, along)), without(x.order, along))


_reduction("ReduceSum", (1, 11, 13), "SUM", _plain("SUM"))
_reduction("ReduceMean", (1, 11, 13, 18), "MEAN", _plain("MEAN"))
_reduction("ReduceMax", (1, 11, 12, 13, 18, 20), "REDUCE_MAX", _plain("REDUCE_MAX"))
_reduction("ReduceMin", (1, 11, 12, 13, 18, 20), "REDUCE_MIN", _plain("REDUCE_MIN"))
_reduction("ReduceProd", (1, 11, 13, 18), "REDUCE_PROD", _plain("REDUCE_PROD"))
_reduction(
    "ReduceL1",
    (1, 11, 13, 18),
    "ABS, SUM",
    lambda b, x, axes, keep: reduced(b, "SUM", Stored(absolute(b, x.wire), x.order), axes, keep=keep),
)
_reduction("ReduceSumSquare", (1, 11, 13, 18), "MUL, SUM", _sum_of_squares)
_reduction(
    "ReduceL2", (1, 11, 13, 18), "MUL, SUM, SQRT", lambda b, x, axes, keep: each(b, "SQRT", _sum_of_squares(b, x, axes, keep))
)
_reduction(
    "ReduceLogSum",
    (1, 11, 13, 18, 28),
    "SUM, LOG",
    lambda b, x, axes, keep: each(b, "LOG", reduced(b, "SUM", x, axes, keep=keep)),
)
_reduction("ReduceLogSumExp", (1, 11, 13, 18, 28), "REDUCE_MAX, SUB, EXP, SUM, LOG, ADD", _log_sum_exp)


def absolute(b: Builder, wire: Wire) -> Wire:
    """Absolute values; LiteRT's ABS lacks 64-bit integers."""
    if wire.dtype == "int64":
        return b.emit("MAXIMUM", wire, b.emit("NEG", wire, dims=wire.dims), dims=wire.dims)
    return b.compute("ABS", wire, dims=wire.dims)
