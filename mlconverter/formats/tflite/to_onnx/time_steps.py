"""What recurrent operators share: sequences in steps, states, activations, and rounding in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.layout import logical
from mlconverter.formats.tflite.structure import Operator, Tensor
from mlconverter.formats.tflite.to_onnx import variables
from mlconverter.formats.tflite.to_onnx.activations import fused
from mlconverter.formats.tflite.to_onnx.builder import Builder, onnx_type
from mlconverter.formats.tflite.to_onnx.operands import Dims, Op, Operand, Runtime, Stored
from mlconverter.hub.model import SOURCE_KEY
from mlconverter.registry import Check
from mlconverter.signature import Quantization

TANH, SIGN_BIT = 4, 5
"""Activations that recurrent kernels compute beside those of other operators, by their number in the schema."""

TIME_FIRST = (1, 0, 2)
"""The order of a sequence whose file has the batch first and which the graph has by time."""

Values = Sequence[ir.Value]

Step = Callable[[Builder, Values, Values], tuple[Values, ir.Value]]
"""Writes one step: from what the sequences have there and the states before it to the states after it and the output."""


def activated(b: Builder, value: ir.Value, activation: int) -> ir.Value:
    """The value after an activation of a recurrent operator."""
    return b.emit("Tanh", value) if activation == TANH else fused(b, value, activation)


def rounded(b: Builder, value: ir.Value, grid: Quantization | None, dtype: str = "int16") -> ir.Value:
    """The value on a grid; as it is where there is none."""
    if grid is None:
        return value
    return b.dequantize(b.quantize(Stored(value, ()), grid, dtype).value, grid, dtype)


def order_of(time_major: bool) -> tuple[int, ...]:
    """The order in which a sequence stands by time."""
    return logical(3) if time_major else TIME_FIRST


def assign_state(b: Builder, op: Op, position: int, value: ir.Value) -> None:
    """Let a state of an operator be a value from now on."""
    tensor = op.tensor(position)
    variables.assign(b, op, position, seen(tensor, b.variables[tensor.index].dims, value))


def seen(tensor: Tensor, dims: Dims, value: ir.Value, order: tuple[int, ...] | None = None) -> Runtime:
    """A value that lies on the grid of a tensor of the file already."""
    return Runtime(tensor.name, dims, "float32", {order or logical(len(dims)): value}, tensor.grid, None, tensor.dtype)


def over_time(
    b: Builder,
    step: Step,
    sequences: Sequence[tuple[ir.Value, int]],
    states: Sequence[tuple[ir.Value, int]],
    *,
    length: int | None,
    backwards: bool = False,
) -> tuple[list[ir.Value], ir.Value]:
    """Take step after step.

    Args:
        b: writes the graph.
        step: writes one step.
        sequences: values by time, batch and features, each with the number of its features.
        states: what the first step starts from, by batch and features, each with the number of its features.
        length: number of steps, ``None`` where it is not known.
        backwards: start at the end.

    Returns:
        The states after the last step, and the outputs of all steps by time.
    """
    if length == 1:
        axis = b.ints([0])
        after, output = step(b, [b.emit("Squeeze", value, axis) for value, _ in sequences], [value for value, _ in states])
        return list(after), b.emit("Unsqueeze", output, axis)
    inner = b.nested()
    before = [_parameter(b, "state", size) for _, size in states]
    there = [_parameter(b, "step", size) for _, size in sequences]
    after, output = step(inner, there, before)
    body = inner.closed([*before, *there], [*after, output])
    direction = [int(backwards)] * len(sequences)
    *last, outputs = b.emit_several(
        "Scan",
        len(states) + 1,
        *(value for value, _ in (*states, *sequences)),
        body=body,
        num_scan_inputs=len(sequences),
        scan_input_directions=direction,
        scan_output_directions=direction[:1],
    )
    return last, outputs


def _parameter(b: Builder, name: str, size: int) -> ir.Value:
    return ir.Value(name=b.unique(name), shape=ir.Shape((None, size)), type=onnx_type("float32"))


def zeros(b: Builder, count: int) -> ir.Value:
    """Zeros where ONNX has a second bias and the file has none, so that they have no way back and are no weight."""
    value = b.initializer("zeros", np.zeros(count, np.float32))
    value.metadata_props[SOURCE_KEY] = ""
    return value


def width(operand: Operand) -> int:
    """The number of features of a value or weight, which stand last."""
    size = operand.dims[-1]
    assert size is not None
    return size


# Refusals


def known_activation(op: Op) -> str | None:
    """A check that refuses an activation that no other runtime has."""
    return "fused activation SIGN_BIT" if op.options.fusedActivationFunction == SIGN_BIT else None


def keeps(*positions: int) -> Check:
    """A check that refuses operators whose states are not kept from call to call, or stand in another shape."""

    def check(op: Op) -> str | None:
        for position in positions:
            tensor = op.input(position)
            if tensor is None or not tensor.is_variable:
                return f"input {position} is no variable, where LiteRT keeps what it computed"
            if tensor.rank != 2:
                return f"its state '{tensor.name}' has rank {tensor.rank}"
            if not all(_gives_zeros(op, o) for o in op.subgraph.operators if tensor.index in o.outputs):
                return f"its state '{tensor.name}' is computed before the first call"
        return None

    return check


def _gives_zeros(op: Op, operator: Operator) -> bool:
    """Whether an operator, which LiteRT runs once, turns zeros of half precision into zeros."""
    source = op.subgraph.tensors[operator.inputs[0]] if operator.op == "DEQUANTIZE" else None
    return source is not None and op.model.is_constant(source) and not op.model.view(source).any()


def plain_weights(*positions: int) -> Check:
    """A check that refuses 8-bit weights with more than one scale or a zero point, which LiteRT's kernels do not look at."""

    def check(op: Op) -> str | None:
        for position in positions:
            tensor = op.input(position)
            if tensor is None:
                continue
            if tensor.dtype not in ("float32", "float16") and tensor.grid is None:
                return f"'{tensor.name}' of plain {tensor.dtype}"
            if tensor.grid is not None and (
                tensor.dtype == "uint8" or tensor.grid.axis is not None or any(tensor.grid.zero_point)
            ):
                return f"'{tensor.name}' is not symmetric around zero with one scale, which LiteRT takes it for"
        return None

    return check
