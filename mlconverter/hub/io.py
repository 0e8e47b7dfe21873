"""ONNX models in and out of the hub, and what their border looks like."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import onnx_ir as ir

from mlconverter.errors import CorruptModelError
from mlconverter.signature import Dim, IOSignature, TensorSpec

if TYPE_CHECKING:
    import onnx


LARGEST_PROTOBUF = 2**31 - 1


def read_proto(source: onnx.ModelProto | bytes | str | os.PathLike[str]) -> onnx.ModelProto:
    """Read an ONNX model as a protobuf, weights that lie in other files included.

    Args:
        source: a path, the bytes of a file, or a ``ModelProto``, which is handed through.

    Raises:
        CorruptModelError: the bytes are not an ONNX model, or a file of weights is missing.
        FileNotFoundError: there is no such file.
    """
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    if isinstance(source, ModelProto):
        return source
    place = "These bytes are" if isinstance(source, bytes) else f"'{os.fspath(source)}' is"
    proto = ModelProto()
    try:
        proto.ParseFromString(source if isinstance(source, bytes) else Path(source).read_bytes())
    except DecodeError as error:
        raise CorruptModelError(f"{place} not a readable ONNX model: {error}. Was the file cut off in a download?") from error
    if not proto.opset_import or not (proto.graph.node or proto.graph.output):
        raise CorruptModelError(f"{place} no ONNX model: it has no operator set, or nothing in its graph.")
    if not isinstance(source, bytes):
        _resolve_external_data(proto, Path(source).parent)
    return proto


def load_model(source: onnx.ModelProto | bytes | str | os.PathLike[str]) -> ir.Model:
    """Read an ONNX model into the hub; weights stay where they are in the protobuf until somebody needs them.

    Args:
        source: a path, the bytes of a file, or a ``ModelProto``.

    Raises:
        CorruptModelError: the bytes are not an ONNX model, or its graph is inconsistent.
        FileNotFoundError: there is no such file.
    """
    proto = read_proto(source)
    try:
        model = ir.from_proto(proto)
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptModelError(f"The ONNX model has an inconsistent graph: {error}") from error
    _detach(model)
    return model


def _detach(model: ir.Model) -> None:
    """Give tensors names of their own: renaming one that is backed by a protobuf renames it there, in the caller's model."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            if value.const_value is not None:
                value.const_value = _named(value.const_value)
        for node in graph:
            for name, attribute in node.attributes.items():
                if attribute.type is ir.AttributeType.TENSOR and not attribute.is_ref():
                    node.attributes[name] = ir.AttrTensor(name, _named(attribute.as_tensor()))


def _named(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    if tensor.dtype is ir.DataType.STRING:
        return ir.StringTensor(tensor.numpy(), name=tensor.name)
    return ir.LazyTensor(lambda: tensor, tensor.dtype, cast(ir.Shape, tensor.shape), name=tensor.name)


def save_proto(proto: onnx.ModelProto, path: Path) -> None:
    """Write a protobuf; beyond 2 GB the weights go to a file beside it."""
    import onnx

    if proto.ByteSize() < LARGEST_PROTOBUF:
        path.write_bytes(proto.SerializeToString())
    else:
        onnx.save(proto, str(path), save_as_external_data=True, location=f"{path.name}.data")


def _resolve_external_data(proto: onnx.ModelProto, folder: Path) -> None:
    from onnx.external_data_helper import load_external_data_for_model, uses_external_data

    outside = [t for t in proto.graph.initializer if uses_external_data(t)]
    for tensor in outside:
        location = next(e.value for e in tensor.external_data if e.key == "location")
        if not (folder / location).is_file():
            raise CorruptModelError(f"The weight '{tensor.name}' lies in '{location}', which is missing in '{folder}'.")
    if outside:
        load_external_data_for_model(proto, str(folder))


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """The model as a protobuf, for the public border."""
    return ir.to_proto(model)


def dim_of(dim: Any) -> Dim:
    """A dimension of the graph as the signature has it; ``?`` and negative sizes, which some exporters write, are unknown."""
    value = getattr(dim, "value", dim)
    if isinstance(value, int):
        return value if value >= 0 else None
    return None if value in (None, "", "?") else str(value)


def spec_of(value: ir.Value) -> TensorSpec:
    """Name, shape and dtype of a value."""
    shape = None if value.shape is None else tuple(dim_of(d) for d in value.shape)
    return TensorSpec(value.name or "", shape, numpy_name(value.dtype))


def numpy_name(dtype: ir.DataType | None) -> str:
    """Numpy's name of an ONNX element type, ``"unknown"`` where the graph has none."""
    if dtype is None:
        return "unknown"
    if dtype is ir.DataType.STRING:
        return "object"
    return str(dtype.numpy().name)


def signature_of(model: ir.Model) -> IOSignature:
    """The inputs and outputs of a model; old files list their initializers among the inputs, which are left out."""
    graph = model.graph
    inputs = tuple(spec_of(v) for v in graph.inputs if v.name not in graph.initializers)
    return IOSignature(inputs, tuple(spec_of(v) for v in graph.outputs))
