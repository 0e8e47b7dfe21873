"""What torch's exporter writes wrongly, written right: its own translations of these operators leave an argument out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import inf, prod
from typing import Any

import torch

from mlconverter.errors import ConversionError

_NEUTRAL = {"amax": (-inf, "max"), "amin": (inf, "min")}
"""What loses against every value, and the reduction that it loses in."""


@cache
def corrections() -> Mapping[Callable[..., Any], Callable[..., Any]]:
    """A translation for each such operator, for ``torch.onnx.export(custom_translation_table=…)``."""
    aten = torch.ops.aten
    pools = {aten.avg_pool2d.default: 2, aten.avg_pool3d.default: 3}
    return {
        aten.scatter_reduce.two: _scatter_reduce,
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
