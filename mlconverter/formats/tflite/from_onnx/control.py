"""Branches and loops: the graphs of a node become graphs of the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.from_onnx.builder import FAR, Builder
from mlconverter.formats.tflite.from_onnx.elementwise import kept
from mlconverter.formats.tflite.from_onnx.joining import joined
from mlconverter.formats.tflite.from_onnx.looping import Loop, as_value, run_counted, run_while
from mlconverter.formats.tflite.from_onnx.loops import branched, nth
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.slicing import Part, sliced
from mlconverter.formats.tflite.from_onnx.values import Constant, Ints, Operand, Runtime, Size, Stored, Wire
from mlconverter.formats.tflite.layout import Order, logical

_VERSIONS = (11, 13, 16, 19, 21, 23, 24, 25)

MOST_NODES = 64
"""A loop whose steps have no more nodes than this together is written out step by step."""


@translates("If", 1, *_VERSIONS)
def if_(b: Builder, condition: Constant | Runtime, *, then_branch: ir.Graph, else_branch: ir.Graph) -> list[Operand | Stored]:
    """If → IF."""
    if isinstance(condition, Constant):
        return list(b.translate(b, then_branch if condition.number() else else_branch, []))

    def branch(graph: ir.Graph) -> Callable[[Builder, list[Wire]], list[Wire]]:
        return lambda inner, _: [inner.ask(value) for value in inner.translate(inner, graph, [])]

    results = branched(b, b.ask(condition), branch(then_branch), branch(else_branch))
    return [Stored(wire, logical(wire.rank)) for wire in results]


# -- loops -------------------------------------------------------------------------------------------------------------


@translates("Loop", 1, *_VERSIONS)
def loop(
    b: Builder,
    count: Ints | Runtime | None = None,
    condition: Constant | Runtime | None = None,
    *carried: Operand,
    body: ir.Graph,
) -> list[Operand | Stored]:
    """Loop → WHILE; its steps one after the other where they are few."""
    most = None if count is None else _limit(b, count)
    starts = condition.number() if isinstance(condition, Constant) else condition is None
    lasts = bool(starts) and _lasts(body)
    if isinstance(condition, Constant) and not starts:
        most = 0
    if isinstance(most, int) and (most == 0 or (lasts and most * len(body) <= MOST_NODES)):
        return _written_out(b, body, most, carried)

    def step(inner: Builder, number: Wire, going: Wire, states: Sequence[Operand]) -> list[Operand]:
        position = _shaped(inner, inner.cast(number, "int64"), body.inputs[0])
        return inner.translate(inner, body, [position, _shaped(inner, going, body.inputs[1]), *states])

    how = Loop(carried, step, len(body.outputs) > 1 + len(carried))
    if not lasts:
        first = b.scalar(True, "bool") if condition is None else b.ask(condition)
        return list(run_while(b, first, most, how))
    if most is None:
        raise Refused("a loop that never ends")
    return list(run_counted(b, most, how))


@translates("Scan", 9, *(v for v in _VERSIONS if v != 13))
def scan(
    b: Builder,
    *values: Operand,
    body: ir.Graph,
    num_scan_inputs: int,
    scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
) -> list[Operand | Stored]:
    """Scan → WHILE; its steps one after the other where they are few."""
    states, given = values[: len(values) - num_scan_inputs], values[len(values) - num_scan_inputs :]
    collected = len(body.outputs) - len(states)
    axes = [a % x.rank for a, x in zip(scan_input_axes or [0] * len(given), given, strict=True)]
    sequences = [b.ask(x, _led_by(a, x.rank)) for x, a in zip(given, axes, strict=True)]
    count = next((n for x, a in zip(given, axes, strict=True) if isinstance(n := _length(x, a), int)), _length(given[0], axes[0]))
    backwards = scan_input_directions or [0] * len(given)
    how = _Collected(scan_output_axes or [0] * collected, scan_output_directions or [0] * collected)
    if isinstance(count, int) and count * len(body) <= MOST_NODES:
        return _scanned(b, body, states, sequences, backwards, how, count)
    last = count - 1

    def step(inner: Builder, number: Wire, going: Wire, carried: Sequence[Operand]) -> list[Operand]:
        turned = inner.emit("SUB", inner.size(last), number, dims=(1,))
        places = [turned if back else number for back in backwards]
        here = [as_value(inner.squeeze(nth(inner, s, p), [0])) for s, p in zip(sequences, places, strict=True)]
        return [Constant(np.array(True)), *inner.translate(inner, body, [*carried, *here])]

    results = run_counted(b, count, Loop(states, step, collected > 0))
    stacked = [_turned(b, r) if back else r for r, back in zip(results[len(states) :], how.directions, strict=True)]
    return [*results[: len(states)], *(how.placed(i, r) for i, r in enumerate(stacked))]


@translates("Scan", 8)
def scan_8(
    b: Builder,
    lengths: Constant | Runtime | None,
    *values: Operand,
    body: ir.Graph,
    num_scan_inputs: int,
    directions: list[int] | None = None,
) -> list[Operand | Stored]:
    """Scan up to opset 8 → as later ones, for each item of the batch."""
    if lengths is not None:
        raise Refused("sequences of different lengths")
    batch = values[0].dims[0]
    if batch is None or None in (v.dims[0] for v in values):
        raise Refused("a batch whose size only the run time knows")
    runs = []
    for item in range(batch):
        part = {0: Part(item, item + 1, 1, 1)}
        own = [as_value(b.squeeze(sliced(b, Stored(b.ask(v), logical(v.rank)), part).wire, [0])) for v in values]
        found = scan(b, *own, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions)
        runs.append([b.expand_dims(b.ask(_operand(r)), 0) for r in found])
    each = [wires[0] if batch == 1 else joined(b, wires, 0) for wires in map(list, zip(*runs, strict=True))]
    return [Stored(wire, logical(wire.rank)) for wire in each]


# -- step by step ------------------------------------------------------------------------------------------------------


def _written_out(b: Builder, body: ir.Graph, count: int, carried: Sequence[Operand]) -> list[Operand | Stored]:
    states, collected = list(carried), list[list[Operand]]()
    for number in range(count):
        position = Constant(np.full([1] * _rank(body.inputs[0]), number, np.int64))
        going = Constant(np.full([1] * _rank(body.inputs[1]), True))
        _, *results = b.translate(b, body, [position, going, *states])
        states = results[: len(states)]
        collected.append(results[len(states) :])
    return [*states, *_stacked(b, body, 1 + len(states), collected)]


def _scanned(
    b: Builder,
    body: ir.Graph,
    carried: Sequence[Operand],
    sequences: Sequence[Wire],
    backwards: Sequence[int],
    how: _Collected,
    count: int,
) -> list[Operand | Stored]:
    states, collected = list(carried), list[list[Operand]]()
    for number in range(count):
        here = []
        for sequence, back in zip(sequences, backwards, strict=True):
            at = count - 1 - number if back else number
            item = sliced(b, Stored(sequence, logical(sequence.rank)), {0: Part(at, at + 1, 1, 1)}).wire
            here.append(as_value(b.squeeze(item, [0])))
        results = b.translate(b, body, [*states, *here])
        states = results[: len(states)]
        collected.append(results[len(states) :])
    stacked = _stacked(b, body, len(states), collected, how.directions)
    return [*states, *(how.placed(i, s) for i, s in enumerate(stacked))]


def _stacked(
    b: Builder, body: ir.Graph, first: int, collected: list[list[Operand]], directions: Sequence[int] = ()
) -> list[Stored]:
    """What was collected, one sequence for each output of the body from a position on."""
    if not collected and len(body.outputs) > first:
        raise Refused("a loop without a step that collects something, of which LiteRT makes no empty tensor")
    stacks = []
    for i, items in enumerate(zip(*collected, strict=True)):
        wires = [b.expand_dims(b.ask(item), 0) for item in items]
        wires = wires[::-1] if directions and directions[i] else wires
        wire = wires[0] if len(wires) == 1 else joined(b, wires, 0)
        stacks.append(Stored(wire, logical(wire.rank)))
    return stacks


# -- small things ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Collected:
    """Where the sequences that a Scan gives have their steps.

    Attributes:
        axes: along which steps follow one another.
        directions: 1 for sequences whose first step stands last.
    """

    axes: Sequence[int]
    directions: Sequence[int]

    def placed(self, number: int, stacked: Stored) -> Stored:
        """A sequence whose first stored axis are the steps."""
        return Stored(stacked.wire, _led_by(self.axes[number], stacked.wire.rank))


def _led_by(axis: int, rank: int) -> Order:
    axis %= rank
    return (axis, *(a for a in range(rank) if a != axis))


def _length(x: Operand, axis: int) -> int | Size:
    return x.dims[axis] if isinstance(x, Constant) else x.length(axis)


def _operand(result: Operand | Stored) -> Operand:
    return kept(result) if isinstance(result, Stored) else result


def _rank(value: ir.Value) -> int:
    return 0 if value.shape is None else len(value.shape)


def _shaped(b: Builder, wire: Wire, value: ir.Value) -> Runtime:
    """A tensor of one element in the rank that a body says."""
    return as_value(b.reshape(wire, [1] * _rank(value)))


def _turned(b: Builder, sequence: Stored) -> Stored:
    """A sequence with its last step first."""
    wire, order = sequence
    return Stored(b.move("REVERSE_V2", wire, b.ints([0]), dims=wire.dims), order)


def _limit(b: Builder, count: Ints | Runtime) -> int | Size | None:
    """The most steps that there are, ``None`` for as many as the condition allows."""
    if isinstance(count, Ints):
        (most,) = count
        return most if isinstance(most, Size) else None if most >= FAR else max(0, most)
    wire = b.reshape(b.ask(count), (1,))
    at_least = b.emit("MAXIMUM", wire, b.ints([0], wire.dtype), dims=(1,))
    (size,) = b.elements(as_value(at_least))
    return size  # type: ignore[no-any-return]


def _lasts(body: ir.Graph) -> bool:
    """Whether a loop's condition stays what it was."""
    given, after = body.inputs[1], body.outputs[0]
    while (node := after.producer()) is not None and node.op_type == "Identity" and node.inputs[0] is not None:
        after = node.inputs[0]
    return after is given or (after.const_value is not None and bool(after.const_value.numpy().reshape(-1)[0]))
