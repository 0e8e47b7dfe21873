"""Where the batch stands in the values of a graph, followed from operator to operator.

A value either does not depend on the batch, or has it along one axis. An operator that joins values of different items
is refused with the reason, whatever a run on samples would show. Shapes are those of the graph with its batch of 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mlconverter.hub.nodes import Call

Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class Batch:
    """Where a value has its batch.

    Attributes:
        axis: the axis along which the items stand one after the other.
        rows: how many elements of that axis belong to each item.
    """

    axis: int
    rows: int = 1

    def at(self, axis: int) -> Batch:
        """The same along another axis."""
        return Batch(axis, self.rows)


class Mixes(Exception):
    """Items of a batch meet in an operator, or nobody can tell that they do not; the text is a predicate of the operator."""


@dataclass(frozen=True)
class Op:
    """An operator as the rules see it.

    Attributes:
        call: the node in the calling form of the newest opset.
        batches: by input, where it has its batch.
        shapes: shapes of the inputs, ``None`` for absent ones and where not even the rank is known.
        results: shapes of the outputs.
    """

    call: Call
    batches: tuple[Batch | None, ...]
    shapes: tuple[Shape | None, ...]
    results: tuple[Shape | None, ...]

    def shape(self, position: int) -> Shape:
        """The shape of an input that has to be known."""
        shape = self.shapes[position]
        if shape is None:
            raise Mixes(f"takes an input {position} of unknown rank")
        return shape

    def rank(self, position: int = 0) -> int:
        """How many axes an input has."""
        return len(self.shape(position))

    @property
    def result(self) -> Shape:
        """The shape of the first output."""
        if self.results[0] is None:
            raise Mixes("gives a value of unknown rank")
        return self.results[0]

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, the specification's default included."""
        return self.call.attributes.get(name, default)

    @property
    def axis(self) -> int:
        """The axis of the first input along which the operator works, counted from the front."""
        axis = self.attribute("axis")
        if axis is None:
            raise Mixes("does not say along which axis it works")
        return normal(axis, self.rank())

    def has(self, position: int) -> bool:
        """Whether an optional input is there."""
        return position < len(self.call.inputs) and self.call.inputs[position] is not None

    def ints(self, position: int) -> list[int] | None:
        """A constant input as integers, ``None`` where it is absent."""
        return [int(i) for i in self._constant(position)] if self.has(position) else None

    def floats(self, position: int) -> list[float]:
        """A constant input that has to be there, as real numbers."""
        return [float(f) for f in self._constant(position)]

    def _constant(self, position: int) -> npt.NDArray[Any]:
        value = self.call.inputs[position]
        if isinstance(value, ir.Value):
            if value.const_value is None:
                raise Mixes(f"takes an input {position} that is computed at run time")
            value = value.const_value.numpy()
        return np.asarray(value).reshape(-1)

    def sole(self, *positions: int) -> Batch:
        """Where the inputs at these positions have their batch: all at the same place, and no other input anywhere."""
        others = [i for i, b in enumerate(self.batches) if b is not None and i not in positions]
        if others:
            raise Mixes(f"has the batch in its input {others[0]}, where it is one for all items")
        found = {self.batches[i] for i in positions if self.has(i)}
        if len(found) != 1 or None in found:
            raise Mixes("joins a value of each item with one that is for all items, or stands along another axis")
        return next(b for b in found if b is not None)


Rule = Callable[[Op], "Batch | tuple[Batch | None, ...]"]

RULES: dict[str, Rule] = {}
"""By operator: where its outputs have the batch, or an exception where items meet."""


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Register the decorated function as the rule of some operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return register


def follow(op: Op) -> tuple[Batch | None, ...]:
    """Where the outputs of an operator have the batch.

    An operator that has no rule keeps items apart if it keeps to the convention, the batch in front of all it takes and
    gives; that it does is then for a run to prove.

    Raises:
        Mixes: items of the batch meet, or it cannot be told that they do not.
    """
    if not any(op.batches):
        return (None,) * len(op.results)
    found = RULES.get(op.call.op, _by_convention)(op)
    return found if isinstance(found, tuple) else (found,) * len(op.results)


def _by_convention(op: Op) -> Batch:
    places = {b for b in op.batches if b is not None}
    if len(places) != 1 or next(iter(places)).axis:
        raise Mixes("is not known to keep the items of a batch apart along other axes than the first")
    return next(iter(places))


def normal(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis + rank if axis < 0 else axis


def apart_from(op: Op, axes: Iterable[int], what: str, position: int = 0) -> Batch:
    """The batch of an input that does something along axes, which must not be that of the batch."""
    batch = op.sole(position)
    if batch.axis in {normal(a, op.rank(position)) for a in axes}:
        raise Mixes(f"{what} the batch")
    return batch


def aligned(op: Op, positions: Iterable[int], rank: int) -> Batch:
    """The batch of a result of ``rank`` axes whose operands broadcast: axes are counted from the end."""
    given = [i for i in positions if op.has(i)]
    places = {b.at(b.axis + rank - op.rank(i)) for i in given if (b := op.batches[i]) is not None}
    if len(places) > 1:
        raise Mixes("pairs the items of one value with other axes of another")
    place = places.pop()
    for i in given:
        if op.batches[i] is None:
            beside(place, op.shape(i), rank)
    return place


def beside(batch: Batch, shape: Shape, rank: int) -> None:
    """Refuse an operand without a batch that has several elements where a result of ``rank`` axes has its batch."""
    axis = batch.axis - rank + len(shape)
    if axis >= 0 and shape[axis] != 1:
        raise Mixes("spreads the batch over a value that has several elements there")


def product(shape: Iterable[int | None]) -> int | None:
    """The number of elements of a shape, ``None`` where it is not known."""
    sizes = list(shape)
    return None if None in sizes else math.prod(s for s in sizes if s is not None)
