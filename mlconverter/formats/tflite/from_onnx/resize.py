"""Resizing of images."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.elementwise import kept
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.resampling import common_scale, crop_positions, kernel_matrix, picked, resampled
from mlconverter.formats.tflite.from_onnx.slicing import Part, gathered, sliced
from mlconverter.formats.tflite.from_onnx.values import Array, Constant, Ints, Runtime, Size, Stored, Wire
from mlconverter.formats.tflite.layout import channels_last
from mlconverter.hub.io import dim_of


@translates("Resize", 11, 13, 18, 19)
def resize(
    b: Builder,
    x: Runtime,
    roi: Constant | Runtime | None = None,
    scales: Constant | None = None,
    sizes: Ints | Runtime | None = None,
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
) -> Stored:
    """Resize → RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR; GATHER or FULLY_CONNECTED where LiteRT takes other elements."""
    factors = None if scales is None or not scales.value.size else [float(s) for s in scales.value.reshape(-1)]
    along = [a % x.rank for a in axes] if axes is not None else list(range(x.rank))
    if isinstance(sizes, Runtime):
        sizes = Ints(_said(b, x, axis, size) for axis, size in zip(along, b.elements(sizes), strict=True))
    if factors is None and keep_aspect_ratio_policy != "stretch":
        assert sizes is not None
        befores = [n for a in along if (n := x.dims[a]) is not None]
        if len(befores) != len(along):
            raise Refused(f"keep_aspect_ratio_policy={keep_aspect_ratio_policy} of a size that only the run time knows")
        scale = common_scale(befores, sizes.fixed("a size"), keep_aspect_ratio_policy)
        targets = {a: Target(n, math.floor(scale * n + 0.5), scale) for a, n in zip(along, befores, strict=True)}
    else:
        targets = dict(zip(along, _targets(x, along, factors, sizes), strict=True))
    cropped = coordinate_transformation_mode == "tf_crop_and_resize"
    if not antialias and mode != "cubic" and not cropped:
        return _resized(b, x, targets, mode, coordinate_transformation_mode, nearest_mode)
    if cropped and not isinstance(roi, Constant):
        raise Refused("a region that is computed while the model runs")
    region = roi.value.reshape(2, -1) if cropped and isinstance(roi, Constant) else None
    stored = x.first
    for number, (axis, target) in enumerate(targets.items()):
        before, size = target.before, target.size
        if region is None and not _changes(target):
            continue
        if not isinstance(before, int) or not isinstance(size, int):
            raise Refused(f"mode={mode}, {coordinate_transformation_mode} of a size that only the run time knows")
        if region is None:
            at, outside = _coordinates(target, coordinate_transformation_mode), np.zeros(size, bool)
        else:
            at = crop_positions(float(region[0, number]), float(region[1, number]), before, size)
            outside = (at < 0) | (at > before - 1)
        if np.array_equal(at, np.arange(before)):
            continue
        if mode == "nearest":
            places = np.clip(ROUNDINGS[nearest_mode](at), 0, before - 1).astype(np.int64)
            stored = picked(b, stored, axis, places, outside, extrapolation_value)
            continue
        matrix = kernel_matrix(
            at,
            before,
            mode,
            target.scale,
            a=cubic_coeff_a,
            exclude_outside=bool(exclude_outside),
            antialias=bool(antialias),
        )
        stored = resampled(b, kept(stored), axis, matrix, outside, extrapolation_value)
    return stored


def _said(b: Builder, x: Runtime, axis: int, size: int | Size) -> int | Size:
    """A size that is computed; that of the operand where the model says that the batch or the channels stay as many."""
    assert b.node is not None
    shapes = [None if v is None else v.shape for v in (b.node.inputs[0], b.node.outputs[0])]
    before, after = (None if shape is None else dim_of(shape[axis]) for shape in shapes)
    return x.length(axis) if axis < 2 and before is not None and before == after else size


@translates("Resize", 10)
def resize_asymmetric(b: Builder, x: Runtime, scales: Constant, *, mode: str) -> Stored:
    """Resize of opset 10 → as the later one, asymmetric and rounded down."""
    factors = [float(s) for s in scales.value.reshape(-1)]
    along = list(range(x.rank))
    return _resized(b, x, dict(zip(along, _targets(x, along, factors, None), strict=True)), mode, "asymmetric", "floor")


@translates("Upsample", 7, 9)
def upsample(b: Builder, x: Runtime, scales: Constant, *, mode: str) -> Stored:
    """Upsample → as Resize of opset 10."""
    return resize_asymmetric(b, x, scales, mode=mode)


@dataclass(frozen=True)
class Target:
    """What becomes of one axis.

    Attributes:
        before: size of the operand.
        size: size of the result.
        scale: result over operand, as coordinates are computed by; 0 where only the run time knows.
    """

    before: int | Size
    size: int | Size
    scale: float


def _targets(x: Runtime, along: Sequence[int], factors: list[float] | None, sizes: Ints | None) -> list[Target]:
    targets = []
    for i, axis in enumerate(along):
        before = x.length(axis)
        if factors is None:
            assert sizes is not None
            size = sizes[i]
            scale = size / before if isinstance(before, int) and isinstance(size, int) else 0.0
        elif isinstance(before, int):
            size, scale = int(np.floor(before * np.float32(factors[i]))), factors[i]
        elif factors[i] == int(factors[i]):
            size, scale = before * int(factors[i]), factors[i]
        else:
            raise Refused("a scale that is no whole number, of a size that only the run time knows")
        targets.append(Target(before, size, scale))
    return targets


def _changes(target: Target) -> bool:
    """Whether anything becomes of an axis; with a scale its elements may move though they stay as many."""
    return target.size != target.before or (isinstance(target.size, int) and target.scale != 1)


def _resized(b: Builder, x: Runtime, targets: dict[int, Target], mode: str, coordinates: str, rounding: str) -> Stored:
    changed = {a: t for a, t in targets.items() if _changes(t)}
    if not changed:
        return x.first
    if x.rank == 4 and set(changed) <= {2, 3} and (option := _native(changed, mode, coordinates, rounding)) is not None:
        image = b.image(_first_alone(b, x, changed) if mode == "linear" and coordinates == "pytorch_half_pixel" else x)
        height, width = (changed[a].size if a in changed else x.length(a) for a in (2, 3))
        dims = (image.dims[0], *(s if isinstance(s, int) else None for s in (height, width)), image.dims[3])
        op = "RESIZE_BILINEAR" if mode == "linear" else "RESIZE_NEAREST_NEIGHBOR"
        y = b.emit(op, image, b.shape([height, width]), dims=dims, version=3, **option)
        return Stored(y, channels_last(4))
    wire, order = x.first
    for axis, target in changed.items():
        if not isinstance(target.before, int) or not isinstance(target.size, int):
            raise Refused(f"mode={mode}, {coordinates} of a size that only the run time knows")
        position = order.index(axis)
        if mode == "nearest":
            wire = gathered(b, wire, _nearest(target, coordinates, rounding), position)
        else:
            wire = _interpolated(b, wire, target, coordinates, position)
    return Stored(wire, order)


def _first_alone(b: Builder, x: Runtime, targets: dict[int, Target]) -> Runtime:
    """What becomes of a length that turns out to be 1 is the first element, as torch has it, and not the one in the middle."""
    parts = {}
    for axis, target in targets.items():
        if isinstance(target.size, Size) and not target.scale:
            more = Size("MINIMUM", (target.size - 1, 1))
            parts[axis] = Part(0, 1 + more * (target.before - 1), 1, None)
    return kept(sliced(b, x.first, parts)) if parts else x


SAME_BY_SIZES: dict[str, dict[str, bool]] = {
    "asymmetric": {},
    "half_pixel": {"halfPixelCenters": True},
    "pytorch_half_pixel": {"halfPixelCenters": True},
    "align_corners": {"alignCorners": True},
}
"""LiteRT's options for coordinates that it computes alike from the sizes alone."""


