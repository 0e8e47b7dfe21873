"""Sparse tensors of ONNX: non-zero elements and where they stand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mlconverter.hub.protobuf import LARGEST_PROTOBUF, messages_of

if TYPE_CHECKING:
    import onnx


def sparse_tensors(proto: onnx.ModelProto) -> Iterator[onnx.SparseTensorProto]:
    """All sparse tensors of a model."""
    return messages_of(proto, "SparseTensorProto")


def values(sparse: onnx.SparseTensorProto) -> npt.NDArray[Any]:
    """The elements that are stored."""
    return ir.serde.TensorProtoTensor(sparse.values).numpy()


def positions(sparse: onnx.SparseTensorProto) -> npt.NDArray[np.int64]:
    """Where each of them stands, as an index into the flattened dense tensor.

    Raises:
        ValueError: the indices do not belong to such a tensor.
    """
    dims, count = tuple(sparse.dims), len(values(sparse))
    indices = ir.serde.TensorProtoTensor(sparse.indices).numpy()
    if indices.dtype != np.int64 or indices.shape not in ((count,), (count, len(dims))):
        raise ValueError(f"{count} elements have indices {indices.dtype}{list(indices.shape)}")
    found = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dims)
    if count and not (found.min() >= 0 and found.max() < math.prod(dims) and len(np.unique(found)) == count):
        raise ValueError(f"an index is outside of {list(dims)}, or there twice")
    return found.astype(np.int64)


def problem(sparse: onnx.SparseTensorProto) -> str | None:
    """What is wrong with a sparse tensor whose parts are right by themselves."""
    what = f"sparse tensor '{sparse.values.name}'"
    if any(d < 0 for d in sparse.dims) or len(sparse.values.dims) != 1 or sparse.values.data_type == sparse.values.STRING:
        return f"{what} has the shape {list(sparse.dims)} and elements of shape {list(sparse.values.dims)}"
    if math.prod(sparse.dims) * values(sparse).itemsize > LARGEST_PROTOBUF:
        return f"{what} has the shape {list(sparse.dims)}, too large to be written out"
    try:
        positions(sparse)
    except ValueError as error:
        return f"{what}: {error}"
    return None


def densified(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with dense tensors instead of sparse ones: itself where it has none, else a copy."""
    from onnx import ModelProto

    if not any(True for _ in sparse_tensors(proto)):
        return proto
    copy = ModelProto()
    copy.CopyFrom(proto)
    _densify_graph(copy.graph)
    for function in copy.functions:
        _densify_nodes(function.node)
    return copy


def _densify_graph(graph: onnx.GraphProto) -> None:
    for sparse in graph.sparse_initializer:
        _fill(graph.initializer.add(name=sparse.values.name), sparse)
    graph.ClearField("sparse_initializer")
    _densify_nodes(graph.node)


def _densify_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    for attribute in (a for node in nodes for a in node.attribute):
        if attribute.name == "sparse_value":
            _fill(attribute.t, attribute.sparse_tensor)
            attribute.name, attribute.type = "value", attribute.TENSOR
            attribute.ClearField("sparse_tensor")
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            _densify_graph(graph)


def _fill(dense: onnx.TensorProto, sparse: onnx.SparseTensorProto) -> None:
    held = values(sparse)
    array = np.zeros(math.prod(sparse.dims), held.dtype)
    array[positions(sparse)] = held
    dense.dims.extend(sparse.dims)
    dense.data_type = sparse.values.data_type
    dense.raw_data = array.tobytes()
