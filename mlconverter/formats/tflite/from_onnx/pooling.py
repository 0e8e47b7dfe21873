"""Pooling over spatial axes."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.fusing import is_not_negative
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.reduction import reduced
from mlconverter.formats.tflite.from_onnx.taps import maxima, over_windows
from mlconverter.formats.tflite.from_onnx.values import Ints, Operand, Runtime, Stored, Wire
from mlconverter.formats.tflite.from_onnx.windows import SAME, VALID, Window, padded, window_of
from mlconverter.formats.tflite.layout import channels_last, logical


@translates("MaxPool", 1, 8, 10, 11, 12, 22)
def max_pool(
    b: Builder,
    x: Runtime,
    *,
    kernel_shape: list[int],
    auto_pad: str,
    ceil_mode: int = 0,
    storage_order: int = 0,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
) -> Stored | list[Stored]:
    """MaxPool → MAX_POOL_2D, behind a PADV2 of the lowest number where SAME does not say the padding; MAXIMUM of slices."""
    window = _window(x, kernel_shape, auto_pad=auto_pad, ceil_mode=ceil_mode, strides=strides, dilations=dilations, pads=pads)
    image = _lifted(b, x)
    if b.is_read(1):
        filled = _fixed(b, image, window, -math.inf if image.dtype == "float32" else _lowest(image))
        both = maxima(b, x, filled, window, by_columns=bool(storage_order))
        return [_lowered(b, y, x.rank) for y in both]
    if _is_native(image, window) and window.padded and window.same:
        return _lowered(b, _pool(b, "MAX_POOL_2D", image, window, SAME), x.rank)
    filled = _fixed(b, image, window, 0 if is_not_negative(b, x) else _lowest(image))
    if _is_native(image, window):
        return _lowered(b, _pool(b, "MAX_POOL_2D", filled, window, VALID), x.rank)
    return _lowered(b, over_windows(b, "MAXIMUM", filled, window), x.rank)


def _lowest(image: Wire) -> float:
    return float(np.finfo(np.float32).min if image.dtype == "float32" else np.iinfo(image.dtype).min)


def _fixed(b: Builder, image: Wire, window: Window, filler: float = 0) -> Wire:
    """The image with its padding written out."""
    if window.upper:
        raise Refused("auto_pad=SAME_UPPER over an image of a size that only the run time knows")
    return padded(b, image, window.begins, window.ends, filler)


def _is_native(image: Wire, window: Window) -> bool:
    """Whether LiteRT's own pooling takes such windows."""
    return len(window.kernel) == 2 and set(window.dilations) == {1} and image.dtype == "float32"


@translates("AveragePool", 1, 7, 10, 11, 19, 22)
def average_pool(
    b: Builder,
    x: Runtime,
    *,
    kernel_shape: list[int],
    auto_pad: str,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
) -> Stored:
    """AveragePool → AVERAGE_POOL_2D, behind a PAD and corrected where SAME does not say the padding; ADD of slices."""
    how: dict[str, Any] = {"auto_pad": auto_pad, "strides": strides, "dilations": dilations, "pads": pads}
    window = _window(x, kernel_shape, ceil_mode=ceil_mode, **how)
    image = _lifted(b, x)
    counted = _window(x, kernel_shape, **how) if count_include_pad else None
    if counted is None and window.padded and window.same and _is_native(image, window):
        return _lowered(b, _pool(b, "AVERAGE_POOL_2D", image, window, SAME), x.rank)
    y = _averages(b, _fixed(b, image, window), window)
    if window.padded and (counted is None or counted.ends != window.ends):
        y = b.emit("MUL", y, _corrections(b, window, counted), dims=y.dims)
    return _lowered(b, y, x.rank)


