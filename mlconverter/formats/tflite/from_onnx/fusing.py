"""What TFLite computes within one operator: activations, and scales and offsets of channels that are part of a filter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.values import Array, Operation, Runtime, Stored, Wire

ACTIVATIONS = {"RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}
"""Numbers of the activations that LiteRT's kernels compute together with what comes before."""

TAKE_ACTIVATION = frozenset(
    "ADD SUB MUL DIV CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED AVERAGE_POOL_2D MAX_POOL_2D CONV_3D".split()
)

CHANNEL_AXES = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0, "CONV_3D": 4}
"""Operators with a filter, and which axis of it is the channel of the result, which is stored last."""


def producer(b: Builder, x: Runtime) -> Operation | None:
    """The operator behind a value that nothing but the current node reads, ``None`` where it must stay as it is."""
    wire, _ = x.first
    operation = b.producers.get(wire)
    # One tensor may be several values: others may read it, or have read it, under another name or shape.
    alone = x.sole and len(x.orders) == 1 and wire not in b.shared and wire not in b.read
    if not alone or operation is None or wire.dtype != "float32" or wire.meaning is not None:
        return None
    return operation if not operation.options.get("fusedActivationFunction") else None


def activate(b: Builder, x: Runtime, op: str) -> Stored:
    """An activation, within the operator before it where that has room for one."""
    wire, order = x.first
    before = producer(b, x)
    if op in ACTIVATIONS and before is not None and before.op in TAKE_ACTIVATION:
        before.options["fusedActivationFunction"] = ACTIVATIONS[op]
        return Stored(wire, order)
    return Stored(b.emit(op, wire, dims=wire.dims), order)


def scaled(b: Builder, x: Runtime, axis: int, scale: Array | None, offset: Array | None) -> Stored | None:
    """``x * scale + offset`` within the filter and the bias of the operator before it; ``None`` where that cannot be.

    Args:
        b: the builder.
        x: the value.
        axis: its logical axis along which the vectors lie.
        scale: one factor a channel, or one for all.
        offset: one summand a channel, or one for all.
    """
    wire, order = x.first
    before = producer(b, x)
    if before is None or before.op not in CHANNEL_AXES or order[-1] != axis % x.rank:
        return None
    filters = before.inputs[1]
    bias = before.inputs[2] if len(before.inputs) > 2 else None
    if filters is None or filters.data is None or (bias is not None and bias.data is None):
        return None
    channel = CHANNEL_AXES[before.op]
    count = filters.dims[channel]
    assert count is not None
    start = np.zeros(count, np.float32) if bias is None else bias.array
    factor = np.ones(count, np.float32) if scale is None else np.broadcast_to(scale, count)
    summand = np.zeros(count, np.float32) if offset is None else np.broadcast_to(offset, count)
    if scale is not None:
        shape = [-1 if i == channel else 1 for i in range(filters.rank)]
        before.inputs[1] = _replaced(filters, _product(filters, factor.reshape(shape)))
    if bias is not None or offset is not None:
        name = "bias" if bias is None else bias.name
        total = (start * factor + summand).astype(np.float32)
        before.inputs[2:] = [Wire(name, (count,), "float32", total, True)]
    return Stored(wire, order)


def _replaced(wire: Wire, data: Callable[[], Array]) -> Wire:
    return Wire(wire.name, wire.dims, wire.dtype, data, wire.is_weight)


def _product(filters: Wire, factor: Array) -> Callable[[], Array]:
    """A filter with its channels scaled, computed when it is written: nothing holds both at once."""
    return lambda: (filters.array * factor).astype(np.float32)


def is_not_negative(b: Builder, x: Runtime) -> bool:
    """Whether the operator behind a value gives nothing below zero."""
    before = b.producers.get(x.first.wire)
    if before is None:
        return False
    fused = before.options.get("fusedActivationFunction")
    return before.op in ("RELU", "RELU6", "LOGISTIC") or fused in (ACTIVATIONS["RELU"], ACTIVATIONS["RELU6"])
