"""Fourier transforms. ONNX has no complex numbers: their parts stand on a further axis until an operator takes them apart."""

from __future__ import annotations

import onnx_ir as ir

from mlconverter.formats.tflite.layout import logical
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Runtime, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_constant, needs_float, translates

TAKES_APART = frozenset({"REAL", "IMAG", "COMPLEX_ABS"})
"""The operators that read complex numbers; what makes them may be read by these only."""


def _read_apart(op: Op) -> str | None:
    made = op.operator.outputs[0]
    readers = {other.op for other in op.subgraph.operators if made in other.inputs}
    border = {*op.subgraph.outputs, *(i for s in op.model.signatures for i in s.outputs.values())}
    if readers <= TAKES_APART and made not in border:
        return None
    return "its complex result is used whole, and ONNX has no complex numbers"


@translates("RFFT2D", 1, check=all_of(needs_float, needs_constant(length=1), _read_apart))
def rfft2d(b: Builder, op: Op, x: Operand, length: Operand) -> Operand:
    """RFFT2D → DFT along the last axis, and of its result along the one before; real and imaginary part on a further axis."""
    height, width = (int(d) for d in op.parameter(1).reshape(-1))
    rank = x.rank
    value = b.emit("Unsqueeze", b.ask(x), b.ints([rank]))
    for axis, size, real in ((rank - 1, width, 1), (rank - 2, height, 0)):
        value = b.emit("DFT", value, b.scalar(size, "int64"), b.scalar(axis, "int64"), onesided=real)
    return Runtime(op.outputs[0].name, op.out_dims, op.outputs[0].dtype, {logical(rank): value})


def _part(name: str, number: int, mapping: str) -> None:
    @translates(name, 1, check=_is_complex)
    def translate(b: Builder, op: Op, x: Operand) -> Stored:
        return Stored(_half(b, x, number), logical(x.rank))

    translate.__doc__ = f"{name} → {mapping}."


def _is_complex(op: Op) -> str | None:
    tensor = op.tensor(0)
    if op.model.is_constant(tensor) or tensor.index in op.subgraph.inputs:
        return "complex numbers that come from outside, and ONNX has none"
    return None if tensor.dtype.startswith("complex") else f"{tensor.dtype} input"


def _half(b: Builder, x: Operand, number: int) -> ir.Value:
    return b.emit("Gather", b.as_is(x).value, b.scalar(number, "int64"), axis=x.rank)


_part("REAL", 0, "Gather of the real parts")
_part("IMAG", 1, "Gather of the imaginary parts")


@translates("COMPLEX_ABS", 1, check=_is_complex)
def complex_abs(b: Builder, op: Op, x: Operand) -> Stored:
    """COMPLEX_ABS → ReduceL2 of real and imaginary part."""
    return Stored(b.emit("ReduceL2", b.as_is(x).value, b.ints([x.rank]), keepdims=0), logical(x.rank))
