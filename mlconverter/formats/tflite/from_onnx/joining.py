"""Operators that join tensors, and that cut them apart."""

from __future__ import annotations

from collections.abc import Sequence

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.kernels import WIDER, fitting
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.values import Dims, Ints, Operand, Runtime, Stored, Wire


@translates("Concat", 1, 4, 11, 13)
def concat(b: Builder, *xs: Operand, axis: int) -> Stored | Operand:
    """Concat → CONCATENATION."""
    present = [x for x in xs if x.dims != (0,)]
    if len(present) < 2:
        return present[0] if present else xs[0]
    computed = [tuple(x.orders) for x in present if isinstance(x, Runtime)]
    order = layout.most_common(computed) if computed else layout.logical(xs[0].rank)
    (position,) = layout.positions(order, [axis])
    return Stored(joined(b, [b.ask(x, order) for x in present], position), order)


def joined(b: Builder, wires: Sequence[Wire], position: int) -> Wire:
    """Tensors joined along a stored axis."""
    dims = list(wires[0].dims)
    for wire in wires[1:]:
        dims = [d if d is not None else w for d, w in zip(dims, wire.dims, strict=True)]
    lengths = [w.dims[position] for w in wires]
    dims[position] = None if None in lengths else sum(n or 0 for n in lengths)
    own = wires[0].dtype
    fit = fitting("CONCATENATION", own) or WIDER.get(own, own)
    return b.cast(b.emit("CONCATENATION", *(b.cast(w, fit) for w in wires), dims=tuple(dims), axis=position), own)


@translates("Split", 2, 11, 13, 18)
def split(
    b: Builder, x: Runtime, sizes: Ints | Runtime | None = None, *, axis: int, num_outputs: int | None = None
) -> list[Stored]:
    """Split → SPLIT into equal parts, SPLIT_V elsewhere."""
    assert b.node is not None
    count = len(b.node.outputs)
    wire, order = x.first
    (position,) = layout.positions(order, [axis])
    total = wire.dims[position]
    lengths: list[int | None]
    if isinstance(sizes, Runtime):
        lengths = [None] * count
    elif sizes is not None:
        lengths = list(sizes.fixed("a length"))
    elif total is None:
        if num_outputs is not None:
            raise Refused("parts of a size that only the run time knows")
        lengths = [None] * count
    else:
        size = -(-total // count)
        if size * (count - 1) > total:
            raise ValueError(f"{total} elements do not make {count} parts")
        lengths = [*[size] * (count - 1), total - size * (count - 1)]
    if count == 1:
        return [Stored(wire, order)]
    outputs: list[tuple[Dims, None]] = [((*wire.dims[:position], n, *wire.dims[position + 1 :]), None) for n in lengths]
    own, fit = wire.dtype, fitting("SPLIT", wire.dtype) or wire.dtype
    data = b.cast(wire, fit)
    if len(set(lengths)) == 1 and not isinstance(sizes, Runtime):
        parts = b.emit_several("SPLIT", b.scalar(position, "int32"), data, outputs=outputs, numSplits=count)
    else:
        given = b.setting(sizes) if isinstance(sizes, Runtime) else b.ints([n for n in lengths if n is not None])
        parts = b.emit_several("SPLIT_V", data, given, b.scalar(position, "int32"), outputs=outputs, numSplits=count)
    return [Stored(b.cast(p, own), order) for p in parts]
