"""Windows over spatial axes: padding as ONNX computes it, and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F


def pad_same(
    x: torch.Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], upper: bool, value: float
) -> torch.Tensor:
    """Pad spatial axes so that the output has ``ceil(size / stride)`` elements; an odd one goes to the end if ``upper``."""
    pads: list[int] = []
    for axis, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True)):
        size = x.shape[axis + 2]
        total = max(0, (math.ceil(size / s) - 1) * s + (k - 1) * d + 1 - size)
        small, large = total // 2, total - total // 2
        pads = [*((small, large) if upper else (large, small)), *pads]
    return F.pad(x, pads, value=value)


def halves(beyond: Sequence[int], upper: bool) -> tuple[list[int], list[int]]:
    """What is cut off the begin and the end of each axis to lose so many elements; the odd one at the end if ``upper``."""
    small, large = [max(b, 0) // 2 for b in beyond], [max(b, 0) - max(b, 0) // 2 for b in beyond]
    return (small, large) if upper else (large, small)


def conv_transpose_to(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    wanted: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    extra: Sequence[int],
    group: int,
    upper: bool,
) -> torch.Tensor:
    """ConvTranspose of a given size: what the kernel reaches beyond it is cut off, what it does not reach is empty."""
    shape = zip(x.shape[2:], weight.shape[2:], stride, dilation, extra, wanted, strict=True)
    beyond = [(n - 1) * s + (k - 1) * d + 1 + e - w for n, k, s, d, e, w in shape]
    begins, ends = halves(beyond, upper)
    more = [e - min(b, 0) for e, b in zip(extra, beyond, strict=True)]
    convolve = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[len(stride)]
    y = convolve(x, weight, bias, tuple(stride), 0, tuple(more), group, tuple(dilation))
    return F.pad(y, _flat([-b for b in begins], [-e for e in ends]))


def _pads(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    begins: Sequence[int],
    ends: Sequence[int],
    auto_pad: str,
    ceil_mode: bool,
) -> tuple[list[int], list[int], list[int]]:
    """Begins, ends, and how many positions the last window of each axis reaches beyond them (ceil mode)."""
    begins, ends = list(begins), list(ends)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        for axis, (n, k, s, d) in enumerate(zip(sizes, kernel, stride, dilation, strict=True)):
            total = max(0, (math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n)
            small, large = total // 2, total - total // 2
            begins[axis], ends[axis] = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
    beyond = [0] * len(begins)
    if ceil_mode:
        for axis, (n, k, s, d) in enumerate(zip(sizes, kernel, stride, dilation, strict=True)):
            reach = (k - 1) * d + 1
            span = n + begins[axis] + ends[axis]
            count = math.ceil((span - reach) / s) + 1
            if (count - 1) * s >= n + begins[axis]:
                count -= 1  # a window must start inside the input or its leading padding
            beyond[axis] = max(0, (count - 1) * s + reach - span)
    return begins, ends, beyond


def _flat(begins: Sequence[int], ends: Sequence[int]) -> list[int]:
    return [p for pair in reversed(list(zip(begins, ends, strict=True))) for p in pair]


def max_pool_padded(
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    begins: Sequence[int],
    ends: Sequence[int],
    auto_pad: str,
    ceil_mode: bool,
) -> torch.Tensor:
    """MaxPool over any padding: positions outside the input have the lowest value of the dtype."""
    begins, ends, beyond = _pads(x.shape[2:], kernel, stride, dilation, begins, ends, auto_pad, ceil_mode)
    lowest = float("-inf") if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    padded = F.pad(x, _flat(begins, [e + b for e, b in zip(ends, beyond, strict=True)]), value=lowest)
    if not padded.dtype.is_floating_point:
        # Torch pools integers on some devices only; windows as a view work everywhere.
        for axis, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True)):
            windows = padded.unfold(axis + 2, (k - 1) * d + 1, s)
            padded = windows[..., ::d].amax(-1)
        return padded
    pool = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[len(kernel)]
    return pool(padded, tuple(kernel), tuple(stride), 0, tuple(dilation))


def max_pool_with_indices(
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    begins: Sequence[int],
    ends: Sequence[int],
    auto_pad: str,
    ceil_mode: bool,
    column_major: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """MaxPool and the position of each maximum in the flattened input, batch and channel included.

    ``column_major`` numbers the spatial positions with the first spatial axis running fastest.
    """
    begins, ends, beyond = _pads(x.shape[2:], kernel, stride, dilation, begins, ends, auto_pad, ceil_mode)
    flat = _flat(begins, [e + b for e, b in zip(ends, beyond, strict=True)])
    positions = torch.arange(x.numel(), device=x.device)
    if column_major:
        backwards = list(range(x.dim() - 1, 1, -1))
        positions = positions.reshape([*x.shape[:2], *(x.shape[a] for a in backwards)]).permute(0, 1, *backwards)
    else:
        positions = positions.reshape(x.shape)
    lowest = float("-inf") if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    values, where = F.pad(x, flat, value=lowest), F.pad(positions, flat, value=-1)
    rank = len(kernel)
    for axis, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True)):
        values = values.unfold(axis + 2, (k - 1) * d + 1, s)[..., ::d]
        where = where.unfold(axis + 2, (k - 1) * d + 1, s)[..., ::d]
    values, best = values.flatten(-rank).max(-1)
    return values, where.flatten(-rank).gather(-1, best.unsqueeze(-1)).squeeze(-1)


def average_pool(
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    begins: Sequence[int],
    ends: Sequence[int],
    auto_pad: str,
    ceil_mode: bool,
    count_include_pad: bool,
) -> torch.Tensor:
    """AveragePool over any padding: the sum of each window over the positions that count.

    What a window reaches beyond the padding (ceil mode) never counts; the padding does if ``count_include_pad``.
    """
    begins, ends, beyond = _pads(x.shape[2:], kernel, stride, dilation, begins, ends, auto_pad, ceil_mode)
    spatial = x.shape[2:]
    counted = torch.ones((1, 1, *spatial), dtype=x.dtype, device=x.device)
    x, counted = F.pad(x, _flat(begins, ends)), F.pad(counted, _flat(begins, ends), value=1.0 if count_include_pad else 0.0)
    reach = _flat([0] * len(beyond), beyond)
    return _window_sums(F.pad(x, reach), kernel, stride, dilation) / _window_sums(F.pad(counted, reach), kernel, stride, dilation)


def _window_sums(x: torch.Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> torch.Tensor:
    for axis, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True)):
        x = x.unfold(axis + 2, (k - 1) * d + 1, s)[..., ::d].sum(-1)
    return x


def lp_pool(
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    begins: Sequence[int],
    ends: Sequence[int],
    auto_pad: str,
    ceil_mode: bool,
    p: int,
) -> torch.Tensor:
    """LpPool over any padding: the p-norm of each window, in which positions outside the input are zero."""
    begins, ends, beyond = _pads(x.shape[2:], kernel, stride, dilation, begins, ends, auto_pad, ceil_mode)
    powers = F.pad(x.abs().pow(p), _flat(begins, [e + b for e, b in zip(ends, beyond, strict=True)]))
    return _window_sums(powers, kernel, stride, dilation).pow(1 / p)
