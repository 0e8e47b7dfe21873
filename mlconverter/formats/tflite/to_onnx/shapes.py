"""Shapes: reshaping, adding and dropping axes, transposing, repeating, and shapes as values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Constant, Dims, Op, Operand, Runtime, Stored
from mlconverter.formats.tflite.to_onnx.ops import needs_constant, translates


def reshaped(b: Builder, x: Operand, shape: Sequence[int], dims: Dims) -> Stored:
    """The operand under another shape, in the order that is there where the reshape allows it.

    Args:
        b: the builder.
        x: the operand.
        shape: the new logical shape as the file says it, with at most one -1.
        dims: the new logical shape as far as it is known.
    """
    _, order = b.as_is(x) if isinstance(x, Runtime) else (None, layout.logical(x.rank))
    result = layout.through_reshape(order, x.dims, dims)
    if result is None:
        order, result = layout.logical(x.rank), layout.logical(len(dims))
    sizes = list(layout.arranged(result, shape))
    # A first axis that the reshape leaves alone is copied, so that the file's batch of 1 does not stay for ever.
    same_rows = x.rank > 0 and len(dims) > 0 and x.dims[0] == dims[0] and order[0] == result[0] == 0
    if same_rows and (dims[0] is not None or -1 not in sizes[1:]) and 0 not in sizes:
        sizes[0] = 0
        if -1 not in sizes[1:] and None in dims[1:]:
            sizes[result.index(dims.index(None, 1))] = -1
    return Stored(b.emit("Reshape", b.ask(x, order), b.ints(sizes)), result)


def _reshape_target(op: Op) -> list[int] | None:
    """The constant shape that a RESHAPE names: its second input, or its option where it has one input only."""
    if op.input(1) is not None:
        shape = op.constant(1)
        return None if shape is None else [int(d) for d in shape.reshape(-1)]
    option = op.options.newShape
    return None if option is None or isinstance(option, int) else [int(d) for d in option]


def _names_a_shape(op: Op) -> str | None:
    if op.input(1) is None and _reshape_target(op) is None:
        return "it names no shape"
    return None


@translates("RESHAPE", 1, check=_names_a_shape)
def reshape(b: Builder, op: Op, x: Operand, shape: Operand | None = None) -> Stored | Constant:
    """RESHAPE → Reshape, of the stored order where merged and split axes stay neighbours; a step of a constant's chain."""
    target = _reshape_target(op)
    if target is None:
        assert shape is not None
        value = b.emit("Reshape", b.ask(x), b.cast(b.ask(shape), "int64"), allowzero=1)
        return Stored(value, layout.logical(len(op.out_dims)))
    if target == [0] and not op.out_dims:
        # Files from before scalars had a shape of their own write it as [0].
        target = []
    if isinstance(x, Constant):
        return x.reshaped(tuple(x.value.reshape(target).shape))
    return reshaped(b, x, target, _merged(target, op.out_dims))


def _merged(target: Sequence[int], declared: Dims) -> Dims:
    """What is known of a reshape's result: what it says itself, and for its -1 what the output tensor says."""
    if len(declared) != len(target):
        declared = (None,) * len(target)
    return tuple(known if size == -1 else size for size, known in zip(target, declared, strict=True))


@translates("SQUEEZE", 1, 2)
def squeeze(b: Builder, op: Op, x: Operand) -> Stored | Constant:
    """SQUEEZE → Squeeze; a step of a constant's chain."""
    option = op.options.squeezeDims
    axes = [] if option is None or isinstance(option, int) else [int(a) % x.rank for a in option]
    axes = axes or [a for a, size in enumerate(x.dims) if size == 1]
    if isinstance(x, Constant):
        return x.reshaped(tuple(size for axis, size in enumerate(x.dims) if axis not in axes))
    value, order = b.as_is(x)
    if not axes:
        return Stored(value, order)
    return Stored(b.emit("Squeeze", value, b.ints(layout.positions(order, axes))), layout.without(order, axes))


@translates("EXPAND_DIMS", 1, check=needs_constant(axis=1))
def expand_dims(b: Builder, op: Op, x: Operand, axis: Operand) -> Stored | Constant:
    """EXPAND_DIMS → Unsqueeze; a step of a constant's chain."""
    place = int(op.parameter(1).reshape(-1)[0]) % (x.rank + 1)
    if isinstance(x, Constant):
        return x.reshaped((*x.dims[:place], 1, *x.dims[place:]))
    return unsqueezed(b, b.as_is(x), place)


def unsqueezed(b: Builder, stored: Stored, axis: int) -> Stored:
    """A value with a new logical axis of size 1."""
    order, position = layout.inserted(stored.order, axis)
    return Stored(b.emit("Unsqueeze", stored.value, b.ints([position])), order)


@translates("TRANSPOSE", 1, 2, 3, 4, 5, 6, 7, 8, 9, check=needs_constant(permutation=1))
def transpose(b: Builder, op: Op, x: Operand, perm: Operand) -> Operand:
    """TRANSPOSE → nothing: it renames the axes of what is there."""
    return transposed(op, x, op.parameter(1).tolist())


