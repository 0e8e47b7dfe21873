"""Sequences are lists of tensors, optional values that are not there are ``None``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mlconverter.formats.torch.from_onnx.runtime.shapes import IntsAtRunTime, ints, number

Tensors = list[torch.Tensor]


def sequence(*values: torch.Tensor) -> Tensors:
    """A sequence of tensors."""
    return list(values)


def sequence_insert(values: Tensors, value: torch.Tensor, position: torch.Tensor | int | None) -> Tensors:
    """ONNX ``SequenceInsert``; at the end where no position is given."""
    at = len(values) if position is None else _inside(values, position, len(values) + 1)
    return [*values[:at], value, *values[at:]]


def sequence_erase(values: Tensors, position: torch.Tensor | int | None) -> Tensors:
    """ONNX ``SequenceErase``; the last one where no position is given."""
    at = _inside(values, -1 if position is None else position, len(values))
    return [*values[:at], *values[at + 1 :]]


def sequence_at(values: Tensors, position: torch.Tensor | int) -> torch.Tensor:
    """ONNX ``SequenceAt``."""
    return values[_inside(values, position, len(values))]


def _inside(values: Tensors, position: torch.Tensor | int, count: int) -> int:
    at = number(position)
    if not -len(values) <= at < count:
        raise IndexError(f"position {at} of a sequence of {len(values)} tensors")
    return at + len(values) if at < 0 else at


def sequence_length(values: Tensors) -> torch.Tensor:
    """ONNX ``SequenceLength``."""
    return torch.tensor(len(values), device=values[0].device if values else None)


def split_to_sequence(x: torch.Tensor, sizes: IntsAtRunTime | int | None, axis: int, keepdims: bool) -> Tensors:
    """ONNX ``SplitToSequence``: parts of one size, of given sizes, or one element each."""
    if sizes is None:
        return list(torch.split(x, 1, axis)) if keepdims else list(x.unbind(axis))
    if isinstance(sizes, int) or (isinstance(sizes, torch.Tensor) and sizes.dim() == 0):
        return list(torch.split(x, number(sizes), axis))
    return list(torch.split(x, ints(sizes), axis))


def concat_from_sequence(values: Tensors, axis: int, new_axis: bool) -> torch.Tensor:
    """ONNX ``ConcatFromSequence``."""
    return torch.stack(values, axis) if new_axis else torch.cat(values, axis)


def sequence_map(
    body: Callable[..., tuple[Any, ...]],
    values: Tensors,
    others: tuple[Any, ...],
    lists: Sequence[bool],
    operands: tuple[Any, ...],
    count: int,
) -> tuple[Tensors, ...]:
    """ONNX ``SequenceMap``: the graph's outputs for each element, one sequence an output."""
    results = [
        body(value, *(other[i] if listed else other for other, listed in zip(others, lists, strict=True)), *operands)
        for i, value in enumerate(values)
    ]
    return tuple([result[i] for result in results] for i in range(count))


def optional(value: Any = None) -> Any:
    """ONNX ``Optional`` and ``OptionalGetElement``."""
    return value


def has_element(value: Any, device: torch.device | None) -> torch.Tensor:
    """ONNX ``OptionalHasElement``."""
    return torch.tensor(value is not None, device=device)
