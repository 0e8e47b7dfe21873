"""Constants of a graph: what a value is that depends on no input, and new ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mlconverter.hub.evaluate import evaluate, evaluates
from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import call_of, opset_of, version_of

Array = npt.NDArray[Any]


def array_of(value: ir.Value | None, opsets: dict[str, int]) -> Array | None:
    """The elements of a constant, or of what is computed from constants alone, weights among them; ``None`` for others."""
    if value is None:
        return None
    if value.const_value is not None:
        return value.const_value.numpy()
    node = value.producer()
    if node is None or not evaluates(node.op_type) or len(node.outputs) > 1:
        return None
    call = call_of(node, opset_of(node, opsets), version_of(node, opsets) or 0)
    inputs = [array_of(i, opsets) if isinstance(i, ir.Value) else i for i in call.inputs]
    if any(array is None and given is not None for array, given in zip(inputs, call.inputs, strict=True)):
        return None
    try:
        return evaluate(node.op_type, inputs, call.attributes)[0]
    except TypeError:
        return None


def constant(model: ir.Model, names: Names, wanted: str, array: Array, dtype: ir.DataType | None = None) -> ir.Value:
    """A new constant of a model's graph.

    Args:
        model: it gets the constant.
        names: the names that are taken.
        wanted: its name, if that is free.
        array: its elements.
        dtype: its type, for those that numpy lacks.
    """
    name = names.new(wanted)
    tensor = ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), dtype, name=name)
    value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
    model.graph.register_initializer(value)
    return value
