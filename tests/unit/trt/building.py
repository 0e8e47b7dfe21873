"""What the tests of graph passes for TensorRT share: small models as text, ONNX Runtime's word on them, and the builder's."""

from __future__ import annotations

import functools
import importlib
import importlib.util

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from mlconverter import Converter
from mlconverter.formats.trt.build import collecting
from mlconverter.hub.io import load_model, to_proto
from mlconverter.hub.normalise import normalise

PACKAGE = "tensorrt_rtx"

built = pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason=f"{PACKAGE} is not installed")


def graph(text: str, opset: int = 20) -> ir.Model:
    """A normalised model from the text of its graph, as ONNX's parser reads it."""
    return normalise(load_model(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]>\n{text}')))


@functools.cache
def exported(make, *shape: int) -> onnx.ModelProto:
    """What a function gives that makes a torch module, as ONNX with a free batch; exporting takes longer than all the rest."""
    return Converter(make(), input_shape=("batch", *shape), verify=False).to_onnx()


def checked(model: ir.Model) -> onnx.ModelProto:
    """The model as a protobuf that the specification's checker takes."""
    proto = to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def outputs(proto: onnx.ModelProto, *inputs: np.ndarray) -> list[np.ndarray]:
    """What ONNX Runtime computes by its plain kernels.

    Its further optimisations crash on LSTMs in half precision, and compute something else of floats of eight bits.
    """
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, dict(zip((i.name for i in session.get_inputs()), inputs, strict=True)))


def distance(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference, in parts of the largest value."""
    return float(np.abs(got.astype(np.float64) - want).max() / np.abs(want).max())


def refusal(proto: onnx.ModelProto, *capabilities: str) -> str | None:
    """What the parser or the builder says against a model, whose free sizes may be 1 to 4."""
    trt = importlib.import_module(PACKAGE)
    logger = collecting(trt)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(proto.SerializeToString()):
        return "; ".join(f"{e.node_operator()}: {e.desc()}" for e in map(parser.get_error, range(parser.num_errors)))
    config = builder.create_builder_config()
    capabilities = capabilities or ("SM89",)
    config.num_compute_capabilities = len(capabilities)
    for index, name in enumerate(capabilities):
        config.set_compute_capability(getattr(trt.ComputeCapability, name), index)
    given = [network.get_input(i) for i in range(network.num_inputs)]
    if any(-1 in tuple(i.shape) for i in given):
        profile = builder.create_optimization_profile()
        for i in given:
            profile.set_shape(i.name, *(tuple(n if d == -1 else d for d in i.shape) for n in (1, 1, 4)))
        config.add_optimization_profile(profile)
    return None if builder.build_serialized_network(network, config) is not None else "; ".join(logger.errors)