def transposed(op: Op, x: Operand, permutation: Sequence[int]) -> Operand:
    """The operand with its logical axes in another order."""
    axes = tuple(a % x.rank for a in permutation)
    if isinstance(x, Constant):
        return x.transposed(axes)
    orders = {layout.renamed(order, axes): value for order, value in x.orders.items()}
    return Runtime(op.outputs[0].name, layout.arranged(axes, x.dims), x.dtype, orders)


@translates("SHAPE", 1)
def shape(b: Builder, op: Op, x: Operand) -> Stored:
    """SHAPE → Shape, its entries in the file's order."""
    value, order = b.as_is(x)
    sizes = b.emit("Shape", value)
    if order != layout.logical(x.rank):
        sizes = b.emit("Gather", sizes, b.ints(layout.inverse(order)))
    return Stored(as_dtype(b, sizes, op.outputs[0].dtype), (0,))


@translates("RANK", 1)
def rank(b: Builder, op: Op, x: Operand) -> Stored:
    """RANK → a constant."""
    return Stored(b.emit("Identity", b.scalar(x.rank, op.outputs[0].dtype)), ())


def as_dtype(b: Builder, value: ir.Value, dtype: str) -> ir.Value:
    """Integers that ONNX gives as int64, in the dtype of the file."""
    return value if dtype == "int64" else b.cast(value, dtype)


@translates("BROADCAST_TO", 2, 3, 4)
def broadcast_to(b: Builder, op: Op, x: Operand, shape: Operand) -> Stored:
    """BROADCAST_TO → Expand; the axes that keep their size are not named, so that they may be of any size."""
    sizes = op.constant(1)
    if sizes is None:
        return Stored(b.emit("Expand", b.ask(x), b.cast(b.ask(shape), "int64")), layout.logical(len(op.out_dims)))
    rank = sizes.size
    order = x.first.order if isinstance(x, Runtime) and x.rank == rank else layout.logical(rank)
    known = (*(1,) * (rank - x.rank), *x.dims)
    target = [1 if size == before else int(size) for size, before in zip(sizes, known, strict=True)]
    return Stored(b.emit("Expand", b.broadcast(x, order), b.ints(layout.arranged(order, target))), order)


def _known_ranks(op: Op) -> str | None:
    if None in op.dims(op.tensor(0)) + op.dims(op.tensor(1)):
        return "the ranks that it brings together are only known at run time"
    return None


@translates("BROADCAST_ARGS", 1, check=_known_ranks)
def broadcast_args(b: Builder, op: Op, first: Operand, second: Operand) -> Stored:
    """BROADCAST_ARGS → Where: the other shape's size for each 1, after the shorter shape got leading ones."""
    dtype, length = op.outputs[0].dtype, max(first.dims[0] or 0, second.dims[0] or 0)
    sizes = []
    for operand in (first, second):
        ones = length - (operand.dims[0] or 0)
        parts = [b.array(np.ones(ones, dtype)), b.ask(operand)] if ones else [b.ask(operand)]
        sizes.append(b.emit("Concat", *parts, axis=0))
    return Stored(b.emit("Where", b.emit("Equal", sizes[0], b.scalar(1, dtype)), sizes[1], sizes[0]), (0,))


@translates("TILE", 1, 2, 3)
def tile(b: Builder, op: Op, x: Operand, multiples: Operand) -> Stored:
    """TILE → Tile."""
    counts = op.constant(1)
    if counts is None:
        return Stored(b.emit("Tile", b.ask(x), b.cast(b.ask(multiples), "int64")), layout.logical(x.rank))
    value, order = b.as_is(x)
    return Stored(b.emit("Tile", value, b.ints(layout.arranged(order, [int(c) for c in counts]))), order)


@translates("FILL", 1, 2, 3, 4, 5)
def fill(b: Builder, op: Op, dims: Operand, value: Operand) -> Stored:
    """FILL → Expand of the value."""
    sizes = op.constant(0)
    target = b.cast(b.ask(dims), "int64") if sizes is None else b.ints(int(d) for d in sizes)
    return Stored(b.emit("Expand", b.ask(value), target), layout.logical(len(op.out_dims)))


@translates("RANGE", 1, 2)
def range_(b: Builder, op: Op, start: Operand, limit: Operand, delta: Operand) -> Stored:
    """RANGE → Range."""
    bounds = [b.emit("Squeeze", b.ask(o)) if o.rank else b.ask(o) for o in (start, limit, delta)]
    return Stored(b.emit("Range", *bounds), (0,))


@translates("CUMSUM", 1, check=needs_constant(axis=1))
def cumsum(b: Builder, op: Op, x: Operand, axis: Operand) -> Stored:
    """CUMSUM → CumSum."""
    value, order = b.as_is(x)
    position = layout.positions(order, op.parameter(1).reshape(-1).tolist())[0]
    options = op.options
    result = b.emit(
        "CumSum", value, b.array(np.asarray(position, np.int64)), exclusive=int(options.exclusive), reverse=int(options.reverse)
    )
    return Stored(result, order)
