"""Branches and loops: the graphs of a node become parts of the module."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Ints, Tensor

_VERSIONS = (11, 13, 16, 19, 21, 23, 24, 25)


def _condition(value: Const | Tensor | None) -> Any:
    return True if value is None else bool(value.number()) if isinstance(value, Const) else value


def _stacks(g: Builder, first: int, axes: list[int], reverse: list[int]) -> list[runtime.Stack]:
    """How the outputs from a position on are collected."""
    stacks = []
    for i, (axis, backwards) in enumerate(zip(axes, reverse, strict=True), first):
        shape = g.output_shape(i)
        one = [] if shape is None else [d for a, d in enumerate(shape) if a != (axis + len(shape) if axis < 0 else axis)]
        stacks.append(runtime.Stack(g.output_dtype(i) or torch.float32, tuple(d or 0 for d in one), axis, bool(backwards)))
    return stacks


def _outputs(g: Builder, results: Any) -> list[Any]:
    assert g.node is not None
    return [results[i] for i in range(len(g.node.outputs))]


def _name(g: Builder) -> str:
    assert g.node is not None
    return g.node.name or g.node.op_type.lower()


@translates("If", 1, *_VERSIONS)
def if_(g: Builder, condition: Const | Tensor, *, then_branch: ir.Graph, else_branch: ir.Graph) -> Any:
    """If → one of two parts of the module; torch.cond where that is exported."""
    bodies = g.bodies({f"{_name(g)}_then": then_branch, f"{_name(g)}_else": else_branch})
    return _outputs(g, g.call(runtime.branch, _condition(condition), *bodies.parts, bodies.operands))


@translates("Loop", 1, *_VERSIONS)
def loop(
    g: Builder, count: Ints | Tensor | None = None, condition: Const | Tensor | None = None, *carried: Tensor, body: ir.Graph
) -> Any:
    """Loop → a part of the module that is called step by step; torch's while_loop where that is exported."""
    bodies = g.bodies({f"{_name(g)}_body": body})
    assert g.node is not None
    collected = len(g.node.outputs) - len(carried)
    step = body.inputs[0].shape
    results = g.call(
        runtime.loop,
        bodies.parts[0],
        count[0] if isinstance(count, Ints) else count,
        _condition(condition),
        carried,
        bodies.operands,
        _stacks(g, len(carried), [0] * collected, [0] * collected),
        _lasts(body),
        [1] * (0 if step is None else len(step)),
    )
    return _outputs(g, results)


def _lasts(body: ir.Graph) -> bool:
    """Whether a loop's condition stays what it was."""
    given, kept = body.inputs[1], body.outputs[0]
    while (node := kept.producer()) is not None and node.op_type == "Identity" and node.inputs[0] is not None:
        kept = node.inputs[0]
    return kept is given or (kept.const_value is not None and bool(kept.const_value.numpy().reshape(-1)[0]))


@translates("Scan", 8)
def scan_8(
    g: Builder, lengths: Tensor | None, *values: Tensor, body: ir.Graph, num_scan_inputs: int, directions: list[int] | None = None
) -> Any:
    """Scan → a part of the module that is called step by step for each item of a batch."""
    bodies = g.bodies({f"{_name(g)}_body": body})
    states, sequences = values[: len(values) - num_scan_inputs], values[len(values) - num_scan_inputs :]
    assert g.node is not None
    collected = len(g.node.outputs) - len(states)
    stacks = _stacks(g, len(states), [0] * collected, [0] * collected)
    reverse = directions or [0] * num_scan_inputs
    return _outputs(g, g.call(runtime.scan_batch, bodies.parts[0], lengths, states, sequences, bodies.operands, reverse, stacks))


@translates("Scan", 9, *(v for v in _VERSIONS if v != 13))
def scan(
    g: Builder,
    *values: Tensor,
    body: ir.Graph,
    num_scan_inputs: int,
    scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
) -> Any:
    """Scan → a part of the module that is called step by step."""
    bodies = g.bodies({f"{_name(g)}_body": body})
    states, sequences = values[: len(values) - num_scan_inputs], values[len(values) - num_scan_inputs :]
    assert g.node is not None
    collected = len(g.node.outputs) - len(states)
    axes, reverse = scan_output_axes or [0] * collected, scan_output_directions or [0] * collected
    results = g.call(
        runtime.scan,
        bodies.parts[0],
        states,
        sequences,
        bodies.operands,
        scan_input_axes or [0] * num_scan_inputs,
        scan_input_directions or [0] * num_scan_inputs,
        _stacks(g, len(states), axes, reverse),
    )
    return _outputs(g, results)
