"""Resizing images."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.layout import channels_first
from mlconverter.formats.tflite.structure import Array
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_float, needs_rank, translates

IMAGE = channels_first(4)
ONE_PLACE = 1024
"""Steps from one element to the next in which LiteRT counts places between integers."""

SPATIAL = [2, 3]
"""The stored axes that are resized."""


def _coordinates(op: Op) -> str:
    if op.options.alignCorners:
        return "align_corners"
    return "half_pixel" if op.options.halfPixelCenters else "asymmetric"


def _one_alignment(op: Op) -> str | None:
    return "both align_corners and half_pixel_centers" if op.options.alignCorners and op.options.halfPixelCenters else None


@translates("RESIZE_BILINEAR", 1, 2, 3, 4, check=all_of(needs_rank(4), needs_float, _one_alignment))
def resize_bilinear(b: Builder, op: Op, image: Operand, size: Operand) -> Stored:
    """RESIZE_BILINEAR → Resize, linear, of the spatial axes; of 16-bit numbers a product with the weights that LiteRT has."""
    value = b.ask(image, IMAGE)
    before, after = image.dims[1:3], op.constant(1)
    if op.tensor(0).dtype == "int16":
        rows, columns = (_rounded_weights(op, size or 1, target) for size, target in zip(before, op.parameter(1), strict=True))
        return Stored(b.emit("MatMul", b.array(rows), b.emit("MatMul", value, b.array(columns.T.copy()))), IMAGE)
    if after is None or None in before:
        target = b.cast(b.ask(size), "int64") if after is None else b.ints(after.tolist())
        kept = b.emit("Shape", value, start=0, end=2)
        how: tuple[ir.Value | None, ...] = (None, None, b.emit("Concat", kept, target, axis=0))
    else:
        how = (None, _scales(b, before, after.tolist()))
    return Stored(b.emit("Resize", value, *how, mode="linear", coordinate_transformation_mode=_coordinates(op)), IMAGE)


def _rounded_weights(op: Op, size: int, target: int) -> Array:
    """How much of each element every result along an axis is made of, at places that are multiples of 1/1024.

    The formula is that of LiteRT's kernels for integers; the error of a place grows along the axis.
    """
    aligned = bool(op.options.alignCorners) and target > 1
    parts = target - 1 if aligned else target
    scale = (ONE_PLACE * (size - 1 if aligned else size) + parts // 2) // parts
    weights = np.zeros((target, size), np.float32)
    for i in range(target):
        place = i * scale + (scale // 2 - ONE_PLACE // 2 if op.options.halfPixelCenters else 0)
        lower = min(max(place // ONE_PLACE if place >= 0 else 0, 0), size - 1)
        upper = min(max((place + ONE_PLACE - 1) // ONE_PLACE, 0), size - 1)
        weights[i, lower] += 1 - (place - ONE_PLACE * lower) / ONE_PLACE
        weights[i, upper] += (place - ONE_PLACE * lower) / ONE_PLACE
    return weights


def _scales(b: Builder, before: Sequence[int | None], after: Sequence[int]) -> ir.Value:
    """The scales that give exactly these sizes.

    Scales leave batch and channels free where sizes would say them. (Sizes of some axes only, which Resize knows too,
    are permuted wrongly when ONNX Runtime moves a Transpose past the node.)
    """
    scales = [np.float32(1), np.float32(1)]
    for size, target in zip(before, after, strict=True):
        scale = np.float32(target) / np.float32(size or 1)
        while min(int(np.float32(size or 1) * scale), int(Fraction(float(scale)) * (size or 1))) < target:
            scale = np.nextafter(scale, np.float32(np.inf))
        scales.append(scale)
    return b.array(np.asarray(scales, np.float32))


def _known_sizes(op: Op) -> str | None:
    if op.constant(1) is None or None in op.dims(op.tensor(0))[1:3]:
        return "its sizes are only known at run time"
    return None


@translates("RESIZE_NEAREST_NEIGHBOR", 1, 2, 3, 4, check=all_of(needs_rank(4), _known_sizes))
def resize_nearest_neighbor(b: Builder, op: Op, image: Operand, size: Operand) -> Stored:
    """RESIZE_NEAREST_NEIGHBOR → Resize, nearest; or Gather where rounding would pick other neighbours."""
    align, half = bool(op.options.alignCorners), bool(op.options.halfPixelCenters)
    before, after = [d or 0 for d in image.dims[1:3]], op.parameter(1).tolist()
    picks = [_nearest(n, m, align=align, half=half) for n, m in zip(before, after, strict=True)]
    value = b.ask(image, IMAGE)
    if all(p == _exact(n, m, align=align, half=half) for p, n, m in zip(picks, before, after, strict=True)):
        resized = b.emit(
            "Resize",
            value,
            None,
            _scales(b, before, after),
            mode="nearest",
            coordinate_transformation_mode=_coordinates(op),
            nearest_mode="round_prefer_ceil" if align or half else "floor",
        )
        return Stored(resized, IMAGE)
    for axis, pick in zip(SPATIAL, picks, strict=True):
        value = b.emit("Gather", value, b.ints(pick), axis=axis)
    return Stored(value, IMAGE)


def _nearest(size: int, target: int, *, align: bool, half: bool) -> Sequence[int]:
    """The elements that TFLite picks along one axis, by its own single-precision arithmetic."""
    single = np.float32
    scale = single(size - 1) / single(target - 1) if align and target > 1 else single(size) / single(target)
    places = (np.arange(target, dtype=single) + single(0.5 if half else 0.0)) * scale
    picked = np.floor(places + single(0.5)) if align else np.floor(places)
    return [int(i) for i in np.clip(picked, 0, size - 1)]


def _exact(size: int, target: int, *, align: bool, half: bool) -> Sequence[int] | None:
    """The elements that ONNX means, computed without rounding; ``None`` where a place is so near that rounding decides."""
    if align and half:
        return None
    scale = Fraction(size - 1, target - 1) if align and target > 1 else Fraction(size, target)
    picked = []
    for i in range(target):
        place = (i + Fraction(1, 2)) * scale if half else i * scale + (Fraction(1, 2) if align else 0)
        if place.denominator == 1 and scale.denominator != 1 and place not in (0, size):
            return None
        picked.append(min(int(place), size - 1))
    return picked
