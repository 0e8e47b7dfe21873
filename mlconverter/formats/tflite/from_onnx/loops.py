"""Graphs within the graph: loops and branches over plain tensors.

A part of a loop is written by a function that is handed the part's builder and the tensors of one step. It may read any
tensor of the graphs around it: what a part reads and does not compute becomes an input of it, and of the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused
from mlconverter.formats.tflite.from_onnx.values import Dims, Graph, Wire

Part = Callable[[Builder, list[Wire]], list[Wire]]
"""Writes a part of a loop, or a branch: from what changes from step to step to what it is after the step."""


def repeated(b: Builder, first: Sequence[Wire], goes_on: Callable[[Builder, list[Wire]], Wire], step: Part) -> list[Wire]:
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


def branched(b: Builder, condition: Wire, then: Part, otherwise: Part) -> list[Wire]:
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


def _part(b: Builder, state: list[Wire], write: Part, *, own: bool = False) -> tuple[Builder, list[Wire]]:
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


def nth(b: Builder, sequence: Wire, number: Wire) -> Wire:
    """What stands at a position along the first axis, which stays; the position is a tensor of one integer."""
    return b.move("GATHER", sequence, number, dims=(1, *sequence.dims[1:]), axis=0)


def put(b: Builder, sequence: Wire, number: Wire, item: Wire) -> Wire:
    """The sequence with a tensor at a position along its first axis."""
    rest = sequence.rank - 1
    start = b.emit("CONCATENATION", number, b.ints([0] * rest), dims=(1 + rest,), axis=0) if rest else number
    return b.move("DYNAMIC_UPDATE_SLICE", sequence, item, start, dims=sequence.dims)
