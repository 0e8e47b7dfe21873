"""Matrix products: FULLY_CONNECTED where one of the operands is a constant matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.elementwise import kept, pointwise
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.shaping import renamed, squeezed
from mlconverter.formats.tflite.from_onnx.values import Constant, Operand, Runtime, Stored, Wire, broadcast_dims


def _fully_connected(b: Builder, x: Runtime, axis: int, matrix: Constant, bias: Constant | None = None) -> Stored:
    """Each vector along an axis of ``x`` times a matrix of shape (out, in)."""
    wire, order = b.with_last(x, axis)
    weights = b.constant(matrix.value, matrix.name, is_weight=matrix.is_weight)
    out = matrix.dims[0]
    terms = b.constant(np.zeros(out, np.float32), "bias") if bias is None else b.ask(bias)
    y = b.emit("FULLY_CONNECTED", wire, weights, terms, dims=(*wire.dims[:-1], out), version=5, keepNumDims=True)
    return Stored(y, order)


def _transposed(matrix: Constant) -> Constant:
    return Constant(matrix.value.T, matrix.name, matrix.is_weight)


@translates("MatMul", 1, 9, 13)
def matmul(b: Builder, x: Operand, y: Operand) -> Stored:
    """MatMul → FULLY_CONNECTED with a constant matrix, BATCH_MATMUL elsewhere."""
    if x.dtype not in ("float32", "float16"):
        raise Refused(f"LiteRT multiplies no matrices of {x.dtype}")
    if isinstance(x, Runtime) and isinstance(y, Constant) and y.rank == 2 and x.rank > 1:
        return _fully_connected(b, x, -1, _transposed(y))
    if isinstance(x, Constant) and isinstance(y, Runtime) and x.rank == 2 and y.rank > 1:
        return _fully_connected(b, y, -2, x)
    # A vector is a matrix with one row or column, which the result does not have.
    left = _as_matrix(b, x, 0) if x.rank == 1 else x
    right = _as_matrix(b, y, 1) if y.rank == 1 else y
    product = _batch_matmul(b, left, right)
    rank = len(product.order)
    lost = [rank - 2] * (x.rank == 1) + [rank - 1] * (y.rank == 1)
    return squeezed(b, product, lost)


def _as_matrix(b: Builder, vector: Operand, axis: int) -> Operand:
    if isinstance(vector, Constant):
        return Constant(np.expand_dims(vector.value, axis), vector.name, vector.is_weight)
    return kept(Stored(b.expand_dims(b.ask(vector), axis), (0, 1)))


def _batch_matmul(b: Builder, x: Operand, y: Operand) -> Stored:
    left = b.ask(x)
    right, transposed = _right(b, y)
    rows, columns = left.dims[-2], right.dims[-2 if transposed else -1]
    dims = (*broadcast_dims(left.dims[:-2], right.dims[:-2]), rows, columns)
    product = b.emit("BATCH_MATMUL", left, right, dims=dims, adjY=transposed)
    return Stored(product, layout.logical(len(dims)))


def _right(b: Builder, y: Operand) -> tuple[Wire, bool]:
    """The right operand as it is, if that is only its matrices transposed."""
    plain = layout.logical(y.rank)
    swapped = (*plain[:-2], plain[-1], plain[-2])
    if isinstance(y, Runtime) and plain not in y.orders and swapped in y.orders:
        return y.orders[swapped], True
    return b.ask(y), False


@translates("Gemm", 1, 6, 7, 9, 11, 13)
def gemm(
    b: Builder,
    x: Operand,
    y: Operand,
    c: Operand | None = None,
    *,
    alpha: float,
    beta: float,
    transA: int,
    transB: int,
    broadcast: int = 1,
) -> Stored:
    """Gemm → FULLY_CONNECTED with a constant matrix, BATCH_MATMUL elsewhere."""
    if x.dtype not in ("float32", "float16"):
        raise Refused(f"LiteRT multiplies no matrices of {x.dtype}")
    left, right = _turned(x) if transA else x, _turned(y) if transB else y
    plus = _scaled(b, c, beta) if c is not None else None
    if isinstance(left, Runtime) and isinstance(right, Constant):
        matrix = _transposed(_times(right, alpha))
        bias = _vector(plus, matrix.dims[0])
        product = _fully_connected(b, left, -1, matrix, bias)
        plus = None if bias is not None else plus
    else:
        scaled = _scaled(b, left, alpha)
        if isinstance(scaled, Constant) and isinstance(right, Runtime):
            product = _fully_connected(b, right, -2, scaled)
        else:
            product = _batch_matmul(b, scaled, right)
    return product if plus is None else pointwise(b, "ADD", kept(product), plus)


def _turned(x: Operand) -> Operand:
    return renamed(x, [1, 0]) if isinstance(x, Runtime) else _transposed(x)


def _times(x: Constant, factor: float) -> Constant:
    return x if factor == 1 else Constant((x.value * np.float32(factor)).astype(x.value.dtype), x.name, x.is_weight)


def _scaled(b: Builder, x: Operand, factor: float) -> Operand:
    if factor == 1:
        return x
    return _times(x, factor) if isinstance(x, Constant) else kept(pointwise(b, "MUL", x, Constant(np.array(factor, np.float32))))


def _vector(c: Operand | None, size: int) -> Constant | None:
    """C as a bias vector, ``None`` where it is something else."""
    if not isinstance(c, Constant) or c.rank > 2 or (c.rank == 2 and c.dims[0] != 1) or c.value.size not in (1, size):
        return None
    return Constant(np.broadcast_to(c.value.reshape(-1), (size,)), c.name, c.is_weight)


@translates("Det", 11, 22)
def det(b: Builder, x: Operand) -> Stored:
    """Det → MUL and SUB of the elements of matrices of up to three rows."""
    size = x.dims[-1]
    if size is None or not 0 < size <= 3 or x.dtype not in ("float32", "float16"):
        raise Refused("of matrices with more than three rows")
    wire = b.ask(x)
    dims = wire.dims[:-2]
    flat = b.reshape(wire, (*dims, size * size)) if dims.count(None) <= 1 else None
    if flat is None:
        raise Refused("of matrices in more than one axis of a size that only the run time knows")

    def at(row: int, column: int) -> Wire:
        return b.emit("GATHER", flat, b.scalar(row * size + column, "int32"), dims=dims, axis=len(dims))

    def minor(row: int, columns: Sequence[int]) -> Wire:
        if len(columns) == 1:
            return at(row, columns[0])
        total: Wire | None = None
        for i, column in enumerate(columns):
            rest = minor(row + 1, [c for c in columns if c != column])
            part = b.emit("MUL", at(row, column), rest, dims=dims)
            total = part if total is None else b.emit("SUB" if i % 2 else "ADD", total, part, dims=dims)
        assert total is not None
        return total

    return Stored(minor(0, range(size)), layout.logical(len(dims)))
