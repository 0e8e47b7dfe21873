"""ONNX models: loading, the hub, and trained weights back into the original protobuf."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mlconverter.base import BaseConverter
from mlconverter.conversion import Conversion
from mlconverter.errors import ConversionError, SignatureError
from mlconverter.formats.onnx.wire import is_onnx_file
from mlconverter.hub.io import load_model, read_proto, signature_of, to_proto
from mlconverter.hub.model import HubModel
from mlconverter.hub.weights import Array
from mlconverter.options import ConvertOptions
from mlconverter.signature import IOSignature
from mlconverter.verification import Runner

if TYPE_CHECKING:
    import onnx


OLDEST_EXPORT = 18
"""The first opset that torch's exporter writes itself; for older ones it rewrites the graph, which is not always right."""


class ONNXConverter(BaseConverter, format="onnx", extensions=(".onnx",), model_modules=("onnx", "onnx_ir")):
    """An ONNX model: a ``ModelProto``, the bytes of a file, an ``onnx_ir.Model``, or a path."""

    op_routes: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def owns_path(cls, path: Path) -> bool:
        """Whether a file is ONNX: protobufs have no magic bytes, so its fields are looked at."""
        return is_onnx_file(path)

    def _load(self, model: Any) -> None:
        import onnx
        import onnx_ir as ir

        if self._input_shape is not None:
            raise SignatureError("input_shape of an ONNX model comes from the model; it is for torch models.")
        if isinstance(model, ir.Model):
            model = to_proto(model)
        elif model is not None and not isinstance(model, (onnx.ModelProto, bytes)):
            raise SignatureError(f"An ONNX model is a ModelProto, bytes or an onnx_ir.Model, not {type(model).__name__}.")
        source = model if model is not None else self.model_path
        assert source is not None
        proto = read_proto(source)
        self._proto: onnx.ModelProto = _copied(proto) if proto is source else proto
        self._digest = hashlib.sha256(self._proto.SerializeToString(deterministic=True)).hexdigest()

    @property
    def source(self) -> onnx.ModelProto:
        """The model as it was given."""
        return self._proto

    def _copy_of_source(self) -> onnx.ModelProto:
        return _copied(self._proto)

    def _source_hash(self) -> str:
        return self._digest

    def _to_onnx(self, options: ConvertOptions) -> HubModel:
        model = load_model(self._proto)
        return HubModel(model, self._border)

    def _signature(self, options: ConvertOptions) -> IOSignature:
        return self._border

    @cached_property
    def _border(self) -> IOSignature:
        # Of layouts ONNX says nothing; its convention has the channels of image-like tensors first.
        return signature_of(load_model(self._proto)).laid_out("channels_first")

    def _own_options(self) -> dict[str, Any]:
        opset = next((o.version for o in self._proto.opset_import if o.domain in ("", "ai.onnx")), 0)
        return {"opset": opset} if opset >= OLDEST_EXPORT else {}

    @classmethod
    def _from_hub(cls, hub: HubModel, options: ConvertOptions, source_hash: str) -> Conversion:
        return Conversion(to_proto(hub.model), hub.signature, hub.notes)

    @classmethod
    def _runner(cls, model: Any, signature: IOSignature) -> Runner:
        from mlconverter.formats.onnx.runner import OnnxRuntimeRunner

        return OnnxRuntimeRunner(model, signature)

    @classmethod
    def _write(cls, model: Any, path: Path) -> None:
        from mlconverter.hub.io import save_proto

        save_proto(model, path)

    @classmethod
    def _read(cls, path: Path) -> Conversion:
        proto = read_proto(path)
        return Conversion(proto, signature_of(load_model(proto)))

    def _stored_weights(self, sources: Iterable[str]) -> dict[str, Array]:
        from onnx import numpy_helper

        wanted = set(sources)
        found = {name: numpy_helper.to_array(tensor) for name, tensor in _weights(self._proto.graph) if name in wanted}
        if len(found) < len(wanted):
            missing = sorted(wanted - set(found))
            raise ConversionError(f"The weights {missing} are computed inside the model and have no place of their own in it.")
        return found

    def _with_weights(self, changed: Mapping[str, Array]) -> onnx.ModelProto:
        result = _copied(self._proto)
        for name, tensor in _weights(result.graph):
            if name in changed:
                _store(tensor, changed[name])
        return result


def _copied(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A protobuf of its own: whoever gets one may change it, and the source stays what it was."""
    from onnx import ModelProto

    copy = ModelProto()
    copy.CopyFrom(proto)
    return copy


def _weights(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Tensors of a graph and its subgraphs that may be weights, by the name of their value."""
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                yield node.output[0], attribute.t
            if attribute.HasField("g"):
                yield from _weights(attribute.g)
            for inner in attribute.graphs:
                yield from _weights(inner)


def _store(tensor: onnx.TensorProto, array: np.ndarray[Any, Any]) -> None:
    """Put values into a tensor in the form in which it holds them already: raw bytes or a typed list."""
    from onnx import TensorProto

    typed = {int(TensorProto.FLOAT): "float_data", int(TensorProto.DOUBLE): "double_data"}.get(tensor.data_type)
    if typed is not None and not tensor.HasField("raw_data") and len(getattr(tensor, typed)):
        getattr(tensor, typed)[:] = array.reshape(-1).tolist()
        return
    for field in ("float_data", "int32_data", "double_data"):
        tensor.ClearField(field)
    tensor.raw_data = np.ascontiguousarray(array).tobytes()
