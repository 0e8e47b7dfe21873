"""Windows written out: each position of a window is a slice of the image, whatever LiteRT's pooling does not take."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused
from mlconverter.formats.tflite.from_onnx.values import Array, Runtime, Wire
from mlconverter.formats.tflite.from_onnx.windows import Window

MOST = 256
"""Slices of one window."""


def over_windows(b: Builder, op: str, image: Wire, window: Window) -> Wire:
    """An operator over the elements of each window of a padded channels-last image, one axis after the other."""
    if sum(window.kernel) > MOST:
        raise Refused(f"windows of {window.kernel}, more positions than are written out")
    for axis, length in enumerate(window.kernel):
        taps = [_tap(b, image, window, {axis: k}) for k in range(length)]
        image = reduce(lambda x, y: b.compute(op, x, y, dims=x.dims), taps)
    return image


def _tap(b: Builder, image: Wire, window: Window, places: dict[int, int]) -> Wire:
    """What stands at a position of all windows, along some of the spatial axes."""
    begins, ends, steps, dims = [0] * image.rank, [0] * image.rank, [1] * image.rank, list(image.dims)
    for axis, place in places.items():
        extent, stride, size = window.extents[axis], window.strides[axis], image.dims[axis + 1]
        begins[axis + 1] = place * window.dilations[axis]
        ends[axis + 1] = begins[axis + 1] + 1 - extent
        steps[axis + 1] = stride
        dims[axis + 1] = None if size is None else (size - extent) // stride + 1
    if not any((*begins, *ends)) and set(steps) == {1}:
        return image
    mask = sum(1 << i for i, end in enumerate(ends) if end == 0)
    return b.emit("STRIDED_SLICE", image, b.ints(begins), b.ints(ends), b.ints(steps), dims=tuple(dims), endMask=mask)


def maxima(b: Builder, x: Runtime, image: Wire, window: Window, *, by_columns: bool) -> tuple[Wire, Wire]:
    """The largest of each window of a padded channels-last image, and where the first of equals stands in the model's tensor.

    Args:
        b: the builder.
        x: the value.
        image: its elements, padded.
        window: over all spatial axes.
        by_columns: whether the first spatial axis is counted fastest.
    """
    channels = x.dims[1]
    if channels is None or None in window.sizes or math.prod(window.kernel) > MOST:
        raise Refused("the positions of maxima in windows that are too large, or of sizes that only the run time knows")
    best: Wire | None = None
    place: Wire | None = None
    for position, numbers in _numbers(window, by_columns):
        found, where = _tap(b, image, window, dict(enumerate(position))), b.array(numbers)
        if best is None or place is None:
            best, place = found, where
            continue
        larger = b.compute("GREATER", found, best, dims=found.dims, dtype="bool")
        place = b.emit("SELECT_V2", larger, where, place, dims=found.dims, dtype="int32")
        best = b.compute("MAXIMUM", best, found, dims=found.dims)
    assert best is not None
    assert place is not None
    size = math.prod(d or 0 for d in window.sizes)
    total = b.emit("ADD", place, _starts(b, x, channels, size, image.rank), dims=best.dims)
    return best, b.cast(total, "int64")


def _numbers(window: Window, by_columns: bool) -> Iterator[tuple[Sequence[int], Array]]:
    """Each position in the windows, and the number of the element that all windows have there."""
    sizes = [d or 0 for d in window.sizes]
    rank = len(sizes)
    axes = list(zip(sizes, window.begins, window.ends, window.extents, window.strides, strict=True))
    starts = [np.arange((n + p + q - k) // s + 1) * s - p for n, p, q, k, s in axes]
    for position in itertools.product(*map(range, window.kernel)):
        at = [np.clip(s + k * d, 0, n - 1) for s, k, d, n in zip(starts, position, window.dilations, sizes, strict=True)]
        grid = np.meshgrid(*at, indexing="ij") if rank > 1 else at
        numbers = np.ravel_multi_index(tuple(grid), sizes, order="F" if by_columns else "C")
        yield position, numbers[..., None].astype(np.int32)


def _starts(b: Builder, x: Runtime, channels: int, size: int, rank: int) -> Wire:
    """Numbers of the first elements of all images, of each item and channel."""
    first = np.arange(channels, dtype=np.int32) * size
    count = x.dims[0]
    if count is not None:
        items = np.arange(count, dtype=np.int32) * (channels * size)
        return b.array(items.reshape(-1, *[1] * (rank - 1)) + first)
    end = b.reshape(b.size(x.length(0) * (channels * size)), ())
    items_ = b.emit("RANGE", b.scalar(0, "int32"), end, b.scalar(channels * size, "int32"), dims=(None,))
    items_ = b.reshape(items_, (None, *[1] * (rank - 1)))
    return b.emit("ADD", items_, b.array(first), dims=(None, *[1] * (rank - 2), channels))
