"""The LSTM operator: a single step, with inputs for each gate or with the matrices of all gates in one."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.layout import logical
from mlconverter.formats.tflite.structure import Tensor
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.lstm import FULL, full_lstm
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Runtime, Stored
from mlconverter.formats.tflite.to_onnx.ops import translates
from mlconverter.formats.tflite.to_onnx.time_steps import assign_state, rounded
from mlconverter.signature import Quantization

_BASIC = 1
"""The kernel with all gates in one matrix, by its number in the schema."""

_SUMS, _UNIT, _CELL, _GIVEN = (Quantization((2.0**-bits,), (0,)) for bits in (12, 15, 11, 7))
"""What the integer kernel rounds to: sums, values of activations, cells, and what is given."""

_STATES = ((1, 0), (4, 1))
"""Where what was there before comes in, and which output it is afterwards."""


def _kernel(op: Op) -> str | None:
    return _basic(op) if op.options.kernelType == _BASIC else FULL(op)


def _basic(op: Op) -> str | None:
    tensors = [*(op.tensor(i) for i in range(5)), *op.outputs]
    dtypes = [t.dtype for t in tensors]
    if len(tensors) != 9 or any(t.rank != 2 for i, t in enumerate(tensors) if i != 3):
        return f"{len(op.inputs)} inputs and {len(op.outputs)} outputs, or some that are no matrices"
    used = {i for o in op.subgraph.operators for i in o.inputs} | set(op.subgraph.outputs)
    if used & {t.index for t in op.outputs[2:]}:
        return "what it computes on the way is used"
    readers = [i for o in op.subgraph.operators for i in o.inputs]
    for position, _ in _STATES:
        state = op.tensor(position)
        if not state.is_variable and (readers.count(state.index) > 1 or state.index in op.subgraph.outputs):
            return f"'{state.name}', which LiteRT writes the next state into, is used elsewhere, too"
    if dtypes == ["float32"] * 9:
        return None
    if dtypes != "uint8 uint8 uint8 int32 int16 uint8 int16 uint8 int16".split():
        return f"data of {', '.join(dtypes)}"
    return _grids(tensors)


def _grids(tensors: list[Tensor]) -> str | None:
    """Why the grids are not those that the integer kernel takes for granted."""
    x, hidden, weights, bias, cell, given, after = tensors[:7]
    if any(t.grid is None or t.grid.zero_point != (128,) or t.grid.scale != _GIVEN.scale for t in (x, hidden, given)):
        return "data on another grid than 128 steps around zero"
    if any(t.grid != _CELL for t in (cell, after)):
        return "cells on another grid than 2048 steps for each 1"
    if weights.grid is None or bias.grid is None or weights.grid.axis is not None:
        return "weights without one scale"
    if not np.isclose(bias.grid.scale[0], weights.grid.scale[0] * _GIVEN.scale[0], rtol=1e-5):
        return "a bias on another grid than that of the sums"
    return None


@translates("LSTM", 1, 2, 3, 4, check=_kernel)
def lstm(b: Builder, op: Op, *operands: Operand | None) -> Operand | Stored | list[Operand | Stored]:
    """LSTM → the gates of one step: MatMul, Add, Sigmoid, Tanh, Mul."""
    if op.options.kernelType != _BASIC:
        x, *more = operands
        assert x is not None
        return full_lstm(b, op, x, *more)
    x, hidden, weights, bias, cell = operands
    assert x is not None and hidden is not None and weights is not None and bias is not None and cell is not None
    sums, unit, cells = (_SUMS, _UNIT, _CELL) if op.quantized else (None, None, None)
    together = b.emit("Concat", b.ask(x), b.ask(hidden), axis=1)
    gates = b.emit("Gemm", together, b.ask(weights, weight=True), b.ask(bias, weight=True), transB=1)
    parts = b.emit_several("Split", 4, rounded(b, gates, sums), axis=1, num_outputs=4)
    fresh, candidate, forget, shown = (
        rounded(b, b.emit("Tanh" if i == 1 else "Sigmoid", part), unit) for i, part in enumerate(parts)
    )
    kept = rounded(b, b.emit("Mul", forget, b.ask(cell)), cells)
    added = rounded(b, _outwards(b, op, rounded(b, b.emit("Mul", fresh, candidate), unit)), cells)
    after = rounded(b, b.emit("Add", kept, added), cells)
    given = rounded(b, b.emit("Mul", shown, rounded(b, b.emit("Tanh", after), unit)), unit)
    given = _outwards(b, op, given)
    results = [Stored(given, logical(2)), Stored(after, logical(2))]
    kept_states: list[Operand | Stored] = []
    for (position, output), result in zip(_STATES, results, strict=True):
        kept_states.append(_kept(b, op, position, output, result))
    return [*kept_states, Stored(together, logical(2)), Stored(gates, logical(2))]


def _outwards(b: Builder, op: Op, value: ir.Value) -> ir.Value:
    """A value that is rounded a second time: the integer kernel rounds halves, which are many then, away from zero."""
    return b.emit("Mul", value, b.scalar(1 + 2.0**-20, "float32")) if op.quantized else value


def _kept(b: Builder, op: Op, position: int, output: int, result: Stored) -> Operand | Stored:
    """An output that is a state of the next call, too, where that is a variable."""
    tensor, state = op.outputs[output], op.tensor(position)
    if tensor.grid is None:
        kept: Operand | Stored = result
        value = result.value
    else:
        whole = b.quantize(result, tensor.grid, tensor.dtype)
        kept = b.held(tensor, op.dims(tensor), *whole)
        assert isinstance(kept, Runtime)
        value = kept.first.value
    if state.is_variable:
        assign_state(b, op, position, value)
    return kept
