"""Files with 8-bit weights and float activations, rewritten so that float kernels compute them.

LiteRT quantises the activations of such files on the fly, which the file does not say. What it says is that the weights
are these; so they go through a DEQUANTIZE of their own, and every operator computes in single precision.
"""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

_NARROW = (schema.TensorType.INT4, schema.TensorType.INT8, schema.TensorType.UINT8)
_DEQUANTIZE = schema.BuiltinOperator.DEQUANTIZE


def dequantised(content: bytes) -> tuple[bytes, int]:
    """The file with its weights dequantised by operators of their own, and how many those are."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content))
    count = sum(_rewrite(model, graph) for graph in model.subgraphs)
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output()), count


def _rewrite(model: Any, graph: Any) -> int:
    plain: dict[int, int] = {}
    added = []
    for operator in graph.operators:
        if not any(graph.tensors[i].type == schema.TensorType.FLOAT32 for i in operator.outputs):
            continue
        if _code(model, operator) == _DEQUANTIZE:
            continue
        inputs = list(operator.inputs)
        for position, index in enumerate(inputs):
            if index < 0 or not _is_weight(model, graph.tensors[index]):
                continue
            if index not in plain:
                plain[index] = _float_like(graph, index)
                version = 5 if len(graph.tensors[index].quantization.scale) > 1 else 2
                code = _dequantize(model, version)
                added.append(schema.OperatorT(opcodeIndex=code, inputs=[index], outputs=[plain[index]]))
            inputs[position] = plain[index]
        operator.inputs = inputs
    graph.operators = added + list(graph.operators)
    return len(added)


def _code(model: Any, operator: Any) -> int:
    code = model.operatorCodes[operator.opcodeIndex]
    return max(code.builtinCode, code.deprecatedBuiltinCode)


def _is_weight(model: Any, tensor: Any) -> bool:
    data, grid = model.buffers[tensor.buffer].data, tensor.quantization
    scales = None if grid is None else grid.scale
    return tensor.type in _NARROW and data is not None and len(data) > 0 and scales is not None and len(scales) > 0


def _float_like(graph: Any, index: int) -> int:
    """A new tensor of floats of the shape of another."""
    like = graph.tensors[index]
    shape = np.asarray(like.shape, np.int32)
    graph.tensors.append(schema.TensorT(shape=shape, type=schema.TensorType.FLOAT32, buffer=0, name=like.name + b"/float"))
    return len(graph.tensors) - 1


def _dequantize(model: Any, version: int) -> int:
    """The number of an operator code, added where it is not there."""
    for number, code in enumerate(model.operatorCodes):
        if max(code.builtinCode, code.deprecatedBuiltinCode) == _DEQUANTIZE and code.version == version:
            return number
    code = schema.OperatorCodeT(deprecatedBuiltinCode=_DEQUANTIZE, builtinCode=_DEQUANTIZE, version=version)
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1
