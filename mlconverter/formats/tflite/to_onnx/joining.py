"""Putting values together along an axis, and taking them apart."""

from __future__ import annotations

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.to_onnx.activations import fused
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Runtime, Stored
from mlconverter.formats.tflite.to_onnx.ops import needs_constant, translates


@translates("CONCATENATION", 1, 2, 3, 4, 5, 6, 7)
def concatenation(b: Builder, op: Op, *parts: Operand) -> Stored:
    """CONCATENATION → Concat (+ fused activation)."""
    value, order = joined(b, parts, op.options.axis)
    return Stored(fused(b, value, op.options.fusedActivationFunction, parts[0].dtype), order)


def joined(b: Builder, parts: tuple[Operand, ...], axis: int) -> Stored:
    """Operands put together along a logical axis, in the order in which most of them stand."""
    order = _order_of(parts)
    return Stored(b.emit("Concat", *(b.ask(p, order) for p in parts), axis=layout.positions(order, [axis])[0]), order)


@translates("PACK", 1, 2, 3, 4, 5)
def pack(b: Builder, op: Op, *parts: Operand) -> Stored:
    """PACK → Unsqueeze of each, and Concat."""
    axis = int(op.options.axis) % (parts[0].rank + 1)
    order, position = layout.inserted(own := _order_of(parts), axis)
    rows = [b.emit("Unsqueeze", b.ask(p, own), b.ints([position])) for p in parts]
    return Stored(b.emit("Concat", *rows, axis=position), order)


def _order_of(parts: tuple[Operand, ...]) -> layout.Order:
    """The order in which most of several operands of one rank stand."""
    available = [tuple(p.orders) for p in parts if isinstance(p, Runtime)]
    return layout.most_common(available) if available else layout.logical(parts[0].rank)


@translates("UNPACK", 1, 2, 3, 4, 5, 6)
def unpack(b: Builder, op: Op, x: Operand) -> list[Stored]:
    """UNPACK → Split, and Squeeze of each part."""
    value, order = b.as_is(x)
    axis = int(op.options.axis) % x.rank
    position = order.index(axis)
    count = len(op.outputs)
    parts = b.emit_several("Split", count, value, axis=position, num_outputs=count)
    axes = b.ints([position])
    return [Stored(b.emit("Squeeze", part, axes), layout.without(order, [axis])) for part in parts]


@translates("SPLIT", 1, 2, 3, 4, 5, check=needs_constant(axis=0))
def split(b: Builder, op: Op, axis: Operand, x: Operand) -> list[Stored]:
    """SPLIT → Split into equal parts."""
    value, order = b.as_is(x)
    count = len(op.outputs)
    position = layout.positions(order, op.parameter(0).reshape(-1).tolist())[0]
    return [Stored(part, order) for part in b.emit_several("Split", count, value, axis=position, num_outputs=count)]


@translates("SPLIT_V", 1, 2, 3, check=needs_constant(sizes=1, axis=2))
def split_v(b: Builder, op: Op, x: Operand, sizes: Operand, axis: Operand) -> list[Stored]:
    """SPLIT_V → Split into parts of given sizes."""
    value, order = b.as_is(x)
    logical_axis = int(op.parameter(2).reshape(-1)[0]) % x.rank
    parts = op.parameter(1).reshape(-1).tolist()
    if -1 in parts:
        parts[parts.index(-1)] = op.outputs[parts.index(-1)].shape[logical_axis]
    results = b.emit_several("Split", len(parts), value, b.ints(parts), axis=order.index(logical_axis))
    return [Stored(part, order) for part in results]
