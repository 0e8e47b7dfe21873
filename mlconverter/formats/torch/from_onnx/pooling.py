"""Pooling over spatial axes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.convolution import spatial_pads
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Tensor
from mlconverter.hub.nodes import Call

MAX_POOLS: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGE_POOLS: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _check_pool(call: Call) -> str | None:
    if len(call.attributes["kernel_shape"]) not in MAX_POOLS:
        return f"pooling over {len(call.attributes['kernel_shape'])} axes has no counterpart in torch"
    return None


def _check_max_pool(call: Call) -> str | None:
    return "storage_order=1 numbers positions column by column" if call.attributes.get("storage_order") else _check_pool(call)


@translates("MaxPool", 1, 8, 10, 11, 12, 22, check=_check_max_pool)
def max_pool(
    g: Builder,
    x: Tensor,
    *,
    kernel_shape: list[int],
    auto_pad: str,
    ceil_mode: int = 0,
    storage_order: int = 0,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
) -> Any:
    """MaxPool → F.max_pool1d, 2d or 3d, padded with the lowest value where torch's own padding cannot say it."""
    rank = len(kernel_shape)
    stride, dilation = tuple(strides or [1] * rank), tuple(dilations or [1] * rank)
    begins, ends = spatial_pads(None if auto_pad == "VALID" else pads, rank)
    assert g.node is not None
    wants_indices = len(g.node.outputs) > 1 and bool(g.node.outputs[1].uses() or g.node.outputs[1].is_graph_output())
    torch_can = begins == ends and all(2 * b <= k for b, k in zip(begins, kernel_shape, strict=True)) and x.dtype.is_floating_point
    padded = (x, tuple(kernel_shape), stride, dilation, begins, ends, auto_pad, bool(ceil_mode))
    if wants_indices:
        y = g.call(runtime.max_pool_with_indices, *padded)
        return y[0], y[1]
    if auto_pad in ("SAME_UPPER", "SAME_LOWER") or not torch_can:
        return g.call(runtime.max_pool_padded, *padded)
    return MAX_POOLS[rank](x, tuple(kernel_shape), stride, tuple(begins), dilation, bool(ceil_mode))


@translates("AveragePool", 1, 7, 10, 11, 19, 22, check=_check_pool)
def average_pool(
    g: Builder,
    x: Tensor,
    *,
    kernel_shape: list[int],
    auto_pad: str,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
) -> Any:
    """AveragePool → F.avg_pool1d, 2d or 3d; sums over counts where torch counts otherwise."""
    rank = len(kernel_shape)
    stride, dilation = tuple(strides or [1] * rank), tuple(dilations or [1] * rank)
    begins, ends = spatial_pads(None if auto_pad == "VALID" else pads, rank)
    plain = auto_pad in ("NOTSET", "VALID") and begins == ends and set(dilation) == {1} and not ceil_mode
    if plain and all(2 * b <= k for b, k in zip(begins, kernel_shape, strict=True)):
        return AVERAGE_POOLS[rank](x, tuple(kernel_shape), stride, tuple(begins), False, bool(count_include_pad))
    return g.call(
        runtime.average_pool, x, tuple(kernel_shape), stride, dilation, begins, ends, auto_pad, bool(ceil_mode), bool(count_include_pad)
    )


@translates("GlobalAveragePool", 1, 22)
def global_average_pool(g: Builder, x: Tensor) -> Tensor:
    """GlobalAveragePool → mean over the spatial axes."""
    return x.mean(tuple(range(2, x.ndim)), keepdim=True)


@translates("GlobalMaxPool", 1, 22)
def global_max_pool(g: Builder, x: Tensor) -> Tensor:
    """GlobalMaxPool → amax over the spatial axes."""
    return torch.amax(x, tuple(range(2, x.ndim)), keepdim=True)

