"""Resizing as a product with a matrix for each axis: of any kernel, of parts of an image, and where steps are smoothed."""

from __future__ import annotations

import math

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused
from mlconverter.formats.tflite.from_onnx.slicing import gathered
from mlconverter.formats.tflite.from_onnx.values import Array, Runtime, Stored


def resampled(b: Builder, x: Runtime, axis: int, matrix: Array, outside: Array, filler: float) -> Stored:
    """A value whose elements along an axis become weighted sums of them.

    Args:
        b: the builder.
        x: the value.
        axis: the axis.
        matrix: a row of weights for each element of the result.
        outside: which elements of the result lie outside and are filled.
        filler: what they are filled with.
    """
    wire, order = b.with_last(x, axis)
    weights = b.constant(np.where(outside[:, None], 0, matrix).astype(np.float32), "resampling")
    terms = b.constant(np.where(outside, filler, 0).astype(np.float32), "outside")
    dims = (*wire.dims[:-1], len(matrix))
    return Stored(b.emit("FULLY_CONNECTED", wire, weights, terms, dims=dims, version=5, keepNumDims=True), order)


def picked(b: Builder, x: Stored, axis: int, places: Array, outside: Array, filler: float) -> Stored:
    """A value's elements at positions along an axis, and what lies outside filled."""
    position = x.order.index(axis)
    wire = gathered(b, x.wire, places, position)
    if not outside.any():
        return Stored(wire, x.order)
    shape = [-1 if i == position else 1 for i in range(wire.rank)]
    value = b.array(np.asarray(filler, wire.dtype))
    return Stored(b.emit("SELECT_V2", b.array(outside.reshape(shape)), value, wire, dims=wire.dims, dtype=wire.dtype), x.order)


def kernel_matrix(at: Array, before: int, mode: str, scale: float, *, a: float, exclude_outside: bool, antialias: bool) -> Array:
    """Weights of the elements of an axis in each element of the result.

    Args:
        at: where the elements of the result lie.
        before: how many elements there are.
        mode: ``linear`` or ``cubic``.
        scale: result over operand.
        a: the coefficient of the cubic kernel.
        exclude_outside: whether positions outside get no weight.
        antialias: whether the kernel grows with the step between elements of the result.
    """
    kernel, reach = (_linear, 1) if mode == "linear" else (_cubic, 2)
    stretch = min(scale, 1.0) if antialias else 1.0
    first = math.floor(-reach / stretch) + 1
    places = np.floor(at)[:, None] + np.arange(first, 2 - first)
    weights: Array = kernel((places - at[:, None]) * stretch, a)
    if exclude_outside:
        weights = np.where((places >= 0) & (places < before), weights, 0)
    if exclude_outside or antialias:
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((len(at), before))
    np.add.at(matrix, (np.arange(len(at))[:, None], np.clip(places, 0, before - 1).astype(np.int64)), weights)
    return matrix


def _linear(distance: Array, a: float) -> Array:
    weights: Array = np.maximum(1 - np.abs(distance), 0)
    return weights


def _cubic(distance: Array, a: float) -> Array:
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    weights: Array = np.where(d <= 1, near, np.where(d < 2, far, 0))
    return weights


def crop_positions(start: float, end: float, before: int, size: int) -> Array:
    """Where the elements of a resized part lie, given in parts of the axis."""
    # In single precision, in which the bounds are given: 0.2 and 0.8 have their middle at 0.5 there.
    first, last, steps = np.float32(start), np.float32(end), np.float32(before - 1)
    at = np.arange(size, dtype=np.float32)
    if size == 1:
        middle: Array = (at + np.float32(0.5) * (first + last) * steps).astype(np.float64)
        return middle
    places: Array = (first * steps + at * ((last - first) * steps / np.float32(size - 1))).astype(np.float64)
    return places


def common_scale(befores: list[int], wanted: list[int], policy: str) -> float:
    """The one scale that all axes get where the ratio of sizes is kept.

    Raises:
        Refused: the policy has another name.
    """
    if policy not in ("not_larger", "not_smaller"):
        raise Refused(f"keep_aspect_ratio_policy={policy}")
    return (min if policy == "not_larger" else max)(w / n for w, n in zip(wanted, befores, strict=True))
