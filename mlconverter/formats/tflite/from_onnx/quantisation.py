"""Quantised values: as the arithmetic that they stand for, exact to the last bit.

LiteRT's own QUANTIZE rounds halves away from zero and ONNX to even, so quantising is written out; the numbers that are
rounded and clamped are those that the specification names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.elementwise import kept, pointwise
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.products import conv_integer, mat_mul_integer
from mlconverter.formats.tflite.from_onnx.values import Constant, Dims, Meaning, Operand, Runtime, Stored
from mlconverter.formats.tflite.layout import logical
from mlconverter.hub.io import numpy_name
from mlconverter.signature import Quantization

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
    start = None if zero is None else along(b, zero, x, axis, block_size)
    integers = _saturated(b, kept(Stored(whole, steps.first.order)), start, wanted)
    grid = _grid(scale, zero)
    if grid is not None:
        integers.wire.name, integers.wire.meaning = b.out_name(), Meaning(grid, x.orders[integers.order])
    return integers


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
        if (grid := _grid(scale, zero)) is not None:
            b.grids[x.name] = grid
        return Constant(values, x.name, is_weight=True)
    whole = _real(b, x) if offset is None else kept(pointwise(b, "SUB", _real(b, x), _real(b, offset)))
    real = pointwise(b, "MUL", whole, factor)
    if isinstance(x, Runtime) and (grid := _grid(scale, zero)) is not None:
        real.wire.meaning = Meaning(grid, x.orders[real.order])
    return real


def _grid(scale: Operand, zero: Operand | None) -> Quantization | None:
    """What integers stand for, where it is known beforehand: one scale, or some along one axis."""
    if not isinstance(scale, Constant) or not isinstance(zero, Constant | None) or scale.rank > 1 or not (scale.value > 0).all():
        return None
    zeros = np.zeros(scale.value.size, np.int64) if zero is None else zero.value.astype(np.int64).reshape(-1)
    return Quantization(tuple(map(float, scale.value.reshape(-1))), tuple(map(int, zeros)))


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
    total = kept(mat_mul_integer(b, x, y, x_zero, y_zero))
    return _rescaled(b, total, [_column(b, x_scale), y_scale], _column(b, scale), _column(b, zero))


@translates("QLinearConv", 10)
def qlinear_conv(
    b: Builder,
    x: Operand,
    x_scale: Operand,
    x_zero: Operand,
    filters: Operand,
    filter_scale: Operand,
    filter_zero: Operand,
    scale: Operand,
    zero: Operand,
    bias: Operand | None = None,
    **attributes: Any,
) -> Stored:
    """QLinearConv → a convolution of whole numbers, ADD, MUL, DIV, ROUND, ADD, MAXIMUM, MINIMUM, CAST."""
    total = kept(conv_integer(b, x, filters, x_zero, filter_zero, **attributes))
    if bias is not None:
        total = kept(pointwise(b, "ADD", total, along(b, bias, x, 1, 0)))
    return _rescaled(b, total, [x_scale, along(b, filter_scale, x, 1, 0)], scale, zero)


def _rescaled(b: Builder, total: Runtime, factors: list[Operand], scale: Operand, zero: Operand) -> Stored:
    """Sums of products of whole numbers as the numbers that they stand for, quantised anew."""
    real = _real(b, total)
    for factor in factors:
        real = kept(pointwise(b, "MUL", real, factor))
    steps = kept(pointwise(b, "DIV", real, scale))
    whole = b.emit("ROUND", steps.first.wire, dims=steps.first.wire.dims)
    return _saturated(b, kept(Stored(whole, steps.first.order)), zero, b.out_dtype())


def _column(b: Builder, rows: Operand) -> Operand:
    """One number a row, ready to be broadcast over columns."""
    if rows.rank != 1 or rows.dims == (1,):
        return rows
    if isinstance(rows, Constant):
        return Constant(rows.value[:, None], rows.name)
    return kept(Stored(b.expand_dims(b.ask(rows), 1), (0, 1)))


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