def _averages(b: Builder, image: Wire, window: Window) -> Wire:
    """Of whole windows over an image that is padded already."""
    if _is_native(image, window):
        return _pool(b, "AVERAGE_POOL_2D", image, window, VALID)
    total = over_windows(b, "ADD", image, window)
    return b.emit("MUL", total, b.scalar(1 / math.prod(window.kernel), total.dtype), dims=total.dims)


@translates("LpPool", 2, 11, 18, 22)
def lp_pool(
    b: Builder,
    x: Runtime,
    *,
    kernel_shape: list[int],
    auto_pad: str,
    p: int,
    ceil_mode: int = 0,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
) -> Stored:
    """LpPool → AVERAGE_POOL_2D of the powers, times the size of a window, and the root of that."""
    window = _window(x, kernel_shape, auto_pad=auto_pad, ceil_mode=ceil_mode, strides=strides, dilations=dilations, pads=pads)
    powers = _power(b, _fixed(b, _lifted(b, x), window), p)
    y = _averages(b, powers, window)
    total = b.emit("MUL", y, b.scalar(math.prod(window.kernel), y.dtype), dims=y.dims)
    return _lowered(b, _root(b, total, p), x.rank)


def _power(b: Builder, x: Wire, p: int) -> Wire:
    if p == 2:
        return b.emit("MUL", x, x, dims=x.dims)
    size = b.emit("ABS", x, dims=x.dims)
    return size if p == 1 else b.emit("POW", size, b.scalar(p, x.dtype), dims=x.dims)


def _root(b: Builder, x: Wire, p: int) -> Wire:
    if p == 2:
        return b.emit("SQRT", x, dims=x.dims)
    return x if p == 1 else b.emit("POW", x, b.scalar(1 / p, x.dtype), dims=x.dims)


@translates("GlobalLpPool", 2, 22)
def global_lp_pool(b: Builder, x: Runtime, *, p: int) -> Stored:
    """GlobalLpPool → SUM of the powers over the spatial axes, and the root of that."""
    wire, order = x.first
    powers = reduced(b, "SUM", Stored(_power(b, wire, p), order), list(range(2, x.rank)), keep=True)
    return Stored(_root(b, powers.wire, p), powers.order)


@translates("MaxUnpool", 9, 11, 22)
def max_unpool(
    b: Builder,
    x: Runtime,
    indices: Operand,
    output_shape: Ints | None = None,
    *,
    kernel_shape: list[int],
    strides: list[int] | None = None,
    pads: list[int] | None = None,
) -> Stored:
    """MaxUnpool → SCATTER_ND or UNSORTED_SEGMENT_MAX of each element by its number, PAD up to the shape that is asked for."""
    rank = len(kernel_shape)
    steps, around = strides or [1] * rank, pads or [0] * (2 * rank)
    sizes = [d for d in x.dims if d is not None]
    if len(sizes) != x.rank:
        raise Refused("of a size that only the run time knows")
    zipped = zip(sizes[2:], kernel_shape, steps, around[:rank], around[rank:], strict=True)
    reached = (*sizes[:2], *((n - 1) * s - p - q + k for n, k, s, p, q in zipped))
    places = b.reshape(b.cast(b.ask(indices), "int32"), (math.prod(sizes),))
    overlap = any(s < k for s, k in zip(steps, kernel_shape, strict=True))
    flat = b.reshape(b.ask(x), (math.prod(sizes),))
    y = b.reshape(_put(b, flat, places, math.prod(reached), overlap=overlap), reached)
    if output_shape is not None:
        wanted = output_shape.fixed("the output shape")
        beyond = np.array([[0, w - r] for w, r in zip(wanted, reached, strict=True)], np.int32)
        if beyond.min() < 0:
            raise Refused("an output shape that is smaller than what the windows reach")
        y = b.emit("PAD", y, b.array(beyond), dims=tuple(wanted)) if beyond.any() else y
    return Stored(y, logical(x.rank))


