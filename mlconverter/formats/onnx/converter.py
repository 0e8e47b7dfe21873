"""ONNX models: loading, the hub, and trained weights back into the original protobuf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mlconverter.base import BaseConverter
from mlconverter.conversion import Conversion
from mlconverter.errors import SignatureError
from mlconverter.formats.onnx.wire import is_onnx_file
from mlconverter.hub.io import model_of, read_proto, signature_of, to_proto
from mlconverter.hub.model import HubModel
from mlconverter.hub.original import Original
from mlconverter.hub.states import with_states
from mlconverter.hub.stored import placeless, sparse_links
from mlconverter.hub.weights import Array
from mlconverter.options import ConvertOptions
from mlconverter.signature import IOSignature
from mlconverter.verification import Runner

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir


OLDEST_EXPORT = 18
"""The first opset that torch's exporter writes itself; for older ones it rewrites the graph, which is not always right."""


class ONNXConverter(BaseConverter, format="onnx", extensions=(".onnx",), model_modules=("onnx", "onnx_ir")):
    """An ONNX model: a ``ModelProto``, the bytes of a file, an ``onnx_ir.Model``, or a path."""

    source_options: ClassVar[frozenset[str]] = frozenset({"dequantize"})
    op_routes: ClassVar[Mapping[str, str]] = {"onnx-fused": "mlconverter.hub.fused:writes_out"}

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
        self._original = Original.read(source)

    @cached_property
    def source(self) -> onnx.ModelProto:
        """The model as it was given."""
        return self._original.whole()

    def _copy_of_source(self) -> onnx.ModelProto:
        return self._original.whole()

    def _runnable(self) -> onnx.ModelProto | bytes:
        return self.source if self._original.data is None else self._original.data

    def _state(self) -> str:
        return ""

    def _source_hash(self) -> str:
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return self._original.digest()

    def _to_onnx(self, options: ConvertOptions) -> HubModel:
        links, notes = sparse_links(self._original.proto), placeless(self._graph)
        return HubModel(self._graph, self._border, links, notes, (self._original, self._graph))

    def _signature(self, options: ConvertOptions) -> IOSignature:
        return self._border

    @cached_property
    def _graph(self) -> ir.Model:
        return self._original.graph()

    @cached_property
    def _border(self) -> IOSignature:
        # Of layouts ONNX says nothing; its convention has the channels of image-like tensors first.
        return with_states(signature_of(self._graph).laid_out("channels_first"), self._graph.metadata_props)

    def _own_options(self) -> dict[str, Any]:
        opset = next((o.version for o in self._original.proto.opset_import if o.domain in ("", "ai.onnx")), 0)
        return {"opset": max(opset, OLDEST_EXPORT)} if opset else {}

    @classmethod
    def _from_hub(cls, hub: HubModel, options: ConvertOptions, source_hash: str) -> Conversion:
        return Conversion(to_proto(hub.model), hub.signature, hub.notes)

    @classmethod
    def _runner(cls, model: Any, signature: IOSignature) -> Runner:
        from mlconverter.formats.onnx.runner import OnnxRuntimeRunner
        from mlconverter.verification import Carrying

        runner = OnnxRuntimeRunner(model, signature)
        return Carrying(runner, runner.initial_states) if signature.states else runner

    @classmethod
    def _write(cls, model: Any, path: Path) -> None:
        from mlconverter.hub.io import save_proto

        save_proto(model, path)

    def _write_source(self, path: Path) -> None:
        if self._original.data is not None:
            path.write_bytes(self._original.data)
        else:
            self._write(self.source, path)

    def _features(self) -> dict[str, Any]:
        proto = self._original.proto
        return {
            "ir_version": proto.ir_version,
            "opset": {o.domain or "ai.onnx": o.version for o in proto.opset_import},
            "metadata": {entry.key: entry.value for entry in proto.metadata_props},
            "description": proto.doc_string,
            "domain": proto.domain,
            "model_version": proto.model_version,
        }

    @classmethod
    def _read(cls, path: Path) -> Conversion:
        proto = read_proto(path)
        model = model_of(proto)
        return Conversion(proto, with_states(signature_of(model), model.metadata_props))

    def _stored_weights(self, sources: Iterable[str]) -> dict[str, Array]:
        return self._original.stored_weights(sources)

    def _with_weights(self, changed: Mapping[str, Array]) -> onnx.ModelProto:
        return self._original.with_weights(changed)
