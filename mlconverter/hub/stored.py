"""Where an ONNX protobuf keeps its weights, by which names links know them, and how trained ones get in again.

A weight of the main graph is known by its value's name. One in a nested graph or a function is known by the way
there too, as other graphs may hold another one of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from mlconverter.errors import ConversionError
from mlconverter.hub import sparse
from mlconverter.hub.model import SOURCE_KEY
from mlconverter.hub.nodes import DEFAULT_DOMAINS
from mlconverter.hub.protobuf import NOTHING
from mlconverter.hub.walk import graphs_in
from mlconverter.hub.weights import Array, Densify, WeightLink

if TYPE_CHECKING:
    import onnx

_FIELDS = {"value": "t", "value_float": "f", "value_floats": "floats", "sparse_value": "sparse_tensor"}
"""Attributes of Constant that hold floats, and the fields of the protobuf where they stand."""


@dataclass(frozen=True)
class _Place:
    """Where a weight is kept: a tensor, a sparse tensor, or an attribute that holds numbers."""

    name: str
    holder: Any

    @property
    def kind(self) -> str:
        return str(self.holder.DESCRIPTOR.name)

    def get(self, held: Mapping[str, memoryview]) -> Array:
        if self.kind == "TensorProto" and self.holder.data_location == self.holder.EXTERNAL:
            return array_of(held[self.holder.name], ir.DataType(self.holder.data_type), self.holder.dims)
        if self.kind == "AttributeProto":
            return np.array(self.holder.f if self.holder.name == "value_float" else self.holder.floats, np.float32)
        return ir.serde.TensorProtoTensor(self.holder.values if self.kind == "SparseTensorProto" else self.holder).numpy()

    def put(self, array: Array) -> None:
        if self.kind != "AttributeProto":
            _put(self.holder.values if self.kind == "SparseTensorProto" else self.holder, array)
        elif self.holder.name == "value_float":
            self.holder.f = array.item()
        else:
            self.holder.floats[:] = array.tolist()


def _places(proto: onnx.ModelProto) -> Iterator[_Place]:
    yield from _in_graph(proto.graph, "")
    for f in proto.functions:
        yield from _in_nodes(f.node, _function_prefix(f.domain, f.name, f.overload))


def _function_prefix(domain: str, name: str, overload: str) -> str:
    return f"{domain}::{name}{':' if overload else ''}{overload}/"


def _graph_prefix(prefix: str, output: str, attribute: str, index: int) -> str:
    return f"{prefix}{output}.{attribute}.{index}/"


def _in_graph(graph: onnx.GraphProto, prefix: str) -> Iterator[_Place]:
    for tensor in graph.initializer:
        yield _Place(prefix + tensor.name, tensor)
    for held in graph.sparse_initializer:
        yield _Place(prefix + held.values.name, held)
    yield from _in_nodes(graph.node, prefix)


def _in_nodes(nodes: Iterable[onnx.NodeProto], prefix: str) -> Iterator[_Place]:
    for node in nodes:
        output = next(iter(node.output), "")
        for attribute in node.attribute:
            if node.op_type == "Constant" and node.domain in DEFAULT_DOMAINS and not attribute.ref_attr_name:
                field = _FIELDS.get(attribute.name)
                if field is not None:
                    yield _Place(prefix + output, getattr(attribute, field) if field in ("t", "sparse_tensor") else attribute)
            for i, graph in enumerate([attribute.g] if attribute.HasField("g") else attribute.graphs):
                yield from _in_graph(graph, _graph_prefix(prefix, output, attribute.name, i))


def _put(tensor: onnx.TensorProto, array: Array) -> None:
    """Put values into a tensor in the form in which it holds them already: raw bytes or a typed list."""
    typed = {int(tensor.FLOAT): "float_data", int(tensor.DOUBLE): "double_data"}.get(tensor.data_type, "")
    if typed and not tensor.HasField("raw_data") and len(getattr(tensor, typed)):
        getattr(tensor, typed)[:] = array.reshape(-1).tolist()
        return
    for field in ("float_data", "int32_data", "double_data"):
        tensor.ClearField(field)
    tensor.raw_data = np.ascontiguousarray(array).tobytes()


def array_of(held: memoryview, dtype: ir.DataType, dims: Sequence[int]) -> Array:
    """The elements of a tensor from its raw data, as a view."""
    return np.frombuffer(held, dtype.numpy().newbyteorder("<")).reshape(dims)


def stored_weights(proto: onnx.ModelProto, names: Iterable[str], held: Mapping[str, memoryview] = NOTHING) -> dict[str, Array]:
    """Weights as a model stores them, by the names that links use; of sparse ones the elements that are there.

    Args:
        proto: the model.
        names: of the weights.
        held: the raw data of tensors that lie outside, by name.

    Raises:
        ConversionError: one has no place of its own in the model.
    """
    wanted = set(names)
    found: dict[str, Array] = {}
    for place in _places(proto):
        if place.name in wanted:
            if place.name in found:
                raise ConversionError(f"Two weights of the model are called '{place.name}', so that none can be written back.")
            found[place.name] = place.get(held)
    missing = sorted(wanted - set(found))
    if missing:
        raise ConversionError(f"The weights {missing} are computed inside the model and have no place of their own in it.")
    return found


def put_weights(proto: onnx.ModelProto, changed: Mapping[str, Array]) -> None:
    """Put other weights into their places in a model, and touch nothing else."""
    for place in _places(proto):
        if place.name in changed:
            place.put(changed[place.name])


def sparse_links(proto: onnx.ModelProto) -> tuple[WeightLink, ...]:
    """How dense weights come from the sparse ones that a model stores."""
    return tuple(
        WeightLink(place.name, place.name, (Densify(tuple(place.holder.dims), sparse.positions(place.holder)),))
        for place in _places(proto)
        if place.kind == "SparseTensorProto"
    )


def say_where(model: ir.Model) -> None:
    """Note on the constants of functions and nested graphs by which names their source knows them."""
    _say_where(model.graph, "")
    for function in model.functions.values():
        _say_where(function.graph, _function_prefix(function.domain, function.name, function.overload))


def _say_where(graph: ir.Graph, prefix: str) -> None:
    for value in graph.initializers.values() if prefix else ():
        value.metadata_props[SOURCE_KEY] = f"{prefix}{value.name}"
    for node in graph:
        output = (node.outputs[0].name or "") if node.outputs else ""
        if prefix and node.op_type == "Constant" and node.domain in DEFAULT_DOMAINS and node.outputs:
            node.outputs[0].metadata_props[SOURCE_KEY] = "" if _refers(node) else f"{prefix}{output}"
        for name, attribute in node.attributes.items():
            for i, inner in enumerate(graphs_in(attribute)):
                _say_where(inner, _graph_prefix(prefix, output, name, i))


def _refers(node: ir.Node) -> bool:
    return any(attribute.is_ref() for attribute in node.attributes.values())


def placeless(model: ir.Model) -> tuple[str, ...]:
    """Notes on constants that cannot be trained, as their values stand wherever a function is called."""
    return tuple(
        f"'{node.outputs[0].name}' in the function '{function.name}' stays as it is: each call of the function brings its value."
        for function in model.functions.values()
        for node in function.all_nodes()
        if node.outputs and node.outputs[0].metadata_props.get(SOURCE_KEY) == "" and "value" in node.attributes
    )
