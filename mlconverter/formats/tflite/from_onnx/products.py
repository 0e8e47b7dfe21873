"""Products of 8-bit integers, in single precision: it is exact as long as sums stay below 2²⁴."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.convolution import conv
from mlconverter.formats.tflite.from_onnx.elementwise import kept, pointwise
from mlconverter.formats.tflite.from_onnx.linear import matmul
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.slicing import Part, sliced
from mlconverter.formats.tflite.from_onnx.values import Constant, Operand, Stored
from mlconverter.formats.tflite.layout import logical

MOST = (1 << 24) // (255 * 255)
"""Products of two numbers of 8 bits whose sum is exact."""


@translates("MatMulInteger", 10)
def mat_mul_integer(b: Builder, x: Operand, y: Operand, x_zero: Operand | None = None, y_zero: Operand | None = None) -> Stored:
    """MatMulInteger → BATCH_MATMUL or FULLY_CONNECTED in single precision, over as many columns at once as are exact."""
    if x_zero is not None and x_zero.rank == 1 and x_zero.dims != (1,):  # one for each row
        x_zero = _with_axis(b, x_zero)
    left, right = _centred(b, x, x_zero), _centred(b, y, y_zero)
    if x.dtype not in ("int8", "uint8") or y.dtype not in ("int8", "uint8"):
        raise Refused(f"of {x.dtype} and {y.dtype}")
    count = y.dims[-2] if y.rank > 1 else y.dims[0]
    count = x.dims[-1] if count is None else count
    pairs = _parts(b, [(left, left.rank - 1), (right, max(right.rank - 2, 0))], count, MOST)
    return _total(b, [matmul(b, *pair) for pair in pairs])


def _with_axis(b: Builder, x: Operand) -> Operand:
    if isinstance(x, Constant):
        return Constant(x.value[:, None], x.name)
    return kept(Stored(b.expand_dims(b.ask(x), 1), (0, 1)))


@translates("ConvInteger", 10)
def conv_integer(
    b: Builder,
    x: Operand,
    filters: Operand,
    x_zero: Operand | None = None,
    zero: Operand | None = None,
    *,
    group: int,
    **attributes: Any,
) -> Stored:
    """ConvInteger → CONV_2D in single precision, over as many channels at once as are exact."""
    if zero is not None and zero.rank == 1 and zero.dims != (1,):  # one for each filter
        shape = (zero.dims[0], *[1] * (filters.rank - 1))
        if isinstance(zero, Constant):
            zero = Constant(zero.value.reshape(-1, *shape[1:]), zero.name)
        else:
            zero = kept(Stored(b.reshape(b.ask(zero), shape), logical(filters.rank)))
    image, kernel = _centred(b, x, x_zero), _centred(b, filters, zero)
    window = math.prod(d or MOST for d in filters.dims[2:])
    channels = filters.dims[1]
    at_once = MOST // window
    if not at_once or channels is None or (group > 1 and channels > at_once):
        raise Refused("sums of more products than single precision holds exactly")
    pairs = [[image, kernel]] if group > 1 else _parts(b, [(image, 1), (kernel, 1)], channels, at_once)
    return _total(b, [conv(b, x, y, None, group=group, **attributes) for x, y in pairs])


def _centred(b: Builder, x: Operand, zero: Operand | None) -> Operand:
    """Integers less their zero point, as real numbers."""
    if isinstance(x, Constant) and not (zero is not None and not isinstance(zero, Constant)):
        value = x.value.astype(np.float32)
        return Constant(value if zero is None else value - zero.value.astype(np.float32), x.name)
    wire, order = b.as_is(x)
    real = kept(Stored(b.cast(wire, "float32"), order))
    if zero is None or (isinstance(zero, Constant) and not zero.value.any()):
        return real
    return kept(pointwise(b, "SUB", real, _centred(b, zero, None)))


def _parts(b: Builder, operands: list[tuple[Operand, int]], size: int | None, at_once: int) -> Iterator[list[Operand]]:
    """Operands cut into pieces along an axis of each that is summed over."""
    if size is None:
        raise Refused("sums over an axis whose length only the run time knows")
    for start in range(0, size, at_once):
        stop = min(start + at_once, size)
        yield [_cut(b, x, axis, start, stop, size) for x, axis in operands]


def _cut(b: Builder, x: Operand, axis: int, start: int, stop: int, size: int) -> Operand:
    if stop - start == size:
        return x
    if isinstance(x, Constant):
        return Constant(x.value.take(range(start, stop), axis), x.name)
    return kept(sliced(b, x.first, {axis: Part(start, stop, 1, stop - start)}))


def _total(b: Builder, sums: list[Stored]) -> Stored:
    """Sums as integers, and added up as such."""
    order = sums[0].order
    whole = [b.cast(b.ask(kept(s), order), "int32") for s in sums]
    return Stored(reduce(lambda x, y: b.emit("ADD", x, y, dims=x.dims), whole), order)
