"""Where two models part, and how far a runtime's own kernels are apart: on real models, between all formats."""

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from mlconverter import Converter, verify
from mlconverter.formats.torch.runner import TorchRunner
from mlconverter.formats.torch.storage import Storage
from tests import zoo

NAME = "face_detection_short_range.tflite"
LAYER = "conv2d_7"


@pytest.fixture(scope="module")
def path():
    """The face detection model of mediapipe."""
    return zoo.model("mediapipe", NAME)


@pytest.fixture(scope="module")
def converter(path):
    """Its converter."""
    return Converter(model_path=path, verify=False)


@pytest.fixture
def exported(converter):
    """The model as ONNX, one layer in the middle of it changed."""
    proto = onnx.ModelProto()
    proto.CopyFrom(converter.to_onnx())
    weight = next(i for i in proto.graph.initializer if i.name == f"{LAYER}/Kernel")
    weight.CopyFrom(numpy_helper.from_array((numpy_helper.to_array(weight) * np.float32(1.05)), weight.name))
    return proto


@pytest.fixture
def module(path):
    """The model as torch, the same layer changed."""
    made = Converter(model_path=path, verify=False).to_torch()
    with torch.no_grad():
        made.get_parameter(f"{LAYER}_Kernel.weight").mul_(1.05)
    return made


def running(module) -> TorchRunner:
    """A converted module under the names of its origin."""
    return TorchRunner(module, module.origin.signature)


def first_difference(a, b, **choices):
    """The name of the first tensor that differs."""
    result = verify(a, b, level="fast", bisect=True, **choices)
    assert result.verdict == "wrong"
    assert result.first_difference is not None, result.notes
    return result.first_difference.name


def test_from_tflite_to_onnx(path, exported) -> None:
    """The file stores channels last and the graph first."""
    assert first_difference(path, exported) == LAYER


def test_from_onnx_to_onnx(converter, exported) -> None:
    assert first_difference(converter.to_onnx(), exported) == LAYER


def test_from_onnx_and_from_tflite_to_torch(path, converter, module) -> None:
    before = {n: p.detach().clone() for n, p in module.named_parameters()}
    for source in (converter.to_onnx(), path):
        assert first_difference(source, running(module)) == LAYER
    assert "forward" not in vars(module)
    assert all(torch.equal(before[n], p) for n, p in module.named_parameters())


def test_weights_in_half_precision_are_seen_as_they_are_stored() -> None:
    """What the recorded run computes is what the module computes."""
    path = zoo.model("mediapipe", "palm_detection_lite.tflite")
    module = Converter(model_path=path, verify=False).to_torch()
    assert any(isinstance(part, Storage) for part in module.modules())
    with torch.no_grad():
        module.get_parameter(next(n for n, p in reversed(list(module.named_parameters())) if p.dim() == 4)).mul_(1.5)
    result = verify(path, running(module), level="fast", bisect=True)
    outputs = {s.name for s in module.origin.signature.outputs}
    assert result.first_difference.name not in outputs
    assert result.first_difference.rtol_needed > 1e-2


def test_a_module_of_somebodys_own_has_no_names() -> None:
    plain = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3))
    exported = Converter(model=plain, input_shape=(1, 3, 8, 8), verify=False).to_onnx()
    with torch.no_grad():
        plain[0].weight.mul_(2)
    result = verify(exported, plain, input_shape=(1, 3, 8, 8), bisect=True, match="position")
    assert result.first_difference is None
    assert any("Only modules that were converted" in note for note in result.notes)


def test_a_full_verification_says_how_far_the_sources_kernels_are_apart(path, converter) -> None:
    for source in (path, converter.to_onnx()):
        result = verify(source, converter.to_onnx(), level="full")
        assert result
        assert set(result.spread) == {s.name for s in converter.signature.outputs}
        assert 0 < max(result.spread.values()) < 1e-3
        assert not verify(source, converter.to_onnx(), level="fast").spread


def test_kernels_that_do_not_run_a_model_are_a_note() -> None:
    """The custom operator of this model exists in LiteRT's default kernels only."""
    path = zoo.model("mediapipe", "selfie_segmentation_landscape.tflite")
    result = verify(path, Converter(model_path=path, verify=False).to_onnx(), level="full")
    assert not result.spread
    assert any("one set of kernels only" in note for note in result.notes)
