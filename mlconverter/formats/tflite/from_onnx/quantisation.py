"""Quantised values: as the arithmetic that they stand for, exact to the last bit.

LiteRT's own QUANTIZE rounds halves away from zero and ONNX to even, so quantising is written out; the numbers that are
rounded and clamped are those that the specification names.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.elementwise import kept, pointwise
from mlconverter.formats.tflite.from_onnx.linear import matmul
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.values import Constant, Dims, Operand, Runtime, Stored
from mlconverter.formats.tflite.layout import logical
from mlconverter.hub.io import numpy_name

_VERSIONS = (10, 13, 19, 21, 23, 24, 25, 28)

_NARROW = ("int8", "uint8", "int16", "uint16")
"""Integers whose differences and quotients single precision holds."""


@translates("QuantizeLinear", *_VERSIONS)
def quantize_linear(
    b: Builder,
    x: Runtime,
    scale: Operand,
    zero: Operand | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    saturate: int = 1,
    output_dtype: int = 0,
    precision: int = 0,
) -> Stored:
    """QuantizeLinear → DIV, ROUND, ADD, MAXIMUM, MINIMUM, CAST."""
    wanted = b.out_dtype()
    if wanted not in _NARROW:
        raise Refused(f"quantised to {wanted}")
    if x.dtype != "float32" or scale.dtype != "float32" or precision not in (0, ir.DataType.FLOAT):
        raise Refused(f"quantising {x.dtype} by {scale.dtype}")
    steps = kept(pointwise(b, "DIV", x, along(b, scale, x, axis, block_size)))
    whole = b.emit("ROUND", steps.first.wire, dims=steps.first.wire.dims)
    return _saturated(
        b, kept(Stored(whole, steps.first.order)), None if zero is None else along(b, zero, x, axis, block_size), wanted
    )


def _saturated(b: Builder, whole: Runtime, zero: Operand | None, wanted: str) -> Stored:
    """Whole numbers moved to their zero point, within an integer type."""
    if zero is not None:
        whole = kept(pointwise(b, "ADD", whole, _real(b, zero)))
    limits = np.iinfo(wanted)
    wire, order = whole.first
    above = b.emit("MAXIMUM", wire, b.scalar(float(limits.min), "float32"), dims=wire.dims)
    return Stored(b.cast(b.emit("MINIMUM", above, b.scalar(float(limits.max), "float32"), dims=wire.dims), wanted), order)


@translates("DequantizeLinear", *_VERSIONS)
def dequantize_linear(
    b: Builder,
    x: Operand,
    scale: Operand,
    zero: Operand | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Stored | Constant:
    """DequantizeLinear → SUB, MUL; a constant is dequantised now."""
    if scale.dtype != "float32" or output_dtype not in (0, ir.DataType.FLOAT):
        raise Refused(f"dequantised to {numpy_name(ir.DataType(output_dtype)) if output_dtype else scale.dtype}")
    if x.dtype not in (*_NARROW, "int32"):
        raise Refused(f"dequantised from {x.dtype}")
    factor = along(b, scale, x, axis, block_size)
    offset = None if zero is None else along(b, zero, x, axis, block_size)
    if isinstance(x, Constant) and isinstance(factor, Constant) and isinstance(offset, Constant | None):
        start = np.int64(0) if offset is None else offset.value.astype(np.int64)
        values = (x.value.astype(np.int64) - start).astype(np.float32) * factor.value
        return Constant(values, x.name, is_weight=True)
    whole = _real(b, x) if offset is None else kept(pointwise(b, "SUB", _real(b, x), _real(b, offset)))
    return pointwise(b, "MUL", whole, factor)


@translates("MatMulInteger", 10)
def matmul_integer(b: Builder, x: Operand, y: Operand, x_zero: Operand | None = None, y_zero: Operand | None = None) -> Stored:
    """MatMulInteger → a product of whole numbers in single precision, where that holds all sums."""
    return _cast(b, _product(b, x, x_zero, y, y_zero), "int32")


@translates("QLinearMatMul", 10, 21)
def qlinear_matmul(
    b: Builder,
    x: Operand,
    x_scale: Operand,
    x_zero: Operand,
    y: Operand,
    y_scale: Operand,
    y_zero: Operand,
    scale: Operand,
    zero: Operand,
) -> Stored:
    """QLinearMatMul → a product of whole numbers, MUL, DIV, ROUND, ADD, MAXIMUM, MINIMUM, CAST."""
    if any(s.dtype != "float32" for s in (x_scale, y_scale, scale)):
        raise Refused("scales of another type than float32")
    total = kept(_product(b, x, x_zero, y, y_zero))
    per_row, per_column = _column(b, x_scale), y_scale
    real = kept(pointwise(b, "MUL", kept(pointwise(b, "MUL", total, per_row)), per_column))
    steps = kept(pointwise(b, "DIV", real, _column(b, scale)))
    whole = b.emit("ROUND", steps.first.wire, dims=steps.first.wire.dims)
    return _saturated(b, kept(Stored(whole, steps.first.order)), _column(b, zero), b.out_dtype())


def _column(b: Builder, rows: Operand) -> Operand:
    """One number a row, ready to be broadcast over columns."""
    if rows.rank != 1 or rows.dims == (1,):
        return rows
    if isinstance(rows, Constant):
        return Constant(rows.value[:, None], rows.name)
    return kept(Stored(b.expand_dims(b.ask(rows), 1), (0, 1)))


def _product(b: Builder, x: Operand, x_zero: Operand | None, y: Operand, y_zero: Operand | None) -> Stored:
    terms = x.dims[-1]
    if x.dtype not in ("int8", "uint8") or y.dtype not in ("int8", "uint8"):
        raise Refused(f"a product of {x.dtype} and {y.dtype}")
    if terms is None or terms * 255 * 255 > 2**24:
        raise Refused("sums of more products than single precision holds exactly")
    left = _difference(b, x, None if x_zero is None else _column(b, x_zero))
    result = matmul(b, left, _difference(b, y, y_zero))
    assert isinstance(result, Stored)
    return result


def _difference(b: Builder, x: Operand, zero: Operand | None) -> Operand:
    if isinstance(x, Constant) and isinstance(zero, Constant | None):
        return Constant(x.value.astype(np.float32) - (0 if zero is None else zero.value.astype(np.float32)), x.name)
    return _real(b, x) if zero is None else kept(pointwise(b, "SUB", _real(b, x), _real(b, zero)))


def _real(b: Builder, x: Operand) -> Operand:
    """Whole numbers in single precision."""
    if x.dtype == "float32":
        return x
    if isinstance(x, Constant):
        return Constant(x.value.astype(np.float32), x.name)
    return kept(_cast(b, x.first, "float32"))


def _cast(b: Builder, x: Stored, dtype: str) -> Stored:
    return Stored(b.cast(x.wire, dtype), x.order)


def along(b: Builder, setting: Operand, x: Operand, axis: int, block: int) -> Operand:
    """A scale or zero point, ready to be broadcast: one number, one for each place along an axis, or one for each block."""
    axis = axis % x.rank if x.rank else 0
    if setting.rank == 0 or setting.dims == (1,):
        return _reshaped(b, setting, ())
    if setting.rank == 1:
        return _reshaped(b, setting, (*setting.dims, *(1,) * (x.rank - 1 - axis)))
    if not block or None in setting.dims or None in x.dims:
        raise Refused("blocks of a size that only the run time knows")
    return _repeated(b, setting, axis, block, x.dims[axis] or 0)


def _reshaped(b: Builder, setting: Operand, dims: Dims) -> Operand:
    if isinstance(setting, Constant):
        return Constant(setting.value.reshape([-1 if d is None else d for d in dims]), setting.name)
    return kept(Stored(b.reshape(b.ask(setting), dims), logical(len(dims))))


def _repeated(b: Builder, setting: Operand, axis: int, block: int, size: int) -> Operand:
    """Each place along an axis as often as its block is long; the last block may be shorter."""
    if isinstance(setting, Constant):
        places = np.arange(size) // block
        return Constant(setting.value.take(places, axis), setting.name)
    picks = b.array((np.arange(size) // block).astype(np.int32))
    wire = b.ask(setting)
    dims = (*wire.dims[:axis], size, *wire.dims[axis + 1 :])
    return kept(Stored(b.move("GATHER", wire, picks, dims=dims, axis=axis), logical(len(dims))))
