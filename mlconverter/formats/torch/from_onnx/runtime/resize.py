"""Interpolation by the formulas of ONNX ``Resize``, one axis after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from mlconverter.formats.torch.from_onnx.runtime.shapes import IntsAtRunTime, ints

_ROUND: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round_prefer_floor": lambda p: torch.ceil(p - 0.5),
    "round_prefer_ceil": lambda p: torch.floor(p + 0.5),
}


def resize(
    x: torch.Tensor,
    scales: Sequence[float] | torch.Tensor | None,
    sizes: IntsAtRunTime | None,
    axes: Sequence[int],
    roi: Sequence[float] | torch.Tensor | None,
    mode: str,
    coordinates: str,
    nearest: str,
    cubic: float,
    exclude_outside: bool,
    antialias: bool,
    policy: str,
    outside: float,
) -> torch.Tensor:
    """ONNX ``Resize``.

    Args:
        x: input.
        scales: output size over input size for each of ``axes``, or ``None`` with ``sizes``.
        sizes: output sizes, or ``None`` with ``scales``.
        axes: which axes.
        roi: starts, then ends, of the region in parts of each axis; only ``tf_crop_and_resize`` reads it.
        mode: ``nearest``, ``linear`` or ``cubic``.
        coordinates: how an output position becomes an input position (``coordinate_transformation_mode``).
        nearest: how a position is rounded (``nearest_mode``).
        cubic: the coefficient *a* of the cubic kernel.
        exclude_outside: whether positions outside the input get no weight.
        antialias: whether the kernel grows with the step between output positions.
        policy: which of the scales that ``sizes`` ask for all axes get (``keep_aspect_ratio_policy``).
        outside: value beyond the input (``extrapolation_value``).
    """
    factors = scales.tolist() if isinstance(scales, torch.Tensor) else scales
    wanted = None if sizes is None else ints(sizes)
    if wanted is not None and policy != "stretch":
        pick = min if policy == "not_larger" else max
        factor = pick(w / x.shape[a] for w, a in zip(wanted, axes, strict=True))
        factors, wanted = [factor] * len(axes), [math.floor(factor * x.shape[a] + 0.5) for a in axes]
    region = roi.tolist() if isinstance(roi, torch.Tensor) else roi
    for i, axis in enumerate(axes):
        old = x.shape[axis]
        scale = None if factors is None else factors[i]
        # Sizes are computed in single precision, where 10 × 0.7 is 7.
        new = wanted[i] if wanted is not None else math.floor(old * (scale or 0.0) * (1 + 2**-25))
        crop = (region[i], region[i + len(axes)]) if coordinates == "tf_crop_and_resize" and region else None
        if crop is None and (scale == 1.0 if scale is not None else new == old):
            continue
        factor = new / old if scale is None else scale
        at = _positions(x, old, new, factor, coordinates, crop)
        if mode == "nearest":
            y = x.index_select(axis, _ROUND[nearest](at).to(torch.int64).clamp(0, old - 1))
        else:
            y = _taps(x, axis, at, factor, mode, cubic, exclude_outside, antialias)
        if crop is not None:
            shape = [-1 if a == axis else 1 for a in range(x.dim())]
            y = torch.where(((at < 0) | (at > old - 1)).reshape(shape), torch.full_like(y, outside), y)
        x = y
    return x


def _positions(
    x: torch.Tensor, old: int, new: int, factor: float, coordinates: str, crop: tuple[float, float] | None
) -> torch.Tensor:
    """Where in the input each output position lies; in double precision, as rounding earlier moves nearest neighbours."""
    at = torch.arange(new, device=x.device, dtype=torch.float64)
    if crop is not None:
        start, end = crop
        if new == 1:
            return at + 0.5 * (start + end) * (old - 1)
        return start * (old - 1) + at * ((end - start) * (old - 1) / (new - 1))
    if coordinates == "align_corners":
        length = old * factor  # not rounded to a whole number of elements
        return at * ((old - 1) / (length - 1)) if length != 1 else at * 0
    if coordinates == "asymmetric":
        return at / factor
    if coordinates == "half_pixel_symmetric":
        return old / 2 * (1 - new / (old * factor)) + (at + 0.5) / factor - 0.5
    if coordinates == "pytorch_half_pixel" and new <= 1:
        return at * 0
    return (at + 0.5) / factor - 0.5


def _linear(distance: torch.Tensor, a: float) -> torch.Tensor:
    return (1 - distance.abs()).clamp(min=0)


def _cubic(distance: torch.Tensor, a: float) -> torch.Tensor:
    d = distance.abs()
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return torch.where(d <= 1, near, torch.where(d < 2, far, torch.zeros_like(d)))


def _taps(
    x: torch.Tensor, axis: int, at: torch.Tensor, factor: float, mode: str, a: float, exclude_outside: bool, antialias: bool
) -> torch.Tensor:
    """The weighted sum of the neighbours that the kernel reaches."""
    old = x.shape[axis]
    kernel, reach = (_linear, 1) if mode == "linear" else (_cubic, 2)
    stretch = min(factor, 1.0) if antialias else 1.0
    low = torch.floor(at)
    first = math.floor(-reach / stretch) + 1
    positions = [(low + offset).to(torch.int64) for offset in range(first, 2 - first)]
    weights = [kernel((p - at) * stretch, a) for p in positions]
    if exclude_outside:
        weights = [torch.where((p >= 0) & (p < old), w, torch.zeros_like(w)) for p, w in zip(positions, weights, strict=True)]
    if exclude_outside or antialias:
        total = torch.stack(weights).sum(0)
        weights = [w / total for w in weights]
    shape = [-1 if d == axis % x.dim() else 1 for d in range(x.dim())]
    result = torch.zeros((), dtype=x.dtype, device=x.device)
    for p, w in zip(positions, weights, strict=True):
        result = result + x.index_select(axis, p.clamp(0, old - 1)) * w.to(x.dtype).reshape(shape)
    return result
