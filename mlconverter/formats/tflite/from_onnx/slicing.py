"""Operators that take a part of a tensor, and that put something around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import FAR, Builder
from mlconverter.formats.tflite.from_onnx.computed import sliced_by_tensors
from mlconverter.formats.tflite.from_onnx.kernels import KERNELS
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.values import Array, Constant, Dims, Ints, Operand, Runtime, Size, Stored, Wire
from mlconverter.formats.tflite.layout import Order, positions, product
from mlconverter.hub.sizes import never_negative


class Part(NamedTuple):
    """What is taken along one axis; ``None`` for a bound at the end of the axis, a length that the run time knows."""

    start: int | Size | None
    stop: int | Size | None
    step: int
    length: int | None


WHOLE = Part(None, None, 1, None)
"""All of an axis."""


@translates("Slice", 1, 10, 11, 13)
def slice_(
    b: Builder,
    x: Runtime,
    starts: Ints | Runtime,
    ends: Ints | Runtime,
    axes: Ints | Runtime | None = None,
    steps: Ints | Runtime | None = None,
) -> Stored:
    """Slice → STRIDED_SLICE."""
    bounds = [s for s in (starts, ends) if isinstance(s, Runtime)]
    if isinstance(axes, Runtime) or isinstance(steps, Runtime) or (bounds and steps and min(steps.fixed("a step")) < 0):
        return sliced_by_tensors(b, x, starts, ends, axes, steps)
    begins, stops = (b.elements(s) if isinstance(s, Runtime) else s for s in (starts, ends))
    along = axes.fixed("an axis") if axes is not None else list(range(len(begins)))
    strides = steps.fixed("a step") if steps is not None else [1] * len(begins)
    parts = {}
    for start, end, axis, step in zip(begins, stops, along, strides, strict=True):
        parts[axis % x.rank] = _part(x.dims[axis], start, end, step)
    return sliced(b, x.first, parts)


def _part(size: int | None, start: int | Size, end: int | Size, step: int) -> Part:
    if size is not None and isinstance(start, int) and isinstance(end, int):
        # Going backwards, a start before the first element is the first, and an end there stays "before".
        first = max(start, -size) if step < 0 else start
        begin, stop, _ = slice(first, None if step < 0 and end < -size else end, step).indices(size)
        length = max(0, -(-(stop - begin) // step))
        if not length:
            return Part(0, 0, 1, 0)
        return Part(begin, None if stop < 0 else stop, step, length)
    from_start = isinstance(start, int) and (start == 0 if step > 0 else start == -1 or start >= FAR)
    to_end = isinstance(end, int) and (end >= FAR if step > 0 else end <= -FAR)
    if step < 0 and not (from_start and to_end):
        raise Refused("backwards over an axis whose length only the run time knows")
    whole = from_start and to_end and abs(step) == 1
    return Part(None if from_start else start, None if to_end else end, step, size if whole else None)


def sliced(b: Builder, x: Stored, parts: dict[int, Part]) -> Stored:
    """A stored value's parts along logical axes.

    Raises:
        Refused: a part is empty, which LiteRT takes for the whole, of a size that only the run time knows.
    """
    wire, order = x
    placed = [parts.get(axis, WHOLE) for axis in order]
    dims = tuple(d if axis not in parts else parts[axis].length for d, axis in zip(wire.dims, order, strict=True))
    if all(p.start in (0, None) and p.step == 1 and n == d is not None for p, n, d in zip(placed, dims, wire.dims, strict=True)):
        return x
    if 0 in dims:
        if None in dims:
            raise Refused("an empty part")
        return Stored(b.constant(np.zeros([d or 0 for d in dims], wire.dtype)), order)
    if wire.rank <= KERNELS["STRIDED_SLICE"].rank:
        return Stored(_strided(b, wire, placed, dims), order)
    for position in (p for p, part in enumerate(placed) if part != WHOLE):
        alone = [part if p == position else WHOLE for p, part in enumerate(placed)]
        wire = _sliced_in_runs(b, wire, alone, tuple(dims[p] if p <= position else d for p, d in enumerate(wire.dims)))
    return Stored(wire, order)


def _sliced_in_runs(b: Builder, wire: Wire, placed: Sequence[Part], dims: Sequence[int | None]) -> Wire:
    """A slice along one of more axes than the kernel takes: neighbours that are left whole are one."""
    runs: list[list[int]] = []
    for position, part in enumerate(placed):
        whole = part == WHOLE
        if whole and runs and placed[runs[-1][0]] == WHOLE:
            runs[-1].append(position)
        else:
            runs.append([position])
    flat = b.reshape(wire, [product(wire.dims[p] for p in run) for run in runs])
    taken = _strided(b, flat, [placed[run[0]] for run in runs], tuple(product(dims[p] for p in run) for run in runs))
    return b.reshape(taken, dims)


def _strided(b: Builder, wire: Wire, placed: Sequence[Part], dims: Dims) -> Wire:
    return b.emit(
        "STRIDED_SLICE",
        wire,
        b.shape([0 if p.start is None else _within(p.start) for p in placed]),
        b.shape([0 if p.stop is None else _within(p.stop) for p in placed]),
        b.ints(p.step for p in placed),
        dims=dims,
        beginMask=sum(1 << i for i, p in enumerate(placed) if p.start is None),
        endMask=sum(1 << i for i, p in enumerate(placed) if p.stop is None),
    )


def _within(bound: int | Size) -> int | Size:
    return max(min(bound, FAR), -FAR) if isinstance(bound, int) else bound


@translates("Pad", 2, 11, 13, 18, 19, 21, 23, 24, 25)
def pad(
    b: Builder, x: Runtime, pads: Ints | Runtime, value: Operand | None = None, axes: Ints | None = None, *, mode: str
) -> Stored:
    """Pad → PAD or PADV2, MIRROR_PAD, or GATHER for edges; STRIDED_SLICE where it takes away."""
    if isinstance(pads, Runtime):
        pads = b.elements(pads)
    along = list(range(x.rank)) if axes is None else [a % x.rank for a in axes.fixed("an axis")]
    begins, ends = dict(zip(along, pads[: len(along)], strict=True)), dict(zip(along, pads[len(along) :], strict=True))
    cut = {a: _kept(x, a, begins[a], ends[a]) for a in along if _takes_away(begins[a]) or _takes_away(ends[a])}
    wire, order = sliced(b, x.first, cut)
    before = [_added(begins.get(axis, 0)) for axis in order]
    behind = [_added(ends.get(axis, 0)) for axis in order]
    if mode == "constant":
        return Stored(_filled(b, wire, before, behind, value), order)
    fixed = [[s for s in sizes if isinstance(s, int)] for sizes in (before, behind)]
    if any(len(f) != len(order) for f in fixed):
        raise Refused("a padding that depends on the size of an input")
    return Stored(_continued(b, wire, fixed[0], fixed[1], mode), order)


def _takes_away(size: int | Size) -> bool:
    """Whether a padding is below zero, or may be."""
    return not never_negative(size)


def _added(size: int | Size) -> int | Size:
    if isinstance(size, int):
        return max(size, 0)
    return size if never_negative(size) else Size("MAXIMUM", (size, 0))


def _kept(x: Runtime, axis: int, begin: int | Size, end: int | Size) -> Part:
    if isinstance(begin, int) and isinstance(end, int):
        start, stop, size = max(-begin, 0), min(end, 0) or None, x.dims[axis]
        return Part(start, stop, 1, None if size is None else size - start + (stop or 0))
    start_at = max(-begin, 0) if isinstance(begin, int) else Size("MAXIMUM", (0 - begin, 0))
    taken = min(end, 0) if isinstance(end, int) else Size("MINIMUM", (end, 0))
    length = x.length(axis)
    return Part(start_at, length + taken, 1, None)


def _filled(b: Builder, wire: Wire, before: Sequence[int | Size], behind: Sequence[int | Size], value: Operand | None) -> Wire:
    if not any((*before, *behind)):
        return wire
    dims = tuple(
        d + p + q if d is not None and isinstance(p, int) and isinstance(q, int) else None
        for d, p, q in zip(wire.dims, before, behind, strict=True)
    )
    pairs = [size for pair in zip(before, behind, strict=True) for size in pair]
    amounts = b.reshape(b.shape(pairs), (wire.rank, 2)) if any(isinstance(p, Size) for p in pairs) else None
    if amounts is None:
        amounts = b.array(np.array(pairs, np.int32).reshape(-1, 2))
    if value is None or (isinstance(value, Constant) and value.number() == 0):
        return b.move("PAD", wire, amounts, dims=dims)
    filler = b.ask(value)
    return b.emit("PADV2", wire, amounts, filler if filler.rank == 0 else b.reshape(filler, ()), dims=dims)


def _continued(b: Builder, wire: Wire, before: Sequence[int], behind: Sequence[int], mode: str) -> Wire:
    """The tensor carried on beyond its ends by what it holds itself."""
    if mode == "reflect" and all(d is not None and max(p, q) < d for d, p, q in zip(wire.dims, before, behind, strict=True)):
        dims = tuple((d or 0) + p + q for d, p, q in zip(wire.dims, before, behind, strict=True))
        return b.emit("MIRROR_PAD", wire, b.array(np.array([before, behind], np.int32).T), dims=dims, mode=0)
    for position, (begin, end) in enumerate(zip(before, behind, strict=True)):
        size = wire.dims[position]
        if not (begin or end):
            continue
        if size is None:
            raise Refused(f"mode={mode} along an axis whose length only the run time knows")
        wire = gathered(b, wire, np.pad(np.arange(size), (begin, end), mode=mode), position)  # type: ignore[call-overload]
    return wire


def gathered(b: Builder, wire: Wire, indices: Array, position: int) -> Wire:
    """What stands at constant positions along a stored axis."""
    dims = (*wire.dims[:position], *indices.shape, *wire.dims[position + 1 :])
    return b.move("GATHER", wire, b.array(indices.astype(np.int32)), dims=dims, axis=position)


def one_of(b: Builder, x: Stored, axis: int, index: int) -> tuple[Stored, Order]:
    """One position along a logical axis, which stays with size 1, and the order without it."""
    (position,) = positions(x.order, [axis])
    stop = index + 1 if index != -1 else None
    return sliced(b, x, {axis: Part(index, stop, 1, 1)}), x.order[:position] + x.order[position + 1 :]
