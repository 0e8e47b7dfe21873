"""SVDF: a dense layer that remembers what its features were, weighted over time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlconverter.formats.tflite.layout import logical
from mlconverter.formats.tflite.to_onnx.builder import INT64_MAX, Builder
from mlconverter.formats.tflite.to_onnx.operands import Constant, Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_rank, translates
from mlconverter.formats.tflite.to_onnx.time_steps import activated, assign_state, keeps, known_activation, plain_weights, rounded
from mlconverter.signature import Quantization

_INTEGERS = {"data": ("int8",), "features": ("int8",), "time": ("int16",), "state": ("int16",), "output": ("int8",)}
"""The integer kernel's dtypes."""

_REALS = {
    "data": ("float32",),
    "features": ("float32", "int8"),
    "time": ("float32", "int8"),
    "state": ("float32",),
    "output": ("float32",),
}
"""Those of the others."""


def _dtypes(op: Op) -> str | None:
    tensors = {
        "data": op.tensor(0),
        "features": op.tensor(1),
        "time": op.tensor(2),
        "state": op.tensor(4),
        "output": op.outputs[0],
    }
    wanted = _INTEGERS if op.tensor(0).dtype == "int8" else _REALS
    for role, tensor in tensors.items():
        if tensor.dtype not in wanted[role]:
            return f"'{tensor.name}' of {tensor.dtype}, where LiteRT takes {' or '.join(wanted[role])}"
        if wanted is _INTEGERS and tensor.grid is None:
            return f"'{tensor.name}' of plain {tensor.dtype}"
    if op.options.rank < 1 or op.tensor(1).shape[0] % op.options.rank:
        return f"rank {op.options.rank} of {op.tensor(1).shape[0]} filters"
    if op.constant(2) is None:
        return "weights of time that are only known at run time"
    if any((op.tensor(4).grid or _ZERO).zero_point):
        return "a state whose zero is not 0"
    return None


_ZERO = Quantization((1.0,), (0,), None)


@translates("SVDF", 1, 2, 3, 4, check=all_of(needs_rank(2), keeps(4), plain_weights(1, 2), known_activation, _dtypes))
def svdf(b: Builder, op: Op, x: Operand, features: Operand, time: Operand, bias: Operand | None, state: Operand) -> Stored:
    """SVDF → MatMul, Concat with the state, Conv of each filter over time (+ ReduceSum, Add, activation)."""
    filters, memory = op.tensor(2).shape
    grid = op.tensor(4).grid
    now = rounded(b, b.emit("MatMul", b.ask(x), b.ask(features, (1, 0), weight=True)), grid)
    before = b.emit("Reshape", b.ask(state), b.ints([0, filters, memory]))
    kept = b.emit("Slice", before, b.ints([1]), b.ints([INT64_MAX]), b.ints([2]))
    row = b.emit("Concat", kept, b.emit("Unsqueeze", now, b.ints([2])), axis=2)
    over_time = b.ask(_filters(time, filters, memory), weight=True)
    value = b.emit("Squeeze", b.emit("Conv", row, over_time, group=filters), b.ints([2]))
    if op.options.rank > 1:
        units = b.emit("Reshape", value, b.ints([0, filters // op.options.rank, op.options.rank]))
        value = b.emit("ReduceSum", units, b.ints([2]), keepdims=0)
    if bias is not None:
        value = b.emit("Add", value, b.ask(_sums(op, bias), weight=True))
    assign_state(b, op, 4, b.emit("Reshape", row, b.ints([0, filters * memory])))
    # The integer kernel leaves its activation to the limits of the output.
    return Stored(value if op.quantized else activated(b, value, op.options.fusedActivationFunction), logical(2))


def _filters(time: Operand, filters: int, memory: int) -> Constant:
    """The weights of time as those of a convolution."""
    assert isinstance(time, Constant)
    return time.reshaped((filters, 1, memory))


def _sums(op: Op, bias: Operand) -> Operand:
    """The bias on the grid of the sums that it is added to, whatever the file says of itself."""
    time, state = op.tensor(2).grid, op.tensor(4).grid
    if not isinstance(bias, Constant) or time is None or state is None:
        return bias
    scale = float(np.float32(time.scale[0]) * np.float32(state.scale[0]))
    return replace(bias, grid=Quantization((scale,), (0,), None), dtype="float32")
