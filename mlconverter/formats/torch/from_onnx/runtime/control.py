"""Graphs that nodes run: branches and loops. Plain Python where the module runs, torch's own operators where it is exported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mlconverter.formats.torch.from_onnx.runtime.shapes import number

Body = Callable[..., tuple[Any, ...]]
"""What runs a graph: its inputs and then what it reads from outside, its outputs as a tuple."""

_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)


@dataclass(frozen=True)
class Stack:
    """How the values of all steps of a loop become one tensor.

    Attributes:
        dtype: element type of the tensor where there was no step.
        shape: shape of one step's value then.
        axis: along which the steps stand.
        reverse: whether the last step stands first.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    axis: int = 0
    reverse: bool = False

    def of(self, values: list[torch.Tensor], device: torch.device | None) -> torch.Tensor:
        """The tensor."""
        if not values:
            shape = list(self.shape)
            shape.insert(self.axis if self.axis >= 0 else self.axis + len(shape) + 1, 0)
            return torch.empty(shape, dtype=self.dtype, device=device)
        return torch.stack(values[::-1] if self.reverse else values, self.axis)


def branch(condition: torch.Tensor | bool, then: Body, otherwise: Body, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """ONNX ``If``: the outputs of one of two graphs; both are called with the same operands."""
    if _exporting() and isinstance(condition, torch.Tensor):
        outputs: tuple[Any, ...] = torch.cond(condition.reshape(()), then, otherwise, operands)
        return outputs
    return then(*operands) if bool(condition) else otherwise(*operands)


def loop(
    body: Body,
    count: torch.Tensor | int | None,
    condition: torch.Tensor | bool,
    carried: tuple[Any, ...],
    operands: tuple[Any, ...],
    stacks: Sequence[Stack],
    lasts: bool,
    step_shape: Sequence[int],
) -> tuple[Any, ...]:
    """ONNX ``Loop``.

    Args:
        body: called with the number of the step, the condition, what is carried from step to step, and the operands;
            gives the next condition, what is carried on, and what is collected.
        count: of steps at most, ``None`` for any number.
        condition: whether there is a first step.
        carried: the values that the first step gets.
        operands: what the body reads from outside.
        stacks: how each collected value becomes a tensor.
        lasts: whether the condition stays what it was, so that nobody has to look.
        step_shape: of the number of the step.

    Returns:
        What the last step carries on, and what was collected.
    """
    device = next((v.device for v in (*carried, *operands) if isinstance(v, torch.Tensor)), None)
    if _exporting() and not (lasts and isinstance(count, int)):
        return _exported_loop(body, count, condition, carried, operands, tuple(step_shape), device, stacks)
    limit = None if count is None else number(count)
    rows: list[list[torch.Tensor]] = [[] for _ in stacks]
    holds = condition if isinstance(condition, torch.Tensor) else torch.tensor(condition, device=device)
    step = 0
    running = bool(condition)
    while running and (limit is None or step < limit):
        holds, *results = body(torch.full(tuple(step_shape), step, device=device), holds, *carried, *operands)
        carried = tuple(results[: len(carried)])
        for row, value in zip(rows, results[len(carried) :], strict=True):
            row.append(value)
        step += 1
        running = lasts or bool(holds)
    return (*carried, *(stack.of(row, device) for stack, row in zip(stacks, rows, strict=True)))


def _exported_loop(
    body: Body,
    count: torch.Tensor | int | None,
    condition: torch.Tensor | bool,
    carried: tuple[Any, ...],
    operands: tuple[Any, ...],
    step_shape: tuple[int, ...],
    device: torch.device | None,
    stacks: Sequence[Stack],
) -> tuple[Any, ...]:
    if stacks:
        raise NotImplementedError("torch exports no loop that collects values over a number of steps which is not known before")
    from torch import _higher_order_ops

    while_loop: Any = _higher_order_ops.while_loop  # which has no types

    step = torch.zeros((), dtype=torch.int64, device=device)
    limit = torch.iinfo(torch.int64).max if count is None else count.reshape(()) if isinstance(count, torch.Tensor) else count
    holds = condition.reshape(()) if isinstance(condition, torch.Tensor) else torch.tensor(condition, device=device)

    def goes_on(step: torch.Tensor, holds: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return torch.logical_and(holds, step < limit)

    def once(step: torch.Tensor, holds: torch.Tensor, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        still, *results = body(step.reshape(step_shape), holds, *values, *operands)
        return (step + 1, still.reshape(()).clone(), *(r.clone() for r in results))

    outputs: tuple[Any, ...] = while_loop(goes_on, once, (step, holds, *carried))
    return outputs[2:]


def scan(
    body: Body,
    states: tuple[torch.Tensor, ...],
    sequences: tuple[torch.Tensor, ...],
    operands: tuple[Any, ...],
    axes: Sequence[int],
    reversed_: Sequence[int],
    stacks: Sequence[Stack],
) -> tuple[torch.Tensor, ...]:
    """ONNX ``Scan``: the states after the last step, and what each step gave.

    Args:
        body: called with the states, one slice of each sequence, and the operands.
        states: those that the first step gets.
        sequences: equally long along their axes.
        operands: what the body reads from outside.
        axes: along which each sequence is read.
        reversed_: whether each is read from its end.
        stacks: how each collected value becomes a tensor.
    """
    length = sequences[0].shape[axes[0]]
    rows: list[list[torch.Tensor]] = [[] for _ in stacks]
    for step in range(length):
        slices = [
            s.select(axis, length - 1 - step if backwards else step)
            for s, axis, backwards in zip(sequences, axes, reversed_, strict=True)
        ]
        results = body(*states, *slices, *operands)
        states = tuple(results[: len(states)])
        for row, value in zip(rows, results[len(states) :], strict=True):
            row.append(value)
    return (*states, *(stack.of(row, sequences[0].device) for stack, row in zip(stacks, rows, strict=True)))


def scan_batch(
    body: Body,
    lengths: torch.Tensor | None,
    states: tuple[torch.Tensor, ...],
    sequences: tuple[torch.Tensor, ...],
    operands: tuple[Any, ...],
    reversed_: Sequence[int],
    stacks: Sequence[Stack],
) -> tuple[torch.Tensor, ...]:
    """``Scan`` as opset 8 has it: the first axis of everything is a batch, of sequences of different lengths.

    What a shorter sequence does not give is zero.
    """
    items = []
    longest = sequences[0].shape[1]
    for item in range(sequences[0].shape[0]):
        length = longest if lengths is None else number(lengths[item])
        parts = tuple(s[item].narrow(0, 0, length) for s in sequences)
        results = scan(body, tuple(s[item] for s in states), parts, operands, [0] * len(parts), reversed_, stacks)
        collected = [torch.nn.functional.pad(r, [0, 0] * (r.dim() - 1) + [0, longest - length]) for r in results[len(states) :]]
        items.append((*results[: len(states)], *collected))
    return tuple(torch.stack(values) for values in zip(*items, strict=True))
