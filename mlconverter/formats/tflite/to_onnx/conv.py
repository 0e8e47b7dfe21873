"""Convolutions. They ask for images channels-first and for filters as ONNX stores them; both are only axis orders."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import onnx_ir as ir

from mlconverter.formats.tflite.layout import channels_first
from mlconverter.formats.tflite.to_onnx.activations import fused
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_float, needs_rank, translates
from mlconverter.formats.tflite.to_onnx.windows import SAME, needs_strides, padding

IMAGE = channels_first(4)
OHWI_AS_OIHW = (0, 3, 1, 2)
LAST_AXIS_FIRST = (3, 0, 1, 2)
"""A depthwise filter (1, H, W, C) as (C, 1, H, W), a transposed convolution's OHWI as IOHW."""

_CUSTOM_PADDING = {1: True, 2: False}
"""Whether ``TfLitePadding`` of a custom operator's options means SAME."""


def _known_channels(op: Op) -> str | None:
    image, filters = op.inputs[:2]
    assert image is not None and filters is not None
    channels = op.dims(image)[3]
    if channels is None:
        return "the number of channels of its input is only known at run time"
    if channels % filters.shape[3 if op.key == "CONV_2D" else 0]:
        return f"{channels} channels and filters of shape {list(filters.shape)} do not fit"
    return None


_image_and_filters = all_of(needs_rank(4), needs_rank(4, index=1), needs_float, needs_strides, _known_channels)


@translates("CONV_2D", 1, 2, 3, 4, 5, 6, 7, 8, check=_image_and_filters)
def conv_2d(b: Builder, op: Op, image: Operand, filters: Operand, bias: Operand | None = None) -> Stored:
    """CONV_2D → Conv (+ fused activation)."""
    channels, filter_channels = image.dims[3], filters.dims[3]
    assert channels is not None and filter_channels is not None
    return _conv(b, op, image, filters, OHWI_AS_OIHW, bias, groups=channels // filter_channels)


@translates("DEPTHWISE_CONV_2D", 1, 2, 3, 4, 5, 6, 7, check=_image_and_filters)
def depthwise_conv_2d(b: Builder, op: Op, image: Operand, filters: Operand, bias: Operand | None = None) -> Stored:
    """DEPTHWISE_CONV_2D → Conv with a group for each input channel (+ fused activation)."""
    groups = image.dims[3]
    assert groups is not None
    return _conv(b, op, image, filters, LAST_AXIS_FIRST, bias, groups=groups)


def _conv(
    b: Builder, op: Op, image: Operand, filters: Operand, order: tuple[int, ...], bias: Operand | None, groups: int
) -> Stored:
    options = op.options
    kernel = [d or 0 for d in filters.dims[1:3]]
    strides = [options.strideH, options.strideW]
    dilations = [options.dilationHFactor, options.dilationWFactor]
    value = b.emit(
        "Conv",
        b.ask(image, IMAGE),
        b.ask(filters, order, weight=True),
        *_bias(b, bias),
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        group=groups,
        **padding(options.padding == SAME, image.dims[1:3], kernel, strides, dilations),
    )
    return Stored(fused(b, value, options.fusedActivationFunction), IMAGE)


def _bias(b: Builder, bias: Operand | None) -> tuple[ir.Value, ...]:
    return () if bias is None else (b.ask(bias, weight=True),)


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
def transpose_conv(
    b: Builder, op: Op, output_shape: Operand, filters: Operand, image: Operand, bias: Operand | None = None
) -> Stored:
    """TRANSPOSE_CONV → ConvTranspose (+ fused activation)."""
    options = op.options
    shape = op.constant(0)
    size = [int(d) for d in shape[1:3]] if shape is not None else [d or 0 for d in op.out_dims[1:3]]
    value = _conv_transpose(
        b, image, filters, bias, size, [options.strideH, options.strideW], same=options.padding == SAME
    )
    return Stored(fused(b, value, options.fusedActivationFunction), IMAGE)


def _transpose_conv_options(op: Op) -> str | None:
    options = op.operator.custom_options
    if len(options) < 12 or struct.unpack_from("<i", options)[0] not in _CUSTOM_PADDING:
        return f"options of {len(options)} bytes that are no TfLiteTransposeConvParams"
    return "its input size is only known at run time" if op.inputs[0] and None in op.dims(op.inputs[0])[1:3] else None


@translates(
    "custom::Convolution2DTransposeBias",
    1,
    check=all_of(needs_rank(4), needs_rank(4, index=1), needs_float, _transpose_conv_options),
)
def convolution_2d_transpose_bias(b: Builder, op: Op, image: Operand, filters: Operand, bias: Operand) -> Stored:
    """Convolution2DTransposeBias (MediaPipe) → ConvTranspose."""
    padding_number, stride_w, stride_h = struct.unpack_from("<iii", op.operator.custom_options)
    same, strides = _CUSTOM_PADDING[padding_number], [stride_h, stride_w]
    size = []
    for length, kernel, stride in zip(image.dims[1:3], filters.dims[1:3], strides, strict=True):
        assert length is not None and kernel is not None
        size.append((length - 1) * stride + kernel - (max(kernel - stride, 0) if same else 0))
    return Stored(_conv_transpose(b, image, filters, bias, size, strides, same=same), IMAGE)


def _conv_transpose(
    b: Builder,
    image: Operand,
    filters: Operand,
    bias: Operand | None,
    size: Sequence[int],
    strides: Sequence[int],
    *,
    same: bool,
) -> ir.Value:
    """A transposed convolution that fills exactly ``size``.

    TFLite pads as the convolution would that maps the output back onto the input. What lies beyond ``size`` is cut
    by the pad at the end; what the input does not reach is filled by output padding.
    """
    begin, end, extra = [], [], []
    for length, out, kernel, stride in zip(image.dims[1:3], size, filters.dims[1:3], strides, strict=True):
        assert kernel is not None
        positions = length if length is not None else -(-out // stride)
        # The forward convolution's positions, which are fewer than the input's where a size is said that does not fit.
        forward = -(-out // stride) if same else -(-(out - kernel + 1) // stride)
        before = max((forward - 1) * stride + kernel - out, 0) // 2
        after = (positions - 1) * stride + kernel - before - out
        begin.append(before)
        end.append(max(after, 0))
        extra.append(max(-after, 0))
    attributes = {"output_padding": extra} if any(extra) else {}
    return b.emit(
        "ConvTranspose",
        b.ask(image, IMAGE),
        b.ask(filters, LAST_AXIS_FIRST, weight=True),
        *_bias(b, bias),
        kernel_shape=[d or 0 for d in filters.dims[1:3]],
        strides=list(strides),
        pads=[*begin, *end],
        **attributes,
    )
