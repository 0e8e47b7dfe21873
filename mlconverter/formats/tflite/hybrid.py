"""Files with integer weights and real activations, as files that compute with what their weights stand for.

LiteRT quantises what the operators of such a file are given as it runs, by the extremes of every row, which the file does not
say. What it does say is that the weights are these: so they are dequantised by operators of their own, and everything else
is computed in single precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlconverter.formats.tflite.schema import generated, names
from mlconverter.formats.tflite.structure import Model, Operator, Subgraph
from mlconverter.formats.tflite.writer import packed

_PLAIN, _BY_CHANNEL = 2, 5
"""Versions of DEQUANTIZE with one scale, and with one for each channel."""


def hybrid_operators(model: Model) -> list[str]:
    """Which operators compute real numbers by integer weights, each as often as it does."""
    return [o.op for graph in model.subgraphs for o in graph.operators if _weights(model, graph, o)]


def _weights(model: Model, graph: Subgraph, operator: Operator) -> list[int]:
    """The positions of integer weights among real numbers."""
    if operator.op == "DEQUANTIZE" or not any(graph.tensors[i].dtype == "float32" for i in operator.outputs):
        return []
    tensors = [(p, graph.tensors[i]) for p, i in enumerate(operator.inputs) if i >= 0]
    return [p for p, tensor in tensors if tensor.grid is not None and model.is_constant(tensor)]


def with_real_weights(model: Model) -> bytes:
    """The file with its integer weights dequantised before they are used."""
    schema = generated()
    made = schema.ModelT.InitFromObj(schema.Model.GetRootAs(model.data))
    for graph, plain in zip(made.subgraphs, model.subgraphs, strict=True):
        real: dict[int, int] = {}
        added = []
        for operator, known in zip(graph.operators, plain.operators, strict=True):
            inputs = list(operator.inputs)
            for position in _weights(model, plain, known):
                index = inputs[position]
                if index not in real:
                    real[index] = len(graph.tensors)
                    grid = plain.tensors[index].grid
                    assert grid is not None
                    code = _dequantize(made, _PLAIN if grid.axis is None else _BY_CHANNEL)
                    graph.tensors.append(_like(graph.tensors[index]))
                    added.append(schema.OperatorT(opcodeIndex=code, inputs=[index], outputs=[real[index]]))
                inputs[position] = real[index]
            operator.inputs = inputs
        graph.operators = [*added, *graph.operators]
    return packed(made)


def _like(tensor: Any) -> Any:
    """A tensor of real numbers of the shape of another."""
    schema = generated()
    shape = np.asarray(tensor.shape, np.int32)
    return schema.TensorT(shape=shape, type=schema.TensorType.FLOAT32, buffer=0, name=tensor.name + b"/real")


def _dequantize(model: Any, version: int) -> int:
    """The number of an operator code, added where it is not there."""
    number = next(n for n, name in names("BuiltinOperator").items() if name == "DEQUANTIZE")
    for position, code in enumerate(model.operatorCodes):
        if max(code.builtinCode, code.deprecatedBuiltinCode) == number and code.version == version:
            return position
    model.operatorCodes.append(generated().OperatorCodeT(deprecatedBuiltinCode=number, builtinCode=number, version=version))
    return len(model.operatorCodes) - 1
