"""ONNX models in and out of the hub, and what their border looks like."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import onnx_ir as ir

from mlconverter.errors import ConversionError, CorruptModelError, MLConverterError
from mlconverter.hub import external
from mlconverter.hub.check import graph_problems, tensor_problems
from mlconverter.hub.protobuf import LARGEST_PROTOBUF, NOTHING, serialized
from mlconverter.hub.quantised_pairs import grid_of, how_it_is_read
from mlconverter.hub.sparse import densified
from mlconverter.hub.stored import array_of, say_where
from mlconverter.hub.walk import graphs, sort_nodes
from mlconverter.signature import Dim, IOSignature, TensorSpec

if TYPE_CHECKING:
    import onnx


LONGEST_LIST = 1 << 20
"""Entries of a computed one-dimensional tensor up to which its model is believed; beyond, the size is inferred or unknown."""


def read_proto(
    source: onnx.ModelProto | bytes | str | os.PathLike[str], held: dict[str, memoryview] | None = None
) -> onnx.ModelProto:
    """Read an ONNX model as a protobuf, weights that lie in other files included.

    Args:
        source: a path, the bytes of a file, or a ``ModelProto``, which is handed through.
        held: takes weights that lie in other files, as :func:`~mlconverter.hub.external.load` says.

    Raises:
        CorruptModelError: the bytes are not an ONNX model, its graph is inconsistent, or a file of weights is missing
            or damaged.
        FileNotFoundError: there is no such file.
    """
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    path = None if isinstance(source, (ModelProto, bytes)) else Path(source)
    place = f"'{path}' is" if path is not None else "These bytes are" if isinstance(source, bytes) else "The ModelProto is"
    if isinstance(source, ModelProto):
        proto = source
    else:
        proto = ModelProto()
        try:
            proto.ParseFromString(source if path is None else path.read_bytes())
        except DecodeError as error:
            raise CorruptModelError(f"{place} not a readable ONNX model: {error}. Was the file cut off in a download?") from error
    _refuse(place, tensor_problems(proto))
    external.load(proto, path, held)
    _refuse(place, graph_problems(proto))
    return proto


def _refuse(place: str, problems: Iterator[str]) -> None:
    problem = next(problems, None)
    if problem is not None:
        raise CorruptModelError(f"{place} no consistent ONNX model: {problem}. Export it anew; onnx.checker may say more.")


def load_model(source: onnx.ModelProto | bytes | str | os.PathLike[str]) -> ir.Model:
    """Read an ONNX model into the hub.

    Args:
        source: a path, the bytes of a file, or a ``ModelProto``.

    Raises:
        CorruptModelError: as :func:`read_proto`.
        ConversionError: the model has values that the hub does not know.
        FileNotFoundError: there is no such file.
    """
    return model_of(read_proto(source))


def model_of(proto: onnx.ModelProto, held: Mapping[str, memoryview] = NOTHING) -> ir.Model:
    """A consistent protobuf as a graph, its nodes in order; weights stay in the protobuf until somebody needs them.

    Args:
        proto: the model, as :func:`read_proto` gives it.
        held: the raw data of initializers that lie outside, by name.

    Raises:
        CorruptModelError: the graph is inconsistent.
        ConversionError: the model has values that the hub does not know.
    """
    try:
        model = ir.from_proto(densified(proto))
        for name, raw in held.items():
            _hold(model.graph.initializers[name], raw)
        say_where(model)
        _forget_sizes(model)
        sort_nodes(model)
    except (ir.serde.SerdeError, ValueError, TypeError, KeyError) as error:
        raise _reading_error(error) from error
    _detach(model)
    return model


def _hold(value: ir.Value, raw: memoryview) -> None:
    """Give an initializer its elements."""
    tensor = cast(ir.TensorProtocol, value.const_value)
    value.const_value = ir.Tensor(array_of(raw, tensor.dtype, tensor.shape.numpy()), tensor.dtype, name=tensor.name)


def _reading_error(error: BaseException) -> MLConverterError:
    """The error in which a chain of wrapped errors ends, as one of ours."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, NotImplementedError):
        return ConversionError(f"The ONNX model has values that cannot be converted: {error}")
    return CorruptModelError(f"The ONNX model has an inconsistent graph: {error}. Export it anew; onnx.checker may say more.")


def _graphs(model: ir.Model) -> Iterator[ir.Graph]:
    """All graphs of a model, those of its functions too."""
    yield from graphs(model)
    for function in model.functions.values():
        yield from (function.graph, *function.subgraphs())


