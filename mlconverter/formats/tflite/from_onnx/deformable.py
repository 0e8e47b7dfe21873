"""Convolutions whose windows are moved element by element."""

from __future__ import annotations

from functools import reduce

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.joining import joined
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.sampling import Maths, images, read, taps_along
from mlconverter.formats.tflite.from_onnx.slicing import gathered
from mlconverter.formats.tflite.from_onnx.values import Constant, Operand, Stored, Wire
from mlconverter.formats.tflite.layout import channels_last


@translates("DeformConv", 19, 22)
def deform_conv(
    b: Builder,
    x: Operand,
    weight: Constant,
    offset: Operand,
    bias: Operand | None = None,
    mask: Operand | None = None,
    *,
    group: int,
    offset_group: int,
    kernel_shape: list[int] | None = None,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
) -> Stored:
    """DeformConv → GATHER of the four neighbours of each moved element, FULLY_CONNECTED."""
    if x.rank != 4 or x.dtype not in ("float32", "float16"):
        raise Refused(f"a deformable convolution over {x.rank - 2} axes of {x.dtype}")
    (flat, sizes), m = images(b, x), Maths(b)
    kernel, steps, gaps, begins = weight.dims[2:], strides or [1, 1], dilations or [1, 1], (pads or [0] * 4)[:2]
    count, out, channels = kernel[0] * kernel[1], offset.dims[2:], x.dims[1]
    if channels is None or None in out:
        raise Refused("images whose size or number of channels only the run time knows")
    moves, marks = b.image(offset), None if mask is None else b.image(mask)
    inner = np.indices(kernel).reshape(2, -1)
    columns = []
    for number in range(offset_group):
        taps = []
        for axis in (0, 1):
            corners = (np.arange(out[axis] or 0) * steps[axis] - begins[axis]).reshape((-1, 1, 1) if axis == 0 else (-1, 1))
            plain = b.array((corners + inner[axis] * gaps[axis]).astype(np.float32))
            moved = gathered(b, moves, (number * count + np.arange(count)) * 2 + axis, 3)
            taps.append(taps_along(m, m("ADD", moved, plain), sizes[axis]))
        part = channels // offset_group
        own = flat if offset_group == 1 else gathered(b, flat, np.arange(part) + number * part, 2)
        found = reduce(lambda p, q: m("ADD", p, q), read(b, own, taps, sizes))
        if marks is not None:
            found = m("MUL", found, b.expand_dims(gathered(b, marks, number * count + np.arange(count), 3), 4))
        columns.append(found)
    whole = columns[0] if offset_group == 1 else joined(b, columns, 4)
    made = [_product(b, whole, weight, number, group) for number in range(group)]
    y = made[0] if group == 1 else joined(b, made, 3)
    return Stored(y if bias is None else m("ADD", y, b.ask(bias)), channels_last(4))


def _product(b: Builder, columns: Wire, weight: Constant, number: int, group: int) -> Wire:
    """The elements of all windows, of the channels of one group, times its filters."""
    filters = np.split(weight.value, group)[number]
    size, count = filters.shape[1], columns.dims[3] or 0
    own = columns if group == 1 else gathered(b, columns, np.arange(size) + number * size, 4)
    flat = b.reshape(own, (*columns.dims[:3], count * size))
    matrix = filters.reshape(len(filters), size, count).transpose(0, 2, 1).reshape(len(filters), -1)
    weights = b.constant(np.ascontiguousarray(matrix), weight.name, is_weight=weight.is_weight)
    zero = b.constant(np.zeros(len(filters), np.float32), "bias")
    dims = (*columns.dims[:3], len(filters))
    return b.emit("FULLY_CONNECTED", flat, weights, zero, dims=dims, version=5, keepNumDims=True)
