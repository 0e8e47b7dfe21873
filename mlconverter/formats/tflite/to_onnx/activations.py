"""Activations, fused and on their own, and softmax."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.layout import positions
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.dtypes import carried
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import ACTIVATIONS, needs_float, translates


def fused(b: Builder, value: ir.Value, activation: int, dtype: str = "float32") -> ir.Value:
    """The value after an operator's fused activation."""
    name = ACTIVATIONS[activation]
    if name == "RELU":
        return b.emit("Relu", value) if dtype.startswith("float") else clip(b, value, 0, np.iinfo(dtype).max, dtype)
    if name == "RELU6":
        return clip(b, value, 0, 6, dtype)
    if name == "RELU_N1_TO_1":
        return clip(b, value, -1, 1, dtype)
    return value


def clip(b: Builder, value: ir.Value, low: float, high: float, dtype: str) -> ir.Value:
    """The value between two bounds."""
    bounds = (b.scalar(max(low, 0) if dtype.startswith("u") else low, dtype), b.scalar(high, dtype))
    return carried(b, "Clip", dtype, lambda *values: b.emit("Clip", *values), value, *bounds)


@translates("RELU", 1, 2, 3, check=needs_float)
def relu(b: Builder, op: Op, x: Operand) -> Stored:
    """RELU → Relu."""
    value, order = b.as_is(x)
    return Stored(b.emit("Relu", value), order)


@translates("RELU6", 1, 2, 3, check=needs_float)
def relu6(b: Builder, op: Op, x: Operand) -> Stored:
    """RELU6 → Clip between 0 and 6."""
    value, order = b.as_is(x)
    return Stored(clip(b, value, 0, 6, x.dtype), order)


@translates("RELU_N1_TO_1", 1, check=needs_float)
def relu_n1_to_1(b: Builder, op: Op, x: Operand) -> Stored:
    """RELU_N1_TO_1 → Clip between -1 and 1."""
    value, order = b.as_is(x)
    return Stored(clip(b, value, -1, 1, x.dtype), order)


@translates("RELU_0_TO_1", 1, check=needs_float)
def relu_0_to_1(b: Builder, op: Op, x: Operand) -> Stored:
    """RELU_0_TO_1 → Clip between 0 and 1."""
    value, order = b.as_is(x)
    return Stored(clip(b, value, 0, 1, x.dtype), order)


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
