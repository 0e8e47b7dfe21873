"""Pooling over spatial axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.fusing import is_not_negative
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.reduction import reduced
from mlconverter.formats.tflite.from_onnx.values import Operand, Runtime, Stored, Wire
from mlconverter.formats.tflite.from_onnx.windows import SAME, VALID, Window, padded, window_of
from mlconverter.formats.tflite.layout import channels_last

LOWEST = float(np.finfo(np.float32).min)


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
) -> Stored:
    """MaxPool → MAX_POOL_2D, behind a PADV2 of the lowest number where SAME does not say the padding."""
    if b.is_read(1):
        raise Refused("the positions of the maxima are read, which LiteRT does not give")
    window = _window(x, kernel_shape, auto_pad=auto_pad, ceil_mode=ceil_mode, strides=strides, dilations=dilations, pads=pads)
    filler = 0.0 if is_not_negative(b, x) else LOWEST
    image = _lifted(b, x)
    if window.padded and window.same:
        y = _pool(b, "MAX_POOL_2D", image, window, SAME)
    else:
        y = _pool(b, "MAX_POOL_2D", padded(b, image, window.begins, window.ends, filler), window, VALID)
    return _lowered(b, y, x.rank)


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
    """AveragePool → AVERAGE_POOL_2D; behind a PAD, and times what was counted too much, where SAME does not say the padding."""
    how: dict[str, Any] = {"auto_pad": auto_pad, "strides": strides, "dilations": dilations, "pads": pads}
    window = _window(x, kernel_shape, ceil_mode=ceil_mode, **how)
    image = _lifted(b, x)
    if not window.padded:
        return _lowered(b, _pool(b, "AVERAGE_POOL_2D", image, window, VALID), x.rank)
    counted = _window(x, kernel_shape, **how) if count_include_pad else None
    if counted is None and window.same:
        return _lowered(b, _pool(b, "AVERAGE_POOL_2D", image, window, SAME), x.rank)
    y = _pool(b, "AVERAGE_POOL_2D", padded(b, image, window.begins, window.ends), window, VALID)
    if counted is None or counted.ends != window.ends:
        y = b.emit("MUL", y, _corrections(b, window, counted), dims=y.dims)
    return _lowered(b, y, x.rank)


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
        steps = range(0, len(weights) - window.kernel[axis] + 1, window.strides[axis])
        per_axis.append(np.array([weights[s : s + window.kernel[axis]].sum() for s in steps]))
    counts = per_axis[0][:, None] * per_axis[1][None, :]
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
    if len(kernel) not in (1, 2) or x.rank != len(kernel) + 2:
        raise Refused(f"pooling over {len(kernel)} spatial axes")
    if dilations and set(dilations) != {1}:
        raise Refused("LiteRT pools without dilations")
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
