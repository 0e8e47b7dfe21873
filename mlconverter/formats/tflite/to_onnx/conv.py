"""Convolutions. They ask for images channels-first and for filters as ONNX stores them; both are only axis orders."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mlconverter.formats.tflite.layout import Order, channels_first
from mlconverter.formats.tflite.to_onnx.activations import fused
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Dims, Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_float, needs_rank, translates
from mlconverter.formats.tflite.to_onnx.windows import SAME, needs_strides, padding

IMAGE = channels_first(4)
OHWI_AS_OIHW = (0, 3, 1, 2)
DHWIO_AS_OIDHW = (4, 3, 0, 1, 2)
LAST_AXIS_FIRST = (3, 0, 1, 2)
"""A depthwise filter (1, H, W, C) as (C, 1, H, W), a transposed convolution's OHWI as IOHW."""

_CUSTOM_PADDING = {1: True, 2: False}
"""Whether ``TfLitePadding`` of a custom operator's options means SAME."""


def _known_channels(op: Op) -> str | None:
    channels, filters = op.dims(op.tensor(0))[3], op.tensor(1)
    if channels is None:
        return "the number of channels of its input is only known at run time"
    if channels % filters.shape[3 if op.key == "CONV_2D" else 0]:
        return f"{channels} channels and filters of shape {list(filters.shape)} do not fit"
    return None


_image_and_filters = all_of(needs_rank(4), needs_rank(4, index=1), needs_float, needs_strides, _known_channels)


@translates("CONV_2D", 1, 2, 3, 4, 5, 6, 7, 8, check=_image_and_filters)
def conv_2d(b: Builder, op: Op, image: Operand, filters: Operand, *bias: Operand) -> Stored:
    """CONV_2D → Conv (+ fused activation)."""
    groups = (image.dims[3] or 0) // (filters.dims[3] or 1)
    return _conv(b, op, image, b.ask(filters, OHWI_AS_OIHW, weight=True), *bias, groups=groups)


@translates("DEPTHWISE_CONV_2D", 1, 2, 3, 4, 5, 6, 7, check=_image_and_filters)
def depthwise_conv_2d(b: Builder, op: Op, image: Operand, filters: Operand, *bias: Operand) -> Stored:
    """DEPTHWISE_CONV_2D → Conv with a group for each input channel (+ fused activation)."""
    groups = image.dims[3]
    assert groups is not None
    return _conv(b, op, image, b.ask(filters, LAST_AXIS_FIRST, weight=True), *bias, groups=groups)


def _conv(b: Builder, op: Op, image: Operand, filters: ir.Value, *bias: Operand, groups: int) -> Stored:
    options = op.options
    kernel = list(op.tensor(1).shape[1:3])
    strides = [options.strideH, options.strideW]
    dilations = [options.dilationHFactor, options.dilationWFactor]
    value = b.emit(
        "Conv",
        b.ask(image, IMAGE),
        filters,
        *(b.ask(term, weight=True) for term in bias),
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        group=groups,
        **padding(options.padding == SAME, image.dims[1:3], kernel, strides, dilations),
    )
    return Stored(fused(b, value, options.fusedActivationFunction), IMAGE)


def _known_depth(op: Op) -> str | None:
    options = op.options
    if min(options.strideD, options.strideH, options.strideW) < 1:
        return f"strides {options.strideD} x {options.strideH} x {options.strideW}"
    return None


@translates("CONV_3D", 1, check=all_of(needs_rank(5), needs_rank(5, index=1), needs_float, _known_depth))
def conv_3d(b: Builder, op: Op, volume: Operand, filters: Operand, *bias: Operand) -> Stored:
    """CONV_3D → Conv (+ fused activation)."""
    options = op.options
    kernel = list(op.tensor(1).shape[:3])
    strides = [options.strideD, options.strideH, options.strideW]
    dilations = [options.dilationDFactor, options.dilationHFactor, options.dilationWFactor]
    order = channels_first(5)
    value = b.emit(
        "Conv",
        b.ask(volume, order),
        b.ask(filters, DHWIO_AS_OIDHW, weight=True),
        *(b.ask(term, weight=True) for term in bias),
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        **padding(options.padding == SAME, volume.dims[1:4], kernel, strides, dilations),
    )
    return Stored(fused(b, value, options.fusedActivationFunction), order)


def _known_output_size(op: Op) -> str | None:
    shape = op.constant(0)
    if shape is not None and shape.size != 4:
        return f"an output shape of {shape.size} numbers"
    if shape is None and None in op.out_dims[1:3]:
        return "its output size is only known at run time"
    return None


