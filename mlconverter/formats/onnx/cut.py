"""ONNX graphs cut open where values are quantised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import onnx

GIVEN = "/given"
"""What the name of a value ends in where it is handed in."""


def quantized_values(model: onnx.ModelProto) -> list[str]:
    """Names of the values that operators of the main graph quantise."""
    return [n.output[0] for n in model.graph.node if n.op_type in ("QuantizeLinear", "QGemm") or n.op_type.startswith("QLinear")]


def cut(model: onnx.ModelProto, values: Mapping[str, np.ndarray[Any, Any]]) -> onnx.ModelProto:
    """A copy in which values are outputs, and everything behind them reads inputs in their place."""
    from onnx import ModelProto, helper

    result = ModelProto()
    result.CopyFrom(model)
    there = {v.name for v in result.graph.output}
    for node in result.graph.node:
        for position, name in enumerate(node.input):
            if name in values:
                node.input[position] = name + GIVEN
    for name, value in values.items():
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        result.graph.input.append(helper.make_tensor_value_info(name + GIVEN, kind, [None] * value.ndim))
        if name not in there:
            result.graph.output.append(helper.make_tensor_value_info(name, kind, [None] * value.ndim))
    return result
