"""LSTMs whose gates have inputs of their own: sequences in one direction or both, and single cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.layout import logical
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.lstm_cell import CELL, FORGET, INPUT, OUTPUT, REAL, Cell, Four, Roles, grids_of
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Runtime, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_rank, translates
from mlconverter.formats.tflite.to_onnx.recurrent import joined, merged
from mlconverter.formats.tflite.to_onnx.time_steps import (
    TANH,
    assign_state,
    keeps,
    known_activation,
    order_of,
    over_time,
    plain_weights,
    seen,
    width,
    zeros,
)

_IOFC = (INPUT, OUTPUT, FORGET, CELL)
"""The order in which ONNX has the gates."""

Results = list[Operand | Stored]


def _roles(data: list[tuple[Operand, Four]], given: Sequence[Operand | None], first: int, states: int, norms: Four) -> Roles:
    """The inputs of one direction, whose recurrent matrices stand from a position on."""
    r = given[first : first + 14]
    return Roles(data, r[:4], (r[4], r[5], None, r[6]), r[7:11], norms, r[11], r[12], states, states + 1)


def _cell(op: Op, roles: Roles) -> Cell:
    options = op.options
    grids = grids_of(op, roles) if op.quantized else REAL
    # The integer kernel knows no other activation.
    activation = TANH if op.quantized else options.fusedActivationFunction
    return Cell(roles, grids, activation, options.cellClip, options.projClip)


# Refusals


def _dtypes(op: Op) -> str | None:
    x, output = op.tensor(0), op.outputs[0]
    if x.dtype not in ("float32", "int8"):
        return f"{x.dtype} data"
    if output.dtype != x.dtype:
        return f"{x.dtype} data, and {output.dtype} comes out"
    if x.dtype == "float32" and not op.options.fusedActivationFunction:
        return "no fused activation, without which LiteRT's kernel leaves out what the cells are"
    return None


def _no_integers(op: Op) -> str | None:
    return None if op.tensor(0).dtype == "float32" else f"{op.tensor(0).dtype} data, for which LiteRT has no kernel"


def _integers(op: Op) -> str | None:
    """A check that refuses what the kernel with 8-bit data and 16-bit cells does not compute."""
    if op.tensor(0).dtype != "int8":
        return None
    if len(op.operator.intermediates) != 5:
        return f"an integer kernel with {len(op.operator.intermediates)} intermediates"
    middle = [op.subgraph.tensors[i].quantization for i in op.operator.intermediates]
    needed = middle if op.input(21) is not None else middle[4:]
    if any(grid is None for grid in needed):
        return "intermediates without scales"
    hidden, cell = op.tensor(18), op.tensor(19)
    if (hidden.dtype, cell.dtype) != ("int8", "int16") or None in (op.tensor(0).grid, hidden.grid, op.outputs[0].grid):
        return f"states of {hidden.dtype} and {cell.dtype}"
    if cell.grid is None or any(cell.grid.zero_point) or not float(np.log2(np.float32(cell.grid.scale[0]))).is_integer():
        return "a cell whose scale is no power of two"
    if not -15 <= np.log2(np.float32(cell.grid.scale[0])) <= -9:
        return f"a cell in steps of {cell.grid.scale[0]:g}, of which LiteRT's kernel takes no hyperbolic tangent"
    weights = [op.input(i) for i in (*range(1, 9), 16)]
    if any(t is not None and t.dtype != "int8" for t in weights):
        return "weights of more than 8 bits"
    narrow = [op.input(i) for i in (*range(9, 12), *range(20, 24))]
    if any(t is not None and t.dtype != "int16" for t in narrow):
        return "peephole or normalisation weights of other than 16 bits"
    return None


def _diagonal(op: Op) -> str | None:
    return "diagonal recurrent weights" if getattr(op.options, "diagonalRecurrentTensors", False) else None


_ONE = all_of(_dtypes, keeps(18, 19), known_activation, _diagonal, plain_weights(*range(1, 18), *range(20, 24)), _integers)

FULL = all_of(_ONE, needs_rank(2))
"""The check of a single cell."""


@translates("UNIDIRECTIONAL_SEQUENCE_LSTM", 1, 2, 3, 4, check=all_of(_ONE, needs_rank(3)))
def sequence_lstm(b: Builder, op: Op, x: Operand, *operands: Operand | None) -> Operand | Stored:
    """UNIDIRECTIONAL_SEQUENCE_LSTM → LSTM; Scan with limits, normalisation, projection, coupled gates or integers."""
    given = [x, *operands, *[None] * 24]
    return _direction(b, op, _roles([(x, given[1:5])], given, 5, 18, given[20:24]), backwards=False)


def full_lstm(b: Builder, op: Op, x: Operand, *operands: Operand | None) -> Operand | Stored:
    """LSTM → its gates, step by step."""
    given = [x, *operands, *[None] * 24]
    roles = _roles([(x, given[1:5])], given, 5, 18, given[20:24])
    cell = _cell(op, roles)
    before = [b.ask(_state(b, op, position)) for position in (roles.hidden, roles.cell)]
    sums = [value for value, _ in cell.sums(b, logical(2))]
    after, output = cell.step(b, sums, before)
    return _finished(b, op, roles, after, output, logical(2))


def _both(op: Op) -> str | None:
    has = [op.input(i) is not None for i in range(40, 48)]
    if any(has):
        if op.input(39) is None or has[0] != (op.input(1) is not None) or has[4] != (op.input(18) is not None):
            return "auxiliary weights for some gates, or without an auxiliary input"
        if not all((*has[1:4], *has[5:])):
            return "auxiliary weights for some gates"
        if op.tensor(39).shape[-1] != op.tensor(0).shape[-1]:
            return "an auxiliary input of another size than the input, past whose end LiteRT reads"
    batch = op.tensor(0).shape[int(op.options.timeMajor)]
    if op.options.mergeOutputs and not op.options.timeMajor and (batch != 1 or op.dims(op.tensor(0))[0] is None):
        return "outputs side by side with the batch first, where LiteRT mixes up the states of a batch"
    return None


@translates(
    "BIDIRECTIONAL_SEQUENCE_LSTM",
    *(1, 2, 3),
    check=all_of(
        _dtypes,
        _no_integers,
        keeps(35, 36, 37, 38),
        known_activation,
        plain_weights(*range(1, 35), *range(40, 48)),
        needs_rank(3),
        _both,
    ),
)
def bidirectional_lstm(b: Builder, op: Op, x: Operand, *operands: Operand | None) -> Operand | Stored | Results:
    """BIDIRECTIONAL_SEQUENCE_LSTM → LSTM, LSTM, as in one direction; joined by Concat where the file wants one output."""
    given = [x, *operands, *[None] * 48]
    auxiliary = given[39]
    crossed = given[41] is not None
    other = x if auxiliary is None or crossed else auxiliary
    results = []
    for first, source, more, states in ((1, x, 40, 35), (18, other, 44, 37)):
        data: list[tuple[Operand, Four]] = [(source, given[first : first + 4])]
        if crossed and auxiliary is not None:
            data.append((auxiliary, given[more : more + 4]))
        roles = _roles(data, given, first + 4, states, [None] * 4)
        result = _direction(b, op, roles, backwards=first != 1)
        assert isinstance(result, Stored)
        results.append(result)
    joint = merged(b, op, results)
    return joint if isinstance(joint, Stored) else list(joint)


def _direction(b: Builder, op: Op, roles: Roles, *, backwards: bool) -> Operand | Stored:
    order = order_of(op.options.timeMajor)
    cell = _cell(op, roles)
    whole = len(roles.gates) == 4 and not roles.normalised and roles.projection is None
    if whole and not op.quantized and cell.cell_clip <= 0 and cell.activation in _ACTIVATIONS:
        after, output = _node(b, op, cell, order, backwards=backwards)
    else:
        states = [_state(b, op, position) for position in (roles.hidden, roles.cell)]
        after, output = over_time(
            b,
            cell.step,
            cell.sums(b, order),
            [(b.ask(state), width(state)) for state in states],
            length=op.dims(op.tensor(0))[order[0]],
            backwards=backwards,
        )
    return _finished(b, op, roles, after, output, order)


def _finished(
    b: Builder, op: Op, roles: Roles, after: Sequence[ir.Value], output: ir.Value, order: tuple[int, ...]
) -> Runtime | Stored:
    for position, value in zip((roles.hidden, roles.cell), after, strict=True):
        assign_state(b, op, position, value)
    return seen(op.outputs[0], op.out_dims, output, order) if op.quantized else Stored(output, order)


def _state(b: Builder, op: Op, position: int) -> Operand:
    return b.variables[op.tensor(position).index]


_ACTIVATIONS = {1: "Relu", TANH: "Tanh"}
"""Activations that ONNX's own node has, by their number in the schema."""


