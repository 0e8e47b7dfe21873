"""The way of a weight from its source to its target, and back.

A target's weight is a source's tensor seen through a chain of steps. Every step can be run forwards
(:meth:`Step.get`, source to view) and backwards (:meth:`Step.put`, a changed view into the source), such that

* ``get(put(source, view)) == view``, up to what the source's storage can hold, and
* ``put(source, get(source))`` is ``source``, bit for bit.

The second law is what lets an untouched model come back as the identical file: a step that loses precision
(half-precision or integer storage) writes only the elements whose value has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mlconverter.errors import ConversionError

Array = npt.NDArray[Any]


class Step(Protocol):
    """One invertible step of a chain."""

    def get(self, source: Array) -> Array:
        """The view of ``source``."""

    def put(self, source: Array, view: Array) -> Array:
        """``source`` with ``view`` written into it; neither argument is changed."""


@dataclass(frozen=True)
class Transpose:
    """Axes permuted: axis ``i`` of the view is axis ``perm[i]`` of the source."""

    perm: tuple[int, ...]

    def get(self, source: Array) -> Array:
        return source.transpose(self.perm)

    def put(self, source: Array, view: Array) -> Array:
        return view.transpose(tuple(int(i) for i in np.argsort(self.perm)))


@dataclass(frozen=True)
class Reshape:
    """The same elements in the same order under another shape."""

    shape: tuple[int, ...]

    def get(self, source: Array) -> Array:
        return source.reshape(self.shape)

    def put(self, source: Array, view: Array) -> Array:
        return view.reshape(source.shape)


@dataclass(frozen=True)
class Slice:
    """A part of the source; ``index`` is one ``(start, stop, step)`` for each axis."""

    index: tuple[tuple[int | None, int | None, int | None], ...]

    def get(self, source: Array) -> Array:
        return source[tuple(slice(*i) for i in self.index)]

    def put(self, source: Array, view: Array) -> Array:
        result = source.copy()
        result[tuple(slice(*i) for i in self.index)] = view
        return result


@dataclass(frozen=True)
class Parts:
    """Parts of the source one after the other, under a shape of their own; no element is in two of them.

    Attributes:
        ranges: where each part starts and stops, counted through all elements of the source.
        shape: of the view.
    """

    ranges: tuple[tuple[int, int], ...]
    shape: tuple[int, ...]

    def get(self, source: Array) -> Array:
        flat = source.reshape(-1)
        return np.concatenate([flat[start:stop] for start, stop in self.ranges]).reshape(self.shape)

    def put(self, source: Array, view: Array) -> Array:
        result, flat, done = source.flatten(), view.reshape(-1), 0
        for start, stop in self.ranges:
            result[start:stop] = flat[done : done + stop - start]
            done += stop - start
        return result.reshape(source.shape)


@dataclass(frozen=True)
class Cast:
    """Another floating-point precision; elements whose value did not change keep their bits.

    Attributes:
        dtype: of the view.
        stored: of the source, where whoever trains the view should know what the source can hold.
    """

    dtype: str
    stored: str = ""

    def get(self, source: Array) -> Array:
        with np.errstate(invalid="ignore"):  # a NaN stays one
            return source.astype(self.dtype)

    def put(self, source: Array, view: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            stored = view.astype(source.dtype)
        if np.any(np.isinf(stored) & np.isfinite(view)):
            raise ConversionError(f"A trained weight has values beyond the range of the origin's {source.dtype} storage.")
        return np.where(_same(self.get(source), view), source, stored)


@dataclass(frozen=True)
class Dequantize:
    """Stored integers become real numbers: ``(stored - zero_point) * scale``, along ``axis`` where per-channel.

    Attributes:
        stored: dtype of the integers, where whoever trains the view should know what the source can hold.
        shape: of the integers, where the dtype is given.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None
    stored: str = ""
    shape: tuple[int, ...] = ()

    def _parameters(self, rank: int) -> tuple[Array, Array]:
        shape = [1] * rank
        if self.axis is not None:
            shape[self.axis] = -1
            return np.asarray(self.scale, np.float32).reshape(shape), np.asarray(self.zero_point, np.int64).reshape(shape)
        return np.asarray(self.scale[0], np.float32), np.asarray(self.zero_point[0], np.int64)

    def get(self, source: Array) -> Array:
        scale, zero_point = self._parameters(source.ndim)
        return (source.astype(np.int64) - zero_point).astype(np.float32) * scale

    def put(self, source: Array, view: Array) -> Array:
        scale, zero_point = self._parameters(source.ndim)
        low, high = whole_limits(self.stored or source.dtype.name)
        kept = _same(self.get(source), view)
        if not np.all(kept | np.isfinite(view)):
            raise ConversionError("A trained weight has values that are not finite, which the origin's integers cannot hold.")
        if not np.all(kept | (scale != 0)):
            raise ConversionError("A trained weight has values where the origin has a scale of zero, which holds zero alone.")
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # where the scale is zero the source is kept
            stored = np.clip(np.rint(view / scale) + zero_point, low, high).astype(source.dtype)
        return np.where(kept, source, stored)


