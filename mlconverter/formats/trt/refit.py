"""Other weights for an engine: put into it where its runtime can, else the engine built anew from its source with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlconverter.errors import ConversionError, NotConvertibleError, SignatureError
from mlconverter.formats.trt.build import collecting, serialized
from mlconverter.formats.trt.converter import TRTConverter, options_of
from mlconverter.formats.trt.engine import TRTEngine
from mlconverter.formats.trt.prepare import prepared
from mlconverter.formats.trt.runtimes import RUNTIMES, local_capability
from mlconverter.hub.model import HubModel
from mlconverter.hub.original import Original
from mlconverter.hub.protobuf import describe, transcribe

if TYPE_CHECKING:
    import onnx


def refitted(engine: TRTEngine, model: Any) -> TRTEngine:
    """See :meth:`~mlconverter.formats.trt.engine.TRTEngine.refit`."""
    from onnx import ModelProto

    if engine.source is None:
        raise NotConvertibleError("The engine's source is not kept with it: build an engine from the trained model instead.")
    if not isinstance(model, ModelProto):
        converter = TRTConverter(engine)
        if isinstance(model, Mapping):
            converter.to_torch(verify=False)  # a state says nothing of its own
        trained: TRTEngine = converter.to_origin_type(model)
        return trained
    given = Original.read(model)
    if _skeleton(given) != _skeleton(engine.source):
        raise SignatureError(
            "The model is another one than the engine was built from: only the values of its weights may differ."
        )
    return with_source(engine, given)


def with_source(engine: TRTEngine, source: Original) -> TRTEngine:
    """The engine with the weights of a graph that differs from its own in nothing else."""
    graph = source.graph()
    hub = HubModel(graph, engine.info.source_signature, origin=(source, graph))
    if engine.info.options["refittable"] and local_capability() is not None:
        return replace(engine, content=_put(engine, hub), source=source, info=replace(engine.info, source_hash=source.digest()))
    made: TRTEngine = TRTConverter._from_hub(hub, options_of(engine), "").model
    return made.with_metadata(engine.meta_values, engine.extra_files)


def _put(engine: TRTEngine, hub: HubModel) -> bytes:
    """The engine with other weights put into it by TensorRT.

    Raises:
        ConversionError: TensorRT does not take them.
    """
    trt = RUNTIMES[engine.info.runtime].module
    logger = collecting(trt)
    loaded = trt.Runtime(logger).deserialize_cuda_engine(engine.content)
    if loaded is not None:
        model, _ = prepared(hub, options_of(engine))
        refitter = trt.Refitter(loaded, logger)
        if trt.OnnxParserRefitter(refitter, logger).refit_from_bytes(serialized(model)) and refitter.refit_cuda_engine():
            return bytes(loaded.serialize())
    raise ConversionError(f"TensorRT does not refit the engine: {'; '.join(logger.errors) or 'it gives no reason'}.")


def _skeleton(model: Original) -> tuple[onnx.GraphProto, list[tuple[str, int]]]:
    """The graph without the values of its weights, and the operator sets by which it is read."""
    from onnx import GraphProto

    skeleton = GraphProto()
    transcribe(model.proto.graph, skeleton, {"TensorProto": describe})
    for tensor in skeleton.initializer:
        tensor.ClearField("data_location")
    return skeleton, sorted((o.domain, o.version) for o in model.proto.opset_import)
