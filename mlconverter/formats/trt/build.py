"""An engine from the hub: the graph is prepared, parsed and compiled."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.cache import atomic_write, versions_of
from mlconverter.errors import ConversionError, SignatureError, TranslationError, UnsupportedOp, UnsupportedOpsError
from mlconverter.formats.trt.engine import TRTEngine
from mlconverter.formats.trt.prepare import prepared
from mlconverter.formats.trt.profiles import Profile, fixed_dims, guessed, profile_of
from mlconverter.formats.trt.runtimes import CAPABILITIES, FP8_CAPABILITIES, TensorRT, chosen, local_capability
from mlconverter.formats.trt.sidecar import EngineInfo
from mlconverter.hub.dims import rename_dims
from mlconverter.hub.io import spec_of
from mlconverter.hub.model import HubModel
from mlconverter.hub.nodes import op_name
from mlconverter.hub.weights import Array
from mlconverter.options import ConvertOptions, EngineOptions
from mlconverter.signature import IOSignature

ROUTE = "onnx-trt"

TAKE_PART = ("mlconverter", "onnx", "onnx-ir", "tensorrt", "tensorrt-rtx")
"""Packages whose versions decide on what an engine is."""

LARGE = 1 << 10
"""Bytes from which on a weight is handed to the parser by its address, and not copied into the protobuf."""

_KEPT = ("dynamic_batch", *(f.name for f in fields(EngineOptions) if f.name not in ("calibration", "timing_cache")))
"""Options that are written down beside an engine."""


def build(hub: HubModel, options: ConvertOptions, origin: HubModel) -> tuple[TRTEngine, tuple[str, ...]]:
    """An engine, and notes for the report.

    Args:
        hub: the model.
        options: those of engines.
        origin: the model that is kept beside the engine, for the way back.

    Raises:
        MissingDependencyError: the runtime is not installed.
        NotRunnableError: it builds on a GPU alone, and there is none.
        UnsupportedOpsError: its parser refuses operators; all that it names.
        ConversionError: the engine cannot be built.
        SignatureError: ranges of free dimensions do not fit the inputs, or an option means nothing for the runtime.
    """
    runtime = chosen(options.runtime)
    _refuse_idle(options, runtime)
    profile = profile_of(hub.signature, options.dynamic_shapes)
    hub = rename_dims(hub, fixed_dims(hub.signature, profile))
    profile = {spec.name: profile[spec.name] for spec in hub.signature.inputs if spec.free_axes}
    model, notes = prepared(hub, options)
    start = time.perf_counter()
    trt, logger = runtime.module, collecting(runtime.module)
    builder = trt.Builder(logger)
    network = builder.create_network(_flags(trt))
    parser = trt.OnnxParser(network, logger)
    held = _parse(parser, model)
    signature = _known(hub.signature, model)
    _check_border(network, signature)
    config = builder.create_builder_config()
    capabilities = _configure(trt, config, options, runtime)
    _bound(builder, config, network, profile)
    content = builder.build_serialized_network(network, config)
    del held  # until here the parser has looked at them
    if content is None:
        raise _failure(model, logger.errors, guessed(hub.signature, options.dynamic_shapes))
    _keep_timings(config, options)
    source = origin.as_onnx()
    info = EngineInfo(
        signature=signature,
        source_signature=origin.signature,
        runtime=runtime.package,
        runtime_name=runtime.name,
        precision=options.precision,
        compute_capabilities=capabilities,
        profile=profile,
        source_hash=source.digest(),
        source_file=options.embed_source,
        options={name: getattr(options, name) for name in _KEPT},
        versions=versions_of(TAKE_PART),
        layers=network.num_layers,
        seconds=round(time.perf_counter() - start, 3),
    )
    return TRTEngine(bytes(content), info, source if options.embed_source else None), (*notes, *_said(info))


def _known(signature: IOSignature, model: ir.Model) -> IOSignature:
    """The signature with shapes of outputs that it does not know as the prepared graph has them."""
    outputs = (
        replace(spec, shape=spec_of(value).shape) if spec.shape is None else spec
        for spec, value in zip(signature.outputs, model.graph.outputs, strict=True)
    )
    return replace(signature, outputs=tuple(outputs))


def _check_border(network: Any, signature: IOSignature) -> None:
    """Refuse an engine that would not take and give what the model does.

    Raises:
        ConversionError: the parser has made other inputs or outputs.
    """
    pairs = (
        (signature.input_names, [network.get_input(i).name for i in range(network.num_inputs)]),
        (signature.output_names, [network.get_output(i).name for i in range(network.num_outputs)]),
    )
    for wanted, got in pairs:
        if list(wanted) != got:
            raise ConversionError(
                f"TensorRT's parser makes {', '.join(got) or 'nothing'} of {', '.join(wanted)}, which is another border."
            )


def _said(info: EngineInfo) -> Iterable[str]:
    yield (
        f"{info.runtime_name} built the engine in {info.seconds:.2f} s, in {info.precision}, for GPUs of compute capability "
        f"{', '.join(info.compute_capabilities)}."
    )
    for name, (low, usual, high) in info.profile.items():
        yield f"'{name}' may be of shapes from {low} to {high}, usually {usual}."


def _refuse_idle(options: ConvertOptions, runtime: TensorRT) -> None:
    """Refuse options that the runtime has nothing for."""
    other = ("timing_cache", "hardware_compatibility", "refittable") if runtime.ahead_of_time else ("compute_capability",)
    idle = [name for name in other if getattr(options, name)]
    if idle:
        raise SignatureError(f"The option {', '.join(map(repr, idle))} means nothing for {runtime.title}.")
    if options.calibration is not None and options.precision not in ("int8", "fp8"):
        raise SignatureError(f"calibration means nothing for an engine in {options.precision}.")


def _flags(trt: Any) -> int:
    """What a network is created with: before TensorRT 11 one has to ask for the types that the graph says."""
    typed = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if typed is None else 1 << int(typed)


def _parse(parser: Any, model: ir.Model) -> list[Array]:
    """Hand a graph to the parser; what comes back has to live as long as the parser.

    Raises:
        UnsupportedOpsError: it refuses operators.
    """
    held = {}
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.dtype is ir.DataType.STRING or tensor.dtype.bitwidth < 8:
            continue  # stays within the graph
        if tensor.nbytes >= LARGE:
            held[name] = np.ascontiguousarray(tensor.numpy())
            value.const_value = ir.ExternalTensor("", None, None, tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=name)
    taken = parser.load_model_proto(serialized(model))
    for name, array in held.items():
        taken = taken and parser.load_initializer(name, array.ctypes.data, array.nbytes)
    if not taken or not parser.parse_model_proto():
        raise _refused(parser)
    return list(held.values())


def serialized(model: ir.Model) -> bytes:
    """A graph as the parser reads it."""
    data: bytes = ir.to_proto(model).SerializeToString()
    return data


def _configure(trt: Any, config: Any, options: ConvertOptions, runtime: TensorRT) -> tuple[str, ...]:
    """Put the options into a configuration; the compute capabilities that come of them."""
    if options.builder_optimization_level is not None:
        config.builder_optimization_level = options.builder_optimization_level
    if options.workspace is not None:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, options.workspace)
    if options.refittable:
        config.set_flag(trt.BuilderFlag.REFIT)
    if options.hardware_compatibility is not None:
        level = getattr(trt.HardwareCompatibilityLevel, options.hardware_compatibility.upper())
        config.hardware_compatibility_level = level
    if options.timing_cache is not None:
        file = Path(options.timing_cache)
        config.set_timing_cache(config.create_timing_cache(file.read_bytes() if file.is_file() else b""), False)
    if not runtime.ahead_of_time:
        return (local_capability() or "",)
    capabilities = options.compute_capability or (FP8_CAPABILITIES if options.precision == "fp8" else CAPABILITIES)
    known = [name for name in trt.ComputeCapability.__members__ if name.startswith("SM")]
    unknown = [name for name in capabilities if name not in known]
    if unknown:
        raise SignatureError(f"{runtime.name} knows no compute capability {', '.join(unknown)}; it knows {', '.join(known)}.")
    config.num_compute_capabilities = len(capabilities)
    for index, name in enumerate(capabilities):
        config.set_compute_capability(getattr(trt.ComputeCapability, name), index)
    return capabilities


def _bound(builder: Any, config: Any, network: Any, profile: Profile) -> None:
    """Say between which shapes the inputs may be.

    Raises:
        ConversionError: an input's values decide on shapes.
    """
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    deciding = [i.name for i in inputs if i.is_shape_tensor]
    if deciding:
        raise ConversionError(
            f"The values of the input {', '.join(map(repr, deciding))} decide on shapes, for which no range can be given here. "
            "Make them a part of the model first."
        )
    if profile:
        ranges = builder.create_optimization_profile()
        for name, shapes in profile.items():
            ranges.set_shape(name, *shapes)
        config.add_optimization_profile(ranges)


def _keep_timings(config: Any, options: ConvertOptions) -> None:
    if options.timing_cache is not None:
        atomic_write(options.timing_cache, bytes(config.get_timing_cache().serialize()))


def collecting(trt: Any) -> Any:
    """A logger that keeps errors for the exception and prints nothing."""

    class Collecting(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.errors: list[str] = []

        def log(self, severity: Any, message: str) -> None:
            if severity in (trt.ILogger.ERROR, trt.ILogger.INTERNAL_ERROR):
                self.errors.append(message)

    return Collecting()


def _refused(parser: Any) -> UnsupportedOpsError:
    """What the parser says, one entry for each operator and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for index in range(parser.num_errors):
        error = parser.get_error(index)
        op = error.node_operator()
        reason = error.desc().strip() if not op or parser.supports_operator(op) else "TensorRT's parser does not have it"
        found.setdefault((op or "(the graph)", reason), []).append(error.node_name())
    return UnsupportedOpsError(ROUTE, [UnsupportedOp(op, 0, len(n), n[0], reason) for (op, reason), n in found.items()])


def _failure(model: ir.Model, errors: list[str], guesses: str) -> ConversionError:
    """What the compiler says, with the node that it speaks of where it names one."""
    reason = "; ".join(filter(None, [*errors, guesses])) or "it gives no reason"
    named = [node for node in model.graph if any(_speaks_of(error, node.name) for error in errors)]
    if not named:
        return ConversionError(f"TensorRT does not build the engine: {reason}.")
    return TranslationError(named[0].name or "", op_name(named[0]), f"TensorRT does not build it: {reason}.")


def _speaks_of(error: str, name: str | None) -> bool:
    """Whether an error names a node; TensorRT puts a number behind names that are taken already."""
    return bool(name) and re.search(rf"(?<![\w./]){re.escape(str(name))}(_\d+)?(?![\w./])", error) is not None