@dataclass(frozen=True)
class Unpack:
    """Bytes that hold several integers each, the first in the lowest bits, become signed 8-bit integers.

    Attributes:
        bits: of an integer, 2 or 4.
        shape: of the integers; bits of the last byte that none is left for are zero.
    """

    bits: int
    shape: tuple[int, ...]

    def get(self, source: Array) -> Array:
        places = np.arange(0, 8, self.bits, dtype=np.uint8)
        parts = (source.reshape(-1, 1) >> places) & np.uint8((1 << self.bits) - 1)
        whole = parts.reshape(-1)[: int(np.prod(self.shape))].astype(np.int8)
        half = 1 << (self.bits - 1)
        return np.where(whole >= half, whole - 2 * half, whole).astype(np.int8).reshape(self.shape)

    def put(self, source: Array, view: Array) -> Array:
        places = np.arange(0, 8, self.bits, dtype=np.uint8)
        low, high = -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        if np.any((view < low) | (view > high)):
            raise ConversionError(f"A trained weight has values beyond what {self.bits} bits hold in the origin.")
        flat = np.zeros(source.size * len(places), np.uint8)
        flat[: view.size] = view.reshape(-1).astype(np.int8).view(np.uint8) & np.uint8((1 << self.bits) - 1)
        packed: Array = np.bitwise_or.reduce(flat.reshape(-1, len(places)) << places, axis=1).astype(np.uint8)
        return packed


@dataclass(frozen=True, eq=False)
class Densify:
    """Stored non-zeros become a dense tensor: value ``i`` stands at flat position ``positions[i]``.

    Attributes:
        shape: dense shape.
        positions: flat index into the dense tensor of each stored value, each index once.
    """

    shape: tuple[int, ...]
    positions: npt.NDArray[np.int64]

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Where a value is stored."""
        mask = np.zeros(int(np.prod(self.shape)), np.bool_)
        mask[self.positions] = True
        return mask.reshape(self.shape)

    def get(self, source: Array) -> Array:
        dense = np.zeros(int(np.prod(self.shape)), source.dtype)
        dense[self.positions] = source
        return dense.reshape(self.shape)

    def put(self, source: Array, view: Array) -> Array:
        grown = int(np.count_nonzero(view[~self.mask]))
        if grown:
            raise ConversionError(
                f"{grown} elements outside the sparsity pattern of a sparse weight are no longer zero and the origin's "
                "storage cannot hold them. Keep the gradient masks that to_torch() sets, or zero those elements."
            )
        return view.reshape(-1)[self.positions]


@dataclass(frozen=True)
class WeightLink:
    """``target`` is ``source`` seen through ``steps``.

    Attributes:
        source: name of the source's tensor.
        target: name of the target's tensor.
        steps: from the source's storage to the target's value.
    """

    source: str
    target: str
    steps: tuple[Step, ...] = ()

    def get(self, stored: Array) -> Array:
        """The target's value of the source's stored array."""
        for step in self.steps:
            stored = step.get(stored)
        return stored

    def put(self, stored: Array, value: Array) -> Array:
        """The source's array with the target's ``value`` written back through the chain."""
        return _put(self.steps, stored, value)


def _put(steps: Sequence[Step], source: Array, view: Array) -> Array:
    if not steps:
        if source.shape != view.shape:
            raise ConversionError(f"A weight of shape {view.shape} does not fit the origin's {source.shape}.")
        return view
    head, *tail = steps
    return head.put(source, _put(tail, head.get(source), view))


def _same(a: Array, b: Array) -> npt.NDArray[np.bool_]:
    equal: npt.NDArray[np.bool_] = np.asarray(a == b)
    if a.dtype.kind == "f":
        equal |= np.isnan(a) & np.isnan(b)
    return equal


def stored_mask(link: WeightLink) -> npt.NDArray[np.bool_] | None:
    """Where a target's elements are stored in a sparse source; ``None`` where all of them are."""
    mask: npt.NDArray[np.bool_] | None = None
    for step in link.steps:
        if isinstance(step, Densify):
            mask = step.mask
        elif mask is not None and isinstance(step, (Transpose, Reshape, Slice, Parts)):
            mask = step.get(mask)
    return mask


def storage_dtype(link: WeightLink) -> str | None:
    """The narrower precision in which a source keeps a target's values; ``None`` where it holds them as they are."""
    first = next((step for step in link.steps if isinstance(step, Cast)), None)
    return first.stored or None if first is not None else None