def _put(b: Builder, elements: Wire, places: Wire, count: int, *, overlap: bool) -> Wire:
    """Elements at their places among so many, and nothing elsewhere."""
    column, shape = b.reshape(places, (*places.dims, 1)), b.ints([count])
    if not overlap:
        return b.emit("SCATTER_ND", column, elements, shape, dims=(count,), dtype=elements.dtype)
    # Windows that overlap may have the same maximum, which SCATTER_ND would add up.
    marks = b.array(np.ones([d or 0 for d in places.dims], np.int32))
    hit = b.cast(b.emit("SCATTER_ND", column, marks, shape, dims=(count,), dtype="int32"), "bool")
    found = b.emit("UNSORTED_SEGMENT_MAX", elements, places, b.scalar(count, "int32"), dims=(count,))
    return b.emit("SELECT_V2", hit, found, b.scalar(0, found.dtype), dims=(count,), dtype=found.dtype)


def _corrections(b: Builder, window: Window, counted: Window | None) -> Wire:
    """By how much an average over whole windows is too small where part of a window is not counted."""
    per_axis = []
    for axis, size in enumerate(window.sizes):
        if size is None:
            raise Refused("padding that is not counted, over an image of a size that only the run time knows")
        begin, end = window.begins[axis], window.ends[axis]
        weights = np.zeros(begin + size + end)
        if counted is None:
            weights[begin : begin + size] = 1
        else:
            weights[: begin + size + counted.ends[axis]] = 1
        steps = range(0, len(weights) - window.extents[axis] + 1, window.strides[axis])
        taps = np.arange(window.kernel[axis]) * window.dilations[axis]
        per_axis.append(np.array([weights[s + taps].sum() for s in steps]))
    counts = reduce(np.multiply.outer, per_axis)
    return b.constant((math.prod(window.kernel) / counts)[..., None].astype(np.float32), "pool_counts")


def _window(
    x: Runtime,
    kernel: list[int],
    *,
    auto_pad: str,
    strides: list[int] | None,
    dilations: list[int] | None,
    pads: list[int] | None,
    ceil_mode: int = 0,
) -> Window:
    if len(kernel) not in (1, 2, 3) or x.rank != len(kernel) + 2:
        raise Refused(f"pooling over {len(kernel)} spatial axes")
    window = window_of(
        x.dims[2:], kernel, auto_pad=auto_pad, strides=strides, dilations=dilations, pads=pads, ceil_mode=ceil_mode
    )
    return window.lifted() if len(kernel) == 1 else window


def _lifted(b: Builder, x: Operand) -> Wire:
    image = b.image(x)
    return b.expand_dims(image, 1) if x.rank == 3 else image


def _lowered(b: Builder, y: Wire, rank: int) -> Stored:
    return Stored(b.squeeze(y, [1]) if rank == 3 else y, channels_last(rank))


def _pool(b: Builder, op: str, image: Wire, window: Window, padding: int) -> Wire:
    sizes = [
        None if n is None else -(-n // s) if padding == SAME else (n - k) // s + 1
        for n, k, s in zip(image.dims[1:3], window.kernel, window.strides, strict=True)
    ]
    return b.emit(
        op,
        image,
        dims=(image.dims[0], *sizes, image.dims[3]),
        padding=padding,
        filterHeight=window.kernel[0],
        filterWidth=window.kernel[1],
        strideH=window.strides[0],
        strideW=window.strides[1],
    )


@translates("GlobalAveragePool", 1, 22)
def global_average_pool(b: Builder, x: Runtime) -> Stored:
    """GlobalAveragePool → MEAN over the spatial axes."""
    return reduced(b, "MEAN", x, list(range(2, x.rank)), keep=True)


@translates("GlobalMaxPool", 1, 22)
def global_max_pool(b: Builder, x: Runtime) -> Stored:
    """GlobalMaxPool → REDUCE_MAX over the spatial axes."""
    return reduced(b, "REDUCE_MAX", x, list(range(2, x.rank)), keep=True)
