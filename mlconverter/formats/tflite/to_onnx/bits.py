"""Integers as bits: exclusive or, shifts, and another reading of the same bits."""

from __future__ import annotations

import numpy as np

from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import translates


@translates("BITWISE_XOR", 1)
def bitwise_xor(b: Builder, op: Op, x: Operand, y: Operand) -> Stored:
    """BITWISE_XOR → BitwiseXor, operands aligned."""
    order, values = b.together(x, y)
    return Stored(b.emit("BitwiseXor", *values), order)


@translates("RIGHT_SHIFT", 1)
def right_shift(b: Builder, op: Op, x: Operand, places: Operand) -> Stored:
    """RIGHT_SHIFT → division by a power of two, rounded down: BitShift takes no negative numbers."""
    order, (value, count) = b.together(x, places)
    bits = np.dtype(x.dtype).itemsize * 8
    count = b.emit("Min", b.emit("Max", b.cast(count, "int64"), b.scalar(0, "int64")), b.scalar(bits - 1, "int64"))
    power = b.cast(b.emit("BitShift", b.scalar(1, "uint64"), b.cast(count, "uint64"), direction="LEFT"), "int64")
    value = b.cast(value, "int64")
    # Without the remainder, which is never negative here, the division leaves no rest to round.
    quotient = b.emit("Div", b.emit("Sub", value, b.emit("Mod", value, power)), power)
    return Stored(b.cast(quotient, x.dtype), order)


def _same_width(op: Op) -> str | None:
    before, after = op.tensor(0).dtype, op.outputs[0].dtype
    if before == after:
        return None
    kinds, widths = {np.dtype(d).kind for d in (before, after)}, {np.dtype(d).itemsize for d in (before, after)}
    if kinds <= {"i", "u"} and len(widths) == 1:
        return None
    return f"the bits of {before} read as {after}, which ONNX says from operator set 26 on"


@translates("BITCAST", 1, check=_same_width)
def bitcast(b: Builder, op: Op, x: Operand) -> Stored:
    """BITCAST → Cast between signed and unsigned integers of one width."""
    value, order = b.as_is(x)
    return Stored(b.cast(value, op.outputs[0].dtype), order)