def _native(targets: dict[int, Target], mode: str, coordinates: str, rounding: str) -> dict[str, Any] | None:
    """Options under which LiteRT's own operator computes the same, ``None`` where there are none."""
    for way in SAME_BY_SIZES.values():
        if all(_agrees(t, mode, coordinates, rounding, way) for t in targets.values()):
            return way
    return None


def _agrees(target: Target, mode: str, coordinates: str, rounding: str, way: dict[str, bool]) -> bool:
    """Whether LiteRT takes the same elements, in the same shares, along an axis."""
    if isinstance(target.before, int) and isinstance(target.size, int):
        if mode == "nearest":
            return bool((_nearest(target, coordinates, rounding) == _nearest_of_litert(target.before, target.size, way)).all())
        ours = np.clip(_coordinates(target, coordinates), 0, target.before - 1)
        theirs = np.clip(_coordinates_of_litert(target.before, target.size, way), 0, target.before - 1)
        return bool(np.abs(ours - theirs).max() < 1e-4)
    # Of a free size only what holds for every size: whole factors, or coordinates that follow from the sizes alone.
    if mode == "nearest":
        whole = target.scale >= 1 and target.scale == int(target.scale)
        plain = coordinates == "asymmetric" and rounding == "floor"
        half = coordinates in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round")
        return whole and (plain or half) and not way.get("alignCorners") and bool(way.get("halfPixelCenters")) == half
    return coordinates in SAME_BY_SIZES and way == SAME_BY_SIZES[coordinates]