def _node(b: Builder, op: Op, cell: Cell, order: tuple[int, ...], *, backwards: bool) -> tuple[list[ir.Value], ir.Value]:
    """A whole sequence by ONNX's own node, whose matrices are those of the gates one above the other."""
    roles, one = cell.roles, b.ints([0])
    parts = [joined(b, [(x, _known(four[gate])) for x, four in roles.data], order) for gate in _IOFC]
    states = [_state(b, op, position) for position in (roles.hidden, roles.cell)]
    units = width(states[1])
    peepholes = None
    if roles.peepholes[FORGET] is not None:
        peepholes = _stacked(b, [roles.peepholes[gate] for gate in (INPUT, OUTPUT, FORGET)])
    bias = [b.ask(_known(roles.biases[gate]), weight=True) for gate in _IOFC]
    name = _ACTIVATIONS[cell.activation]
    y, *last = b.emit_several(
        "LSTM",
        3,
        parts[0][0],
        b.emit("Unsqueeze", b.emit("Concat", *(weights for _, weights in parts), axis=0), one),
        _stacked(b, [roles.recurrent[gate] for gate in _IOFC]),
        b.emit("Unsqueeze", b.emit("Concat", *bias, zeros(b, 4 * units), axis=0), one),
        None,
        *(b.emit("Unsqueeze", b.ask(state), one) for state in states),
        peepholes,
        hidden_size=units,
        activations=["Sigmoid", name, name],
        direction="reverse" if backwards else "forward",
    )
    return [b.emit("Squeeze", value, one) for value in last], b.emit("Squeeze", y, b.ints([1]))


def _stacked(b: Builder, weights: Four) -> ir.Value:
    values = [b.ask(_known(w), weight=True) for w in weights]
    return b.emit("Unsqueeze", b.emit("Concat", *values, axis=0), b.ints([0]))


def _known(weight: Operand | None) -> Operand:
    assert weight is not None
    return weight
