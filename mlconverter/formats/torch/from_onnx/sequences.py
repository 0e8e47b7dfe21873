"""Sequences and optional values: lists of tensors, and ``None``."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Ints, Tensor


def _index(value: Ints | Tensor | None) -> Any:
    return value[0] if isinstance(value, Ints) else value


@translates("SequenceEmpty", 11)
def sequence_empty(g: Builder, *, dtype: int = 1) -> Any:
    """SequenceEmpty → an empty list."""
    return g.call(runtime.sequence)


@translates("SequenceConstruct", 11)
def sequence_construct(g: Builder, *values: Tensor) -> Any:
    """SequenceConstruct → a list."""
    return g.call(runtime.sequence, *values)


@translates("SequenceInsert", 11)
def sequence_insert(g: Builder, sequence: Tensor, value: Tensor, position: Ints | Tensor | None = None) -> Any:
    """SequenceInsert → the list with one more tensor."""
    return g.call(runtime.sequence_insert, sequence, value, _index(position))


@translates("SequenceErase", 11)
def sequence_erase(g: Builder, sequence: Tensor, position: Ints | Tensor | None = None) -> Any:
    """SequenceErase → the list with one tensor less."""
    return g.call(runtime.sequence_erase, sequence, _index(position))


@translates("SequenceAt", 11)
def sequence_at(g: Builder, sequence: Tensor, position: Ints | Tensor) -> Any:
    """SequenceAt → an element of the list."""
    return g.call(runtime.sequence_at, sequence, _index(position))


@translates("SequenceLength", 11)
def sequence_length(g: Builder, sequence: Tensor) -> Any:
    """SequenceLength → the length of the list."""
    return g.call(runtime.sequence_length, sequence)


@translates("SplitToSequence", 11, 24)
def split_to_sequence(g: Builder, x: Tensor, split: Ints | Tensor | None = None, *, axis: int, keepdims: int) -> Any:
    """SplitToSequence → a list of slices."""
    assert g.node is not None
    sizes = g.node.inputs[1] if len(g.node.inputs) > 1 else None
    evenly = sizes is not None and sizes.shape is not None and len(sizes.shape) == 0
    return g.call(runtime.split_to_sequence, x, split[0] if isinstance(split, Ints) and evenly else split, axis, bool(keepdims))


@translates("ConcatFromSequence", 11)
def concat_from_sequence(g: Builder, sequence: Tensor, *, axis: int, new_axis: int) -> Any:
    """ConcatFromSequence → torch.cat or torch.stack."""
    return g.call(runtime.concat_from_sequence, sequence, axis, bool(new_axis))


@translates("SequenceMap", 17)
def sequence_map(g: Builder, sequence: Tensor, *others: Tensor, body: ir.Graph) -> Any:
    """SequenceMap → a part of the module that is called for each element."""
    assert g.node is not None
    bodies = g.bodies({f"{g.node.name or 'sequence_map'}_body": body})
    lists = [isinstance(i.type, ir.SequenceType) for i in g.node.inputs[1:] if i is not None]
    results = g.call(runtime.sequence_map, bodies.parts[0], sequence, others, lists, bodies.operands, len(g.node.outputs))
    return [results[i] for i in range(len(g.node.outputs))]


@translates("Optional", 15, 28)
def optional(g: Builder, x: Tensor | None = None, *, type: Any = None) -> Any:
    """Optional → the value itself, or None."""
    return g.call(runtime.optional, x)


@translates("OptionalHasElement", 15, 18, 28)
def optional_has_element(g: Builder, x: Tensor | None = None) -> Any:
    """OptionalHasElement → whether the value is not None."""
    return g.call(runtime.has_element, x, g.device)


@translates("OptionalGetElement", 15, 18, 28)
def optional_get_element(g: Builder, x: Tensor) -> Any:
    """OptionalGetElement → the value itself."""
    return g.call(runtime.optional, x)
