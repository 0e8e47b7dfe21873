"""Example inputs whose batch is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from mlconverter.formats.torch.inputs import ExampleInput
from mlconverter.hub.model import BATCH


def with_free_batch(inputs: Sequence[ExampleInput]) -> list[ExampleInput] | None:
    """The inputs with a free first axis, under the name that was given where one was; ``None`` where that is no batch."""
    if not all(i.shape for i in inputs) or len({i.shape[0] for i in inputs if isinstance(i.shape[0], int)}) > 1:
        return None
    if not any(isinstance(i.shape[0], int) for i in inputs):
        return list(inputs)
    return [_freed(i) if isinstance(i.shape[0], int) else i for i in inputs]


def _freed(given: ExampleInput) -> ExampleInput:
    example = given.example
    if example.shape[0] == 1:  # an export from a batch of 1 would take the 1 for fixed
        example = torch.cat([example, example.flip(-1) if example.dim() > 1 else example])
    return replace(given, shape=(BATCH, *given.shape[1:]), example=example)
