"""Quantised values: integers, with a scale and a zero point for a tensor, an axis, or blocks along one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from mlconverter.formats.torch.from_onnx.runtime.narrow import to_float4


@dataclass(frozen=True)
class Grid:
    """How scales and zero points belong to values.

    Attributes:
        axis: that a one-dimensional scale, or blocks, lie along.
        block: values of one block, 0 where there are no blocks.
        dtype: in which quotients and products are computed.
    """

    axis: int
    block: int
    dtype: torch.dtype

    def spread(self, setting: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Scales or zero points as they broadcast with ``x``."""
        if setting.numel() == 1 and not self.block:
            return setting.reshape(())
        axis = self.axis % x.dim()
        if setting.dim() == 1 and not self.block:
            return setting.reshape([-1 if a == axis else 1 for a in range(x.dim())])
        repeated = setting.view(torch.uint8) if setting.dtype.itemsize == 1 else setting  # not every narrow float is repeated
        return repeated.repeat_interleave(self.block, axis).narrow(axis, 0, x.shape[axis]).view(setting.dtype)


def _steps(x: torch.Tensor, scale: torch.Tensor, grid: Grid) -> torch.Tensor:
    """Values in steps of their scale."""
    return x.to(grid.dtype) / grid.spread(scale, x).to(grid.dtype)


def _rounded(steps: torch.Tensor, zero: torch.Tensor | None, x: torch.Tensor, grid: Grid, low: int, high: int) -> torch.Tensor:
    """The nearest integers, ties to even ones, above the zero point and inside of the range."""
    whole = torch.round(steps).to(torch.float64 if max(-low, high) >= 1 << 16 else torch.float32)
    return torch.clamp(whole if zero is None else whole + grid.spread(zero, x).to(whole.dtype), low, high)


def quantize(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None, grid: Grid, low: int, high: int, dtype: torch.dtype
) -> torch.Tensor:
    """ONNX ``QuantizeLinear`` to integers."""
    return _rounded(_steps(x, scale, grid), zero, x, grid, low, high).to(dtype)


def quantize_to_float(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None, grid: Grid, dtype: torch.dtype, saturate: bool
) -> torch.Tensor:
    """ONNX ``QuantizeLinear`` to narrow floats; the one of four bits is carried in single precision."""
    steps = _steps(x, scale, grid)
    steps = steps if zero is None else steps + grid.spread(zero, x).to(steps.dtype)
    if dtype is torch.float32:
        return to_float4(steps)
    if saturate:
        limit = torch.finfo(dtype).max
        steps = steps.clamp(-limit, limit)
    return steps.to(dtype)


def dequantize(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None, grid: Grid) -> torch.Tensor:
    """ONNX ``DequantizeLinear``."""
    wide = x.to(torch.int64 if x.dtype is torch.int32 else grid.dtype)
    difference = wide if zero is None else wide - grid.spread(zero, x).to(wide.dtype)
    return difference.to(grid.dtype) * grid.spread(scale, x).to(grid.dtype)


def fake_quantize(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None, grid: Grid, low: int, high: int, dtype: torch.dtype
) -> torch.Tensor:
    """Quantised and dequantised; gradients pass straight through inside of the range, and are zero outside of it."""
    seen = dequantize(quantize(x.detach(), scale, zero, grid, low, high, dtype), scale, zero, grid).detach()
    step, offset = grid.spread(scale, x).to(grid.dtype), 0 if zero is None else grid.spread(zero, x).to(grid.dtype)
    inside = x.clamp((low - offset) * step, (high - offset) * step)
    return seen + (inside - inside.detach())


def dynamic_quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """ONNX ``DynamicQuantizeLinear``: to eight bits without a sign, a range that holds zero."""
    low, high = x.min().clamp(max=0), x.max().clamp(min=0)
    scale = (high - low) / 255
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    zero = torch.round((-low / scale).clamp(0, 255))
    return (torch.round(x / scale) + zero).clamp(0, 255).to(torch.uint8), scale, zero.to(torch.uint8)


def _centred(x: torch.Tensor, zero: torch.Tensor | None, axis: int) -> torch.Tensor:
    """Differences to the zero point, of all or of each index along an axis, in a precision that holds their sums exactly."""
    wide = x.to(torch.float64)
    if zero is None:
        return wide
    if zero.dim() == 1 and zero.numel() > 1:
        zero = zero.reshape([-1 if a == axis % x.dim() else 1 for a in range(x.dim())])
    return wide - (zero.reshape(()) if zero.numel() == 1 else zero).to(torch.float64)


def integer_matmul(a: torch.Tensor, b: torch.Tensor, a_zero: torch.Tensor | None, b_zero: torch.Tensor | None) -> torch.Tensor:
    """ONNX ``MatMulInteger``."""
    rows, columns = -2 if a.dim() > 1 else -1, -1
    return torch.matmul(_centred(a, a_zero, rows), _centred(b, b_zero, columns)).to(torch.int32)


def integer_conv(
    x: torch.Tensor,
    w: torch.Tensor,
    x_zero: torch.Tensor | None,
    w_zero: torch.Tensor | None,
    bias: torch.Tensor | None,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    auto_pad: str,
) -> torch.Tensor:
    """ONNX ``ConvInteger``; what is padded is the zero point."""
    rank = w.dim() - 2
    before, after = list(pads[:rank]), list(pads[rank:])
    if auto_pad.startswith("SAME"):
        for i in range(rank):
            size, extent = x.shape[2 + i], (w.shape[2 + i] - 1) * dilations[i] + 1
            total = max(0, (-(-size // strides[i]) - 1) * strides[i] + extent - size)
            before[i] = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            after[i] = total - before[i]
    padding = [p for pair in zip(reversed(before), reversed(after), strict=True) for p in pair]
    values = F.pad(_centred(x, x_zero, 1), padding)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    sums = convolve(values, _centred(w, w_zero, 0), None, tuple(strides), 0, tuple(dilations), groups)
    sums = sums if bias is None else sums + bias.to(sums.dtype).reshape([-1] + [1] * rank)
    return sums.to(torch.int32)


def rescale(
    total: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor,
    channels: int | None,
    low: int,
    high: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Sums of products of quantised values, quantised again.

    Args:
        total: the sums.
        a: scale of the one operand, of all or of each row.
        b: scale of the other, of all or of each column or output channel.
        scale: of the result.
        zero: of the result.
        channels: how many axes stand behind the channels, ``None`` where columns are the last axis.
        low: smallest number of the result's type.
        high: largest.
        dtype: of the result.
    """
    if b.numel() > 1 and channels is not None:
        b = b.reshape([-1] + [1] * channels)
    if a.dim() == 1 and a.numel() > 1:
        a = a.unsqueeze(-1)
    factor = a.float() * b.float() / scale.float()
    whole = torch.round(total.float() * factor) + zero.float()
    return whole.clamp(low, high).to(dtype)
