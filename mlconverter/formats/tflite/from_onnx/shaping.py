"""Operators that change shapes without moving an element from its neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.computed import squeezed_by_tensor, unsqueezed_by_tensor
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.values import Array, Constant, Dims, Ints, Operand, Runtime, Size, Stored, Wire, known
from mlconverter.formats.tflite.layout import Order

LARGEST = 1 << 16
"""Elements of a constant that is written out rather than filled at run time."""


@translates("Reshape", 1, 5, 13, 14, 19, 21, 23, 24, 25)
def reshape(b: Builder, x: Runtime, shape: Ints | Runtime, *, allowzero: int = 0, consumed_inputs: Any = None) -> Stored:
    """Reshape → RESHAPE of the tensor as it is stored, where the axes that it merges and splits are stored together."""
    if isinstance(shape, Runtime):
        return _reshape_to_tensor(b, x, shape, allowzero)
    sizes = [x.length(i) if isinstance(s, int) and s == 0 and not allowzero else s for i, s in enumerate(shape)]
    return reshaped(b, x, sizes, b.out_dims(rank=len(sizes)))


def _reshape_to_tensor(b: Builder, x: Runtime, shape: Runtime, allowzero: int) -> Stored:
    """To a shape that is computed: LiteRT reads a 0 in it as no element, ONNX as the size that is there."""
    dims = b.out_dims()
    target = b.setting(shape)
    if not allowzero:
        zero = b.emit("EQUAL", target, b.scalar(0, "int32"), dims=target.dims, dtype="bool")
        own = [*x.sizes, *[0] * len(dims)][: len(dims)]
        target = b.emit("SELECT_V2", zero, b.shape(own), target, dims=target.dims, dtype="int32")
    return Stored(b.emit("RESHAPE", b.ask(x), target, dims=dims), layout.logical(len(dims)))


def reshaped(b: Builder, x: Runtime, sizes: list[int | Size], result: Dims = ()) -> Stored:
    """A value under another shape.

    Args:
        b: the builder.
        x: the value.
        sizes: of the result; one may be -1, which follows from the others.
        result: what is known of them besides.
    """
    if -1 in sizes:
        missing = _missing(x.sizes, [s for s in sizes if s != -1])
        sizes = [missing if s == -1 and missing is not None else s for s in sizes]
    if len(result) != len(sizes):
        result = (None,) * len(sizes)
    after = tuple(r if not isinstance(s, int) or s < 0 else s for r, s in zip(result, sizes, strict=True))
    for have, wire in x.orders.items():
        order = layout.through_reshape(have, x.dims, after)
        if order is not None:
            return Stored(_reshape(b, wire, order, sizes, after), order)
    wanted = layout.for_reshape(x.first.order, x.dims, after)
    order = layout.through_reshape(wanted, x.dims, after) or layout.logical(len(after))
    return Stored(_reshape(b, b.ask(x, wanted), order, sizes, after), order)


def _missing(before: list[int | Size], others: list[int | Size]) -> int | None:
    """The size that is left of a shape when others are taken out of it, where that is a number whatever the free ones are."""
    have, taken = _factors(before), _factors(others)
    for free in taken[1]:
        if free not in have[1]:
            return None
        have[1].remove(free)
    whole = not have[1] and taken[0] and have[0] % taken[0] == 0
    return have[0] // taken[0] if whole else None


def _factors(sizes: Iterable[int | Size]) -> tuple[int, list[Size]]:
    """A product of sizes as a number and free sizes."""
    number = 1
    free: list[Size] = []
    for size in sizes:
        if isinstance(size, int):
            number *= size
        elif size.op == "MUL":
            more, inner = _factors(size.args)
            number, free = number * more, free + inner
        else:
            free.append(size)
    return number, free


def _reshape(b: Builder, wire: Wire, order: Order, sizes: list[int | Size], after: tuple[int | None, ...]) -> Wire:
    targets = [a if a is not None else s if isinstance(s, Size) else None for a, s in zip(after, sizes, strict=True)]
    return b.reshape(wire, layout.arranged(order, targets))


@translates("Flatten", 1, 9, 11, 13, 21, 23, 24, 25)
def flatten(b: Builder, x: Runtime, *, axis: int) -> Stored:
    """Flatten → RESHAPE."""
    axis += x.rank if axis < 0 else 0
    if axis == 0:
        return reshaped(b, x, [1, -1])
    if axis == x.rank:
        return reshaped(b, x, [-1, 1])
    behind = np.prod(np.array(x.sizes[axis:], object))
    before = np.prod(np.array(x.sizes[:axis], object))
    return reshaped(b, x, [before, -1] if isinstance(behind, Size) else [-1, int(behind)])


@translates("Transpose", 1, 13, 21, 23, 24, 25)
def transpose(b: Builder, x: Runtime, *, perm: list[int] | None = None) -> Runtime:
    """Transpose → nothing: the axes have other names from here on."""
    return renamed(x, perm if perm is not None else list(reversed(range(x.rank))))


def renamed(x: Runtime, perm: list[int]) -> Runtime:
    """A value with its logical axes permuted; nothing is moved."""
    orders = {layout.renamed(order, perm): wire for order, wire in x.orders.items()}
    return Runtime(x.name, tuple(x.dims[p] for p in perm), x.dtype, orders)


@translates("Squeeze", 1, 11, 13, 21, 23, 24, 25)
def squeeze(b: Builder, x: Runtime, axes: Ints | Runtime | None = None) -> Stored:
    """Squeeze → RESHAPE or SQUEEZE."""
    if isinstance(axes, Runtime):
        return squeezed_by_tensor(b, x, axes)
    if axes is None:
        if None in x.dims:
            raise Refused("which axes have one element is only known at run time")
        along = [i for i, d in enumerate(x.dims) if d == 1]
    else:
        along = [a % x.rank for a in axes.fixed("an axis")]
    return squeezed(b, x.first, along)


def squeezed(b: Builder, x: Stored, axes: list[int]) -> Stored:
    """A stored value without some logical axes of size 1."""
    wire, order = x
    return Stored(b.squeeze(wire, layout.positions(order, axes)), layout.without(order, axes)) if axes else x


@translates("Unsqueeze", 1, 11, 13, 21, 23, 24, 25)
def unsqueeze(b: Builder, x: Runtime, axes: Ints | Runtime) -> Stored:
    """Unsqueeze → RESHAPE or EXPAND_DIMS."""
    if isinstance(axes, Runtime):
        return unsqueezed_by_tensor(b, x, axes)
    rank = x.rank + len(axes)
    wire, order = x.first
    places: list[int] = []
    for axis in sorted(a % rank for a in axes.fixed("an axis")):
        order, position = layout.inserted(order, axis)
        places = [p + (p >= position) for p in places] + [position]
    if wire.dims.count(None) <= 1 and places:
        dims = list(wire.dims)
        for position in sorted(places):
            dims.insert(position, 1)
        return Stored(b.reshape(wire, dims), order)
    for position in sorted(places):
        wire = b.expand_dims(wire, position)
    return Stored(wire, order)


@translates("Expand", 8, 13)
def expand(b: Builder, x: Operand, shape: Ints | Runtime) -> Stored:
    """Expand → BROADCAST_TO."""
    if isinstance(shape, Runtime):
        shape = b.elements(shape)
    rank = max(x.rank, len(shape))
    own: list[int | Size] = list(x.dims) if isinstance(x, Constant) else x.sizes
    have = [*[1] * (rank - x.rank), *own]
    want = [1] * (rank - len(shape)) + list(shape)
    sizes = [_either(b, h, w) for h, w in zip(have, want, strict=True)]
    wire = b.ask(x)
    if known(sizes) == wire.dims and None not in wire.dims:
        return Stored(wire, layout.logical(rank))
    return Stored(b.emit("BROADCAST_TO", wire, b.shape(sizes), dims=known(sizes)), layout.logical(rank))


def _either(b: Builder, have: int | Size, want: int | Size) -> int | Size:
    """The size that two sizes are broadcast to."""
    if isinstance(want, int) and want == 1:
        return have
    if isinstance(have, int) and have == 1:
        return want
    if have == want:
        return have
    if isinstance(have, int) or isinstance(want, int):
        return have if isinstance(have, int) else want  # the other one is 1 or the same
    return Size("MAXIMUM", (have, want))


@translates("Tile", 6, 13)
def tile(b: Builder, x: Runtime, repeats: Ints | Runtime) -> Stored:
    """Tile → TILE."""
    if isinstance(repeats, Runtime):
        return Stored(b.emit("TILE", b.ask(x), b.ask(repeats), dims=(None,) * x.rank), layout.logical(x.rank))
    wire, order = x.first
    counts = layout.arranged(order, repeats)
    dims = tuple(None if d is None or isinstance(n, Size) else d * n for d, n in zip(wire.dims, counts, strict=True))
    return Stored(b.emit("TILE", wire, b.shape(counts), dims=dims), order)


@translates("Identity", 1, 13, 14, 16, 19, 21, 23, 24, 25)
def identity(b: Builder, x: Operand) -> Operand:
    """Identity → nothing."""
    return x


@translates("ConstantOfShape", 9, 20, 21, 23, 24, 25)
def constant_of_shape(b: Builder, shape: Ints | Runtime, *, value: Array | None = None) -> Stored:
    """ConstantOfShape → FILL."""
    filler = np.zeros(1, np.float32) if value is None else value.reshape(-1)[:1]
    if isinstance(shape, Runtime):
        dims = b.out_dims()
        return Stored(_fill(b, b.ask(shape), filler, dims), layout.logical(len(dims)))
    return Stored(filled(b, shape, filler), layout.logical(len(shape)))


def filled(b: Builder, sizes: Sequence[int | Size], filler: Array) -> Wire:
    """A tensor whose elements are all the same: a constant where its sizes are numbers, and few."""
    dims = [s for s in sizes if isinstance(s, int)]
    if len(dims) == len(sizes) and math.prod(dims) <= LARGEST:
        return b.array(np.full(dims, filler.reshape(())))
    return _fill(b, b.shape(sizes), filler, known(sizes))


def _fill(b: Builder, shape: Wire, filler: Array, dims: tuple[int | None, ...]) -> Wire:
    value = b.constant(filler.reshape(()))
    return b.emit("FILL", shape, value, dims=dims, dtype=value.dtype)


@translates("Range", 11, 27)
def range_(b: Builder, start: Operand, limit: Operand, delta: Operand, *, stash_type: int = 1) -> Stored:
    """Range → RANGE."""
    bounds = [b.reshape(b.ask(bound), ()) for bound in (start, limit, delta)]
    return Stored(b.emit("RANGE", *bounds, dims=(None,), dtype=bounds[0].dtype), (0,))
