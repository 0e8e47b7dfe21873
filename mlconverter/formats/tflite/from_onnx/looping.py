"""Loops of the model as WHILE: what they carry, and what they collect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.elementwise import kept
from mlconverter.formats.tflite.from_onnx.joining import joined
from mlconverter.formats.tflite.from_onnx.loops import Item, counted, repeated
from mlconverter.formats.tflite.from_onnx.ops import Refused
from mlconverter.formats.tflite.from_onnx.slicing import Part, sliced
from mlconverter.formats.tflite.from_onnx.values import Operand, Runtime, Size, Stored, Wire
from mlconverter.formats.tflite.layout import logical


@dataclass(frozen=True)
class Loop:
    """A loop of the model.

    Attributes:
        carried: values before the first step.
        step: from its number, the condition and the carried values: the condition, these values, and what is collected.
        collects: whether a step gives more than the condition and the carried values.
    """

    carried: Sequence[Operand]
    step: Callable[[Builder, Wire, Wire, Sequence[Operand]], list[Operand]]
    collects: bool

    def results(self, b: Builder, number: Wire, going: Wire, states: Sequence[Wire]) -> tuple[Wire, list[Wire], list[Wire]]:
        """What comes out of one step: the condition, the states, and what is collected, with an axis of size 1 in front."""
        values = [as_value(wire, value.dtype) for wire, value in zip(states, self.carried, strict=True)]
        condition, *results = self.step(b, number, going, values)
        wires = [b.ask(value) for value in results]
        after = b.reshape(b.ask(condition), (1,))
        return after, wires[: len(states)], [b.expand_dims(wire, 0) for wire in wires[len(states) :]]

    def items(self, b: Builder) -> list[Item]:
        """What is collected, seen from the first step, of which nothing is left but sizes that only the run time knows."""
        if not self.collects:
            return []
        states = [b.ask(value) for value in self.carried]
        _, _, wires = self.results(b, b.ints([0]), b.array(np.array([True])), states)
        return [Item(as_value(wire).sizes[1:], wire.dims[1:], wire.dtype) for wire in wires]


def run_counted(b: Builder, count: int | Size, loop: Loop) -> list[Stored]:
    """The values after a number of steps, and what was collected."""

    def step(inner: Builder, number: Wire, states: list[Wire]) -> tuple[list[Wire], list[Wire]]:
        _, after, collected = loop.results(inner, number, inner.array(np.array([True])), states)
        return after, collected

    states, sequences = counted(b, count, [b.ask(value) for value in loop.carried], loop.items(b), step)
    return [Stored(wire, logical(wire.rank)) for wire in (*states, *sequences)]


def run_while(b: Builder, first: Wire, limit: int | Size | None, loop: Loop) -> list[Stored]:
    """The values when a condition has ended the loop, or a limit, and what was collected.

    Nobody knows how many steps there will be: a sequence grows. It starts with an item that is cut off in the end, for
    LiteRT joins nothing to an empty tensor.
    """
    held = [b.ask(value) for value in loop.carried]
    items = loop.items(b)

    def advance(inner: Builder, state: list[Wire]) -> list[Wire]:
        number, going, *rest = state
        after, states, collected = loop.results(inner, number, going, rest[: len(held)])
        if any(item.dims != wire.dims[1:] for item, wire in zip(items, collected, strict=True)):
            raise Refused("what it collects changes its size from step to step")
        grown = [joined(inner, pair, 0) for pair in map(list, zip(rest[len(held) :], collected, strict=True))]
        return [inner.emit("ADD", number, inner.ints([1]), dims=(1,)), after, *states, *grown]

    def goes_on(inner: Builder, state: list[Wire]) -> Wire:
        if limit is None:
            return state[1]
        below = inner.emit("LESS", state[0], inner.size(limit), dims=(1,), dtype="bool")
        return inner.emit("LOGICAL_AND", below, state[1], dims=(1,))

    start = [b.ints([0]), b.reshape(first, (1,)), *held, *(item.many(b, 1) for item in items)]
    _, _, *results = repeated(b, start, goes_on, advance)
    cut = {0: Part(1, None, 1, None)}
    results[len(held) :] = [sliced(b, Stored(w, logical(w.rank)), cut).wire for w in results[len(held) :]]
    return [Stored(wire, logical(wire.rank)) for wire in results]


def as_value(wire: Wire, dtype: str | None = None) -> Runtime:
    """A tensor in the model's own axis order as a value."""
    value = kept(Stored(wire, logical(wire.rank)))
    value.dtype = dtype or wire.dtype
    return value
