"""Pooling over spatial axes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.convolution import spatial_pads
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Ints, Tensor
from mlconverter.hub.nodes import Call

MAX_POOLS: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGE_POOLS: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _check_pool(call: Call) -> str | None:
    if len(call.attributes["kernel_shape"]) not in MAX_POOLS:
        return f"pooling over {len(call.attributes['kernel_shape'])} axes has no counterpart in torch"
    return None


def _symmetric(begins: list[int], ends: list[int], kernel: list[int]) -> bool:
    """Whether torch's pooling takes the pads: alike at both ends, and no more than half a window."""
    return begins == ends and all(0 <= 2 * b <= k for b, k in zip(begins, kernel, strict=True))


@translates("MaxPool", 1, 8, 10, 11, 12, 22, check=_check_pool)
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
    torch_can = x.is_floating_point() and _symmetric(begins, ends, kernel_shape)
    padded = (x, tuple(kernel_shape), stride, dilation, begins, ends, auto_pad, bool(ceil_mode))
    if g.is_read(1):
        y = g.call(runtime.max_pool_with_indices, *padded, bool(storage_order))
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
    plain = auto_pad in ("NOTSET", "VALID") and set(dilation) == {1} and not ceil_mode
    if plain and _symmetric(begins, ends, kernel_shape):
        return AVERAGE_POOLS[rank](x, tuple(kernel_shape), stride, tuple(begins), False, bool(count_include_pad))
    padded = (x, tuple(kernel_shape), stride, dilation, begins, ends, auto_pad, bool(ceil_mode))
    return g.call(runtime.average_pool, *padded, bool(count_include_pad))


@translates("GlobalAveragePool", 1, 22)
def global_average_pool(g: Builder, x: Tensor) -> Tensor:
    """GlobalAveragePool → mean over the spatial axes."""
    return x.mean(tuple(range(2, x.ndim)), keepdim=True) if x.ndim > 2 else x


@translates("GlobalMaxPool", 1, 22)
def global_max_pool(g: Builder, x: Tensor) -> Tensor:
    """GlobalMaxPool → amax over the spatial axes."""
    return torch.amax(x, tuple(range(2, x.ndim)), keepdim=True) if x.ndim > 2 else x


@translates("GlobalLpPool", 2, 22)
def global_lp_pool(g: Builder, x: Tensor, *, p: int) -> Any:
    """GlobalLpPool → torch.linalg.vector_norm over the spatial axes."""
    return torch.linalg.vector_norm(x, p, tuple(range(2, x.ndim)), keepdim=True)


@translates("LpPool", 2, 11, 18, 22, check=_check_pool)
def lp_pool(
    g: Builder,
    x: Tensor,
    *,
    kernel_shape: list[int],
    auto_pad: str,
    p: int,
    ceil_mode: int = 0,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
) -> Any:
    """LpPool → the p-norm of each window."""
    rank = len(kernel_shape)
    stride, dilation = tuple(strides or [1] * rank), tuple(dilations or [1] * rank)
    begins, ends = spatial_pads(None if auto_pad == "VALID" else pads, rank)
    return g.call(runtime.lp_pool, x, tuple(kernel_shape), stride, dilation, begins, ends, auto_pad, bool(ceil_mode), p)


@translates("MaxUnpool", 9, 11, 22, check=_check_pool)
def max_unpool(
    g: Builder,
    x: Tensor,
    indices: Tensor,
    output_shape: Ints | Tensor | None = None,
    *,
    kernel_shape: list[int],
    strides: list[int] | None = None,
    pads: list[int] | None = None,
) -> Tensor:
    """MaxUnpool → zeros.scatter at the indices of MaxPool, filled up with zeros to the output shape."""
    rank = len(kernel_shape)
    begins, ends = spatial_pads(pads, rank)
    both = [b + e for b, e in zip(begins, ends, strict=True)]
    return g.call(runtime.max_unpool, x, indices, output_shape, tuple(kernel_shape), tuple(strides or [1] * rank), both)