def _detach(model: ir.Model) -> None:
    """Give tensors names of their own: renaming one that is backed by a protobuf renames it there, in the caller's model."""
    for graph in _graphs(model):
        for value in graph.initializers.values():
            if value.const_value is not None:
                value.const_value = detached(value.const_value)
        for node in graph:
            for name, attribute in node.attributes.items():
                if attribute.type is ir.AttributeType.TENSOR and not attribute.is_ref():
                    node.attributes[name] = ir.AttrTensor(name, detached(attribute.as_tensor()))


def _forget_sizes(model: ir.Model) -> None:
    """Take out sizes that say nothing, or nothing that can be true.

    Negative ones bring shape inference down; those called ``?`` are not all the same; and a list of sizes that is said to
    have millions of entries would make it set up a tensor of as many axes.
    """
    for graph in _graphs(model):
        computed = [o for node in graph for o in node.outputs]
        for value in (*graph.inputs, *graph.initializers.values(), *computed):
            if value.shape is not None and any(d < 0 if isinstance(d, int) else dim_of(d) is None for d in value.shape):
                value.shape = ir.Shape([d if dim_of(d) is not None else None for d in value.shape])
        for value in computed:
            if value.shape is not None and len(value.shape) == 1 and isinstance(n := value.shape[0], int) and n > LONGEST_LIST:
                value.shape = ir.Shape([None])


def detached(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """The same elements under a name of its own: renaming it renames nothing else."""
    if tensor.dtype is ir.DataType.STRING:
        return ir.StringTensor(tensor.numpy(), name=tensor.name)
    return ir.LazyTensor(lambda: tensor, tensor.dtype, cast(ir.Shape, tensor.shape), name=tensor.name)


def save_proto(proto: onnx.ModelProto, path: Path, more: bytes = b"") -> None:
    """Write a model, which is not changed; beyond 2 GB its weights go to a file beside it, ``<name>.data``.

    Args:
        proto: the model.
        path: the file.
        more: further fields of the model, serialized; protobufs that stand one behind the other are one.

    Raises:
        OSError: a file cannot be written.
    """
    data = serialized(proto)
    if data is not None and len(data) + len(more) <= LARGEST_PROTOBUF:
        with path.open("wb") as file:
            file.writelines((data, more))
    else:
        external.save(proto, path)
        with path.open("ab") as file:
            file.write(more)


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """The model as a protobuf of its own, for the public border; weights that lie in files are read.

    Raises:
        CorruptModelError: the model is inconsistent, or a file of weights is missing or damaged.
    """
    try:
        if any(isinstance(t, ir.ExternalTensor) for t in _tensors(model)):
            model = model.clone()  # onnx_ir would write where the file is, but not in which folder
            _detach(model)
        return ir.to_proto(model)
    except (RuntimeError, OSError, ValueError, TypeError) as error:
        raise _reading_error(error) from error


def _tensors(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    for graph in _graphs(model):
        yield from (v.const_value for v in graph.initializers.values() if v.const_value is not None)
        for attribute in (a for node in graph for a in node.attributes.values()):
            if attribute.type is ir.AttributeType.TENSOR and not attribute.is_ref():
                yield attribute.as_tensor()


def dim_of(dim: Any) -> Dim:
    """A dimension of the graph as the signature has it; ``?`` and negative sizes, which some exporters write, are unknown."""
    value = getattr(dim, "value", dim)
    if isinstance(value, int):
        return value if value >= 0 else None
    return None if value in (None, "", "?") or re.fullmatch(r"\s*-\d+\s*", value) else str(value)


def spec_of(value: ir.Value) -> TensorSpec:
    """Name, shape and dtype of a value."""
    shape = None if value.shape is None else tuple(dim_of(d) for d in value.shape)
    return TensorSpec(value.name or "", shape, numpy_name(value.dtype))


def numpy_name(dtype: ir.DataType | None) -> str:
    """Numpy's name of an ONNX element type, ``"unknown"`` where the graph has none."""
    if dtype in (None, ir.DataType.UNDEFINED):
        return "unknown"
    if dtype is ir.DataType.STRING:
        return "object"
    return str(dtype.numpy().name)


def signature_of(model: ir.Model) -> IOSignature:
    """The inputs and outputs of a model; old files list their initializers among the inputs, which are left out."""
    graph = model.graph
    given = [v for v in graph.inputs if v.name not in graph.initializers]
    inputs = tuple(replace(spec_of(v), quantization=how_it_is_read(v)) for v in given)
    return IOSignature(inputs, tuple(replace(spec_of(v), quantization=grid_of(v.producer(), v)) for v in graph.outputs))
