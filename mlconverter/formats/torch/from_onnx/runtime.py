"""Helpers that recorded code calls where torch has no single function for what ONNX means. Plain torch, nothing of this package."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F


def sizes_tensor(sizes: Sequence[int], shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Sizes as the tensor of this shape that ``Shape`` gives."""
    return torch.tensor(sizes, dtype=dtype).reshape(tuple(shape))


def pad_same(
    x: torch.Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], upper: bool, value: float
) -> torch.Tensor:
    """Pad the spatial axes so that the output has ``ceil(size / stride)`` elements; an odd element goes to the end if ``upper``."""
    pads: list[int] = []
    for axis, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True)):
        size = x.shape[axis + 2]
        total = max(0, (math.ceil(size / s) - 1) * s + (k - 1) * d + 1 - size)
        small, large = total // 2, total - total // 2
        pads = [*((small, large) if upper else (large, small)), *pads]
    return F.pad(x, pads, value=value)


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
) -> tuple[torch.Tensor, torch.Tensor]:
    """MaxPool and the position of each maximum in the flattened input, batch and channel included."""
    begins, ends, beyond = _pads(x.shape[2:], kernel, stride, dilation, begins, ends, auto_pad, ceil_mode)
    flat = _flat(begins, [e + b for e, b in zip(ends, beyond, strict=True)])
    positions = torch.arange(x.numel(), device=x.device).reshape(x.shape)
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


def pad_axis(x: torch.Tensor, axis: int, begin: int, end: int, mode: str) -> torch.Tensor:
    """Pad one axis by the rule of ONNX ``Pad``: ``reflect``, ``edge`` or ``wrap``; negative pads cut off."""
    size = x.shape[axis]
    positions = torch.arange(-begin, size + end, device=x.device)
    if mode == "edge":
        positions = positions.clamp(0, size - 1)
    elif mode == "wrap":
        positions = positions % size
    else:
        period = max(1, 2 * (size - 1))
        positions = positions % period
        positions = torch.where(positions < size, positions, period - positions)
    return x.index_select(axis, positions)


def wrap_index(indices: torch.Tensor, size: int) -> torch.Tensor:
    """Negative indices count from the end."""
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + size, indices)


def gather(x: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor:
    """ONNX ``Gather``: the axis is replaced by all axes of ``indices``."""
    axis %= x.dim()
    picked = x.index_select(axis, wrap_index(indices, x.shape[axis]).reshape(-1))
    return picked.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def resize_axis(
    x: torch.Tensor,
    axis: int,
    scale: float | None,
    size: int | None,
    mode: str,
    coordinates: str,
    nearest: str,
    cubic: float,
    exclude_outside: bool,
) -> torch.Tensor:
    """Resize one axis by the formulas of ONNX ``Resize``.

    Args:
        x: input.
        axis: which axis.
        scale: output size over input size, or ``None`` with ``size``.
        size: output size, or ``None`` with ``scale``.
        mode: ``nearest``, ``linear`` or ``cubic``.
        coordinates: how an output position becomes an input position (``coordinate_transformation_mode``).
        nearest: how a position is rounded (``nearest_mode``).
        cubic: the coefficient *a* of the cubic kernel.
        exclude_outside: whether positions outside the input get no weight.
    """
    old = x.shape[axis]
    new = math.floor(old * scale) if size is None else size
    # The specification computes positions in double precision; rounding them earlier moves nearest neighbours.
    factor = new / old if scale is None else scale
    at = torch.arange(new, device=x.device, dtype=torch.float64)
    if coordinates == "align_corners":
        at = at * ((old - 1) / (new - 1)) if new > 1 else at * 0
    elif coordinates == "asymmetric":
        at = at / factor
    elif coordinates == "half_pixel_symmetric":
        exact = old * factor
        centre = old / 2
        at = centre * (1 - new / exact) + (at + 0.5) / factor - 0.5
    elif coordinates == "pytorch_half_pixel" and new <= 1:
        at = at * 0
    else:
        at = (at + 0.5) / factor - 0.5
    if mode == "nearest":
        rounded = {
            "floor": torch.floor,
            "ceil": torch.ceil,
            "round_prefer_floor": lambda p: torch.ceil(p - 0.5),
            "round_prefer_ceil": lambda p: torch.floor(p + 0.5),
        }[nearest](at)
        return x.index_select(axis, rounded.to(torch.int64).clamp(0, old - 1))
    low = torch.floor(at)
    part = at - low
    if mode == "linear":
        taps = [(0, 1 - part), (1, part)]
    else:
        a = cubic
        taps = [
            (-1, ((a * (part + 1) - 5 * a) * (part + 1) + 8 * a) * (part + 1) - 4 * a),
            (0, ((a + 2) * part - (a + 3)) * part * part + 1),
            (1, ((a + 2) * (1 - part) - (a + 3)) * (1 - part) * (1 - part) + 1),
            (2, ((a * (2 - part) - 5 * a) * (2 - part) + 8 * a) * (2 - part) - 4 * a),
        ]
    positions = [(low + offset).to(torch.int64) for offset, _ in taps]
    weights = [weight for _, weight in taps]
    if exclude_outside:
        weights = [torch.where((p >= 0) & (p < old), w, torch.zeros_like(w)) for p, w in zip(positions, weights, strict=True)]
        total = sum(weights[1:], weights[0])
        weights = [w / total for w in weights]
    shape = [1] * x.dim()
    shape[axis] = -1
    result = torch.zeros((), dtype=x.dtype, device=x.device)
    for p, w in zip(positions, weights, strict=True):
        result = result + x.index_select(axis, p.clamp(0, old - 1)) * w.to(x.dtype).reshape(shape)
    return result
