"""Quantised values. Quantising followed by dequantising trains as fake quantisation, gradients passing straight through."""

from __future__ import annotations

from typing import Any, cast

import onnx_ir as ir
import torch
from torch import fx

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.translate import Merged
from mlconverter.formats.torch.from_onnx.values import DTYPES, INTEGERS, Const, Tensor, dtype_of
from mlconverter.formats.torch.runner import QUANTIZED_KEY
from mlconverter.hub.io import numpy_name
from mlconverter.hub.quantised_pairs import undoes

_VERSIONS = (10, 13, 19, 21, 23, 24, 25, 28)


@translates("QuantizeLinear", *_VERSIONS)
def quantize_linear(
    g: Builder,
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    saturate: int = 1,
    output_dtype: int = 0,
    precision: int = 0,
) -> Any:
    """QuantizeLinear → rounded quotients within the integer type; with DequantizeLinear behind it, fake quantisation."""
    assert g.node is not None
    name = numpy_name(g.node.outputs[0].dtype)
    grid = g.call(runtime.Grid, axis, block_size, _dtype(precision) or dtype_of(scale) or torch.float32)
    if name not in INTEGERS:
        return g.call(runtime.quantize_to_float, x, scale, zero, grid, DTYPES[name], bool(saturate))
    low, high = INTEGERS[name].low, INTEGERS[name].high
    settings = (x, scale, zero, grid, low, high, DTYPES[name])
    readers = g.readers()
    fake = readers and not precision and x.dtype == dtype_of(scale) and all(undoes(reader, g.node) for reader in readers)
    result = g.call(runtime.fake_quantize if fake else runtime.quantize, *settings)
    cast("fx.Proxy", result).node.meta[QUANTIZED_KEY] = g.node.outputs[0].name
    return Merged(result, tuple(readers)) if fake else result


@translates("DequantizeLinear", *_VERSIONS)
def dequantize_linear(
    g: Builder,
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Any:
    """DequantizeLinear → differences to the zero point, times the scale."""
    grid = g.call(runtime.Grid, axis, block_size, _dtype(output_dtype) or dtype_of(scale) or torch.float32)
    return g.call(runtime.dequantize, x, scale, zero, grid)


def _dtype(number: int) -> torch.dtype | None:
    return DTYPES[numpy_name(ir.DataType(number))] if number else None


@translates("DynamicQuantizeLinear", 11)
def dynamic_quantize_linear(g: Builder, x: Tensor) -> Any:
    """DynamicQuantizeLinear → a scale and zero point from the extremes, and the values quantised by them."""
    results = g.call(runtime.dynamic_quantize, x)
    return results[0], results[1], results[2]


@translates("MatMulInteger", 10)
def matmul_integer(g: Builder, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Any:
    """MatMulInteger → a product of integers, exact in double precision."""
    return g.call(runtime.integer_matmul, a, b, a_zero, b_zero)


@translates("QLinearMatMul", 10, 21)
def qlinear_matmul(
    g: Builder,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
) -> Any:
    """QLinearMatMul → a product of integers, rescaled and rounded."""
    product = g.call(runtime.integer_matmul, a, b, a_zero, b_zero)
    return _rescaled(g, product, a_scale, b_scale, scale, zero, None)


def _rescaled(g: Builder, total: Any, a: Tensor, b: Tensor, scale: Tensor, zero: Tensor, channels: int | None) -> Any:
    assert g.node is not None
    name = numpy_name(g.node.outputs[0].dtype)
    return g.call(runtime.rescale, total, a, b, scale, zero, channels, INTEGERS[name].low, INTEGERS[name].high, DTYPES[name])


@translates("ConvInteger", 10)
def conv_integer(
    g: Builder, x: Tensor, w: Const | Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, **attributes: Any
) -> Any:
    """ConvInteger → a convolution of integers, exact in double precision."""
    return _integer_conv(g, x, w, x_zero, w_zero, None, attributes)


@translates("QLinearConv", 10)
def qlinear_conv(
    g: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Const | Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
    bias: Tensor | None = None,
    **attributes: Any,
) -> Any:
    """QLinearConv → a convolution of integers, rescaled and rounded."""
    total = _integer_conv(g, x, w, x_zero, w_zero, bias, attributes)
    return _rescaled(g, total, x_scale, w_scale, scale, zero, x.ndim - 2)


def _integer_conv(
    g: Builder, x: Tensor, w: Const | Tensor, x_zero: Any, w_zero: Any, bias: Any, attributes: dict[str, Any]
) -> Any:
    given = tuple(w.value.shape) if isinstance(w, Const) else w.shape
    kernel = attributes.get("kernel_shape") or [int(s) for s in given[2:]]
    rank = len(kernel)
    return g.call(
        runtime.integer_conv,
        x,
        g.tensor(w),
        x_zero,
        w_zero,
        bias,
        tuple(attributes.get("strides") or [1] * rank),
        tuple(attributes.get("pads") or [0] * 2 * rank),
        tuple(attributes.get("dilations") or [1] * rank),
        attributes.get("group", 1),
        attributes.get("auto_pad", "NOTSET"),
    )
