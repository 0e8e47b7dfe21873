"""Axis orders: in which order the axes of a value are stored, and what becomes of that order under an operator.

A value has *logical* axes, numbered as its file numbers them. It is stored in an *order*: a tuple whose entry ``i``
is the logical axis that is stored as axis ``i``. ``(0, 1, 2, 3)`` is the file's own order; an image that the file has
as (batch, height, width, channels) and that is stored channels-first has the order ``(0, 3, 1, 2)``.

Operators that care ask for an order; operators that do not take the order that is there and translate their axes
with these functions. Everything here is arithmetic on tuples: it knows no graph and no format.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

Order = tuple[int, ...]
T = TypeVar("T")


def logical(rank: int) -> Order:
    """The file's own order."""
    return tuple(range(rank))


def channels_first(rank: int) -> Order:
    """The order with the last axis second, as ONNX and PyTorch want images."""
    return (0, rank - 1, *range(1, rank - 1))


def channels_last(rank: int) -> Order:
    """The order with the second axis last, as TFLite wants images."""
    return (0, *range(2, rank), 1)


def with_last(order: Order, axis: int) -> Order:
    """The order with one axis moved to the end."""
    return (*(a for a in order if a != axis), axis)


def permutation(have: Order, want: Order) -> tuple[int, ...]:
    """The transpose that turns a value stored as ``have`` into one stored as ``want``."""
    return tuple(have.index(axis) for axis in want)


def inverse(perm: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes ``perm``."""
    return tuple(sorted(range(len(perm)), key=lambda i: perm[i]))


def arranged(order: Order, items: Sequence[T]) -> tuple[T, ...]:
    """What is given per logical axis, as it stands per stored axis."""
    return tuple(items[axis] for axis in order)


def positions(order: Order, axes: Iterable[int]) -> tuple[int, ...]:
    """Where logical axes are stored, sorted; negative axes count from the end."""
    return tuple(sorted(order.index(axis % len(order)) for axis in axes))


def renamed(order: Order, perm: Sequence[int]) -> Order:
    """The order in which a value stands after its logical axes were transposed by ``perm`` and nothing was moved."""
    return tuple(perm.index(axis) for axis in order)


def without(order: Order, axes: Collection[int]) -> Order:
    """The order after logical axes were taken away."""
    kept = sorted(set(order) - set(axes))
    return tuple(kept.index(axis) for axis in order if axis not in axes)


def inserted(order: Order, axis: int) -> tuple[Order, int]:
    """The order after a new logical axis came in, and the stored position that it is given.

    The new axis stands right after its logical predecessor, which leaves the file's order the file's order.
    """
    shifted = [a + (a >= axis) for a in order]
    position = shifted.index(axis - 1) + 1 if axis else 0
    shifted.insert(position, axis)
    return tuple(shifted), position


def trailing(order: Order, rank: int) -> Order:
    """The order of a lower-rank operand that is broadcast against a value stored as ``order``, as numpy aligns them."""
    missing = len(order) - rank
    return tuple(axis - missing for axis in order if axis >= missing)


def broadcast_gaps(order: Order, rank: int) -> tuple[int, ...]:
    """Stored positions, in the full rank, at which such an operand needs an axis of size 1; leading ones need none."""
    missing = len(order) - rank
    kept = [i for i, axis in enumerate(order) if axis >= missing]
    first = kept[0] if kept else len(order)
    return tuple(i for i, axis in enumerate(order) if axis < missing and i > first)


def product(sizes: Iterable[int | None]) -> int | None:
    """The size of axes that are merged, ``None`` where one of them is free."""
    result = 1
    for size in sizes:
        if size is None:
            return None
        result *= size
    return result


def most_common(available: Sequence[Collection[Order]]) -> Order:
    """The order that spares the most transposes, given the orders in which each operand stands; the earliest of equals."""
    counts: dict[Order, int] = {}
    for orders in available:
        for order in orders:
            counts[order] = counts.get(order, 0) + 1
    return max(counts, key=counts.__getitem__)


def through_reshape(order: Order, before: Sequence[int | None], after: Sequence[int | None]) -> Order | None:
    """The order of a reshape's result when the stored value is reshaped as it stands.

    A reshape merges and splits runs of neighbouring axes. It can work on the stored value where the axes of each run
    are stored next to each other in their logical order; the result then has the runs in the order of the stored value.

    Args:
        order: how the operand is stored.
        before: its logical shape, ``None`` for a free dimension.
        after: the logical shape of the result.

    Returns:
        The result's order, or ``None`` where the operand has to be in its logical order first.
    """
    runs = _runs(before, after)
    if runs is None:
        return None
    run_of = {axis: number for number, (axes, _) in enumerate(runs) for axis in axes}
    stored = [axis for axis in order if axis in run_of]
    result: list[int] = []
    while stored:
        axes, made = runs[run_of[stored[0]]]
        if stored[: len(axes)] != axes:
            return None
        del stored[: len(axes)]
        result += made
    for axis in range(len(after)):
        if axis not in result:
            result.insert(result.index(axis - 1) + 1 if axis else 0, axis)
    return tuple(result)


def for_reshape(order: Order, before: Sequence[int | None], after: Sequence[int | None]) -> Order:
    """The order nearest to ``order`` in which :func:`through_reshape` works.

    The axes of each run are brought together where the last of them is stored; what stands between runs stays.
    """
    runs = _runs(before, after)
    if runs is None:
        return logical(len(order))
    run_of = {axis: axes for axes, _ in runs for axis in axes}
    left = {axis: len(axes) for axes, _ in runs for axis in axes[:1]}
    result: list[int] = []
    for axis in order:
        axes = run_of.get(axis, [axis])
        left[axes[0]] = left.get(axes[0], 1) - 1
        if not left[axes[0]]:
            result += axes
    return tuple(result)


def _runs(before: Sequence[int | None], after: Sequence[int | None]) -> list[tuple[list[int], list[int]]] | None:
    """The smallest runs of axes with equal products, as (axes before, axes after); axes of size 1 belong to none."""
    if 0 in before or 0 in after or before.count(None) > 1 or after.count(None) > 1:
        return None
    left = [axis for axis, size in enumerate(before) if size != 1]
    right = [axis for axis, size in enumerate(after) if size != 1]
    runs = []
    while left or right:
        if not left or not right:
            return None
        run: tuple[list[int], list[int]] = [left.pop(0)], [right.pop(0)]
        while (a := _product(before, run[0])) != (b := _product(after, run[1])):
            # A free dimension has to be matched by the other side's, whatever the products are.
            source, target = (left, run[0]) if a[1] < b[1] or (a[1] == b[1] and a[0] < b[0]) else (right, run[1])
            if not source:
                return None
            target.append(source.pop(0))
        runs.append(run)
    return runs


def _product(shape: Sequence[int | None], axes: Iterable[int]) -> tuple[int, int]:
    known, free = 1, 0
    for axis in axes:
        size = shape[axis]
        known, free = (known, free + 1) if size is None else (known * size, free)
    return known, free
