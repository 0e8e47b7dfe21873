"""Images read at computed places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.values import Array, Ints, Operand, Stored, Wire, broadcast_dims
from mlconverter.formats.tflite.layout import channels_last, logical

CUBIC = -0.75
"""Coefficient of the cubic kernel."""


@dataclass(frozen=True)
class Tap:
    """An element of an axis that takes part in a sample.

    Attributes:
        place: its number, within the axis.
        share: in the sample; ``None`` for the whole.
    """

    place: Wire
    share: Wire | None


class Maths:
    """Arithmetic on tensors that are broadcast against each other, and numbers."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def __call__(self, op: str, *operands: Wire | float, dtype: str | None = None) -> Wire:
        """An operator, on tensors and numbers of their type."""
        own = next(o.dtype for o in operands if isinstance(o, Wire))
        wires = [o if isinstance(o, Wire) else self.b.scalar(int(o) if own == "int32" else o, own) for o in operands]
        return self.b.emit(op, *wires, dims=broadcast_dims(*(w.dims for w in wires)), dtype=dtype)

    def within(self, x: Wire, low: float, high: float) -> Wire:
        """The numbers, and the bounds in place of those beyond."""
        return self("MINIMUM", self("MAXIMUM", x, low), high)

    def whole(self, x: Wire, size: int) -> Wire:
        """Numbers of elements of an axis; what is no number, or none of them, is one of them, too."""
        return self.within(self.b.cast(x, "int32"), 0, size - 1)

    def select(self, condition: Wire, x: Wire, y: Wire) -> Wire:
        """One of two tensors, element by element."""
        return self.b.emit("SELECT_V2", condition, x, y, dims=broadcast_dims(condition.dims, x.dims, y.dims), dtype=x.dtype)


def read(b: Builder, flat: Wire, taps: Sequence[Sequence[Tap]], sizes: Sequence[int]) -> list[Wire]:
    """Each combination of taps: the elements there, in their shares.

    Args:
        b: the builder.
        flat: images of (batch, elements, channels).
        taps: of each axis.
        sizes: of the axes.
    """
    m, found = Maths(b), []
    for combination in itertools.product(*taps):
        place = combination[0].place
        for tap, size in zip(combination[1:], sizes[1:], strict=True):
            place = m("ADD", m("MUL", place, size), tap.place)
        dims = (flat.dims[0], *place.dims[1:], flat.dims[2])
        elements = b.emit("GATHER", flat, place, dims=dims, axis=1, batchDims=1)
        shares = [tap.share for tap in combination if tap.share is not None]
        if shares:
            share = b.expand_dims(reduce(lambda x, y: m("MUL", x, y), shares), place.rank)
            elements = m("MUL", elements, share)
        found.append(elements)
    return found


def images(b: Builder, x: Operand) -> tuple[Wire, list[int]]:
    """Images as (batch, elements, channels), and the sizes of their axes.

    Raises:
        Refused: only the run time knows them.
    """
    sizes = [d for d in x.dims[2:] if d is not None]
    if len(sizes) != x.rank - 2 or 0 in sizes:
        raise Refused("an image of a size that only the run time knows")
    image = b.image(x)
    return b.reshape(image, (image.dims[0], math.prod(sizes), image.dims[-1])), sizes