@dataclass(frozen=True, eq=False)
class Grid:
    """The numbers that a source's integers can stand for, as they broadcast with a target: multiples of ``scale``.

    Attributes:
        scale: distance of two neighbours.
        low: the least, in steps.
        high: the largest, in steps.
        dtype: of the integers, by numpy's name or that of a narrower one.
    """

    scale: Array
    low: Array
    high: Array
    dtype: str


def whole_limits(dtype: str) -> tuple[int, int]:
    """The least and the largest number of an integer type, by numpy's name or that of a narrower one."""
    narrow = {"int4": 4, "int2": 2}.get(dtype)
    if narrow is not None:
        return -(1 << (narrow - 1)), (1 << (narrow - 1)) - 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def storage_grid(link: WeightLink) -> Grid | None:
    """The grid on which a source keeps a target's values; ``None`` where it holds them as they are."""
    first = next((n for n, step in enumerate(link.steps) if isinstance(step, Dequantize) and step.stored), None)
    if first is None:
        return None
    step = link.steps[first]
    assert isinstance(step, Dequantize)
    scale, zero_point = step._parameters(len(step.shape))
    low, high = whole_limits(step.stored)

    def seen(setting: Array) -> Array:
        whole = WeightLink("", "", link.steps[first + 1 :]).get(np.broadcast_to(setting, step.shape))
        for axis in range(whole.ndim):
            narrow = whole.take([0], axis) if whole.shape[axis] else whole
            whole = narrow if np.array_equal(np.broadcast_to(narrow, whole.shape), whole) else whole
        return np.ascontiguousarray(whole)

    settings = [seen(np.asarray(a, np.float32)) for a in (scale, low - zero_point, high - zero_point)]
    return Grid(settings[0], settings[1], settings[2], step.stored)


def simplify(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The same chain with neighbouring transposes and reshapes merged and those that do nothing left out."""
    result: list[Step] = []
    for step in steps:
        previous = result[-1] if result else None
        if isinstance(step, Transpose) and isinstance(previous, Transpose):
            result[-1] = step = Transpose(tuple(previous.perm[i] for i in step.perm))
        elif isinstance(step, Reshape) and isinstance(previous, Reshape):
            result[-1] = step
        else:
            result.append(step)
        if isinstance(step, Transpose) and step.perm == tuple(range(len(step.perm))):
            result.pop()
    return tuple(result)


def compose(first: Iterable[WeightLink], second: Iterable[WeightLink]) -> tuple[WeightLink, ...]:
    """Links from the sources of ``first`` to the targets of ``second``.

    A link of ``second`` whose source ``first`` does not know starts there: its source is a source itself.
    """
    by_target: dict[str, list[WeightLink]] = {}
    for link in first:
        by_target.setdefault(link.target, []).append(link)
    return tuple(
        WeightLink(a.source, b.target, simplify((*a.steps, *b.steps)))
        for b in second
        for a in by_target.get(b.source, [WeightLink(b.source, b.source)])
    )


def write_back(stored: Mapping[str, Array], links: Iterable[WeightLink], values: Mapping[str, Array]) -> dict[str, Array]:
    """The sources' arrays with the targets' values written back.

    Args:
        stored: the arrays in the origin, by source name, in the origin's own dtypes and shapes.
        links: from the origin's tensors to the targets.
        values: the targets' values; each link's target must be there.

    Returns:
        Those arrays whose bits have changed.

    Raises:
        ConversionError: a target is missing, does not fit, cannot be stored, or shares its source with another
            target that was trained to something else.
    """
    changed: dict[str, Array] = {}
    by_source: dict[str, list[WeightLink]] = {}
    for link in links:
        if link.target not in values:
            raise ConversionError(f"The trained model has no tensor '{link.target}', which holds the origin's '{link.source}'.")
        by_source.setdefault(link.source, []).append(link)
        before, value = changed.get(link.source, stored[link.source]), values[link.target]
        if not _equal(link.get(before), value):
            after = np.ascontiguousarray(link.put(before, value))
            changed[link.source] = after.astype(stored[link.source].dtype, copy=False)
    for source, after in changed.items():
        _check_ties(stored[source], after, by_source[source], values)
    return changed


def _check_ties(before: Array, after: Array, links: Sequence[WeightLink], values: Mapping[str, Array]) -> None:
    """Raise where a link lost what it wrote to another link of the same source."""
    if len(links) == 1:
        return
    for link in links:
        alone = link.get(link.put(before, values[link.target]))  # what the source's storage holds of the value
        if not _equal(link.get(after), alone):
            names = ", ".join(f"'{other.target}'" for other in links)
            raise ConversionError(f"{names} share the origin's tensor '{link.source}' and were trained apart.")


def _equal(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool(np.all(_same(a, b)))
