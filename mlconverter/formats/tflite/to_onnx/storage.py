"""How numbers are stored: conversions between dtypes, half-precision and sparse weights."""

from __future__ import annotations

from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.dtypes import converted
from mlconverter.formats.tflite.to_onnx.operands import Constant, Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import translates
from mlconverter.hub.weights import Cast


def _real_numbers(op: Op) -> str | None:
    tensor = op.tensor(0)
    return None if tensor.real_dtype.startswith("float") else f"plain {tensor.dtype} numbers"


@translates("DEQUANTIZE", 1, 2, 3, 4, 5, 6, 7, 8, 9, check=_real_numbers)
def dequantize(b: Builder, op: Op, x: Operand) -> Operand | Stored:
    """DEQUANTIZE → nothing: quantised tensors are seen as real numbers; Cast of half-precision ones."""
    dtype = op.outputs[0].dtype
    if x.dtype == dtype:
        return x
    if isinstance(x, Constant):
        return x.then(Cast(dtype, x.dtype), dtype=dtype)
    value, order = b.as_is(x)
    return Stored(b.cast(value, dtype), order)


@translates("QUANTIZE", 1, 2, 3, 4, 5, 6, check=_real_numbers)
def quantize(b: Builder, op: Op, x: Operand) -> Stored:
    """QUANTIZE → nothing: its result is quantised as any other operator's."""
    return b.as_is(x)


def _constant_input(op: Op) -> str | None:
    return None if op.model.is_constant(op.tensor(0)) else "its input is only known at run time"


@translates("DENSIFY", 1, check=_constant_input)
def densify(b: Builder, op: Op, x: Operand) -> Operand:
    """DENSIFY → nothing: sparse constants are seen as dense from the start."""
    return x


@translates("CAST", 1, 2, 3, 4, 5, 6, 7, 8, 9)
def cast(b: Builder, op: Op, x: Operand) -> Operand | Stored:
    """CAST → Cast, of a floating-point number kept within the integer's range; a step of a constant's chain of such."""
    dtype = op.outputs[0].dtype
    if isinstance(x, Constant) and x.grid is None and x.dtype.startswith("float") and dtype.startswith("float"):
        return x.then(Cast(dtype, x.dtype), dtype=dtype)
    value, order = b.whole(x)  # it converts numbers, whatever they stand for
    return Stored(converted(b, value, x.dtype if x.grid is None else op.tensor(0).dtype, dtype), order)
