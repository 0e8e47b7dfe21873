"""Resize and Upsample."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch.nn.functional as F

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Ints, Tensor, UnknownAtConversion, fixed, is_length, length

LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}


@translates("Resize", 10)
def resize_10(g: Builder, x: Tensor, scales: Const | Tensor, *, mode: str) -> Any:
    """Resize of opset 10 → as later ones with asymmetric coordinates and the floor as nearest."""
    return _upsample(g, x, scales, mode)


@translates("Upsample", 7, 9, 10)
def upsample(g: Builder, x: Tensor, scales: Const | Tensor, *, mode: str) -> Any:
    """Upsample → as Resize with asymmetric coordinates and the floor as nearest."""
    return _upsample(g, x, scales, mode)


def _upsample(g: Builder, x: Tensor, scales: Const | Tensor, mode: str) -> Any:
    return resize(
        g,
        x,
        None,
        scales,
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
        cubic_coeff_a=-0.75,
        exclude_outside=0,
        extrapolation_value=0.0,
    )


@translates("Resize", 11, 13, 18, 19)
def resize(
    g: Builder,
    x: Tensor,
    roi: Const | Tensor | None = None,
    scales: Const | Tensor | None = None,
    sizes: Ints | Tensor | None = None,
    *,
    mode: str,
    coordinate_transformation_mode: str,
    nearest_mode: str,
    cubic_coeff_a: float,
    exclude_outside: int,
    extrapolation_value: float,
    antialias: int = 0,
    axes: list[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Any:
    """Resize → F.interpolate where it means the same, interpolation axis by axis elsewhere."""
    if mode != "nearest" and not x.is_floating_point():
        raise UnknownAtConversion(f"mode={mode} of {x.dtype}: how integers are rounded is not specified")
    along = [a % x.ndim for a in axes] if axes is not None else list(range(x.ndim))
    if isinstance(scales, Const) and (not scales.value.size or isinstance(sizes, (list, Tensor))):
        scales = None  # opsets 11 and 12 write an empty tensor for "absent"
    if scales is None and (sizes is None or (isinstance(sizes, list) and not sizes)):
        raise UnknownAtConversion("neither scales nor sizes are given")
    factors: Any = [float(s) for s in scales.value] if isinstance(scales, Const) else scales
    crop = coordinate_transformation_mode == "tf_crop_and_resize"
    if not isinstance(factors, Tensor) and not isinstance(sizes, Tensor):
        if not crop:
            keep = [i for i, a in enumerate(along) if not _stays(x, a, factors and factors[i], sizes and sizes[i])]
            if not keep:
                return x
            if keep_aspect_ratio_policy == "stretch":
                along = _only(along, keep)
                factors, sizes = factors and _only(factors, keep), sizes and Ints(_only(sizes, keep))
        plain = not antialias and not exclude_outside and keep_aspect_ratio_policy == "stretch"
        if plain and _torch_can(x, along, mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a):
            done = _interpolate(x, along, factors, sizes, mode, coordinate_transformation_mode == "align_corners")
            if done is not None:
                return done
    region = None if not crop or roi is None else [float(r) for r in roi.value] if isinstance(roi, Const) else roi
    return g.call(
        runtime.resize,
        x,
        factors,
        sizes,
        along,
        region,
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias),
        keep_aspect_ratio_policy,
        extrapolation_value,
    )


def _only(values: list[Any], keep: list[int]) -> list[Any]:
    return [values[i] for i in keep]


def _stays(x: Tensor, axis: int, scale: float | None, size: Any) -> bool:
    """Whether an axis needs no interpolation: a scale of 1, or the size it has already."""
    return scale == 1.0 if scale is not None else is_length(size, x, axis)


def _torch_can(x: Tensor, axes: list[int], mode: str, coordinates: str, nearest: str, cubic: float) -> bool:
    if x.ndim not in LINEAR or min(axes) < 2 or not x.is_floating_point():
        return False
    if mode == "nearest":
        return coordinates == "asymmetric" and nearest == "floor"
    if mode == "cubic" and (cubic != -0.75 or x.ndim != 4):
        return False
    # pytorch_half_pixel differs from half_pixel only where the output has one element.
    return coordinates in ("half_pixel", "align_corners")


def _interpolate(x: Tensor, axes: list[int], scales: list[float] | None, sizes: Ints | None, mode: str, aligned: bool) -> Any:
    """``F.interpolate``, or ``None`` where it would round sizes or positions otherwise."""
    spatial = range(2, x.ndim)
    kind = LINEAR[x.ndim] if mode == "linear" else "bicubic" if mode == "cubic" else "nearest"
    how: dict[str, Any] = {"mode": kind} if kind == "nearest" else {"mode": kind, "align_corners": aligned}
    if scales is not None:
        factor = dict(zip(axes, scales, strict=True))
        if not all(s == int(s) and _divides_exactly(int(s)) for s in scales):
            return None
        return F.interpolate(x, scale_factor=tuple(factor.get(a, 1.0) for a in spatial), **how)
    assert sizes is not None
    target = dict(zip(axes, sizes, strict=True))
    if kind == "nearest":
        known = [(fixed(x, a), s) for a, s in target.items()]
        if not all(old and isinstance(s, int) and s % old == 0 and _divides_exactly(s // old) for old, s in known):
            return None
    return F.interpolate(x, tuple(target.get(a, length(x, a)) for a in spatial), **how)


def _divides_exactly(factor: int) -> bool:
    """Whether torch, which multiplies positions by the inverse in single precision, finds each element's own copies."""
    if factor < 1:
        return False
    positions = np.arange(1 << 12, dtype=np.float32)
    found = np.floor(positions * np.float32(factor) * (np.float32(1) / np.float32(factor)))
    return bool(np.array_equal(found, positions))
