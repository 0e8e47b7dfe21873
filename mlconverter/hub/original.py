"""An ONNX model as it was given. Weights of a serialized one stay where they are in its bytes: no copy is made to convert it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from mlconverter.hub import io
from mlconverter.hub.check import graph_problems, tensor_problems
from mlconverter.hub.protobuf import LARGEST_PROTOBUF, PAYLOADS, describe, digest, is_plain, merge, nbytes, tensors
from mlconverter.hub.stored import put_weights, stored_weights
from mlconverter.hub.weights import Array
from mlconverter.hub.wire import SMALLEST, lightened

if TYPE_CHECKING:
    import onnx


_TYPED = tuple(field for field in PAYLOADS if field != "raw_data")


@dataclass(frozen=True)
class Original:
    """A model that nothing here changes.

    Attributes:
        proto: the model; large weights may be missing, which are then said to lie elsewhere.
        held: the bytes of those, by the initializer's name.
        data: the serialized model, where it holds everything.
    """

    proto: onnx.ModelProto
    held: Mapping[str, memoryview] = field(default_factory=dict, repr=False)
    data: bytes | None = field(default=None, repr=False)

    @classmethod
    def read(cls, source: onnx.ModelProto | bytes | str | os.PathLike[str]) -> Original:
        """Read a model.

        Args:
            source: a path, the bytes of a file, or a ``ModelProto``, of which a copy is made.

        Raises:
            CorruptModelError: as :func:`~mlconverter.hub.io.read_proto`.
            FileNotFoundError: there is no such file.
        """
        from onnx import ModelProto

        if isinstance(source, ModelProto):
            return _apart(source) or cls(_copied(io.read_proto(source)))
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        held: dict[str, memoryview] = {}
        return _in_place(data) or cls(io.read_proto(data if isinstance(source, bytes) else source, held), held)

    def whole(self) -> onnx.ModelProto:
        """The model as a protobuf of its own."""
        from onnx import ModelProto

        if self.data is not None:
            whole: ModelProto = ModelProto.FromString(self.data)
            return whole
        copy = _copied(self.proto)
        for tensor in copy.graph.initializer if self.held else ():
            if tensor.data_location == tensor.EXTERNAL:
                tensor.ClearField("data_location")
                tensor.raw_data = bytes(self.held[tensor.name])
        return copy

    def graph(self) -> ir.Model:
        """The model in the hub; its weights are views.

        Raises:
            CorruptModelError: the graph is inconsistent.
            ConversionError: the model has values that the hub does not know.
        """
        return io.model_of(self.proto, self.held)

    def digest(self) -> str:
        """SHA-256 of the model, the same however it was given."""
        return digest(self.proto, self.held)

    def stored_weights(self, names: Iterable[str]) -> dict[str, Array]:
        """Weights as the model stores them; see :func:`~mlconverter.hub.stored.stored_weights`."""
        return stored_weights(self.proto, names, self.held)

    def with_weights(self, changed: Mapping[str, Array]) -> onnx.ModelProto:
        """A copy of the model with other weights in their places, and nothing else touched."""
        result = self.whole()
        put_weights(result, changed)
        return result


def _in_place(data: bytes) -> Original | None:
    """A serialized model with its weights left in place; ``None`` where reading it whole is needed, or says what is wrong."""
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    light = lightened(data) if len(data) <= LARGEST_PROTOBUF else None
    if light is None or not light.extents:
        return None
    try:
        proto = ModelProto.FromString(light.data)
    except DecodeError:
        return None
    view = memoryview(data)
    return _light(proto, {i: view[start : start + size] for i, (start, size) in light.extents.items()}, data)


def _apart(source: onnx.ModelProto) -> Original | None:
    """A model in memory with its weights taken out of the protobuf, the only copy of them; ``None`` as in :func:`_in_place`."""
    from onnx import ModelProto

    proto, elements = ModelProto(), dict[int, memoryview]()
    merge(source, proto, but="graph")
    merge(source.graph, proto.graph, but="initializer")
    for index, tensor in enumerate(source.graph.initializer):
        if (
            tensor.HasField("data_location")
            or any(len(getattr(tensor, field)) for field in _TYPED)
            or len(raw := tensor.raw_data) < SMALLEST
        ):
            proto.graph.initializer.add().CopyFrom(tensor)
        else:
            describe(tensor, proto.graph.initializer.add())
            elements[index] = memoryview(raw)
    return _light(proto, elements) if elements else None


def _light(proto: onnx.ModelProto, elements: Mapping[int, memoryview], data: bytes | None = None) -> Original | None:
    """A model whose initializers, by position, have their elements elsewhere; ``None`` where not all is as it should be."""
    held: dict[str, memoryview] = {}
    for index, raw in elements.items():
        tensor = proto.graph.initializer[index]
        if not is_plain(tensor) or nbytes(tensor) != len(raw) or tensor.name in held:
            return None
        held[tensor.name] = raw
        tensor.data_location = tensor.EXTERNAL
    if sum(t.data_location == t.EXTERNAL for t in tensors(proto)) != len(held):
        return None  # others lie in files
    if any(True for problems in (tensor_problems(proto), graph_problems(proto)) for _ in problems):
        return None
    return Original(proto, held, data)


def _copied(proto: onnx.ModelProto) -> onnx.ModelProto:
    from onnx import ModelProto

    copy = ModelProto()
    copy.CopyFrom(proto)
    return copy
