"""Matrix products."""

from __future__ import annotations

import math

import onnx_ir as ir

from mlconverter.formats.tflite.layout import logical
from mlconverter.formats.tflite.to_onnx.activations import fused
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_float, needs_rank, translates
from mlconverter.formats.tflite.to_onnx.shapes import reshaped


def _plain_weights(op: Op) -> str | None:
    if op.options.weightsFormat:
        return "shuffled quantised weights"
    if None in op.dims(op.tensor(1)):
        return "the shape of its weights is only known at run time"
    return None


@translates(
    "FULLY_CONNECTED",
    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14),
    check=all_of(needs_float, needs_rank(2, index=1), _plain_weights),
)
def fully_connected(b: Builder, op: Op, x: Operand, weights: Operand, bias: Operand | None = None) -> Stored:
    """FULLY_CONNECTED → Gemm of the flattened input, or MatMul where dimensions are kept (+ fused activation)."""
    biases = () if bias is None else (b.ask(bias, weight=True),)
    if op.options.keepNumDims and x.rank != 2:
        value = b.emit("MatMul", b.ask(x), b.ask(weights, (1, 0), weight=True))
        for term in biases:
            value = b.emit("Add", value, term)
        order = logical(x.rank)
    else:
        features = weights.dims[1]
        assert features is not None
        rows = b.ask(x) if x.rank == 2 and x.dims[1] == features else _flattened(b, x, features)
        value = b.emit("Gemm", rows, b.ask(weights, weight=True), *biases, transB=1)
        order = logical(2)
    return Stored(fused(b, value, op.options.fusedActivationFunction), order)


def _flattened(b: Builder, x: Operand, features: int) -> ir.Value:
    """The operand as rows of ``features`` elements, however many there are."""
    kept = x.rank > 0 and all(d is not None for d in x.dims[1:]) and math.prod(d or 0 for d in x.dims[1:]) == features
    return reshaped(b, x, [-1, features], (x.dims[0] if kept else None, features)).value


@translates("BATCH_MATMUL", 1, 2, 3, 4, check=needs_float)
def batch_matmul(b: Builder, op: Op, x: Operand, y: Operand) -> Stored:
    """BATCH_MATMUL → MatMul; an adjoint operand is asked for with its last two axes swapped."""
    left = b.ask(x, _matrix(x.rank, op.options.adjX))
    right = b.ask(y, _matrix(y.rank, op.options.adjY))
    return Stored(b.emit("MatMul", left, right), logical(max(x.rank, y.rank)))


def _matrix(rank: int, adjoint: bool) -> tuple[int, ...]:
    order = logical(rank)
    return (*order[:-2], order[-1], order[-2]) if adjoint else order
