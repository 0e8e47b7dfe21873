"""What the subgraphs compute that reductions and scatters are handed, and how ONNX says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.dtypes import with_kernel
from mlconverter.formats.tflite.to_onnx.operands import Op
from mlconverter.registry import Check

_MEANINGS = {
    "add": ("STABLEHLO_ADD", "ADD"),
    "mul": ("STABLEHLO_MULTIPLY", "MUL"),
    "max": ("STABLEHLO_MAXIMUM", "MAXIMUM"),
    "min": ("STABLEHLO_MINIMUM", "MINIMUM"),
    "and": ("STABLEHLO_AND", "LOGICAL_AND"),
    "or": ("STABLEHLO_OR", "LOGICAL_OR"),
}
_OF_TRUTH = {"add": "or", "max": "or", "mul": "and", "min": "and"}
_REDUCTIONS = {
    "add": "ReduceSum",
    "mul": "ReduceProd",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "and": "ReduceMin",
    "or": "ReduceMax",
}
_PAIRS = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min", "and": "And", "or": "Or"}

SECOND = "second"
"""The meaning of a body that gives its second argument."""


def listed(option: Any, default: Sequence[int] = ()) -> list[int]:
    """The numbers of an option that holds several, which is absent where it holds none."""
    return list(default) if option is None or isinstance(option, int) else [int(i) for i in option]


def meaning(op: Op, number: int) -> str | None:
    """What a subgraph of two arguments computes: one of the six operators by name, or its second argument."""
    graph = op.model.subgraphs[number]
    if len(graph.inputs) != 2 or len(graph.outputs) != 1:
        return None
    if not graph.operators:
        return SECOND if graph.outputs[0] == graph.inputs[1] else None
    inner = graph.operators[0]
    plain = not getattr(inner.options, "fusedActivationFunction", 0)
    if len(graph.operators) != 1 or set(inner.inputs) != set(graph.inputs) or inner.outputs != graph.outputs or not plain:
        return None
    return next((name for name, ops in _MEANINGS.items() if inner.op in ops), None)


def of_dtype(kind: str, dtype: str) -> str:
    """The meaning among truth values, where sums and maxima are the same."""
    return _OF_TRUTH.get(kind, kind) if dtype == "bool" else kind


def sayable(kind: str | None, dtype: str) -> str | None:
    """Why a reduction cannot be said in ONNX, ``None`` where it can."""
    if kind is None or kind == SECOND:
        return "a body that is not a single sum, product, maximum, minimum, and, or"
    return f"{kind} of the bits of {dtype}" if kind in ("and", "or") and dtype != "bool" else None


def body_check(option: str) -> Check:
    """A check that refuses reductions by anything but one of the six operators."""

    def check(op: Op) -> str | None:
        tensor = op.tensor(0)
        return sayable(meaning(op, getattr(op.options, option)), tensor.dtype)

    return check


def reduced(b: Builder, kind: str, value: ir.Value, axes: Sequence[int], dtype: str) -> ir.Value:
    """A value reduced along stored axes, which go away."""
    onnx, places = _REDUCTIONS[of_dtype(kind, dtype)], b.ints(axes)
    return with_kernel(b, onnx, dtype, lambda v: b.emit(onnx, v, places, keepdims=0), value)


def paired(b: Builder, kind: str, x: ir.Value, y: ir.Value, dtype: str) -> ir.Value:
    """Two values put together, element by element."""
    onnx = _PAIRS[of_dtype(kind, dtype)]
    return with_kernel(b, onnx, dtype, lambda x, y: b.emit(onnx, x, y), x, y)


def changes_nothing(kind: str, values: np.ndarray) -> bool:
    """Whether a constant is what a reduction starts from when it starts from nothing."""
    kind, dtype = of_dtype(kind, values.dtype.name), values.dtype
    value = values.reshape(-1)[0]
    if kind in ("add", "or"):
        return bool(value == 0)
    if kind in ("mul", "and"):
        return bool(value == 1)
    if dtype.kind == "f":
        return bool(value == (-np.inf if kind == "max" else np.inf))
    limits = np.iinfo(dtype)
    return bool(value == (limits.min if kind == "max" else limits.max))
