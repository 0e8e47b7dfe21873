"""Normalisation layers, and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.elementwise import kept, pointwise
from mlconverter.formats.tflite.from_onnx.fusing import scaled
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.reduction import reduced
from mlconverter.formats.tflite.from_onnx.values import Array, Constant, Operand, Runtime, Stored
from mlconverter.hub.nodes import Call


def _check_batch_norm(call: Call) -> str | None:
    if call.attributes.get("training_mode") or (call.version < 7 and not call.attributes.get("is_test")):
        return "training_mode=1 asks for batch statistics at inference"
    return None if call.attributes.get("spatial", 1) else "spatial=0 keeps statistics for every position"


@translates("BatchNormalization", 1, 6, 7, 9, 14, 15, check=_check_batch_norm)
def batch_normalization(
    b: Builder,
    x: Runtime,
    scale: Constant,
    bias: Constant,
    mean: Constant,
    var: Constant,
    *,
    epsilon: float,
    momentum: float,
    spatial: int = 1,
    training_mode: int = 0,
    is_test: int = 1,
    consumed_inputs: Any = None,
) -> Stored:
    """BatchNormalization → part of the filter and bias before it; MUL, ADD elsewhere."""
    parts = [c.value.astype(np.float64) for c in (scale, bias, mean, var)]
    factor = parts[0] / np.sqrt(parts[3] + epsilon)
    summand = parts[1] - parts[2] * factor
    return _affine(b, x, factor.astype(np.float32), summand.astype(np.float32))


def _affine(b: Builder, x: Runtime, factor: Array, summand: Array) -> Stored:
    """``x * factor + summand`` with one number of each a channel."""
    axis = min(1, x.rank - 1)
    folded = scaled(b, x, axis, factor, summand)
    if folded is not None:
        return folded
    shape = (-1, *[1] * (x.rank - 1 - axis))
    product = pointwise(b, "MUL", x, Constant(factor.reshape(shape), "scale"))
    return pointwise(b, "ADD", kept(product), Constant(summand.reshape(shape), "offset"))


def standardised(b: Builder, x: Runtime, axes: Sequence[int], epsilon: float) -> Stored:
    """``(x - mean) / sqrt(variance + epsilon)`` over some axes."""
    wire, order = x.first
    mean = reduced(b, "MEAN", x, axes, keep=True).wire
    centred = b.emit("SUB", wire, mean, dims=wire.dims)
    squares = Stored(b.emit("MUL", centred, centred, dims=wire.dims), order)
    variance = reduced(b, "MEAN", squares, axes, keep=True).wire
    inverse = b.emit("RSQRT", b.emit("ADD", variance, b.scalar(epsilon, wire.dtype), dims=variance.dims), dims=variance.dims)
    return Stored(b.emit("MUL", centred, inverse, dims=wire.dims), order)


def _check_layer_norm(call: Call) -> str | None:
    return "stash_type other than float32" if call.attributes.get("stash_type", 1) != 1 else None


@translates("LayerNormalization", 17, check=_check_layer_norm)
def layer_normalization(
    b: Builder, x: Runtime, scale: Operand, bias: Operand | None = None, *, axis: int, epsilon: float, stash_type: int
) -> Stored:
    """LayerNormalization → MEAN, SUB, MUL, MEAN, RSQRT, MUL, with scale and bias MUL and ADD."""
    if b.is_read(1) or b.is_read(2):
        raise Refused("its mean or deviation is read")
    axis += x.rank if axis < 0 else 0
    y = pointwise(b, "MUL", kept(standardised(b, x, range(axis, x.rank), epsilon)), scale)
    return y if bias is None else pointwise(b, "ADD", kept(y), bias)


@translates("InstanceNormalization", 1, 6, 22)
def instance_normalization(
    b: Builder, x: Runtime, scale: Constant, bias: Constant, *, epsilon: float, consumed_inputs: Any = None
) -> Stored:
    """InstanceNormalization → MEAN, SUB, MUL, MEAN, RSQRT, MUL, with scale and bias MUL and ADD."""
    y = kept(standardised(b, x, range(2, x.rank), epsilon))
    return _affine(b, y, scale.value, bias.value)


def _check_dropout(call: Call) -> str | None:
    if call.version < 7 and not call.attributes.get("is_test"):
        return "is_test=0 asks for random numbers at inference"
    mode = call.inputs[2] if len(call.inputs) > 2 else None
    if mode is None:
        return None
    known = mode if isinstance(mode, np.ndarray) else mode.const_value.numpy() if mode.const_value is not None else None
    if known is None:
        return "whether it trains is computed while the model runs"
    return "training_mode=1 asks for random numbers at inference" if bool(known) else None


@translates("Dropout", 1, 6, 7, 10, 12, 13, 22, check=_check_dropout)
def dropout(
    b: Builder,
    x: Operand,
    ratio: Operand | None = None,
    training: Operand | None = None,
    *,
    seed: int | None = None,
    is_test: int = 1,
    consumed_inputs: Any = None,
) -> Operand:
    """Dropout → nothing."""
    if b.is_read(1):
        raise Refused("its mask is read")
    return x
