"""The specification's shape inference, which gets a model without its weights.

onnx_ir has a pass for it, which makes a whole second graph of the result; of a model with thousands of nodes that takes longer
than to infer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from mlconverter.hub.quiet import quiet
from mlconverter.hub.walk import graphs_of

if TYPE_CHECKING:
    import onnx

_MOST_SETTINGS = 64
"""Elements that a constant has at most on which shapes depend: sizes, axes, paddings, scales."""

_Read = dict[bytes, tuple[ir.DataType | None, ir.Shape | None]]
"""What serialized types say."""


def infer_once(model: ir.Model) -> None:
    """Infer types and shapes in place; where inference fails, or finds nothing, values keep what they have."""
    from onnx.shape_inference import InferenceError, infer_shapes

    for value in model.graph.initializers.values():
        if value.const_value is not None:
            value.shape = value.shape or ir.Shape(value.const_value.shape.numpy())
            value.dtype = value.dtype or value.const_value.dtype
    try:
        result = infer_shapes(_without_weights(model), check_type=False, strict_mode=False, data_prop=True)
    except (InferenceError, RuntimeError, ValueError):
        return  # what is wrong with the model is said by whoever runs or translates it
    _take(model.graph, result.graph, {})


def _without_weights(model: ir.Model) -> onnx.ModelProto:
    """The model with its initializers as inputs; small ones, which may be what shapes depend on, have their value, too."""
    from onnx import ModelProto

    proto = ModelProto(ir_version=model.ir_version)
    for domain, version in model.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    graph = proto.graph
    with quiet():
        for value in dict.fromkeys((*model.graph.inputs, *model.graph.initializers.values())):
            _describe(value, graph.input.add())
        for value in model.graph.initializers.values():
            if value.const_value is not None and value.const_value.size <= _MOST_SETTINGS:
                ir.serde.serialize_tensor_into(tensor := graph.initializer.add(), value.const_value)
                tensor.name = value.name or ""
        for node in model.graph:
            said = graph.node.add(op_type=node.op_type, domain=node.domain, overload=node.overload)
            said.input.extend([(value and value.name) or "" for value in node.inputs])
            said.output.extend([value.name or "" for value in node.outputs])
            for attribute in node.attributes.values():
                ir.serde.serialize_attribute_into(said.attribute.add(), attribute)
            for value in node.outputs:
                if value.name and not value.is_graph_output() and (value.type is not None or value.shape is not None):
                    _describe(value, graph.value_info.add())
        for value in model.graph.outputs:
            _describe(value, graph.output.add())
    return proto


def _describe(value: ir.Value, info: onnx.ValueInfoProto) -> None:
    """Name, type and shape; what exporters note beside them may be pages of text."""
    info.name = value.name or ""
    if value.type is not None:
        ir.serde.serialize_type_into(info.type, value.type)
    if value.shape is not None:
        ir.serde.serialize_shape_into(info.type, value.shape)


def _take(graph: ir.Graph, inferred: onnx.GraphProto, read: _Read) -> None:
    """Give the values of a graph, and of those in it, what was inferred.

    Args:
        graph: it is changed.
        inferred: the same graph as a protobuf.
        read: what types that were met before say; there are far fewer types than values.
    """
    types = {info.name: info.type for info in (*inferred.input, *inferred.value_info, *inferred.output)}
    for value in graph.inputs:  # those of a loop's body have types that the loop tells
        _say(value, types, read)
    for node, proto in zip(graph, inferred.node, strict=True):
        for value in node.outputs:
            _say(value, types, read)
        if inner_graphs := graphs_of(node):
            bodies = [g for a in proto.attribute for g in (*([a.g] if a.HasField("g") else ()), *a.graphs)]
            for inner, body in zip(inner_graphs, bodies, strict=True):
                _take(inner, body, read)


def _say(value: ir.Value, types: dict[str, onnx.TypeProto], read: _Read) -> None:
    """Give a value its type and shape."""
    kind = types.get(value.name or "")
    if kind is None:
        return
    serialized = kind.SerializeToString()
    if serialized not in read:
        made = ir.serde.deserialize_type_proto_for_type(kind)
        read[serialized] = None if made is None else made.dtype, ir.serde.deserialize_type_proto_for_shape(kind)
    dtype, shape = read[serialized]
    if value.type is None:
        value.type = ir.serde.deserialize_type_proto_for_type(kind)
    elif dtype is not None and value.dtype is not dtype:
        value.dtype = dtype
    if shape is not None:
        value.shape = shape.copy()
