"""The door through which weights enter the ONNX graph, and the links by which they find their way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mlconverter.formats.tflite.layout import inverse
from mlconverter.formats.tflite.to_onnx.operands import Constant
from mlconverter.hub.model import STORED_KEY, WEIGHT_KEY
from mlconverter.hub.weights import Cast, Reshape, Step, Transpose, WeightLink

if TYPE_CHECKING:
    import onnx_ir as ir

    from mlconverter.formats.tflite.to_onnx.builder import Builder


class WeightTable:
    """One initializer for each buffer of the file that is a weight.

    A buffer that is wanted in a second form gets nodes that make it from the first, so that what is one weight in
    the file stays one weight.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._forms: dict[str, list[tuple[Constant, ir.Value]]] = {}
        self.links: list[WeightLink] = []

    def value(self, constant: Constant) -> ir.Value:
        """The constant in the graph."""
        forms = self._forms.setdefault(constant.source, [])
        for known, form in forms:
            if known.steps == constant.steps:
                return form
        derived = self._derived(*forms[0], constant) if forms else None
        value = self._initializer(constant) if derived is None else derived
        forms.append((constant, value))
        return value

    def _initializer(self, constant: Constant) -> ir.Value:
        value = self._builder.initializer(constant.name, constant.whole)
        assert value.name is not None
        value.metadata_props[WEIGHT_KEY] = value.name
        if constant.packed:
            value.metadata_props[STORED_KEY] = constant.packed
        self.links.append(WeightLink(constant.source, value.name, constant.steps))
        return value

    def _derived(self, first: Constant, value: ir.Value, wanted: Constant) -> ir.Value | None:
        """Nodes from the first form of a buffer to another one; ``None`` where nodes cannot do that."""
        shared = _common_prefix(first.steps, wanted.steps)
        back, forward = first.steps[shared:], wanted.steps[shared:]
        if not all(isinstance(step, Transpose | Reshape | Cast) for step in (*back, *forward)):
            return None
        stages = [first.stored]
        for step in first.steps:
            stages.append(step.get(stages[-1]))
        for step, before in zip(reversed(back), reversed(stages[shared:-1]), strict=True):
            value = self._undo(step, before.shape, before.dtype.name, value)
        for step in forward:
            value = self._do(step, value)
        return value

    def _undo(self, step: Step, shape: tuple[int, ...], dtype: str, value: ir.Value) -> ir.Value:
        if isinstance(step, Transpose):
            return self._do(Transpose(inverse(step.perm)), value)
        return self._do(Reshape(shape) if isinstance(step, Reshape) else Cast(dtype), value)

    def _do(self, step: Step, value: ir.Value) -> ir.Value:
        if isinstance(step, Transpose):
            return self._builder.emit("Transpose", value, perm=list(step.perm))
        if isinstance(step, Reshape):
            return self._builder.emit("Reshape", value, self._builder.ints(step.shape))
        assert isinstance(step, Cast)
        return self._builder.cast(value, np.dtype(step.dtype).name)


def _common_prefix(a: Sequence[Step], b: Sequence[Step]) -> int:
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length
