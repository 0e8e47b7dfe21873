"""Graphs within the graph: loops and branches over plain tensors.

A part of a loop is written by a function that is handed the part's builder and the tensors of one step. It may read any
tensor of the graphs around it: what a part reads and does not compute becomes an input of it, and of the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused
from mlconverter.formats.tflite.from_onnx.shaping import filled
from mlconverter.formats.tflite.from_onnx.slicing import Part, sliced
from mlconverter.formats.tflite.from_onnx.values import Dims, Graph, Size, Stored, Wire
from mlconverter.formats.tflite.layout import logical

Writes = Callable[[Builder, list[Wire]], list[Wire]]
"""Writes a part of a loop, or a branch: from what changes from step to step to what it is after the step."""


def repeated(b: Builder, first: Sequence[Wire], goes_on: Callable[[Builder, list[Wire]], Wire], step: Writes) -> list[Wire]:
    """Tensors after as many steps as a condition holds: WHILE.

    Args:
        b: the builder of the graph around the loop.
        first: what changes from step to step, as it is before the first one.
        goes_on: whether there is one more step, a tensor of one boolean.
        step: what comes out of one step. Sizes may change from step to step, ranks and element types may not.

    Raises:
        Refused: something has another rank, or another element type, after a step than before it.
    """
    dims = [wire.dims for wire in first]
    while True:
        state = [Wire(f"state_{i}", d, wire.dtype) for i, (d, wire) in enumerate(zip(dims, first, strict=True))]
        body, results = _part(b, state, step)
        after = [_either(d, r) for d, r in zip(dims, (r.dims for r in results), strict=True)]
        if any(wire.dtype != result.dtype for wire, result in zip(first, results, strict=True)):
            raise Refused("a value that changes its element type from step to step")
        if after == dims:
            break
        dims = after
    cond, answers = _part(b, state, lambda inner, wires: [goes_on(inner, wires)])
    parts = {
        "condSubgraphIndex": Graph("condition", cond.operations, list(state), answers),
        "bodySubgraphIndex": Graph("step", body.operations, list(state), results),
    }
    read = _inputs(parts)
    for part in parts.values():
        part.inputs += read
    parts["bodySubgraphIndex"].outputs += read
    outputs = [(wire.dims, wire.dtype) for wire in (*state, *read)]
    return b.emit_several("WHILE", *first, *read, outputs=outputs, graphs=parts)[: len(first)]


def branched(b: Builder, condition: Wire, then: Writes, otherwise: Writes) -> list[Wire]:
    """What one of two graphs gives: IF.

    Args:
        b: the builder of the graph around them.
        condition: one boolean.
        then: what writes the graph for true; it is handed no tensors.
        otherwise: the one for false.

    Raises:
        Refused: the graphs give tensors of different ranks or element types.
    """
    parts = {}
    for field, name, part in (("thenSubgraphIndex", "then", then), ("elseSubgraphIndex", "else", otherwise)):
        inner, results = _part(b, [], part, own=True)
        parts[field] = Graph(name, inner.operations, [], results)
    read = _inputs(parts)
    for graph in parts.values():
        graph.inputs += read
    pairs = list(zip(*(graph.outputs for graph in parts.values()), strict=True))
    if any(x.dtype != y.dtype for x, y in pairs):
        raise Refused("branches that give tensors of different element types")
    outputs = [(_either(x.dims, y.dims, "branches that give tensors of different ranks"), x.dtype) for x, y in pairs]
    return b.emit_several("IF", condition, *read, outputs=outputs, graphs=parts)


def _part(b: Builder, state: list[Wire], write: Writes, *, own: bool = False) -> tuple[Builder, list[Wire]]:
    """The builder of a part, and its outputs: tensors of their own, but for what the part hands through in its place."""
    inner = Builder(b)
    inner.inputs.update(state)
    results: list[Wire] = []
    for position, wire in enumerate(write(inner, list(state))):
        in_place = not own and position < len(state) and wire is state[position]
        computed = wire in inner.producers and wire not in results
        results.append(wire if in_place or computed else inner.copy(wire))
    return inner, results


def _inputs(parts: dict[str, Graph]) -> list[Wire]:
    """The tensors of the graph around them that any of the parts reads."""
    return list(dict.fromkeys(wire for part in parts.values() for wire in part.outside()))


def _either(x: Dims, y: Dims, otherwise: str = "a value that changes its rank from step to step") -> Dims:
    """A shape that both have."""
    if len(x) != len(y):
        raise Refused(f"{otherwise}, which TFLite cannot say")
    return tuple(p if p == q else None for p, q in zip(x, y, strict=True))


# -- going through sequences, and making them --------------------------------------------------------------------------

BLOCK = 64
"""Steps of which the results are held apart before they come to the others: what a loop holds is copied in every step."""


@dataclass(frozen=True)
class Item:
    """What every step gives one of.

    Attributes:
        sizes: its shape.
        dims: that of the tensor.
        dtype: of its elements.
    """

    sizes: Sequence[int | Size]
    dims: Dims
    dtype: str

    def many(self, b: Builder, count: int | Size) -> Wire:
        """A tensor with room for a number of them."""
        return filled(b, [count, *self.sizes], np.zeros(1, self.dtype))


Step = Callable[[Builder, Wire, list[Wire]], tuple[list[Wire], list[Wire]]]
"""From its number and the states, the next states and what it gives, which has an axis of size 1 in front."""


def counted(
    b: Builder, count: int | Size, first: Sequence[Wire], items: Sequence[Item], step: Step, *, backwards: bool = False
) -> tuple[list[Wire], list[Wire]]:
    """A number of steps: the states after the last one, and what they gave, each in the place of its number.

    Args:
        b: the builder of the graph around the loop.
        count: how many steps there are.
        first: the states before the first one.
        items: what every step gives.
        step: what comes out of one step.
        backwards: whether the step with the highest number is the first.
    """
    if not items or (isinstance(count, int) and count <= BLOCK):
        bounds = b.ints([0]), b.size(count)
        return _between(b, bounds, first, [item.many(b, count) for item in items], step, backwards)
    # Of no steps there is still a block: LiteRT fills nothing.
    blocks = -(-count // BLOCK) if isinstance(count, int) else count // BLOCK + 1
    end, rooms = b.size(count), [item.many(b, BLOCK) for item in items]

    def block(inner: Builder, number: Wire, states: list[Wire], sequences: list[Wire]) -> tuple[list[Wire], list[Wire]]:
        low = inner.emit("MUL", number, inner.ints([BLOCK]), dims=(1,))
        high = inner.emit("MINIMUM", inner.emit("ADD", low, inner.ints([BLOCK]), dims=(1,)), end, dims=(1,))
        states, made = _between(inner, (low, high), states, rooms, step, backwards)
        return states, [put(inner, s, low, m) for s, m in zip(sequences, made, strict=True)]

    bounds = b.ints([0]), b.size(blocks)
    states, sequences = _stepped(b, bounds, first, [item.many(b, blocks * BLOCK) for item in items], block, backwards)
    length = count if isinstance(count, int) else None
    cut = {0: Part(None, count, 1, length)}
    return states, [sliced(b, Stored(wire, logical(wire.rank)), cut).wire for wire in sequences]


def _between(
    b: Builder, bounds: tuple[Wire, Wire], first: Sequence[Wire], rooms: Sequence[Wire], step: Step, backwards: bool
) -> tuple[list[Wire], list[Wire]]:
    """The steps from one number to before another; what they give stands where the first one is 0."""

    def go(inner: Builder, number: Wire, states: list[Wire], sequences: list[Wire]) -> tuple[list[Wire], list[Wire]]:
        states, given = step(inner, number, states)
        if any(item.dims[1:] != sequence.dims[1:] for item, sequence in zip(given, sequences, strict=True)):
            raise Refused("what it collects changes its size from step to step")
        place = number if bounds[0].data is not None else inner.emit("SUB", number, bounds[0], dims=(1,))
        return states, [put(inner, s, place, item) for s, item in zip(sequences, given, strict=True)]

    return _stepped(b, bounds, first, rooms, go, backwards)


def _stepped(
    b: Builder,
    bounds: tuple[Wire, Wire],
    first: Sequence[Wire],
    sequences: Sequence[Wire],
    go: Callable[[Builder, Wire, list[Wire], list[Wire]], tuple[list[Wire], list[Wire]]],
    backwards: bool,
) -> tuple[list[Wire], list[Wire]]:
    low, high = bounds

    def goes_on(inner: Builder, state: list[Wire]) -> Wire:
        op, bound = ("GREATER_EQUAL", low) if backwards else ("LESS", high)
        return inner.emit(op, state[0], bound, dims=(1,), dtype="bool")

    def advance(inner: Builder, state: list[Wire]) -> list[Wire]:
        number, states, held = state[0], state[1 : 1 + len(first)], state[1 + len(first) :]
        states, held = go(inner, number, states, held)
        return [inner.emit("ADD", number, inner.ints([-1 if backwards else 1]), dims=(1,)), *states, *held]

    if backwards:
        start = b.ints(high.array - 1) if high.data is not None else b.emit("SUB", high, b.ints([1]), dims=(1,))
    else:
        start = low
    _, *results = repeated(b, [start, *first, *sequences], goes_on, advance)
    return results[: len(first)], results[len(first) :]


def nth(b: Builder, sequence: Wire, number: Wire) -> Wire:
    """What stands at a position along the first axis, which stays; the position is a tensor of one integer."""
    return b.move("GATHER", sequence, number, dims=(1, *sequence.dims[1:]), axis=0)


def put(b: Builder, sequence: Wire, number: Wire, item: Wire) -> Wire:
    """The sequence with a tensor at a position along its first axis."""
    rest = sequence.rank - 1
    start = b.emit("CONCATENATION", number, b.ints([0] * rest), dims=(1 + rest,), axis=0) if rest else number
    return b.move("DYNAMIC_UPDATE_SLICE", sequence, item, start, dims=sequence.dims)
