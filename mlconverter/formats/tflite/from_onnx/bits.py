"""Operators on the bits of integers. LiteRT has BITWISE_XOR and RIGHT_SHIFT, of up to 32 bits."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.integers import quotient_by_powers
from mlconverter.formats.tflite.from_onnx.kernels import STORED
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.values import Operand, Runtime, Stored, Wire, broadcast_dims
from mlconverter.hub.io import numpy_name

BYTE = 256


@translates("BitCast", 26)
def bit_cast(b: Builder, x: Runtime, *, to: int) -> Stored:
    """BitCast → BITCAST."""
    wire, order = x.first
    wanted = numpy_name(ir.DataType(to))
    if wanted not in STORED and wanted != "float16":
        raise Refused(f"TFLite does not compute with {wanted}")
    if x.dtype == "float16":  # is computed in single precision, and its bits are those of half precision
        wire = b.emit("CAST", wire, dims=wire.dims, dtype="float16")
    if wanted == x.dtype:
        return x.first
    made = b.emit("BITCAST", wire, dims=wire.dims, dtype=wanted)
    return Stored(b.emit("CAST", made, dims=wire.dims, dtype="float32") if wanted == "float16" else made, order)


@translates("BitwiseNot", 18)
def bitwise_not(b: Builder, x: Runtime) -> Stored:
    """BitwiseNot → SUB from -1."""
    wire, order = x.first
    ones = b.array(np.array(-1).astype(wire.dtype))
    return Stored(b.compute("SUB", ones, wire, dims=wire.dims), order)


@translates("BitwiseXor", 18)
def bitwise_xor(b: Builder, x: Operand, y: Operand) -> Stored:
    """BitwiseXor → BITWISE_XOR, of halves for 64 bits."""
    order, (left, right) = b.together(x, y)
    if _width(left) < 64:
        return Stored(b.emit("BITWISE_XOR", left, right, dims=broadcast_dims(left.dims, right.dims)), order)
    halves = [b.parts(w, "int32") for w in (left, right)]
    mixed = b.emit("BITWISE_XOR", *halves, dims=broadcast_dims(*(h.dims for h in halves)))
    return Stored(b.joined(mixed, left.dtype), order)


@translates("BitwiseAnd", 18)
def bitwise_and(b: Builder, x: Operand, y: Operand) -> Stored:
    """BitwiseAnd → GATHER of each two bytes from a table."""
    order, (left, right) = b.together(x, y)
    return Stored(_common(b, left, right), order)


@translates("BitwiseOr", 18)
def bitwise_or(b: Builder, x: Operand, y: Operand) -> Stored:
    """BitwiseOr → ADD, less what BitwiseAnd has, which was counted twice."""
    order, (left, right) = b.together(x, y)
    dims = broadcast_dims(left.dims, right.dims)
    both = b.compute("ADD", left, right, dims=dims)
    return Stored(b.compute("SUB", both, _common(b, left, right), dims=dims), order)


def _common(b: Builder, left: Wire, right: Wire) -> Wire:
    """The bits that two tensors of integers have in common."""
    wide = _width(left) > 8
    rows, columns = (b.cast(b.parts(w, "uint8") if wide else b.bits(w, "uint8"), "int32") for w in (left, right))
    rows = b.emit("MUL", rows, b.scalar(BYTE, "int32"), dims=rows.dims)
    places = b.emit("ADD", rows, columns, dims=broadcast_dims(rows.dims, columns.dims))
    numbers = np.arange(BYTE, dtype=np.uint8)
    found = b.emit("GATHER", b.array(np.bitwise_and.outer(numbers, numbers).reshape(-1)), places, dims=places.dims)
    return b.joined(found, left.dtype) if wide else b.bits(found, left.dtype)


@translates("BitShift", 11, 28)
def bit_shift(b: Builder, x: Operand, by: Operand, *, direction: str) -> Stored:
    """BitShift → RIGHT_SHIFT, or MUL by a power of two; by all bits or more, nothing but the sign is left."""
    order, (wire, amount) = b.together(x, by)
    width = _width(wire)
    steps = _within(b, amount, width)
    if direction == "LEFT":
        # Beyond the last power stands none: the product is nothing, as all bits were shifted out.
        powers = np.array([1 << i for i in range(width)] + [0], np.uint64).astype(wire.dtype)
        known = steps.data is not None
        factor = b.array(powers[steps.array]) if known else b.move("GATHER", b.array(powers), steps, dims=steps.dims)
        return Stored(_times(b, wire, factor), order)
    if width == 64:
        return Stored(quotient_by_powers(b, wire, steps), order)
    dims = broadcast_dims(wire.dims, steps.dims)
    if steps.data is not None and steps.array.max(initial=0) < width:
        return Stored(b.emit("RIGHT_SHIFT", wire, b.cast(steps, wire.dtype), dims=dims), order)
    # LiteRT shifts by one less than the width at most.
    most = b.emit("MINIMUM", steps, b.scalar(width - 1, "int32"), dims=steps.dims)
    rest = b.emit("SUB", steps, most, dims=steps.dims)
    shifted = b.emit("RIGHT_SHIFT", wire, b.cast(most, wire.dtype), dims=dims)
    return Stored(b.emit("RIGHT_SHIFT", shifted, b.cast(rest, wire.dtype), dims=dims), order)


def _width(wire: Wire) -> int:
    return np.dtype(wire.dtype).itemsize * 8


def _times(b: Builder, wire: Wire, factor: Wire) -> Wire:
    return b.compute("MUL", wire, factor, dims=broadcast_dims(wire.dims, factor.dims))


def _within(b: Builder, amount: Wire, width: int) -> Wire:
    """By how many bits to shift: as many as there are where the number is larger, or negative."""
    if amount.data is not None:
        known = amount.array.astype(np.int64)
        return b.array(np.where(known < 0, width, np.minimum(known, width)).astype(np.int32))
    wide = b.cast(amount, "int64")
    below = b.emit("LESS", wide, b.scalar(0, "int64"), dims=wide.dims, dtype="bool")
    wide = b.emit("SELECT_V2", below, b.scalar(width, "int64"), wide, dims=wide.dims, dtype="int64")
    return b.cast(b.emit("MINIMUM", wide, b.scalar(width, "int64"), dims=wide.dims), "int32")
