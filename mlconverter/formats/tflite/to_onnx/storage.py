"""How numbers are stored: conversions between dtypes, half-precision and sparse weights."""

from __future__ import annotations

from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.dtypes import converted
from mlconverter.formats.tflite.to_onnx.operands import Constant, Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import translates
from mlconverter.hub.weights import Cast, Dequantize


def _float_or_constant(op: Op) -> str | None:
    tensor = op.tensor(0)
    if tensor.dtype == "float16" or (op.constant(0) is not None and tensor.quantization is not None):
        return None
    return f"quantised activations ({tensor.dtype})"


@translates("DEQUANTIZE", 1, 2, 3, 4, 5, 6, 7, 8, 9, check=_float_or_constant)
def dequantize(b: Builder, op: Op, x: Operand) -> Operand | Stored:
    """DEQUANTIZE → a step of a constant's chain, Cast of a half-precision value."""
    dtype = op.outputs[0].dtype
    if not isinstance(x, Constant):
        value, order = b.as_is(x)
        return Stored(b.cast(value, dtype), order)
    if x.dtype == "float16":
        return x.then(Cast(dtype, x.dtype), dtype=dtype)
    q = op.tensor(0).quantization
    assert q is not None
    return x.then(Dequantize(q.scale, q.zero_point, q.axis), dtype="float32")


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
    if isinstance(x, Constant) and x.dtype.startswith("float") and dtype.startswith("float"):
        return x.then(Cast(dtype, x.dtype), dtype=dtype)
    value, order = b.as_is(x)
    return Stored(converted(b, value, x.dtype, dtype), order)
