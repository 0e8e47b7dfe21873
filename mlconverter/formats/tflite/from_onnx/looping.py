"""A loop of the model as a WHILE: what it carries, and what it collects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.elementwise import kept
from mlconverter.formats.tflite.from_onnx.joining import joined
from mlconverter.formats.tflite.from_onnx.loops import put, repeated
from mlconverter.formats.tflite.from_onnx.ops import Refused
from mlconverter.formats.tflite.from_onnx.shaping import filled
from mlconverter.formats.tflite.from_onnx.slicing import Part, sliced
from mlconverter.formats.tflite.from_onnx.values import Dims, Operand, Runtime, Size, Stored, Wire
from mlconverter.formats.tflite.layout import logical


@dataclass(frozen=True)
class _Item:
    """What a loop collects in every step: one tensor of a shape that stays."""

    sizes: list[int | Size]
    dims: Dims
    dtype: str


@dataclass(frozen=True)
class Loop:
    """A loop of the model.

    Attributes:
        carried: values before the first step.
        first: whether there is a first step.
        goes_on: whether there is one more, from the number of steps and what the last one said.
        step: from the number, the condition and the carried values: the condition, these values, and what is collected.
        collects: whether a step gives more than the condition and the carried values.
        count: how many steps there are, where that is known before.
        keeps_condition: whether the condition stays what it was.
        places: for each sequence, where a step's item is put, ``None`` for its own number.
    """

    carried: Sequence[Operand]
    first: Wire
    goes_on: Callable[[Builder, Wire, Wire], Wire]
    step: Callable[[Builder, Wire, Wire, Sequence[Operand]], list[Operand]]
    collects: bool
    count: int | Size | None
    keeps_condition: bool
    places: Sequence[Callable[[Builder, Wire], Wire] | None] = ()


def run_loop(b: Builder, how: Loop) -> list[Stored]:
    """The values after the last step, and what was collected."""
    # Where nobody knows how many steps there will be, a sequence grows. It starts with an item that is cut off in the end:
    # LiteRT joins nothing to an empty tensor.
    held = [b.ask(value) for value in how.carried]
    items = _items(b, how)
    start = [filled(b, [1 if how.count is None else how.count, *i.sizes], np.zeros(1, i.dtype)) for i in items]

    def advance(inner: Builder, state: list[Wire]) -> list[Wire]:
        number, going, *rest = state
        states = [as_value(w, v.dtype) for w, v in zip(rest, how.carried, strict=False)]
        condition, *results = how.step(inner, number, going, states)
        wires = [inner.ask(value) for value in results]
        collected = []
        for i, (sequence, item) in enumerate(zip(rest[len(held) :], wires[len(held) :], strict=True)):
            if item.dims != items[i].dims:
                raise Refused("what it collects changes its size from step to step")
            if how.count is None:
                collected.append(joined(inner, [sequence, inner.expand_dims(item, 0)], 0))
            else:
                place = how.places[i] if how.places else None
                at = number if place is None else place(inner, number)
                collected.append(put(inner, sequence, at, inner.expand_dims(item, 0)))
        following = inner.emit("ADD", number, inner.ints([1]), dims=(1,))
        after = going if how.keeps_condition else inner.reshape(inner.ask(condition), (1,))
        return [following, after, *wires[: len(held)], *collected]

    def goes_on(inner: Builder, state: list[Wire]) -> Wire:
        return how.goes_on(inner, state[0], state[1])

    first = [b.ints([0]), b.reshape(how.first, (1,)), *held, *start]
    _, _, *results = repeated(b, first, goes_on, advance)
    if how.count is None:
        cut = {0: Part(1, None, 1, None)}
        results[len(held) :] = [sliced(b, Stored(w, logical(w.rank)), cut).wire for w in results[len(held) :]]
    return [Stored(wire, logical(wire.rank)) for wire in results]


def _items(b: Builder, how: Loop) -> list[_Item]:
    """What a loop collects, seen from its first step, of which nothing is left but the sizes that only the run time knows."""
    if not how.collects:
        return []
    _, *results = how.step(b, b.ints([0]), b.reshape(how.first, (1,)), how.carried)
    wires = [b.ask(value) for value in results[len(how.carried) :]]
    return [_Item(as_value(wire).sizes, wire.dims, wire.dtype) for wire in wires]


def as_value(wire: Wire, dtype: str | None = None) -> Runtime:
    """A tensor in the model's own axis order as a value."""
    value = kept(Stored(wire, logical(wire.rank)))
    value.dtype = dtype or wire.dtype
    return value
