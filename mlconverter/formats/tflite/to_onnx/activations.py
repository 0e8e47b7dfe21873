"""Activations, fused and on their own, and softmax."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.layout import positions
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.dtypes import with_kernel
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import ACTIVATIONS, needs_float, translates
from mlconverter.formats.tflite.to_onnx.tables import has_table, interpolated

BOUNDS: dict[str, tuple[float, float]] = {"RELU": (0, math.inf), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}


def fused(b: Builder, value: ir.Value, activation: int, dtype: str = "float32") -> ir.Value:
    """The value after an operator's fused activation."""
    bounds = BOUNDS.get(ACTIVATIONS[activation])
    return value if bounds is None else clip(b, value, *bounds, dtype)


def clip(b: Builder, value: ir.Value, low: float, high: float, dtype: str) -> ir.Value:
    """An operator's result between two bounds, where quantising it does not see to them already."""
    if b.limits[0] >= low and b.limits[1] <= high:
        return value
    if (low, high) == BOUNDS["RELU"] and dtype.startswith("float"):
        return b.emit("Relu", value)
    lowest = max(low, 0) if dtype.startswith("u") else low
    bounds = (b.scalar(lowest, dtype), b.scalar(np.iinfo(dtype).max if high == math.inf else high, dtype))
    return with_kernel(b, "Clip", dtype, lambda *values: b.emit("Clip", *values), value, *bounds)


@translates("RELU", 1, 2, 3, check=needs_float)
def relu(b: Builder, op: Op, x: Operand) -> Stored:
    """RELU → Relu."""
    return _bounded(b, op, x)


@translates("RELU6", 1, 2, 3, check=needs_float)
def relu6(b: Builder, op: Op, x: Operand) -> Stored:
    """RELU6 → Clip between 0 and 6."""
    return _bounded(b, op, x)


@translates("RELU_N1_TO_1", 1, check=needs_float)
def relu_n1_to_1(b: Builder, op: Op, x: Operand) -> Stored:
    """RELU_N1_TO_1 → Clip between -1 and 1."""
    return _bounded(b, op, x)


@translates("RELU_0_TO_1", 1, check=needs_float)
def relu_0_to_1(b: Builder, op: Op, x: Operand) -> Stored:
    """RELU_0_TO_1 → Clip between 0 and 1."""
    return _bounded(b, op, x)


def _bounded(b: Builder, op: Op, x: Operand) -> Stored:
    value, order = b.as_is(x)
    return Stored(clip(b, value, *BOUNDS[op.key], x.dtype), order)


@translates("LEAKY_RELU", 1, 2, check=needs_float)
def leaky_relu(b: Builder, op: Op, x: Operand) -> Stored:
    """LEAKY_RELU → LeakyRelu."""
    value, order = b.as_is(x)
    return Stored(b.emit("LeakyRelu", value, alpha=float(op.options.alpha)), order)


@translates("PRELU", 1, check=needs_float)
def prelu(b: Builder, op: Op, x: Operand, alpha: Operand) -> Stored:
    """PRELU → PRelu, its alpha aligned with the axes of the input."""
    value, order = b.as_is(x)
    return Stored(b.emit("PRelu", value, b.broadcast(alpha, order, weight=True)), order)


@translates("ELU", 1, check=needs_float)
def elu(b: Builder, op: Op, x: Operand) -> Stored:
    """ELU → Elu."""
    value, order = b.as_is(x)
    return Stored(b.emit("Elu", value, alpha=1.0), order)


@translates("LOGISTIC", 1, 2, 3, check=needs_float)
def logistic(b: Builder, op: Op, x: Operand) -> Stored:
    """LOGISTIC → Sigmoid."""
    value, order = b.as_is(x)
    return Stored(b.emit("Sigmoid", value), order)


@translates("TANH", 1, 2, 3, check=needs_float)
def tanh(b: Builder, op: Op, x: Operand) -> Stored:
    """TANH → Tanh."""
    value, order = b.as_is(x)
    return Stored(b.emit("Tanh", value), order)


@translates("HARD_SWISH", 1, check=needs_float)
def hard_swish(b: Builder, op: Op, x: Operand) -> Stored:
    """HARD_SWISH → HardSwish."""
    value, order = b.as_is(x)
    return Stored(b.emit("HardSwish", value), order)


@translates("GELU", 1, 2, 3, check=needs_float)
def gelu(b: Builder, op: Op, x: Operand) -> Stored:
    """GELU → Gelu, exact or by tanh."""
    if has_table(op):
        return interpolated(b, op, x)
    value, order = b.as_is(x)
    return Stored(b.emit("Gelu", value, approximate="tanh" if op.options.approximate else "none"), order)


@translates("SOFTMAX", 1, 2, 3, 4, check=needs_float)
def softmax(b: Builder, op: Op, x: Operand) -> Stored:
    """SOFTMAX → Softmax over the last axis, of the input times beta."""
    value, order = b.as_is(x)
    beta = float(op.options.beta)
    if beta != 1.0:
        value = b.emit("Mul", value, b.scalar(beta, x.dtype))
    return Stored(b.emit("Softmax", value, axis=positions(order, [-1])[0]), order)


@translates("LOG_SOFTMAX", 1, 2, check=needs_float)
def log_softmax(b: Builder, op: Op, x: Operand) -> Stored:
    """LOG_SOFTMAX → LogSoftmax over the last axis."""
    value, order = b.as_is(x)
    return Stored(b.emit("LogSoftmax", value, axis=positions(order, [-1])[0]), order)
