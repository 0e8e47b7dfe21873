"""Activations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.fusing import activate, scaled
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.values import Constant, Operand, Runtime, Stored, Wire
from mlconverter.formats.tflite.layout import logical


@translates("Relu", 1, 6, 13, 14)
def relu(b: Builder, x: Runtime, *, consumed_inputs: Any = None) -> Stored:
    """Relu → RELU, fused where possible; MAXIMUM for integers."""
    wire, order = x.first
    if wire.dtype != "float32":
        return Stored(b.compute("MAXIMUM", wire, b.scalar(0, wire.dtype), dims=wire.dims), order)
    return activate(b, x, "RELU")


@translates("LeakyRelu", 1, 6, 16)
def leaky_relu(b: Builder, x: Runtime, *, alpha: float, consumed_inputs: Any = None) -> Stored:
    """LeakyRelu → LEAKY_RELU."""
    wire, order = x.first
    return Stored(b.emit("LEAKY_RELU", wire, dims=wire.dims, alpha=alpha), order)


@translates("Sigmoid", 1, 6, 13)
def sigmoid(b: Builder, x: Runtime, *, consumed_inputs: Any = None) -> Stored:
    """Sigmoid → LOGISTIC."""
    return activate(b, x, "LOGISTIC")


@translates("Tanh", 1, 6, 13)
def tanh(b: Builder, x: Runtime, *, consumed_inputs: Any = None) -> Stored:
    """Tanh → TANH."""
    return activate(b, x, "TANH")


@translates("HardSwish", 14, 22)
def hard_swish(b: Builder, x: Runtime) -> Stored:
    """HardSwish → HARD_SWISH."""
    return activate(b, x, "HARD_SWISH")


@translates("HardSigmoid", 1, 6, 22)
def hard_sigmoid(b: Builder, x: Runtime, *, alpha: float, beta: float, consumed_inputs: Any = None) -> Stored:
    """HardSigmoid → MUL, ADD, RELU_0_TO_1 as MAXIMUM and MINIMUM; RELU6 of a sum for a slope of 1/6, or of a moved bias."""
    wire, order = x.first
    if alpha == np.float32(1 / 6) or abs(alpha - 1 / 6) < 1e-7:
        if x.rank and scaled(b, x, order[-1], None, np.array([beta * 6], np.float32)) is not None:
            moved = activate(b, x, "RELU6").wire
        else:
            moved = b.emit("ADD", wire, b.scalar(beta * 6, wire.dtype), dims=wire.dims, fusedActivationFunction=3)
        return Stored(b.emit("MUL", moved, b.scalar(1 / 6, wire.dtype), dims=wire.dims), order)
    sloped = b.emit("MUL", wire, b.scalar(alpha, wire.dtype), dims=wire.dims)
    moved = b.emit("ADD", sloped, b.scalar(beta, wire.dtype), dims=wire.dims, fusedActivationFunction=1)
    return Stored(b.emit("MINIMUM", moved, b.scalar(1, wire.dtype), dims=wire.dims), order)


@translates("Elu", 1, 6, 22)
def elu(b: Builder, x: Runtime, *, alpha: float, consumed_inputs: Any = None) -> Stored:
    """Elu → ELU; scaled below zero for another alpha than 1."""
    wire, order = x.first
    return Stored(_elu(b, wire, alpha), order)


def _elu(b: Builder, x: Wire, alpha: float) -> Wire:
    y = b.emit("ELU", x, dims=x.dims)
    if alpha == 1:
        return y
    below = b.emit("MUL", y, b.scalar(alpha, x.dtype), dims=x.dims)
    positive = b.emit("GREATER", x, b.scalar(0, x.dtype), dims=x.dims, dtype="bool")
    return b.emit("SELECT_V2", positive, x, below, dims=x.dims, dtype=x.dtype)


@translates("Celu", 12, 28)
def celu(b: Builder, x: Runtime, *, alpha: float) -> Stored:
    """Celu → ELU of x / alpha, times alpha; EXP where a negative alpha turns the sides of ELU round."""
    wire, order = x.first
    if alpha < 0:
        inner = _scaled(b, b.emit("MINIMUM", wire, b.scalar(0, wire.dtype), dims=wire.dims), 1 / alpha)
        grown = b.emit("SUB", b.emit("EXP", inner, dims=wire.dims), b.scalar(1, wire.dtype), dims=wire.dims)
        above = b.emit("RELU", wire, dims=wire.dims)
        return Stored(b.emit("ADD", above, _scaled(b, grown, alpha), dims=wire.dims), order)
    return Stored(_scaled(b, b.emit("ELU", _scaled(b, wire, 1 / alpha), dims=wire.dims), alpha), order)


def _scaled(b: Builder, x: Wire, factor: float) -> Wire:
    return b.emit("MUL", x, b.scalar(factor, x.dtype), dims=x.dims)


@translates("Selu", 1, 6, 22)
def selu(b: Builder, x: Runtime, *, alpha: float, gamma: float, consumed_inputs: Any = None) -> Stored:
    """Selu → ELU, scaled."""
    wire, order = x.first
    return Stored(b.emit("MUL", _elu(b, wire, alpha), b.scalar(gamma, wire.dtype), dims=wire.dims), order)


@translates("Softplus", 1, 22)
def softplus(b: Builder, x: Runtime) -> Stored:
    """Softplus → RELU of x plus LOG of 1 + EXP of -|x|, which does not overflow."""
    wire, order = x.first
    small = b.emit("EXP", b.emit("NEG", b.emit("ABS", wire, dims=wire.dims), dims=wire.dims), dims=wire.dims)
    log = b.emit("LOG", b.emit("ADD", small, b.scalar(1, wire.dtype), dims=wire.dims), dims=wire.dims)
    return Stored(b.emit("ADD", b.emit("RELU", wire, dims=wire.dims), log, dims=wire.dims), order)


@translates("Softsign", 1, 22)
def softsign(b: Builder, x: Runtime) -> Stored:
    """Softsign → x / (1 + ABS)."""
    wire, order = x.first
    below = b.emit("ADD", b.emit("ABS", wire, dims=wire.dims), b.scalar(1, wire.dtype), dims=wire.dims)
    return Stored(b.emit("DIV", wire, below, dims=wire.dims), order)


@translates("ThresholdedRelu", 10, 22)
def thresholded_relu(b: Builder, x: Runtime, *, alpha: float) -> Stored:
    """ThresholdedRelu → GREATER, SELECT_V2."""
    wire, order = x.first
    above = b.emit("GREATER", wire, b.scalar(alpha, wire.dtype), dims=wire.dims, dtype="bool")
    return Stored(b.emit("SELECT_V2", above, wire, b.scalar(0, wire.dtype), dims=wire.dims, dtype=wire.dtype), order)


@translates("Shrink", 9)
def shrink(b: Builder, x: Runtime, *, bias: float, lambd: float) -> Stored:
    """Shrink → ADD and SUB, SELECT_V2 between them and zero."""
    wire, order = x.first
    if wire.dtype != "float32":
        raise Refused(f"{wire.dtype} input")
    result = b.scalar(0, wire.dtype)
    for comparison, bound, op in (("GREATER", lambd, "SUB"), ("LESS", -lambd, "ADD")):
        beyond = b.emit(comparison, wire, b.scalar(bound, wire.dtype), dims=wire.dims, dtype="bool")
        moved = b.emit(op, wire, b.scalar(bias, wire.dtype), dims=wire.dims)
        result = b.emit("SELECT_V2", beyond, moved, result, dims=wire.dims, dtype=wire.dtype)
    return Stored(result, order)


@translates("Swish", 24)
def swish(b: Builder, x: Runtime, *, alpha: float) -> Stored:
    """Swish → LOGISTIC, MUL."""
    wire, order = x.first
    inner = wire if alpha == 1 else b.emit("MUL", wire, b.scalar(alpha, wire.dtype), dims=wire.dims)
    return Stored(b.emit("MUL", wire, b.emit("LOGISTIC", inner, dims=wire.dims), dims=wire.dims), order)


@translates("Mish", 18, 22)
def mish(b: Builder, x: Runtime) -> Stored:
    """Mish → x * TANH of softplus."""
    wire, order = x.first
    soft = b.emit("TANH", softplus(b, x).wire, dims=wire.dims)
    return Stored(b.emit("MUL", wire, soft, dims=wire.dims), order)


@translates("Gelu", 20)
def gelu(b: Builder, x: Runtime, *, approximate: str) -> Stored:
    """Gelu → GELU."""
    wire, order = x.first
    return Stored(b.emit("GELU", wire, dims=wire.dims, approximate=approximate == "tanh"), order)


@translates("Erf", 9, 13)
def erf(b: Builder, x: Runtime) -> Stored:
    """Erf → 1 - a polynomial in 1 / (1 + p|x|) times EXP, off by 1.5e-7 at most (Abramowitz and Stegun, 7.1.26)."""
    wire, order = x.first

    def emit(op: str, *inputs: Wire) -> Wire:
        return b.emit(op, *inputs, dims=wire.dims)

    def number(value: float) -> Wire:
        return b.scalar(value, wire.dtype)

    size = emit("ABS", wire)
    t = emit("DIV", number(1), emit("ADD", emit("MUL", size, number(0.3275911)), number(1)))
    total = emit("MUL", t, number(1.061405429))
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        total = emit("MUL", emit("ADD", total, number(coefficient)), t)
    tail = emit("MUL", total, emit("EXP", emit("NEG", emit("MUL", size, size))))
    return Stored(emit("MUL", emit("SIGN", wire), emit("SUB", number(1), tail)), order)


@translates("PRelu", 7, 9, 16)
def prelu(b: Builder, x: Runtime, slope: Operand) -> Stored:
    """PRelu → PRELU where there is one slope a channel, channels last; RELU, MINIMUM and MUL elsewhere."""
    wire, order = x.first
    if isinstance(slope, Constant) and slope.value.size == 1 and slope.rank <= x.rank:
        return Stored(b.emit("LEAKY_RELU", wire, dims=wire.dims, alpha=float(slope.number())), order)
    order, (value, slopes) = b.together(x, slope)
    if isinstance(slope, Constant) and slopes.rank == 1 and 2 <= value.rank <= 4:
        per_channel = b.constant(slopes.array.reshape((*[1] * (value.rank - 2), -1)), slope.name, is_weight=slope.is_weight)
        return Stored(b.emit("PRELU", value, per_channel, dims=value.dims), order)
    below = b.compute("MUL", b.compute("MINIMUM", value, b.scalar(0, value.dtype), dims=value.dims), slopes, dims=value.dims)
    above = b.compute("MAXIMUM", value, b.scalar(0, value.dtype), dims=value.dims)
    return Stored(b.compute("ADD", above, below, dims=value.dims), order)


@translates("PRelu", 1, 6)
def prelu_by_channel(b: Builder, x: Runtime, slope: Constant, *, consumed_inputs: Any = None) -> Stored:
    """PRelu up to opset 6 → as later ones; its slopes belong to the channels, not to the last axis."""
    return prelu(b, x, Constant(slope.value.reshape(-1, *[1] * (x.rank - 2)), slope.name, slope.is_weight))


@translates("Softmax", 13)
def softmax(b: Builder, x: Runtime, *, axis: int) -> Stored:
    """Softmax → SOFTMAX over an axis that is stored last."""
    return _over_last(b, "SOFTMAX", x, axis, beta=1.0)


@translates("LogSoftmax", 13)
def log_softmax(b: Builder, x: Runtime, *, axis: int) -> Stored:
    """LogSoftmax → LOG_SOFTMAX over an axis that is stored last."""
    return _over_last(b, "LOG_SOFTMAX", x, axis)


@translates("Softmax", 1, 11)
def softmax_flat(b: Builder, x: Runtime, *, axis: int) -> Stored:
    """Softmax up to opset 12 → SOFTMAX over all axes from ``axis`` on."""
    return _over_all_from(b, "SOFTMAX", x, axis, beta=1.0)


@translates("LogSoftmax", 1, 11)
def log_softmax_flat(b: Builder, x: Runtime, *, axis: int) -> Stored:
    """LogSoftmax up to opset 12 → LOG_SOFTMAX over all axes from ``axis`` on."""
    return _over_all_from(b, "LOG_SOFTMAX", x, axis)


def _over_last(b: Builder, op: str, x: Runtime, axis: int, **options: Any) -> Stored:
    if x.rank == 0:
        raise Refused("a tensor of rank 0 has no axis")
    wire, order = b.with_last(x, axis)
    return Stored(b.emit(op, wire, dims=wire.dims, **options), order)


def _over_all_from(b: Builder, op: str, x: Runtime, axis: int, **options: Any) -> Stored:
    axis += x.rank if axis < 0 else 0
    if axis == x.rank - 1:
        return _over_last(b, op, x, axis, **options)
    if axis >= x.rank:
        raise Refused(f"axis {axis} of a tensor of rank {x.rank} leaves nothing to compare")
    wire = b.ask(x)
    if wire.dims.count(None) > 1 or None in wire.dims[axis:]:
        raise Refused("several axes together, of sizes that only the run time knows")
    flat = b.reshape(wire, [*wire.dims[:axis], math.prod(d or 1 for d in wire.dims[axis:])])
    return Stored(b.reshape(b.emit(op, flat, dims=flat.dims, **options), wire.dims), logical(x.rank))
