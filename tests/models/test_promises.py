"""Real models there, trained, and back: what they promise beside their numbers is the same, entry by entry."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from mlconverter import Converter
from mlconverter.formats.tflite.model import TFLiteModel
from mlconverter.verification.samples import sample_inputs
from tests import zoo
from tests.models.way_back import outside_weights

STEPS = 20
LEARNING_RATE, COARSE = 1e-5, 1e-2
"""The second one moves weights that are stored as integers by a step."""

SINGLE, HALF = 1e-4, 5e-3
"""Tolerances of outputs, as part of the largest value: of weights in single precision, and of those stored in half."""

ILL_CONDITIONED = {
    "pose_landmark_full": 3e-3,
    "selfie_segmentation": HALF,
    "selfie_segmentation_landscape": HALF,
}
"""LiteRT's own kernels are that far apart on these."""

FAILING = dict.fromkeys(("alexa", "hey_jarvis", "hey_mycroft"), "biases that share one buffer under two scales are trained apart")

QUICK = ("hand_recrop", "okay_nabu", "ch_ppocr_mobile_v2.0_cls_infer")
"""Those of every run; the others are for the long ones."""

LINES = {"ch_PP-OCRv4_rec_infer": {2: 48, 3: 160}}
"""Sizes along axes of models that take few sizes only."""

QUANTISED = tuple(Path(member).stem for member in zoo.members("pymicro-wakeword"))
"""What these give are integers, through which no gradient goes: they are trained as what the integers stand for."""


def _packaged(package: str, member: str, folder: Path) -> Path:
    return zoo.model(package, member)


def _network(name: str, suffix: str, folder: Path) -> Path:
    size = zoo.torch_input(name).shape
    converter = Converter(zoo.torch_models()[name](), input_shape=("batch", *size[1:]), verify=False)
    layout = "channels_last" if suffix == ".tflite" else None  # as such files are
    return converter.save(folder / f"{name}{suffix}", io_layout=layout)


MODELS = {
    **{
        Path(member).stem: functools.partial(_packaged, package, member)
        for package in ("mediapipe", "pymicro-wakeword", "rapidocr-onnxruntime")
        for member in zoo.members(package)
        if "with_attention" not in member
    },
    **{
        f"{name}{suffix}": functools.partial(_network, name, suffix)
        for name in zoo.torch_models()
        for suffix in (".onnx", ".tflite")
    },
}


def _marks(name: str) -> list[pytest.MarkDecorator]:
    long = [] if name in QUICK else [pytest.mark.zoo]
    return [*long, pytest.mark.xfail(reason=FAILING[name], strict=True)] if name in FAILING else long


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in MODELS])
def test_there_trained_and_back(name: str, tmp_path: Path) -> None:
    path = MODELS[name](tmp_path)
    converter = Converter(path, dequantize=name in QUANTISED)
    module = converter.to_torch()
    assert _bytes(converter.to_origin_type(module)) == path.read_bytes(), "an untouched model comes back as another file"
    inputs = _inputs(converter, LINES.get(name, {}))
    module.train()
    optimiser = torch.optim.Adam(module.parameters(), COARSE if name in QUANTISED else LEARNING_RATE)
    for _ in range(STEPS):
        optimiser.zero_grad()
        sum(_real(o).square().mean() for o in _outputs(module, inputs)).backward()
        optimiser.step()
    module.eval()
    back = converter.to_origin_type(module)
    assert converter.report.verdict in ("verified", "inconclusive"), str(converter.report)
    assert converter.report.way_back == "trained weights written back into the origin"
    assert Converter(back).contract.as_dict() == converter.contract.as_dict()
    assert _bytes(back) != path.read_bytes(), "training changes nothing"
    keys = {origin.source for origins in module.weight_origins.values() for origin in origins}
    assert _same_but_for(path.read_bytes(), back, keys)
    if not converter.contract.features.get("quantised_weights"):  # judged operator by operator, in the report
        limit = max(_storage(converter), ILL_CONDITIONED.get(name, 0.0))
        got = Converter(back)._inner.source_runner().run({n: v.numpy() for n, v in inputs.items()})
        with torch.no_grad():
            for value, want in zip(got.values(), _outputs(module, inputs), strict=True):
                np.testing.assert_allclose(value, want.numpy(), rtol=0, atol=limit * float(want.abs().max()) + 1e-6)


def _inputs(converter: Converter, given: dict[int, int]) -> dict[str, torch.Tensor]:
    """Inputs with two items, where there may be several: layers that normalise over a batch do not take one."""
    signature = converter.signature.without_states
    sizes = {
        dim if isinstance(dim, str) else f"{spec.name}:{axis}": given[axis]
        for spec in signature.inputs
        for axis, dim in enumerate(spec.shape or ())
        if not isinstance(dim, int) and axis in given
    }
    return {name: torch.from_numpy(array) for name, array in sample_inputs(signature, batch=2, sizes=sizes).items()}


def _outputs(module: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    results = module(*inputs.values())
    return results if isinstance(results, tuple) else (results,)


def _real(output: torch.Tensor) -> torch.Tensor:
    return output if output.is_floating_point() else output.float()


def _storage(converter: Converter) -> float:
    return HALF if converter.contract.features.get("half_precision_weights") else SINGLE


def _bytes(model: Any) -> bytes:
    return bytes(model) if isinstance(model, TFLiteModel) else model.SerializeToString()


def _same_but_for(before: bytes, model: Any, keys: set[str]) -> bool:
    """Whether nothing but weights has changed."""
    if isinstance(model, TFLiteModel):
        return outside_weights(before, bytes(model), model.structure, keys) == 0
    pair = [onnx.ModelProto.FromString(before), onnx.ModelProto.FromString(model.SerializeToString())]
    for proto in pair:
        tensors = [a.t for node in proto.graph.node if node.op_type == "Constant" for a in node.attribute if a.HasField("t")]
        for tensor in (*proto.graph.initializer, *tensors):
            for field in ("raw_data", "float_data"):
                tensor.ClearField(field)
    return pair[0] == pair[1]