@translates("GridSample", 16, 20, 22)
def grid_sample(b: Builder, x: Operand, grid: Operand, *, mode: str, padding_mode: str, align_corners: int) -> Stored:
    """GridSample → GATHER of the neighbours of each place, MUL, ADD."""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode not in ("nearest", "linear", "cubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise Refused(f"mode={mode}, padding_mode={padding_mode}")
    if x.dtype not in ("float32", "float16"):
        raise Refused(f"an image of {x.dtype}")
    flat, sizes = images(b, x)
    m, places = Maths(b), b.ask(grid)
    taps = []
    for axis, size in enumerate(sizes):
        column = len(sizes) - 1 - axis  # the last axis comes first
        at = b.emit("GATHER", places, b.scalar(column, "int32"), dims=places.dims[:-1], axis=places.rank - 1)
        centred = m("MUL", m("ADD", at, 1), (size - 1) / 2 if align_corners else size / 2)
        centred = centred if align_corners else m("SUB", centred, 0.5)
        taps.append(_taps(m, centred, size, mode, padding_mode, bool(align_corners)))
    total = reduce(lambda p, q: m("ADD", p, q), read(b, flat, taps, sizes))
    return Stored(total, channels_last(x.rank))


def _taps(m: Maths, at: Wire, size: int, mode: str, padding: str, aligned: bool) -> list[Tap]:
    """The elements of an axis that take part in the samples at places along it."""
    if mode != "cubic":  # whose taps are brought back one by one
        at = _folded(m, at, size, padding, aligned)
    if mode == "nearest":
        rounded = m("ROUND", at)
        return [Tap(m.whole(rounded, size), _inside(m, rounded, size, padding))]
    low = m("FLOOR", at)
    rest = m("SUB", at, low)
    if mode == "linear":
        shares = {0: m("SUB", 1, rest), 1: rest}
    else:
        shares = {k: _cubic(m, m("ABS", m("SUB", rest, k)), near=k in (0, 1)) for k in (-1, 0, 1, 2)}
    taps = []
    for step, share in shares.items():
        place = m("ADD", low, step) if step else low
        if padding == "reflection":
            place = _folded(m, place, size, padding, aligned)
        mask = _inside(m, place, size, padding)
        taps.append(Tap(m.whole(place, size), share if mask is None else m("MUL", share, mask)))
    return taps


def taps_along(m: Maths, at: Wire, size: int) -> list[Tap]:
    """The two neighbours of places along an axis, beyond which there is nothing."""
    return _taps(m, at, size, "linear", "zeros", False)


def _inside(m: Maths, place: Wire, size: int, padding: str) -> Wire | None:
    """1 for what lies within the axis and 0 for what does not; ``None`` where everything counts."""
    if padding != "zeros":
        return None
    low = m("GREATER_EQUAL", place, 0, dtype="bool")
    high = m("LESS_EQUAL", place, size - 1, dtype="bool")
    return m.b.cast(m.b.emit("LOGICAL_AND", low, high, dims=place.dims), place.dtype)


def _folded(m: Maths, at: Wire, size: int, padding: str, aligned: bool) -> Wire:
    """Places brought back into the axis."""
    if padding == "zeros":
        return at
    if padding == "reflection":
        first, span = (0.0, size - 1.0) if aligned else (-0.5, float(size))
        if not span:
            return m("MUL", at, 0)
        way = m("ABS", m("SUB", at, first))
        twice = m("FLOOR_MOD", way, 2 * span)
        at = m("ADD", m("MINIMUM", twice, m("SUB", 2 * span, twice)), first)
    return m.within(at, 0, size - 1)


def _cubic(m: Maths, d: Wire, *, near: bool) -> Wire:
    """Weight of an element at a distance below 1, or between 1 and 2."""
    if near:
        return m("ADD", m("MUL", m("MUL", m("SUB", m("MUL", d, CUBIC + 2), CUBIC + 3), d), d), 1)
    inner = m("ADD", m("MUL", m("SUB", m("MUL", d, CUBIC), 5 * CUBIC), d), 8 * CUBIC)
    return m("SUB", m("MUL", inner, d), 4 * CUBIC)


@translates("AffineGrid", 20)
def affine_grid(b: Builder, theta: Operand, size: Ints, *, align_corners: int) -> Stored:
    """AffineGrid → BATCH_MATMUL of the plain grid with each matrix."""
    sizes = size.fixed("its size")[2:]
    if align_corners and 1 in sizes:
        raise Refused("align_corners=1 of a single element, which is both corners")
    lines = [np.linspace(-1, 1, n) if align_corners else (2 * np.arange(n) + 1) / n - 1 for n in sizes]
    corners = [*np.meshgrid(*lines, indexing="ij")][::-1]
    plain: Array = np.stack([*corners, np.ones(sizes)], -1).reshape(1, -1, len(sizes) + 1).astype(np.float32)
    matrices = b.ask(theta)
    dims = (matrices.dims[0], plain.shape[1], len(sizes))
    y = b.emit("BATCH_MATMUL", b.constant(plain, "grid"), matrices, dims=dims, adjY=True)
    return Stored(b.reshape(y, (matrices.dims[0], *sizes, len(sizes))), logical(len(sizes) + 2))
