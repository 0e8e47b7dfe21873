"""Recurrence: a loop over the steps of a sequence, for whatever length it has.

LiteRT's fused UNIDIRECTIONAL_SEQUENCE_LSTM keeps its states in variable tensors from one call of a model to the next,
which no ONNX model means, and hands none of them out. Measured for 128 units on one core, a WHILE whose body multiplies
the hidden state alone, the products of the whole sequence computed before, takes 7 µs a step for any number of them, and
the fused operator 10. Steps written out one after the other are no faster, slow to load (17 ms for 100 of them), and fix
the length. A single step needs no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.cells import Cell, GRUCell, LSTMCell, RNNCell, States, linear, with_two
from mlconverter.formats.tflite.from_onnx.joining import joined
from mlconverter.formats.tflite.from_onnx.loops import Item, counted, nth
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.shaping import filled
from mlconverter.formats.tflite.from_onnx.slicing import Part, sliced
from mlconverter.formats.tflite.from_onnx.values import Constant, Operand, Runtime, Size, Stored, Wire, broadcast_dims
from mlconverter.formats.tflite.layout import logical
from mlconverter.hub.recurrent import GATES, Recurrence, check_recurrence, recurrence_of


@translates("RNN", 1, 7, 14, 22, check=check_recurrence)
def rnn(
    b: Builder,
    x: Runtime,
    w: Operand,
    r: Operand,
    bias: Operand | None = None,
    lengths: Operand | None = None,
    hidden: Operand | None = None,
    *,
    hidden_size: int | None = None,
    output_sequence: int = 0,
    **attributes: Any,
) -> list[Stored]:
    """RNN → FULLY_CONNECTED of all steps, WHILE."""
    how = recurrence_of("RNN", attributes)

    def cell(d: int) -> tuple[Cell, Wire | None]:
        return RNNCell((_of(b, r, d),), (None,), how.activations[d], how.clip), _bias(b, bias, d, 1)

    return _run(b, how, x, w, lengths, [hidden], cell)


@translates("GRU", 1, 3, 7, 14, 22, check=check_recurrence)
def gru(
    b: Builder,
    x: Runtime,
    w: Operand,
    r: Operand,
    bias: Operand | None = None,
    lengths: Operand | None = None,
    hidden: Operand | None = None,
    *,
    linear_before_reset: int = 0,
    hidden_size: int | None = None,
    output_sequence: int = 0,
    **attributes: Any,
) -> list[Stored]:
    """GRU → FULLY_CONNECTED of all steps, WHILE."""
    how = recurrence_of("GRU", attributes)
    size = _size(r)

    def cell(d: int) -> tuple[Cell, Wire | None]:
        activations = how.activations[d]
        if not linear_before_reset:
            matrices = _of(b, r, d, 0, 2 * size), _of(b, r, d, 2 * size, 3 * size)
            return GRUCell(matrices, (None, None), activations, how.clip, False), _bias(b, bias, d, 3)
        # The candidate's part of the second bias belongs to the product that is reset.
        late = None if bias is None else _padded(b, _of(b, bias, d, 5 * size, 6 * size), 2 * size, 0)
        early = None if bias is None else _of(b, bias, d, 0, 3 * size)
        gates = None if bias is None else _padded(b, _of(b, bias, d, 3 * size, 5 * size), 0, size)
        given = None if early is None or gates is None else _sum(b, early, gates)
        return GRUCell((_of(b, r, d),), (late,), activations, how.clip, True), given

    return _run(b, how, x, w, lengths, [hidden], cell)


@translates("LSTM", 1, 7, 14, 22, check=check_recurrence)
def lstm(
    b: Builder,
    x: Runtime,
    w: Operand,
    r: Operand,
    bias: Operand | None = None,
    lengths: Operand | None = None,
    hidden: Operand | None = None,
    cells: Operand | None = None,
    peepholes: Operand | None = None,
    *,
    input_forget: int,
    hidden_size: int | None = None,
    output_sequence: int = 0,
    **attributes: Any,
) -> list[Stored]:
    """LSTM → FULLY_CONNECTED of all steps, WHILE."""
    how = recurrence_of("LSTM", attributes)
    size = _size(r)

    def cell(d: int) -> tuple[Cell, Wire | None]:
        seen = None if peepholes is None else tuple(_of(b, peepholes, d, n * size, (n + 1) * size) for n in range(3))
        made = LSTMCell((_of(b, r, d),), (None,), how.activations[d], how.clip, seen, bool(input_forget))
        return made, _bias(b, bias, d, 4)

    return _run(b, how, x, w, lengths, [hidden, cells], cell)


def _size(r: Operand) -> int:
    """How many numbers a state has."""
    if r.dims[2] is None:
        raise Refused("weights whose size only the run time knows")
    return r.dims[2]


# -- weights -----------------------------------------------------------------------------------------------------------


def _of(b: Builder, weights: Operand, d: int, start: int = 0, stop: int | None = None) -> Wire:
    """Rows of the weights of one direction; what is computed keeps the axis of the directions, with size 1."""
    if isinstance(weights, Constant):
        return b.constant(weights.value[d, start:stop], weights.name, is_weight=weights.is_weight)
    rows = weights.dims[1]
    if rows is None:
        raise Refused("weights whose size only the run time knows")
    stop = rows if stop is None else stop
    parts = {0: Part(d, d + 1, 1, 1), 1: Part(start, stop, 1, stop - start)}
    return sliced(b, Stored(b.ask(weights), logical(weights.rank)), parts).wire


def _sum(b: Builder, x: Wire, y: Wire) -> Wire:
    return b.constant(x.array + y.array, x.name) if x.data is not None and y.data is not None else with_two(b, "ADD", x, y)


def _padded(b: Builder, x: Wire, before: int, behind: int) -> Wire:
    """A vector with zeros around it."""
    if x.data is not None:
        return b.constant(np.pad(x.array, (before, behind)), x.name)
    zeros = [b.array(np.zeros((1, n), np.float32)) for n in (before, behind)]
    return joined(b, [w for w in (zeros[0], x, zeros[1]) if w.dims[1]], 1)


def _bias(b: Builder, bias: Operand | None, d: int, gates: int) -> Wire | None:
    """The sum of both biases of a direction."""
    if bias is None:
        return None
    half = (bias.dims[1] or 0) // 2
    return _sum(b, _of(b, bias, d, 0, half), _of(b, bias, d, half, 2 * half))


# -- the loop ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sequences:
    """What a direction runs over.

    Attributes:
        wire: the sequences, time first.
        steps: how many there are.
        batch: how many sequences there are.
        lengths: of each sequence, shaped as (1, batch, 1), ``None`` where all are as long as the tensor.
        collects: whether the states of all steps are wanted.
    """

    wire: Wire
    steps: int | Size
    batch: int | Size
    lengths: Wire | None
    collects: bool


def _run(
    b: Builder,
    how: Recurrence,
    x: Runtime,
    w: Operand,
    lengths: Operand | None,
    states: Sequence[Operand | None],
    cell: Callable[[int], tuple[Cell, Wire | None]],
) -> list[Stored]:
    """All directions; what does not depend on the state is computed for all steps at once."""
    order = (1, 0, 2) if how.batch_first else (0, 1, 2)
    steps, batch = x.length(order[0]), x.length(order[1])
    if steps == 0:
        raise Refused("a sequence without a step")
    size = w.dims[1]
    if size is None:
        raise Refused("weights whose size only the run time knows")
    size //= GATES[how.op]
    wire = b.ask(x, order)
    single = any(state is not None and state.dims[order[1]] == 1 for state in states)
    if single and isinstance(batch, Size) and isinstance(steps, int):
        # The first states say that there is one sequence only; a reshape fails for any other number.
        batch = 1
        wire = b.reshape(wire, (steps, batch, wire.dims[2]))
    over = _Sequences(wire, steps, batch, _lengths(b, lengths, steps), b.is_read(0))
    outputs, lasts = [], []
    for d, backwards in enumerate(how.backwards):
        made, bias = cell(d)
        first = [_first(b, state, order, d, batch, size) for state in states]
        y, last = _direction(b, over, _of(b, w, d), bias, made, first, backwards)
        outputs.append(y)
        lasts.append(last)
    joined_lasts = [_joined(b, list(kind), 0) for kind in zip(*lasts, strict=True)]
    y_order = (1, 2, 0, 3) if how.batch_first else logical(4)
    if over.collects:
        y = _joined(b, [b.expand_dims(y, 1) for y in outputs if y is not None], 1)
    else:
        y = Wire("unread", (None,) * 4, "float32")
    return [Stored(y, y_order), *(Stored(last, order) for last in joined_lasts)]


def _joined(b: Builder, wires: list[Wire], position: int) -> Wire:
    return wires[0] if len(wires) == 1 else joined(b, wires, position)


def _lengths(b: Builder, lengths: Operand | None, steps: int | Size) -> Wire | None:
    if lengths is None:
        return None
    if isinstance(lengths, Constant):
        if isinstance(steps, int) and bool((lengths.value == steps).all()):
            return None
        return b.constant(lengths.value.astype(np.int32).reshape(1, -1, 1))
    return b.reshape(b.cast(b.ask(lengths), "int32"), (1, lengths.length(0), 1))


def _first(b: Builder, state: Operand | None, order: tuple[int, ...], d: int, batch: int | Size, size: int) -> Wire:
    """The first state of a direction, zero where none is given."""
    if state is None:
        return filled(b, [1, batch, size], np.zeros(1, np.float32))
    stored = Stored(b.ask(state, order), logical(3))
    count = state.dims[order[0]]
    wire = stored.wire if count == 1 else sliced(b, stored, {0: Part(d, d + 1, 1, 1)}).wire
    return b.constant(wire.array[d : d + 1], wire.name) if wire.data is not None and count != 1 else wire


def _direction(
    b: Builder, over: _Sequences, w: Wire, bias: Wire | None, cell: Cell, first: States, backwards: bool
) -> tuple[Wire | None, States]:
    """The states of all steps, where they are wanted, and the last ones."""
    given = linear(b, over.wire, w, bias)

    def step(inner: Builder, number: Wire, here: Wire, states: States) -> tuple[Wire, States]:
        new = cell.step(inner, here, states)
        if over.lengths is None:
            return new[0], new
        # A state stays what it was where a sequence has ended, or has not begun yet from its end.
        inside = inner.emit("GREATER", over.lengths, number, dims=over.lengths.dims, dtype="bool")
        return _where(inner, inside, new[0], None), [_where(inner, inside, n, s) for n, s in zip(new, states, strict=True)]

    if over.steps == 1:
        output, states = step(b, b.ints([0]), given, first)
        return output, _unless_empty(b, over, states)

    def go(inner: Builder, number: Wire, states: list[Wire]) -> tuple[list[Wire], list[Wire]]:
        output, new = step(inner, number, nth(inner, given, number), states)
        return new, [output] if over.collects else []

    size = first[0].dims[2]
    assert size is not None
    dims = broadcast_dims((given.dims[1], size), first[0].dims[1:])  # the batch may be fixed in the states alone
    batch = over.batch if dims[0] is None else dims[0]
    items = [Item([batch, size], dims, "float32")] if over.collects else []
    states, outputs = counted(b, over.steps, first, items, go, backwards=backwards)
    return (outputs[0] if outputs else None), _unless_empty(b, over, states)


def _where(b: Builder, condition: Wire, x: Wire, otherwise: Wire | None) -> Wire:
    zero = b.scalar(0, x.dtype) if otherwise is None else otherwise
    return b.emit("SELECT_V2", condition, x, zero, dims=x.dims)


def _unless_empty(b: Builder, over: _Sequences, states: States) -> States:
    """Zero for sequences of no steps, as ONNX Runtime has it."""
    if over.lengths is None:
        return states
    there = b.emit("GREATER", over.lengths, b.ints([0]), dims=over.lengths.dims, dtype="bool")
    return [_where(b, there, state, None) for state in states]
