"""Padding between elements, and reductions of the windows that slide over the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.layout import arranged, without
from mlconverter.formats.tflite.to_onnx.bodies import body_check, changes_nothing, listed, meaning, paired, reduced
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.dtypes import with_kernel
from mlconverter.formats.tflite.to_onnx.operands import Constant, Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_constant, translates

_FUNCTIONS = {1: "add", 2: "mul", 3: "min", 4: "max", 5: "and", 6: "or"}
"""``ReduceWindowFunction`` in the schema."""


@dataclass(frozen=True)
class Margins:
    """What is put around the elements along an axis and between each two of them; negative where some are cut off."""

    before: int = 0
    after: int = 0
    between: int = 0

    def places(self, size: int) -> list[int]:
        """The elements in their new order, by number; ``size`` where there is none."""
        spread = [size] * ((size - 1) * (self.between + 1) + 1 if size else 0)
        spread[:: self.between + 1] = range(size)
        spread = [size] * self.before + spread if self.before >= 0 else spread[-self.before :]
        return spread + [size] * self.after if self.after >= 0 else spread[: max(len(spread) + self.after, 0)]


def with_room(b: Builder, stored: Stored, axes: Sequence[int], fill: ir.Value, dtype: str) -> ir.Value:
    """The value with one more element at the end of some logical axes, which stands for all that is filled in."""
    rank = len(stored.order)
    ends = arranged(stored.order, [int(axis in axes) for axis in range(rank)])
    widths = b.ints([*[0] * rank, *ends])
    return with_kernel(b, "Pad", dtype, lambda v, fill: b.emit("Pad", v, widths, fill), stored.value, fill)


def padded(b: Builder, x: Operand, fill: Operand, margins: Sequence[Margins]) -> Stored:
    """The operand with elements put around and between its own."""
    value, order = b.as_is(x)
    scalar = b.emit("Squeeze", b.ask(fill)) if fill.rank else b.ask(fill)
    if not any(m.between for m in margins):
        widths = [*(m.before for m in arranged(order, margins)), *(m.after for m in arranged(order, margins))]
        if any(widths):
            ends = b.ints(widths)
            value = with_kernel(b, "Pad", x.dtype, lambda v, fill: b.emit("Pad", v, ends, fill), value, scalar)
        return Stored(value, order)
    changed = [axis for axis, m in enumerate(margins) if m != Margins()]
    value = with_room(b, Stored(value, order), changed, scalar, x.dtype)
    for axis in changed:
        value = b.emit("Gather", value, b.ints(margins[axis].places(x.dims[axis] or 0)), axis=order.index(axis))
    return Stored(value, order)


def _known_axes(op: Op, margins: Sequence[Margins]) -> str | None:
    if not any(m.between for m in margins):
        return None
    if any(m != Margins() and size is None for m, size in zip(margins, op.dims(op.tensor(0)), strict=True)):
        return "the size of an axis that it spreads is only known at run time"
    return None


def _dilations(op: Op) -> list[Margins]:
    return [Margins(between=int(d) - 1) for d in op.parameter(1).reshape(-1)]


@translates("DILATE", 1, check=all_of(needs_constant(dilations=1), lambda op: _known_axes(op, _dilations(op))))
def dilate(b: Builder, op: Op, x: Operand, dilations: Operand, fill: Operand) -> Stored:
    """DILATE → Pad by one element, and Gather that puts it between all others."""
    return padded(b, x, fill, _dilations(op))


def _edges(op: Op) -> list[Margins]:
    options, none = op.options, [0] * op.tensor(0).rank
    parts = (listed(o, none) for o in (options.edgePaddingLow, options.edgePaddingHigh, options.interiorPadding))
    return [Margins(*widths) for widths in zip(*parts, strict=True)]


@translates("STABLEHLO_PAD", 1, check=lambda op: _known_axes(op, _edges(op)))
def stablehlo_pad(b: Builder, op: Op, x: Operand, fill: Operand) -> Stored:
    """STABLEHLO_PAD → Pad; by one element, and Gather that puts it everywhere, where elements come in between."""
    return padded(b, x, fill, _edges(op))


@dataclass(frozen=True)
class _Window:
    """A window along one axis, and what is put around the elements that it slides over."""

    size: int
    stride: int = 1
    dilation: int = 1
    margins: Margins = Margins()

    @property
    def idle(self) -> bool:
        return self.size == self.stride == 1 and self.margins == Margins()

    def places(self, length: int) -> np.ndarray:
        """The elements in each position of the window, by number."""
        elements = np.asarray(self.margins.places(length), np.int64)
        count = (len(elements) - (self.size - 1) * self.dilation - 1) // self.stride + 1
        inside = np.arange(max(count, 0))[:, None] * self.stride + np.arange(self.size) * self.dilation
        return np.asarray(elements[inside])


def _slid(b: Builder, kind: str, x: Operand, start: Operand, windows: Sequence[_Window]) -> Stored:
    """The operand reduced in each position of a window: by pooling where it can, else one axis after the other."""
    scalar = b.emit("Squeeze", b.ask(start)) if start.rank else b.ask(start)
    moving = [axis for axis, window in enumerate(windows) if not window.idle]
    if _is_pooling(kind, x, start, [windows[axis] for axis in moving]):
        value, order = _pooled(b, kind, x, {axis: windows[axis] for axis in moving})
        return Stored(paired(b, kind, value, scalar, x.dtype), order)
    value, order = b.as_is(x)
    places = {axis: windows[axis].places(x.dims[axis] or 0) for axis in moving}
    holes = [axis for axis in moving if (places[axis] == x.dims[axis]).any()]
    if holes:
        value = with_room(b, Stored(value, order), holes, scalar, x.dtype)
    for axis in moving:
        position = order.index(axis)
        value = b.emit("Gather", value, b.array(places[axis]), axis=position)
        value = reduced(b, kind, value, [position + 1], x.dtype)
    return Stored(paired(b, kind, value, scalar, x.dtype), order)


def _is_pooling(kind: str, x: Operand, start: Operand, windows: Sequence[_Window]) -> bool:
    """Whether ONNX has a pooling that computes this: a maximum, or a sum that starts from zero, over a channel's axes."""
    if x.dtype != "float32" or not 1 <= len(windows) <= 3 or x.rank - len(windows) != 2:
        return False
    if any(w.margins.between or not 0 <= min(w.margins.before, w.margins.after) for w in windows):
        return False
    if any(max(w.margins.before, w.margins.after) >= w.size for w in windows):
        return False
    # Where a maximum starts is put in afterwards; a sum counts it once for each element that is missing.
    return kind == "max" or (kind == "add" and isinstance(start, Constant) and not start.value.any())


