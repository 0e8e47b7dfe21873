"""What torch's exporter writes wrongly, in a roundabout way, or not at all, written right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import inf, prod, sqrt
from typing import Any

import torch

from mlconverter.errors import ConversionError

_BOOL = 9
"""ONNX's number of the element type."""

_NEUTRAL = {"amax": (-inf, "max"), "amin": (inf, "min")}
"""What loses against every value, and the reduction that it loses in."""


@cache
def corrections() -> Mapping[Callable[..., Any], Callable[..., Any]]:
    """A translation for each such operator, for ``torch.onnx.export(custom_translation_table=…)``."""
    aten = torch.ops.aten
    pools = {aten.avg_pool2d.default: 2, aten.avg_pool3d.default: 3}
    return {
        aten.scatter_reduce.two: _scatter_reduce,
        aten.scaled_dot_product_attention.default: _attention,
        **{overload: _average_pool(rank) for overload, rank in pools.items()},
    }


def _operators() -> Any:
    """Of ONNX, as the exporter's own translations call them."""
    from onnxscript import opset18

    return opset18


def _scatter_reduce(self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Any:
    """Means are sums over counts, for ONNX has no mean; the largest of what is put may be infinite."""
    from onnxscript.function_libs.torch_lib.ops.core import aten_scatter_reduce

    op = _operators()
    real, alone = self.dtype.is_floating_point(), not include_self
    if reduce != "mean" and not (reduce in _NEUTRAL and alone and real):
        return aten_scatter_reduce(self, dim, index, src, reduce, include_self)
    if not real:
        raise ConversionError("how a mean of integers is rounded has no counterpart in ONNX")
    if len(self.shape) == 0:
        raise ConversionError("ONNX puts nothing into a single number")
    if reduce in _NEUTRAL:
        neutral, reduction = _NEUTRAL[reduce]
        values = op.Expand(op.CastLike(op.Constant(value_float=neutral), self), op.Shape(src))
        cleared = op.ScatterElements(self, index, values, axis=dim)
        return op.ScatterElements(cleared, index, src, axis=dim, reduction=reduction)
    one, zero = op.CastLike(op.Constant(value_float=1.0), self), op.CastLike(op.Constant(value_float=0.0), self)
    ones, none = op.Expand(one, op.Shape(src)), op.Expand(zero, op.Shape(self))
    first, itself = (none, none) if alone else (self, op.Expand(one, op.Shape(self)))
    total = op.ScatterElements(first, index, src, axis=dim, reduction="add")
    count = op.ScatterElements(itself, index, ones, axis=dim, reduction="add")
    return op.Where(op.Equal(count, zero), self, op.Div(total, op.Max(count, one)))


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """``softmax(q · scale · kᵀ + mask) v`` for any rank; of a row that a mask hides whole, nothing is left.

    The exporter's own translation knows four axes alone, swaps those of the keys by two reshapes, and hides by the lowest
    number, which leaves an equal part of everything in a row that is hidden whole.
    """
    from onnxscript.function_libs.torch_lib.ops import nn

    op = _operators()
    rank = len(key.shape)
    if rank < 2 or len(query.shape) != rank or len(value.shape) != rank:
        raise ConversionError("attention between tensors of different ranks")
    if enable_gqa and query.shape[1] != key.shape[1]:
        key, value = nn._attention_repeat_kv_for_group_query(query, key, value)
    number = 1 / sqrt(query.shape[-1]) if scale is None and isinstance(query.shape[-1], int) else scale
    factor = nn._attention_scale(query) if number is None else op.CastLike(op.Constant(value_float=number), query)
    perm = [*range(rank - 2), rank - 1, rank - 2]
    scores = op.MatMul(op.Mul(query, factor), op.Transpose(key, perm=perm))
    if is_causal:
        length, keys = op.Shape(query, start=rank - 2, end=rank - 1), op.Shape(key, start=rank - 2, end=rank - 1)
        ones = op.Expand(op.Constant(value_float=1.0), op.Concat(length, keys, axis=0))
        attn_mask = op.Cast(op.Trilu(ones, upper=0), to=_BOOL)
    hides = attn_mask is not None and (is_causal or attn_mask.dtype == _BOOL)
    zero = op.CastLike(op.Constant(value_float=0.0), query)
    if hides:
        attn_mask = op.Where(attn_mask, zero, op.CastLike(op.Constant(value_float=-inf), query))
    weights = op.Softmax(scores if attn_mask is None else op.Add(scores, attn_mask), axis=-1)
    if hides and not is_causal:
        weights = op.Where(op.IsNaN(weights), zero, weights)
    return op.MatMul(weights, value)


def _average_pool(rank: int) -> Callable[..., Any]:
    def average_pool(
        self: Any,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        """A divisor of one's own is a factor on the mean over whole windows."""
        from onnxscript.function_libs.torch_lib.ops import nn

        op = _operators()
        translated = {2: nn.aten_avg_pool2d, 3: nn.aten_avg_pool3d}[rank]
        if divisor_override is None:
            return translated(self, kernel_size, stride, padding, ceil_mode, count_include_pad)
        if ceil_mode:
            raise ConversionError("windows that are cut off at the end have no divisor of one's own in ONNX")
        size = prod(kernel_size) if len(kernel_size) == rank else kernel_size[0] ** rank
        mean = translated(self, kernel_size, stride, padding, False, True)
        return op.Mul(mean, op.CastLike(op.Constant(value_float=size / divisor_override), self))

    return average_pool
