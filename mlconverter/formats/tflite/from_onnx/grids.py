"""Integers that stand for real numbers, as LiteRT's kernels take them: filters, biases, other constants."""

from __future__ import annotations

import numpy as np

from mlconverter.formats.tflite.from_onnx.values import Array, Wire
from mlconverter.signature import Quantization

EIGHT_BITS = ("int8", "uint8")

BIASES = {"int8": "int32", "uint8": "int32", "int16": "int64"}
"""The type of a bias by that of what it is added to."""

_FILTERS = {"int8": "int8", "uint8": "uint8", "int16": "int8"}
"""The type of a filter by that of what it is multiplied with."""

_MIDDLE = {"int8": 0, "uint8": 128}


def moved(grid: Quantization, dtype: str, to: str) -> Quantization:
    """The grid of the same numbers in the other 8-bit type."""
    by = _MIDDLE[to] - _MIDDLE[dtype] if dtype != to else 0
    return Quantization(grid.scale, tuple(z + by for z in grid.zero_point), grid.axis)


def grid_of_one(wire: Wire) -> Quantization | None:
    """The grid on which a single number is one step from zero; ``None`` for several numbers, and for what is none."""
    if wire.dtype != "float32" or wire.array.size != 1 or not np.isfinite(wire.array).all():
        return None
    return Quantization((float(np.abs(wire.array).item()) or 1.0,), (0,))


def whole_numbers(wire: Wire, grid: Quantization, axis: int | None) -> Array | None:
    """What constants are multiples of their scale; ``None`` where they are not, because something was done to them since.

    Args:
        wire: the real numbers.
        grid: what they were dequantised by.
        axis: the stored axis along which the scales lie; ``None`` if there has to be one only.
    """
    values, scale = wire.array, np.array(grid.scale, np.float32)
    if scale.size > 1:
        if axis is None or wire.dims[axis] != scale.size:
            return None
        scale = scale.reshape([-1 if i == axis else 1 for i in range(wire.rank)])
    else:
        scale = scale.reshape(())
    whole = np.rint(values / scale)
    return whole.astype(np.int64) if np.array_equal(whole.astype(np.float32) * scale, values) else None


def filter_on(wire: Wire, grid: Quantization, axis: int, data: str) -> Wire | None:
    """A filter as integers, ``None`` where no kernel takes such ones.

    Args:
        wire: the real numbers.
        grid: what they were dequantised by.
        axis: the stored axis of output channels.
        data: type of the integers that it is multiplied with.
    """
    if data == "uint8" and len(grid.scale) > 1:
        return None
    return _constant_on(wire, grid, axis, _FILTERS[data], symmetric=data != "uint8")


def constant_on(wire: Wire, grid: Quantization, data: str) -> Wire | None:
    """An operand as integers of a type, ``None`` where they do not fit."""
    return _constant_on(wire, grid, None, data, symmetric=data == "int16")


def _constant_on(wire: Wire, grid: Quantization, axis: int | None, dtype: str, *, symmetric: bool) -> Wire | None:
    whole = whole_numbers(wire, grid, axis)
    if whole is None or not whole.size:
        return None
    limits = np.iinfo(dtype)
    zero = 0 if symmetric else _zero_for(whole, limits)
    stored = whole + zero
    if stored.min() < limits.min or stored.max() > limits.max:
        return None
    lies = None if len(grid.scale) == 1 else axis
    quantization = Quantization(grid.scale, (zero,) * len(grid.scale), lies)
    return Wire(wire.name, wire.dims, dtype, stored.astype(dtype), quantization=quantization)


def _zero_for(whole: Array, limits: np.iinfo) -> int:
    """A zero point for which integers are within an 8-bit type, the middle if that does."""
    low, high = int(limits.min) - int(whole.min()), int(limits.max) - int(whole.max())
    return min(max(_MIDDLE[limits.dtype.name], low), high)


def bias_on(wire: Wire | None, count: int, data: Quantization, filters: Wire, dtype: str) -> Wire | None:
    """A bias as integers on the grid of the sums that it is added to, ``None`` where they do not fit."""
    assert filters.quantization is not None
    scale = np.float32(data.scale[0]) * np.array(filters.quantization.scale, np.float32)
    values = np.zeros(count, np.float32) if wire is None else wire.array
    whole = np.rint(values.astype(np.float64) / scale)
    limits = np.iinfo(np.int32)  # sums beyond do not fit either
    if np.abs(whole).max(initial=0) > limits.max:
        return None
    quantization = Quantization(tuple(map(float, scale)), (0,) * scale.size, 0 if scale.size > 1 else None)
    name = "bias" if wire is None else wire.name
    return Wire(name, (count,), BIASES[dtype], whole.astype(BIASES[dtype]), quantization=quantization)
