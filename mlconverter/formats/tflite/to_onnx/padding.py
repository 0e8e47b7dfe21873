"""Padding."""

from __future__ import annotations

import onnx_ir as ir

from mlconverter.formats.tflite.layout import arranged, logical
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.dtypes import with_kernel
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import translates

REFLECT = 0
"""``MirrorPadMode.REFLECT``: the border element is not repeated; it is in the other mode, SYMMETRIC."""


def _padded(b: Builder, op: Op, x: Operand, paddings: Operand, fill: ir.Value | None) -> Stored:
    widths = op.constant(1)
    fills = () if fill is None else (fill,)
    if widths is None:
        by_end = b.emit("Transpose", b.cast(b.ask(paddings), "int64"), perm=[1, 0])
        return Stored(_pad(b, x.dtype, b.emit("Reshape", by_end, b.ints([-1])), b.ask(x), *fills), logical(x.rank))
    value, order = b.as_is(x)
    begins, ends = (arranged(order, widths[:, side].tolist()) for side in (0, 1))
    if not any((*begins, *ends)):
        return Stored(value, order)
    return Stored(_pad(b, x.dtype, b.ints([*begins, *ends]), value, *fills), order)


def _pad(b: Builder, dtype: str, widths: ir.Value, value: ir.Value, *fill: ir.Value) -> ir.Value:
    return with_kernel(b, "Pad", dtype, lambda v, *fill: b.emit("Pad", v, widths, *fill), value, *fill)


@translates("PAD", 1, 2, 3, 4, 5, 6)
def pad(b: Builder, op: Op, x: Operand, paddings: Operand) -> Stored:
    """PAD → Pad with zeros."""
    return _padded(b, op, x, paddings, None)


@translates("PADV2", 1, 2, 3, 4, 5, 6)
def padv2(b: Builder, op: Op, x: Operand, paddings: Operand, fill: Operand) -> Stored:
    """PADV2 → Pad with a value."""
    value = b.ask(fill)
    return _padded(b, op, x, paddings, b.emit("Squeeze", value) if fill.rank else value)


def _known_sizes(op: Op) -> str | None:
    widths = op.constant(1)
    if widths is None:
        return "its paddings are only known at run time"
    if any(size is None and row.any() for size, row in zip(op.dims(op.tensor(0)), widths, strict=True)):
        return "an axis that it mirrors is only known at run time"
    return None


@translates("MIRROR_PAD", 1, 2, 3, check=_known_sizes)
def mirror_pad(b: Builder, op: Op, x: Operand, paddings: Operand) -> Stored:
    """MIRROR_PAD → Pad by reflection, or Gather along each axis where the border is repeated."""
    widths = op.parameter(1)
    value, order = b.as_is(x)
    if op.options.mode == REFLECT:
        begins, ends = (arranged(order, widths[:, side].tolist()) for side in (0, 1))
        ends_of = b.ints([*begins, *ends])
        return Stored(with_kernel(b, "Pad", x.dtype, lambda v: b.emit("Pad", v, ends_of, mode="reflect"), value), order)
    for axis, (begin, end) in enumerate(widths.tolist()):
        size = x.dims[axis]
        if begin or end:
            assert size is not None
            mirrored = [*range(begin - 1, -1, -1), *range(size), *range(size - 1, size - 1 - end, -1)]
            value = b.emit("Gather", value, b.ints(mirrored), axis=order.index(axis))
    return Stored(value, order)
