"""Functions of 16-bit numbers, which LiteRT interpolates between the entries of a table.

Every 128th of the 65,536 numbers has an entry. The formula of the entries is that of LiteRT's kernels: an entry is moved by
half of what interpolation is off in the middle of the way to the next one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mlconverter.formats.tflite.structure import Array
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.signature import Quantization

ENTRIES = 512
"""Ways between entries."""

_LOWEST, _HIGHEST = -32768, 32767

Function = Callable[[float], float]
"""Of one number; not a number where it has no value."""


def _erf_gelu(x: float) -> float:
    return x / 2 * (1 + math.erf(x / math.sqrt(2)))


def _tanh_gelu(x: float) -> float:
    return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _function(op: Op) -> tuple[Function, int]:
    """The function of an operator, and the number that it gives where the function has no value."""
    if op.key == "EXP":
        return math.exp, 0
    if op.key == "LOG":
        return lambda x: math.log(x) if x > 0 else math.nan, _LOWEST
    if op.key == "RSQRT":
        return lambda x: 1 / math.sqrt(x) if x > 0 else math.nan, _HIGHEST
    return _tanh_gelu if op.options.approximate else _erf_gelu, 0


def has_table(op: Op) -> bool:
    """Whether an operator is one of these functions, of 16-bit numbers."""
    return op.key in ("EXP", "GELU", "LOG", "RSQRT") and op.tensor(0).dtype == "int16" and op.quantized


def interpolated(b: Builder, op: Op, x: Operand) -> Stored:
    """An operator on 16-bit numbers as the interpolation that LiteRT computes; gradients are the slopes between entries."""
    given, made = op.tensor(0).grid, op.outputs[0].grid
    assert given is not None
    assert made is not None
    entries = _entries(op, given, made)
    value, order = b.as_is(x)
    steps = b.emit("Sub", b.emit("Div", value, b.scalar(given.scale[0], "float32")), b.scalar(_LOWEST, "float32"))
    ways = b.emit("Div", steps, b.scalar(-2 * _LOWEST // ENTRIES, "float32"))
    before = b.emit("Floor", ways)
    place = b.cast(before, "int64")
    base, slope = (b.emit("Gather", b.array(part, "table"), place) for part in (entries[:-1], np.diff(entries)))
    between = b.emit("Add", base, b.emit("Mul", slope, b.emit("Sub", ways, before)))
    return Stored(b.emit("Mul", between, b.scalar(made.scale[0], "float32")), order)


def _entries(op: Op, given: Quantization, made: Quantization) -> Array:
    """The table, in steps of the result."""
    single = np.float32
    function, otherwise = _function(op)
    scale, step = single(given.scale[0]), single(made.scale[0])

    def stepped(x: Array) -> Array:
        values = np.asarray([function(float(v)) for v in x], single)
        result: Array = np.where(np.isnan(values), single(otherwise) * step, values) * inverse
        return result

    inverse = single(_HIGHEST - _LOWEST + 1) / (step * single(_HIGHEST) - step * single(_LOWEST))
    lowest, highest = scale * single(_LOWEST), scale * single(_HIGHEST)
    way = (highest - lowest) / single(ENTRIES)
    places = lowest + np.arange(ENTRIES, dtype=single) * way
    exact, middle = _rounded(stepped(places)), _rounded(stepped(places + way / 2))
    ahead = stepped(lowest + np.arange(1, ENTRIES + 1, dtype=single) * way)
    off = _rounded((_rounded((ahead + exact) / 2) - middle) / 2)
    last = _rounded(stepped(np.asarray([highest])))
    entries: Array = np.clip(np.concatenate([exact - off, last]), _LOWEST, _HIGHEST).astype(single)
    return entries


def _rounded(values: Array) -> Array:
    """To the nearest integers, halves away from zero."""
    rounded: Array = np.trunc(values + np.copysign(np.float32(0.5), values))
    return rounded
