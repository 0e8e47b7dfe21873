"""Pooling and normalisation over channels."""

from __future__ import annotations

from typing import Any

from mlconverter.formats.tflite.layout import channels_first, positions
from mlconverter.formats.tflite.to_onnx.activations import fused
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_float, needs_rank, translates
from mlconverter.formats.tflite.to_onnx.windows import SAME, needs_strides, padding

IMAGE = channels_first(4)

_image = all_of(needs_rank(4), needs_float, needs_strides)

L2_EPSILON = 1e-6
"""The least length by which L2_NORMALIZATION divides."""


def _window(op: Op, image: Operand) -> dict[str, Any]:
    options = op.options
    kernel, strides = [options.filterHeight, options.filterWidth], [options.strideH, options.strideW]
    return {
        "kernel_shape": kernel,
        "strides": strides,
        **padding(options.padding == SAME, image.dims[1:3], kernel, strides),
    }


@translates("MAX_POOL_2D", 1, 2, 3, check=_image)
def max_pool_2d(b: Builder, op: Op, image: Operand) -> Stored:
    """MAX_POOL_2D → MaxPool (+ fused activation)."""
    value = b.emit("MaxPool", b.ask(image, IMAGE), **_window(op, image))
    return Stored(fused(b, value, op.options.fusedActivationFunction), IMAGE)


@translates("AVERAGE_POOL_2D", 1, 2, 3, check=_image)
def average_pool_2d(b: Builder, op: Op, image: Operand) -> Stored:
    """AVERAGE_POOL_2D → AveragePool that does not count what is padded (+ fused activation)."""
    value = b.emit("AveragePool", b.ask(image, IMAGE), count_include_pad=0, **_window(op, image))
    return Stored(fused(b, value, op.options.fusedActivationFunction), IMAGE)


@translates("L2_POOL_2D", 1, check=_image)
def l2_pool_2d(b: Builder, op: Op, image: Operand) -> Stored:
    """L2_POOL_2D → square root of the AveragePool of squares (+ fused activation)."""
    value = b.ask(image, IMAGE)
    mean = b.emit("AveragePool", b.emit("Mul", value, value), count_include_pad=0, **_window(op, image))
    return Stored(fused(b, b.emit("Sqrt", mean), op.options.fusedActivationFunction), IMAGE)


@translates("L2_NORMALIZATION", 1, 2, check=needs_float)
def l2_normalization(b: Builder, op: Op, x: Operand) -> Stored:
    """L2_NORMALIZATION → division by ReduceL2 over the last axis, which is at least 1e-6 (+ fused activation)."""
    value, order = b.as_is(x)
    length = b.emit("ReduceL2", value, b.ints(positions(order, [-1])), keepdims=1)
    value = b.emit("Div", value, b.emit("Max", length, b.scalar(L2_EPSILON, x.dtype)))
    return Stored(fused(b, value, op.options.fusedActivationFunction), order)


@translates("LOCAL_RESPONSE_NORMALIZATION", 1, check=all_of(needs_rank(4), needs_float))
def local_response_normalization(b: Builder, op: Op, image: Operand) -> Stored:
    """LOCAL_RESPONSE_NORMALIZATION → LRN, whose alpha is divided by the window."""
    options = op.options
    size = 2 * options.radius + 1
    value = b.emit(
        "LRN",
        b.ask(image, IMAGE),
        size=size,
        alpha=float(options.alpha * size),
        beta=float(options.beta),
        bias=float(options.bias),
    )
    return Stored(value, IMAGE)