def _coordinates(target: Target, how: str) -> Array:
    """Where the elements of the result lie in the operand, as the specification has it."""
    assert isinstance(target.before, int)
    assert isinstance(target.size, int)
    x, n, scale = np.arange(target.size, dtype=np.float64), target.before, target.scale
    length = n * scale  # of the result; where a scale is given it need not be a whole number
    match how:
        case "half_pixel":
            return (x + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (x + 0.5) / scale - 0.5 if length > 1 else 0 * x
        case "align_corners":
            return x * (n - 1) / (length - 1) if length != 1 else 0 * x
        case "asymmetric":
            return x / scale
        case "half_pixel_symmetric":
            adjust = target.size / length
            return n / 2 * (1 - adjust) + (x + 0.5) / scale - 0.5
    raise Refused(f"coordinate_transformation_mode={how}")


ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda v: np.ceil(v - 0.5),
    "round_prefer_ceil": lambda v: np.floor(v + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _nearest(target: Target, coordinates: str, rounding: str) -> Array:
    at = _coordinates(target, coordinates)
    assert isinstance(target.before, int)
    picked: Array = np.clip(ROUNDINGS[rounding](at), 0, target.before - 1).astype(np.int64)
    return picked


def _nearest_of_litert(before: int, size: int, way: dict[str, bool]) -> Array:
    aligned, half = bool(way.get("alignCorners")), bool(way.get("halfPixelCenters"))
    scale = np.float32((before - 1) / (size - 1)) if aligned and size > 1 else np.float32(before) / np.float32(size)
    at = (np.arange(size, dtype=np.float32) + np.float32(0.5 if half else 0)) * scale
    picked: Array = np.clip(np.floor(at + np.float32(0.5)) if aligned else np.floor(at), 0, before - 1).astype(np.int64)
    return picked


def _coordinates_of_litert(before: int, size: int, way: dict[str, bool]) -> Array:
    aligned, half = bool(way.get("alignCorners")), bool(way.get("halfPixelCenters"))
    scale = (before - 1) / (size - 1) if aligned and size > 1 else before / size
    x = np.arange(size, dtype=np.float64)
    return (x + 0.5) * scale - 0.5 if half else x * scale


def _interpolated(b: Builder, wire: Wire, target: Target, coordinates: str, position: int) -> Wire:
    """Two neighbours in their shares."""
    assert isinstance(target.before, int)
    at = np.clip(_coordinates(target, coordinates), 0, target.before - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, target.before - 1)
    shape = [-1, *[1] * (wire.rank - 1 - position)]
    share = (at - low).reshape(shape).astype(np.float32)
    below, above = gathered(b, wire, low, position), gathered(b, wire, high, position)
    difference = b.emit("SUB", above, below, dims=below.dims)
    return b.emit("ADD", below, b.emit("MUL", difference, b.constant(share), dims=below.dims), dims=below.dims)