@translates(
    "TRANSPOSE_CONV",
    *(1, 2, 3, 4, 5),
    check=all_of(needs_rank(4, index=1), needs_rank(4, index=2), needs_strides, _known_output_size),
)
def transpose_conv(b: Builder, op: Op, output_shape: Operand, filters: Operand, *image_and_bias: Operand) -> Stored:
    """TRANSPOSE_CONV → ConvTranspose (+ fused activation)."""
    options = op.options
    shape = op.constant(0)
    size = [int(d) for d in shape[1:3]] if shape is not None else [d or 0 for d in op.out_dims[1:3]]
    image, *bias = image_and_bias
    window = _Window(size, [options.strideH, options.strideW], same=options.padding == SAME)
    value = _conv_transpose(b, window, image, _Filters(filters, filters.dims[1:3], LAST_AXIS_FIRST), *bias)
    return Stored(fused(b, value, options.fusedActivationFunction), IMAGE)


def _known_volume(op: Op) -> str | None:
    options = op.options
    if op.constant(0) is None and None in op.out_dims[1:4]:
        return "its output size is only known at run time"
    if (options.dilationDFactor, options.dilationHFactor, options.dilationWFactor) != (1, 1, 1):
        return "dilations, which LiteRT's kernel does not compute"
    return _known_depth(op)


@translates("CONV_3D_TRANSPOSE", 1, check=all_of(needs_rank(5, index=1), needs_rank(5, index=2), _known_volume))
def conv_3d_transpose(b: Builder, op: Op, output_shape: Operand, filters: Operand, *volume_and_bias: Operand) -> Stored:
    """CONV_3D_TRANSPOSE → ConvTranspose (+ fused activation)."""
    options, order = op.options, channels_first(5)
    shape = op.constant(0)
    size = [int(d) for d in shape[1:4]] if shape is not None else [d or 0 for d in op.out_dims[1:4]]
    volume, *bias = volume_and_bias
    window = _Window(size, [options.strideD, options.strideH, options.strideW], same=options.padding == SAME)
    value = _conv_transpose(b, window, volume, _Filters(filters, filters.dims[:3], DHWIO_AS_OIDHW), *bias)
    return Stored(fused(b, value, options.fusedActivationFunction), order)


def _transpose_conv_options(op: Op) -> str | None:
    options = op.operator.custom_options
    if len(options) < 12 or struct.unpack_from("<i", options)[0] not in _CUSTOM_PADDING:
        return f"options of {len(options)} bytes that are no TfLiteTransposeConvParams"
    return "its input size is only known at run time" if None in op.dims(op.tensor(0))[1:3] else None


@translates(
    "custom::Convolution2DTransposeBias",
    1,
    check=all_of(needs_rank(4), needs_rank(4, index=1), needs_float, _transpose_conv_options),
)
def convolution_2d_transpose_bias(b: Builder, op: Op, image: Operand, filters: Operand, *bias: Operand) -> Stored:
    """Convolution2DTransposeBias (MediaPipe) → ConvTranspose."""
    padding_number, stride_w, stride_h = struct.unpack_from("<iii", op.operator.custom_options)
    same, strides = _CUSTOM_PADDING[padding_number], [stride_h, stride_w]
    size: list[int] = []
    for length, kernel, stride in zip(image.dims[1:3], filters.dims[1:3], strides, strict=True):
        assert length is not None
        assert kernel is not None
        size.append((length - 1) * stride + kernel - (max(kernel - stride, 0) if same else 0))
    window = _Window(size, strides, same=same)
    return Stored(_conv_transpose(b, window, image, _Filters(filters, filters.dims[1:3], LAST_AXIS_FIRST), *bias), IMAGE)


@dataclass(frozen=True)
class _Window:
    """What a transposed convolution fills, and how it steps: the first spatial axis first."""

    size: Sequence[int]
    strides: Sequence[int]
    same: bool


@dataclass(frozen=True)
class _Filters:
    """The filters of a transposed convolution, their spatial sizes, and the order that ONNX wants them in."""

    operand: Operand
    sizes: Dims
    order: Order


def _conv_transpose(b: Builder, window: _Window, image: Operand, filters: _Filters, *bias: Operand) -> ir.Value:
    """A transposed convolution that fills exactly the size that is said.

    TFLite pads as the convolution would that maps the output back onto the input. What lies beyond the size is cut
    by the pad at the end; what the input does not reach is filled by output padding.
    """
    begin, end, extra = [], [], []
    kernel = [d or 0 for d in filters.sizes]
    for length, out, extent, stride in zip(image.dims[1:-1], window.size, kernel, window.strides, strict=True):
        # Where the size that is said does not fit the input, its convolution has another number of positions.
        forward = -(-out // stride) if window.same else -(-(out - extent + 1) // stride)
        before = max((forward - 1) * stride + extent - out, 0) // 2
        after = ((forward if length is None else length) - 1) * stride + extent - before - out
        begin.append(before)
        end.append(max(after, 0))
        extra.append(max(-after, 0))
    return b.emit(
        "ConvTranspose",
        b.ask(image, channels_first(image.rank)),
        b.ask(filters.operand, filters.order, weight=True),
        *(b.ask(term, weight=True) for term in bias),
        kernel_shape=kernel,
        strides=list(window.strides),
        pads=[*begin, *end],
        **({"output_padding": extra} if any(extra) else {}),
    )
