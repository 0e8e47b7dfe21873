"""Normalisation layers, and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.elementwise import kept, pointwise
from mlconverter.formats.tflite.from_onnx.fusing import scaled
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.reduction import reduced
from mlconverter.formats.tflite.from_onnx.shaping import reshaped
from mlconverter.formats.tflite.from_onnx.values import Array, Constant, Operand, Runtime, Stored
from mlconverter.formats.tflite.layout import channels_last, logical
from mlconverter.hub.nodes import Call


def _check_batch_norm(call: Call) -> str | None:
    if call.attributes.get("training_mode") or (call.version < 7 and not call.attributes.get("is_test")):
        return "training_mode=1 asks for batch statistics at inference"
    return None if call.attributes.get("spatial", 1) else "spatial=0 keeps statistics for every position"


@translates("BatchNormalization", 1, 6, 7, 9, 14, 15, check=_check_batch_norm)
def batch_normalization(
    b: Builder,
    x: Runtime,
    scale: Operand,
    bias: Operand,
    mean: Operand,
    var: Operand,
    *,
    epsilon: float,
    momentum: float,
    spatial: int = 1,
    training_mode: int = 0,
    is_test: int = 1,
    consumed_inputs: Any = None,
) -> Stored:
    """BatchNormalization → part of the filter and bias before it; MUL, ADD elsewhere."""
    parts = [c.value.astype(np.float64) for c in (scale, bias, mean, var) if isinstance(c, Constant)]
    if len(parts) < 4:
        return _computed_affine(b, x, scale, bias, mean, var, epsilon)
    factor = parts[0] / np.sqrt(parts[3] + epsilon)
    summand = parts[1] - parts[2] * factor
    return _affine(b, x, factor.astype(np.float32), summand.astype(np.float32))


def _computed_affine(
    b: Builder, x: Runtime, scale: Operand, bias: Operand, mean: Operand, var: Operand, epsilon: float
) -> Stored:
    """``(x - mean) * (scale / sqrt(var + epsilon)) + bias`` where something of it is computed."""
    moved = kept(pointwise(b, "ADD", var, Constant(np.array(epsilon, np.float32))))
    inverse = kept(Stored(b.emit("RSQRT", moved.first.wire, dims=moved.first.wire.dims), moved.first.order))
    factor = kept(pointwise(b, "MUL", inverse, scale))
    centred = kept(pointwise(b, "SUB", x, _channels(b, mean, x.rank)))
    product = kept(pointwise(b, "MUL", centred, _channels(b, factor, x.rank)))
    return pointwise(b, "ADD", product, _channels(b, bias, x.rank))


def _channels(b: Builder, vector: Operand, rank: int) -> Operand:
    """One number a channel, ready to be broadcast against images."""
    shape = (*vector.dims, *[1] * (rank - 2))
    if isinstance(vector, Constant):
        return Constant(vector.value.reshape([d or 0 for d in shape]), vector.name)
    return kept(Stored(b.reshape(b.ask(vector), shape), logical(len(shape))))


def _affine(b: Builder, x: Runtime, factor: Array, summand: Array) -> Stored:
    """``x * factor + summand`` with one number of each a channel."""
    axis = min(1, x.rank - 1)
    folded = scaled(b, x, axis, factor, summand)
    if folded is not None:
        return folded
    shape = (-1, *[1] * (x.rank - 1 - axis))
    product = pointwise(b, "MUL", x, Constant(factor.reshape(shape), "scale"))
    return pointwise(b, "ADD", kept(product), Constant(summand.reshape(shape), "offset"))


class Standardised(NamedTuple):
    """``(x - mean) * inverse`` and its parts, the inverse of a deviation being a factor."""

    value: Stored
    mean: Stored
    inverse: Stored


def standardised(b: Builder, x: Stored, axes: Sequence[int], epsilon: float) -> Standardised:
    """``(x - mean) / sqrt(variance + epsilon)`` over some axes."""
    wire, order = x
    mean = reduced(b, "MEAN", x, axes, keep=True)
    centred = Stored(b.emit("SUB", wire, mean.wire, dims=wire.dims), order)
    inverse = _inverse_root(b, centred, axes, epsilon)
    return Standardised(Stored(b.emit("MUL", centred.wire, inverse.wire, dims=wire.dims), order), mean, inverse)


def _inverse_root(b: Builder, x: Stored, axes: Sequence[int], epsilon: float) -> Stored:
    """``1 / sqrt(mean of squares + epsilon)`` over some axes."""
    wire, order = x
    squares = Stored(b.emit("MUL", wire, wire, dims=wire.dims), order)
    mean = reduced(b, "MEAN", squares, axes, keep=True).wire
    moved = b.emit("ADD", mean, b.scalar(epsilon, wire.dtype), dims=mean.dims)
    return Stored(b.emit("RSQRT", moved, dims=mean.dims), order)


def _check_layer_norm(call: Call) -> str | None:
    return "stash_type other than float32" if call.attributes.get("stash_type", 1) != 1 else None


@translates("LayerNormalization", 17, check=_check_layer_norm)
def layer_normalization(
    b: Builder, x: Runtime, scale: Operand, bias: Operand | None = None, *, axis: int, epsilon: float, stash_type: int
) -> list[Stored]:
    """LayerNormalization → MEAN, SUB, MUL, MEAN, RSQRT, MUL, with scale and bias MUL and ADD."""
    axis += x.rank if axis < 0 else 0
    plain = standardised(b, x.first, range(axis, x.rank), epsilon)
    y = pointwise(b, "MUL", kept(plain.value), scale)
    return [y if bias is None else pointwise(b, "ADD", kept(y), bias), plain.mean, plain.inverse]


@translates("RMSNormalization", 23, check=_check_layer_norm)
def rms_normalization(b: Builder, x: Runtime, scale: Operand, *, axis: int, epsilon: float, stash_type: int) -> Stored:
    """RMSNormalization → MUL, MEAN, RSQRT, MUL, MUL."""
    axis += x.rank if axis < 0 else 0
    inverse = _inverse_root(b, x.first, range(axis, x.rank), epsilon)
    y = b.emit("MUL", x.first.wire, inverse.wire, dims=x.first.wire.dims)
    return pointwise(b, "MUL", kept(Stored(y, x.first.order)), scale)


@translates("InstanceNormalization", 1, 6, 22)
def instance_normalization(
    b: Builder, x: Runtime, scale: Constant, bias: Constant, *, epsilon: float, consumed_inputs: Any = None
) -> Stored:
    """InstanceNormalization → MEAN, SUB, MUL, MEAN, RSQRT, MUL, with scale and bias MUL and ADD."""
    y = kept(standardised(b, x.first, range(2, x.rank), epsilon).value)
    return _affine(b, y, scale.value, bias.value)


def _check_group_norm(call: Call) -> str | None:
    if call.version < 21:
        return "version 18 has a scale for each group, which its successor calls a mistake"
    return _check_layer_norm(call)


@translates("GroupNormalization", 18, 21, check=_check_group_norm)
def group_normalization(
    b: Builder, x: Runtime, scale: Constant, bias: Constant, *, num_groups: int, epsilon: float, stash_type: int = 1
) -> Stored:
    """GroupNormalization → RESHAPE to groups, as InstanceNormalization, RESHAPE back."""
    groups = reshaped(b, x, [x.length(0), num_groups, -1])
    plain = kept(standardised(b, groups, [2], epsilon).value)
    return _affine(b, kept(reshaped(b, plain, x.sizes, x.dims)), scale.value, bias.value)


@translates("LpNormalization", 1, 22)
def lp_normalization(b: Builder, x: Runtime, *, axis: int, p: int) -> Stored:
    """LpNormalization → ABS or MUL, SUM, SQRT, DIV; zeros stay zeros."""
    wire, order = x.first
    sizes = b.emit("ABS", wire, dims=wire.dims) if p == 1 else b.emit("MUL", wire, wire, dims=wire.dims)
    norm = reduced(b, "SUM", Stored(sizes, order), [axis], keep=True).wire
    if p == 2:
        norm = b.emit("SQRT", norm, dims=norm.dims)
    none = b.emit("EQUAL", norm, b.scalar(0, norm.dtype), dims=norm.dims, dtype="bool")
    safe = b.emit("SELECT_V2", none, b.scalar(1, norm.dtype), norm, dims=norm.dims, dtype=norm.dtype)
    return Stored(b.emit("DIV", wire, safe, dims=wire.dims), order)


@translates("MeanVarianceNormalization", 9, 13)
def mean_variance_normalization(b: Builder, x: Runtime, *, axes: list[int]) -> Stored:
    """MeanVarianceNormalization → MEAN, SUB, MUL, MEAN, SQRT, ADD, DIV."""
    wire, order = x.first
    mean = reduced(b, "MEAN", x, axes, keep=True).wire
    centred = b.emit("SUB", wire, mean, dims=wire.dims)
    squares = Stored(b.emit("MUL", centred, centred, dims=wire.dims), order)
    deviation = b.emit("SQRT", reduced(b, "MEAN", squares, axes, keep=True).wire, dims=mean.dims)
    return Stored(
        b.emit("DIV", centred, b.emit("ADD", deviation, b.scalar(1e-9, wire.dtype), dims=mean.dims), dims=wire.dims), order
    )


def _check_lrn(call: Call) -> str | None:
    return None if call.attributes["size"] % 2 else "a window of even size, which is not the same up and down"


@translates("LRN", 1, 13, check=_check_lrn)
def lrn(b: Builder, x: Runtime, *, alpha: float, beta: float, bias: float, size: int) -> Stored:
    """LRN → LOCAL_RESPONSE_NORMALIZATION."""
    image = b.image(x)
    y = b.emit("LOCAL_RESPONSE_NORMALIZATION", image, dims=image.dims, radius=size // 2, bias=bias, alpha=alpha / size, beta=beta)
    return Stored(y, channels_last(x.rank))


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
