"""Weights whose elements the graph moves before it uses them: slices of them, and several joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.formats.torch.from_onnx.values import Array, Const, Moved
from mlconverter.hub.evaluate import evaluate
from mlconverter.hub.io import numpy_name
from mlconverter.hub.nodes import Call
from mlconverter.hub.weights import Cast, Parts, Reshape, Step, Transpose

MOVES = frozenset("Concat Slice Split Squeeze Unsqueeze Reshape Transpose Flatten".split())

MOST_PARTS = 4096
"""A weight in more pieces than this is not worth seeing through them."""


def moves(call: Call, inputs: Sequence[Any]) -> bool:
    """Whether a node does nothing but move elements of constants, weights among them."""
    if call.op not in MOVES or not all(i is None or isinstance(i, (Const, Moved)) for i in inputs):
        return False
    return any(isinstance(i, Moved) or (i is not None and i.weight is not None) for i in inputs)


class Elements:
    """Which elements of which constants a value is made of.

    Attributes:
        positions: in the shape of the value, each element's place among those of all the constants, which are counted on.
    """

    def __init__(self, value: Const | Moved) -> None:
        self._sources: list[tuple[int, Const]] = []
        self._count = 0
        self.positions = self._of(value)

    def _of(self, value: Const | Moved) -> Array:
        if isinstance(value, Const):
            start = next((start for start, const in self._sources if const is value), self._count)
            if start == self._count:
                self._sources.append((start, value))
                self._count += value.value.size
            return np.arange(start, start + value.value.size).reshape(value.value.shape)
        settings = [i.value if isinstance(i, Const) and i.value.dtype.kind in "iu" else None for i in value.inputs]
        arrays = [s if s is not None or i is None else self._of(i) for s, i in zip(settings, value.inputs, strict=True)]
        return _moved(value, arrays)

    def const(self, positions: Array) -> Const | None:
        """The one constant that all of these positions are in, seen as they stand there; ``None`` where there is none."""
        flat = positions.reshape(-1)
        if not flat.size:
            return None
        found = [(s, c) for s, c in self._sources if s <= flat.min() and flat.max() < s + c.value.size]
        if not found:
            return None
        start, const = found[0]
        flat = flat - start
        ways = [(const, _ranges(flat))]
        if const.value.ndim == 2:
            rows, columns = const.value.shape
            ways.append((const.seen(Transpose((1, 0))), _ranges(flat % columns * rows + flat // columns)))
        known = [(seen, ranges) for seen, ranges in ways if ranges is not None]
        if not known:
            return None
        seen, ranges = min(known, key=lambda way: len(way[1]))
        if any(before[1] > after[0] for before, after in pairwise(sorted(ranges))):
            return None  # what is there twice has no way back
        if ranges == [(0, seen.value.size)] and seen.value.shape == positions.shape:
            return seen
        return seen.seen(Parts(tuple(ranges), positions.shape))


def _ranges(flat: Array) -> list[tuple[int, int]] | None:
    """Positions as ranges that follow one another; ``None`` for too many."""
    inner = np.flatnonzero(np.diff(flat) != 1) + 1
    if inner.size >= MOST_PARTS:
        return None
    cuts = [0, *inner.tolist(), flat.size]
    return [(int(flat[a]), int(flat[b - 1]) + 1) for a, b in pairwise(cuts)]


def _moved(value: Moved, arrays: list[Array | None]) -> Array:
    """Positions after a node has moved them."""
    attributes: Mapping[str, Any] = value.call.attributes
    if value.call.op == "Concat":  # of any size, unlike where constants are folded
        return np.concatenate([a for a in arrays if a is not None], attributes["axis"])
    if value.call.op == "Split" and len(arrays) < 2:
        attributes = {**attributes, "num_outputs": value.outputs}
    return evaluate(value.call.op, arrays, dict(attributes))[value.output]


def view_step(call: Call, const: Const, others: list[Const]) -> Step | None:
    """A node that moves the axes of one weight as a step of its way, ``None`` where it does something else."""
    shape = const.value.shape
    rank = len(shape)
    ints = [int(v) for v in others[0].value.reshape(-1)] if others and others[0].value.dtype.kind in "iu" else []
    match call.op:
        case "Transpose":
            return Transpose(tuple(call.attributes.get("perm") or reversed(range(rank))))
        case "Unsqueeze":
            axes = {a % (rank + len(ints)) for a in ints}
            rest = iter(shape)
            return Reshape(tuple(1 if i in axes else next(rest) for i in range(rank + len(axes))))
        case "Squeeze":
            axes = {a % rank for a in ints} if others else {i for i, s in enumerate(shape) if s == 1}
            return Reshape(tuple(s for i, s in enumerate(shape) if i not in axes))
        case "Reshape":
            sizes = [shape[i] if s == 0 and not call.attributes.get("allowzero") else s for i, s in enumerate(ints)]
            return Reshape(const.value.reshape(sizes).shape)
        case "Flatten":
            axis = call.attributes["axis"]
            axis += rank if axis < 0 else 0
            return Reshape(const.value.reshape((int(np.prod(shape[:axis])), -1)).shape)
        case "Cast":
            wanted = numpy_name(ir.DataType(call.attributes["to"]))
            return Cast(wanted, const.value.dtype.name) if wanted in ("float32", "float64") else None
        case _:
            return None
