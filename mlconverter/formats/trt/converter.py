"""TensorRT engines: built from the hub, and back to the graph that they were built from where it is kept beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mlconverter.base import BaseConverter
from mlconverter.batching import converted
from mlconverter.conversion import Conversion, hub_runner
from mlconverter.errors import NotConvertibleError, SignatureError
from mlconverter.hub.model import HubModel
from mlconverter.hub.stored import placeless, sparse_links
from mlconverter.hub.weights import Array
from mlconverter.options import ConvertOptions, EngineOptions
from mlconverter.registry import formats
from mlconverter.signature import IOSignature
from mlconverter.verification import Runner

if TYPE_CHECKING:
    from mlconverter.formats.trt.engine import TRTEngine
    from mlconverter.hub.original import Original


class TRTConverter(BaseConverter, format="trt", extensions=(".engine", ".plan"), model_modules=()):
    """TensorRT engines: a ``TRTEngine``, or a file of one with what was saved beside it."""

    target_options: ClassVar[frozenset[str]] = frozenset({"dynamic_batch", *(f.name for f in fields(EngineOptions))})

    @classmethod
    def owns_model(cls, model: Any) -> bool:
        """Whether an object is a ``TRTEngine``."""
        return type(model).__module__ == "mlconverter.formats.trt.engine"

    def _load(self, model: Any) -> None:
        from mlconverter.formats.trt.engine import TRTEngine

        if self._input_shape is not None:
            raise SignatureError("input_shape of an engine comes from the engine; it is for torch models.")
        assert model is not None or self.model_path is not None
        self._engine: TRTEngine = TRTEngine.load(self.model_path) if self.model_path is not None else model

    @property
    def source(self) -> TRTEngine:
        """The engine as it was given."""
        return self._engine

    @property
    def _graph_file(self) -> Original:
        """The ONNX model that the engine was built from.

        Raises:
            NotConvertibleError: it is not kept with the engine.
        """
        if self._engine.source is None:
            raise NotConvertibleError(
                "The engine was saved without the graph that it was built from (embed_source=False, or within a program), and "
                "holds machine code itself. Convert the model that it was built from."
            )
        return self._engine.source

    def _state(self) -> str:
        return ""

    def _source_hash(self) -> str:
        return self._graph_file.digest()

    def _signature(self, options: ConvertOptions) -> IOSignature:
        return self._engine.info.source_signature

    def _runnable(self) -> HubModel:
        return self.hub(self.options.having(io_layout=None))  # what the engine computes, and what runs without a GPU, too

    def _to_onnx(self, options: ConvertOptions) -> HubModel:
        original = self._graph_file
        graph = original.graph()
        return HubModel(graph, self._signature(options), sparse_links(original.proto), placeless(graph), (original, graph))

    def _to(self, format: str, options: ConvertOptions) -> Conversion:
        hub = self.hub(options)
        if format == "onnx" and hub.origin is not None and hub.origin[1] is hub.model:
            return Conversion(hub.as_onnx().whole(), hub.signature, hub.notes)  # the very model that the engine was built from
        return super()._to(format, options)

    def _own_options(self) -> dict[str, Any]:
        return dict(self._engine.info.options)

    @classmethod
    def _refuse(cls, hub: HubModel) -> None:
        from mlconverter.formats.trt.runtimes import chosen

        chosen()

    @classmethod
    def _from_hub(cls, hub: HubModel, options: ConvertOptions, source_hash: str) -> Conversion:
        from mlconverter.formats.trt.build import build
        from mlconverter.formats.trt.runtimes import chosen

        if options.partial:
            raise SignatureError(
                "partial=True leaves parts of a torch module in torch; this model is none. Convert it to torch first."
            )
        chosen(options.runtime)  # before a batch is proved
        # What is proved is the graph: it runs anywhere.
        freed = converted(
            hub,
            options,
            lambda hub: Conversion(hub, hub.signature, hub.notes),
            lambda hub, _: hub_runner(hub),
            unasked=True,
        )
        engine, notes = build(freed.model, options, hub)
        return Conversion(engine, engine.signature, (*freed.notes, *notes))

    @classmethod
    def partly(cls, program: Any, signature: IOSignature, options: ConvertOptions) -> Conversion:
        """A torch program with what TensorRT can take compiled; see :func:`~mlconverter.formats.trt.partial.compiled`."""
        from mlconverter.formats.trt.partial import compiled

        return Conversion(compiled(program, signature, options), signature, ("What TensorRT does not take stays in torch.",))

    @classmethod
    def _runner(cls, model: Any, signature: IOSignature) -> Runner:
        from mlconverter.formats.trt.engine import TRTEngine
        from mlconverter.formats.trt.runner import TRTRunner

        if isinstance(model, HubModel):
            return hub_runner(model)
        if isinstance(model, TRTEngine):
            return TRTRunner(model)
        runner: Runner = formats["torch"]._runner(model.module, signature)
        return runner

    @classmethod
    def _write(cls, model: Any, path: Path) -> None:
        model.save(path)

    @classmethod
    def _read(cls, path: Path) -> Conversion:
        from mlconverter.formats.trt.engine import TRTEngine

        engine = TRTEngine.load(path)
        return Conversion(engine, engine.signature)

    def _stored_weights(self, sources: Iterable[str]) -> dict[str, Array]:
        return self._graph_file.stored_weights(sources)

    def _with_weights(self, changed: Mapping[str, Array]) -> TRTEngine:
        from mlconverter.formats.trt.refit import with_source
        from mlconverter.hub.original import Original

        return with_source(self._engine, Original.read(self._graph_file.with_weights(changed)))


def options_of(engine: TRTEngine) -> ConvertOptions:
    """The options under which an engine was built."""
    return ConvertOptions().having(**engine.info.options)