def _pooled(b: Builder, kind: str, x: Operand, windows: dict[int, _Window]) -> Stored:
    order = (*(axis for axis in range(x.rank) if axis not in windows), *windows)
    how = {
        "kernel_shape": [w.size for w in windows.values()],
        "strides": [w.stride for w in windows.values()],
        "dilations": [w.dilation for w in windows.values()],
        "pads": [*(w.margins.before for w in windows.values()), *(w.margins.after for w in windows.values())],
    }
    if kind == "max":
        return Stored(b.emit("MaxPool", b.ask(x, order), **how), order)
    mean = b.emit("AveragePool", b.ask(x, order), count_include_pad=1, **how)
    return Stored(b.emit("Mul", mean, b.scalar(prod(how["kernel_shape"]), x.dtype)), order)


def _known_windows(op: Op, windows: Sequence[_Window]) -> str | None:
    if any(not w.idle and size is None for w, size in zip(windows, op.dims(op.tensor(0)), strict=True)):
        return "the size of an axis that its window slides along is only known at run time"
    return None


def _plain_windows(op: Op) -> list[_Window]:
    rows = zip(*(op.parameter(i).reshape(-1).tolist() for i in (2, 3, 4)), strict=True)
    return [_Window(size, stride, dilation) for size, stride, dilation in rows]


def _known_function(op: Op) -> str | None:
    return None if op.options.reduceFunction in _FUNCTIONS else "a reduction that the file does not name"


@translates(
    "REDUCE_WINDOW",
    1,
    check=all_of(
        needs_constant(window=2, strides=3, dilations=4), _known_function, lambda op: _known_windows(op, _plain_windows(op))
    ),
)
def reduce_window(b: Builder, op: Op, x: Operand, start: Operand, *window: Operand) -> Stored:
    """REDUCE_WINDOW → MaxPool, AveragePool; or along each axis Gather of the windows and a reduction of them."""
    return _slid(b, _FUNCTIONS[op.options.reduceFunction], x, start, _plain_windows(op))


def _padded_windows(op: Op) -> list[_Window]:
    options, ones = op.options, [1] * op.tensor(0).rank
    sizes, strides, dilations, spreads = (
        listed(o, ones) for o in (options.windowDimensions, options.windowStrides, options.windowDilations, options.baseDilations)
    )
    edges = np.reshape(listed(options.padding, [0, 0] * len(ones)), (-1, 2)).tolist()
    margins = [Margins(before, after, spread - 1) for (before, after), spread in zip(edges, spreads, strict=True)]
    return [_Window(*row) for row in zip(sizes, strides, dilations, margins, strict=True)]


def _one_value(op: Op) -> str | None:
    if op.tensor(0).dtype == "uint64":
        return "uint64 tensors, for which ONNX Runtime has no reduction"
    return "several values that are reduced together" if len(op.outputs) != 1 else None


@translates(
    "STABLEHLO_REDUCE_WINDOW",
    1,
    check=all_of(_one_value, body_check("bodySubgraphIndex"), lambda op: _known_windows(op, _padded_windows(op))),
)
def stablehlo_reduce_window(b: Builder, op: Op, x: Operand, start: Operand) -> Stored:
    """STABLEHLO_REDUCE_WINDOW → MaxPool, AveragePool; or along each axis Gather of the windows and a reduction of them."""
    kind = meaning(op, op.options.bodySubgraphIndex)
    assert kind is not None
    return _slid(b, kind, x, start, _padded_windows(op))


@translates("STABLEHLO_REDUCE", 1, check=all_of(_one_value, body_check("bodySubgraphIndex")))
def stablehlo_reduce(b: Builder, op: Op, x: Operand, start: Operand) -> Stored:
    """STABLEHLO_REDUCE → the reduction by its body's operator, put together with the value that it starts from."""
    kind = meaning(op, op.options.bodySubgraphIndex)
    assert kind is not None
    value, order = b.as_is(x)
    axes = listed(op.options.dimensions)
    if axes:
        value = reduced(b, kind, value, [order.index(axis) for axis in axes], x.dtype)
    first = op.constant(1)
    if first is None or not changes_nothing(kind, first):
        value = paired(b, kind, value, b.ask(start), x.dtype)
    return Stored(value, without(order, axes))
