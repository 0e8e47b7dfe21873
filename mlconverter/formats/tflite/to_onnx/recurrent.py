"""Plain recurrence: one matrix for what comes in, one for what was there."""

from __future__ import annotations

from typing import NamedTuple

import onnx_ir as ir

from mlconverter.formats.tflite.layout import logical
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_rank, translates
from mlconverter.formats.tflite.to_onnx.time_steps import (
    Values,
    activated,
    assign_state,
    keeps,
    known_activation,
    order_of,
    over_time,
    plain_weights,
    width,
    zeros,
)

_NODE = {0: ("Affine", {"activation_alpha": [1.0], "activation_beta": [0.0]}), 1: ("Relu", {}), 4: ("Tanh", {})}
"""Activations that ONNX's own node has, by their number in the schema, and their scales."""


class Layer(NamedTuple):
    """The inputs of one direction.

    Attributes:
        data: what comes in, each with its matrix.
        recurrent: the matrix for what was there.
        bias: is added.
        state: position of the input that is kept from call to call.
    """

    data: list[tuple[Operand, Operand]]
    recurrent: Operand
    bias: Operand
    state: int


def _real(op: Op) -> str | None:
    tensors = (op.tensor(0), op.outputs[0])
    return next((f"{t.dtype} data" for t in tensors if t.dtype != "float32"), None)


_ONE = all_of(_real, known_activation, keeps(4), plain_weights(1, 2))


@translates("RNN", 1, 2, 3, check=all_of(_ONE, needs_rank(2)))
def rnn(b: Builder, op: Op, x: Operand, weights: Operand, recurrent: Operand, bias: Operand, state: Operand) -> Stored:
    """RNN → Gemm, Gemm, Add (+ activation)."""
    layer = Layer([(x, weights)], recurrent, bias, 4)
    given = b.emit("Gemm", b.ask(x), b.ask(weights, weight=True), b.ask(bias, weight=True), transB=1)
    value = _step(b, given, b.ask(state), _matrix(b, layer.recurrent), op)
    assign_state(b, op, layer.state, value)
    return Stored(value, logical(2))


@translates("UNIDIRECTIONAL_SEQUENCE_RNN", 1, 2, 3, check=all_of(_ONE, needs_rank(3)))
def sequence_rnn(b: Builder, op: Op, x: Operand, weights: Operand, recurrent: Operand, bias: Operand, state: Operand) -> Stored:
    """UNIDIRECTIONAL_SEQUENCE_RNN → RNN; Scan with activations that ONNX's RNN has not."""
    return _direction(b, op, Layer([(x, weights)], recurrent, bias, 4), backwards=False)


def _auxiliary(op: Op) -> str | None:
    fw, bw, auxiliary = op.input(10), op.input(11), op.input(9)
    time_major, small = op.options.timeMajor, op.tensor(1).dtype == "int8"
    if (fw is None) != (bw is None) or (fw is not None and auxiliary is None):
        return "auxiliary weights for one direction, or without an auxiliary input"
    if auxiliary is not None and fw is None and not time_major:
        return "an auxiliary input instead of the input with the batch first, which LiteRT does not read"
    plain = fw is not None and not time_major and not small
    if auxiliary is not None and auxiliary.shape[-1] != op.tensor(0).shape[-1] and not plain:
        return "an auxiliary input of another size than the input, past whose end LiteRT reads"
    if small and time_major:
        return "8-bit weights with the time first, where LiteRT runs a sequence as often as it has steps"
    return None


@translates(
    "BIDIRECTIONAL_SEQUENCE_RNN",
    *(1, 2, 3),
    check=all_of(_real, known_activation, keeps(4, 8), plain_weights(1, 2, 5, 6, 10, 11), _auxiliary, needs_rank(3)),
)
def bidirectional_rnn(b: Builder, op: Op, x: Operand, *operands: Operand | None) -> Stored | list[Stored]:
    """BIDIRECTIONAL_SEQUENCE_RNN → RNN, RNN; joined by Concat where the file wants one output."""
    given = [x, *operands, *[None] * 12]
    auxiliary, weights = given[9], given[10:12]
    other = x if auxiliary is None or weights[0] is not None else auxiliary
    results = []
    for first, source, more in ((1, x, weights[0]), (5, other, weights[1])):
        matrix, recurrent, bias = given[first : first + 3]
        assert matrix is not None and recurrent is not None and bias is not None
        data = [(source, matrix)]
        if more is not None and auxiliary is not None:
            data.append((auxiliary, more))
        results.append(_direction(b, op, Layer(data, recurrent, bias, first + 3), backwards=first == 5))
    return merged(b, op, results)


def merged(b: Builder, op: Op, results: list[Stored]) -> Stored | list[Stored]:
    """The outputs of both directions, side by side where the file wants one."""
    if not op.options.mergeOutputs:
        return results
    return Stored(b.emit("Concat", *(value for value, _ in results), axis=2), results[0].order)


def joined(b: Builder, data: list[tuple[Operand, Operand]], order: tuple[int, ...]) -> tuple[ir.Value, ir.Value]:
    """What comes in side by side, and its matrices likewise."""
    values, weights = [b.ask(x, order) for x, _ in data], [b.ask(w, weight=True) for _, w in data]
    if len(data) == 1:
        return values[0], weights[0]
    return b.emit("Concat", *values, axis=2), b.emit("Concat", *weights, axis=1)


def _direction(b: Builder, op: Op, layer: Layer, *, backwards: bool) -> Stored:
    order = order_of(op.options.timeMajor)
    x, weights = joined(b, layer.data, order)
    units = width(layer.recurrent)
    state = b.ask(b.variables[op.tensor(layer.state).index])
    activation, one = op.options.fusedActivationFunction, b.ints([0])
    bias = b.ask(layer.bias, weight=True)
    if activation in _NODE:
        name, scales = _NODE[activation]
        y, last = b.emit_several(
            "RNN",
            2,
            x,
            b.emit("Unsqueeze", weights, one),
            b.emit("Unsqueeze", b.ask(layer.recurrent, weight=True), one),
            b.emit("Unsqueeze", b.emit("Concat", bias, zeros(b, units), axis=0), one),
            None,
            b.emit("Unsqueeze", state, one),
            hidden_size=units,
            activations=[name],
            direction="reverse" if backwards else "forward",
            **scales,
        )
        y, last = b.emit("Squeeze", y, b.ints([1])), b.emit("Squeeze", last, one)
    else:
        given = b.emit("Add", b.emit("MatMul", x, b.emit("Transpose", weights, perm=[1, 0])), bias)
        recurrent = _matrix(b, layer.recurrent)

        def step(inner: Builder, there: Values, before: Values) -> tuple[Values, ir.Value]:
            value = _step(inner, there[0], before[0], recurrent, op)
            return [value], value

        (last,), y = over_time(
            b,
            step,
            [(given, units)],
            [(state, units)],
            length=op.dims(op.tensor(0))[order[0]],
            backwards=backwards,
        )
    assign_state(b, op, layer.state, last)
    return Stored(y, order)


def _step(b: Builder, given: ir.Value, state: ir.Value, recurrent: ir.Value, op: Op) -> ir.Value:
    return activated(b, b.emit("Add", given, b.emit("MatMul", state, recurrent)), op.options.fusedActivationFunction)


def _matrix(b: Builder, weights: Operand) -> ir.Value:
    """A matrix as it stands behind what it is multiplied with."""
    return b.ask(weights, (1, 0), weight=True)
