"""Builds engines with TensorRT for RTX, which needs no GPU to build for one."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from mlconverter.errors import ConversionError, MissingDependencyError, UnsupportedOp, UnsupportedOpsError
from mlconverter.formats.trt.engine import TRTEngine
from mlconverter.hub.io import to_proto
from mlconverter.hub.model import HubModel
from mlconverter.hub.normalise import normalise
from mlconverter.signature import IOSignature

PACKAGE, EXTRA = "tensorrt_rtx", "tensorrt-rtx"

ROUTE = "onnx-trt"

BATCHES = (1, 1, 16)
"""The smallest, the usual and the largest batch of an engine whose batch is free."""

CAPABILITIES = ("SM80", "SM86", "SM89", "SM120")
"""Compute capabilities that an engine runs on: from Ampere to Blackwell. One for all is hardly larger than one for each."""


def require_runtime() -> None:
    """Raise where TensorRT for RTX is not installed.

    Raises:
        MissingDependencyError: naming the extra to install.
    """
    if importlib.util.find_spec(PACKAGE) is None:
        raise MissingDependencyError(PACKAGE, EXTRA, "Building TensorRT engines")


def build(hub: HubModel) -> TRTEngine:
    """An engine in single precision.

    Raises:
        MissingDependencyError: TensorRT for RTX is not installed.
        UnsupportedOpsError: its parser refuses operators; all that it names.
        ConversionError: a dimension other than the batch is free, or the engine cannot be built.
    """
    require_runtime()
    profile = batch_profile(hub.signature)
    trt: Any = importlib.import_module(PACKAGE)
    logger = _collecting(trt)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(to_proto(normalise(hub.model)).SerializeToString()):
        raise _refused(parser)
    config = builder.create_builder_config()
    config.num_compute_capabilities = len(CAPABILITIES)
    for index, name in enumerate(CAPABILITIES):
        config.set_compute_capability(getattr(trt.ComputeCapability, name), index)
    if profile:
        ranges = builder.create_optimization_profile()
        for name, shapes in profile.items():
            ranges.set_shape(name, *shapes)
        config.add_optimization_profile(ranges)
    content = builder.build_serialized_network(network, config)
    if content is None:
        raise ConversionError(f"TensorRT does not build the engine: {'; '.join(logger.errors) or 'it gives no reason'}.")
    batches = (BATCHES[0], BATCHES[-1]) if profile else None
    return TRTEngine(bytes(content), hub.signature, f"TensorRT for RTX {trt.__version__}", batches)


def batch_profile(signature: IOSignature) -> dict[str, list[tuple[int, ...]]]:
    """The shapes between which each input with a free batch may be: smallest, usual, largest.

    Raises:
        ConversionError: another dimension is free, for which nobody has said how large it may be.
    """
    profile = {}
    for spec in signature.inputs:
        if spec.shape is None or any(axis for axis in spec.free_axes):
            raise ConversionError(
                f"Input {spec} has a free dimension besides the batch. An engine is built for a range of sizes, which cannot be "
                "given yet: fix the dimension in the source first."
            )
        if spec.free_axes:
            profile[spec.name] = [(batch, *(d for d in spec.shape[1:] if isinstance(d, int))) for batch in BATCHES]
    return profile


def _collecting(trt: Any) -> Any:
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
        found.setdefault((error.node_operator(), error.desc().strip()), []).append(error.node_name())
    return UnsupportedOpsError(ROUTE, [UnsupportedOp(op, 0, len(n), n[0], reason) for (op, reason), n in found.items()])
