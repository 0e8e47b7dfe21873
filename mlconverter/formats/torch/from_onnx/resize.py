"""Resize and Upsample."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Ints, Tensor, UnknownAtConversion
from mlconverter.hub.nodes import Call

LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}


def _check_resize(call: Call) -> str | None:
    attributes = call.attributes
    if attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return "coordinate_transformation_mode=tf_crop_and_resize"
    if attributes.get("antialias"):
        return "antialias=1"
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return f"keep_aspect_ratio_policy={attributes['keep_aspect_ratio_policy']}"
    return None


@translates("Resize", 10, check=_check_resize)
def resize_10(g: Builder, x: Tensor, scales: Const, *, mode: str) -> Any:
    """Resize of opset 10 → as later ones with asymmetric coordinates and the floor as nearest."""
    return _resize(g, x, [float(s) for s in scales.value], None, None, mode, "asymmetric", "floor", -0.75, False)


@translates("Upsample", 7, 9, 10, check=_check_resize)
def upsample(g: Builder, x: Tensor, scales: Const, *, mode: str) -> Any:
    """Upsample → as Resize with asymmetric coordinates and the floor as nearest."""
    return _resize(g, x, [float(s) for s in scales.value], None, None, mode, "asymmetric", "floor", -0.75, False)


@translates("Resize", 11, 13, 18, 19, check=_check_resize)
def resize(
    g: Builder,
    x: Tensor,
    roi: Const | Tensor | None = None,
    scales: Const | None = None,
    sizes: Ints | None = None,
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
    factors = None if scales is None or not scales.value.size else [float(s) for s in scales.value]
    wanted = None if not sizes else list(sizes)
    return _resize(
        g, x, factors, wanted, axes, mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside)
    )


def _resize(
    g: Builder,
    x: Tensor,
    scales: list[float] | None,
    sizes: list[Any] | None,
    axes: list[int] | None,
    mode: str,
    coordinates: str,
    nearest: str,
    cubic: float,
    exclude_outside: bool,
) -> Any:
    along = [a % x.ndim for a in axes] if axes is not None else list(range(x.ndim))
    factor = dict(zip(along, scales, strict=True)) if scales is not None else {}
    target = dict(zip(along, sizes, strict=True)) if sizes is not None else {}
    if not factor and not target:
        raise UnknownAtConversion("neither scales nor sizes are known")
    # What stays as it is needs no interpolation: a scale of 1, or the size it has already.
    moving = [a for a in along if factor.get(a, 0.0) != 1.0 and not (a in target and _same(target[a], x, a))]
    if not moving:
        return x
    spatial = list(range(2, x.ndim))
    if x.ndim in LINEAR and all(a in spatial for a in moving) and _torch_means_the_same(mode, coordinates, nearest, cubic, exclude_outside):
        aligned = coordinates == "align_corners"
        kind = LINEAR[x.ndim] if mode == "linear" else "bicubic" if mode == "cubic" else "nearest"
        if not (kind == "bicubic" and x.ndim != 4):
            where: dict[str, Any] = {"mode": kind} if kind == "nearest" else {"mode": kind, "align_corners": aligned}
            if sizes is not None:
                return F.interpolate(x, tuple(target.get(a, x.length(a)) for a in spatial), **where)
            whole = all(factor.get(a, 1.0) == int(factor.get(a, 1.0)) for a in spatial)
            if whole or not aligned:
                return F.interpolate(x, scale_factor=tuple(factor.get(a, 1.0) for a in spatial), **where)
    for axis in moving:
        x = g.call(
            runtime.resize_axis, x, axis, factor.get(axis), target.get(axis), mode, coordinates, nearest, cubic, exclude_outside
        )
    return x


def _same(size: Any, x: Tensor, axis: int) -> bool:
    if isinstance(size, int):
        return x.fixed(axis) == size
    return x._known_shape is not None and size is x.__dict__.get("_sizes", {}).get(axis)


def _torch_means_the_same(mode: str, coordinates: str, nearest: str, cubic: float, exclude_outside: bool) -> bool:
    if mode == "nearest":
        return coordinates == "asymmetric" and nearest == "floor"
    if mode == "cubic" and (cubic != -0.75 or exclude_outside):
        return False
    # pytorch_half_pixel differs from half_pixel only where the output has one element.
    return coordinates in ("half_pixel", "align_corners")
