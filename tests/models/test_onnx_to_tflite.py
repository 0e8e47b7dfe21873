"""Real models into TFLite: LiteRT gives what ONNX Runtime gives, with no more operators than are needed."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from mlconverter import Converter
from mlconverter.errors import UnsupportedOpsError
from mlconverter.formats.onnx.runner import OnnxRuntimeRunner
from mlconverter.formats.tflite.model import TFLiteModel
from mlconverter.hub.onnx_io import OnnxIO
from mlconverter.verification import verify_runners
from tests import zoo
from tests.models.test_onnx_models import LIGHT, PACKAGED, RECURRENT, batch_is_free, inputs_of

ort.set_default_logger_severity(4)
RTOL = 1e-3

TRANSPOSES = {
    "resnet18": 1,
    "mobilenet_v2": 1,
    "shufflenet_v2_x1_0": 18,
    "convnext_tiny": 1,
    "densenet121": 1,
    "deeplabv3_mobilenet_v3_large": 2,
}
"""The most transposes that a model of torchvision may have: one at the border, and one for each channel shuffle."""

MEDIAPIPE = [m for m in zoo.members("mediapipe") if "with_attention" not in m]


def operators(model: TFLiteModel) -> Counter[str]:
    return Counter(o.op for o in model.structure.subgraphs[0].operators)


def assert_close(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    assert list(got) == list(want)
    for name, expected in want.items():
        assert got[name].shape == expected.shape and got[name].dtype == expected.dtype
        assert np.abs(got[name] - expected).max() <= RTOL * np.abs(expected).max() + 1e-6, name


def run_onnx(session: ort.InferenceSession, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


@pytest.mark.parametrize("name", [*(m for p, m in PACKAGED if (p, m) not in RECURRENT), *LIGHT])
def test_onnx_models(name: str) -> None:
    """Models with free heights and widths among them, at a batch of one and of two."""
    package = next((p for p, m in PACKAGED if m == name), None)
    proto = onnx.load(zoo.model(package, name)) if package else zoo.light_models()[name]()
    made = Converter(model=proto, verify=False).to_tflite()
    session = ort.InferenceSession(proto.SerializeToString())
    with made.runner(num_threads=2) as runner:
        for batch in (1, 2) if batch_is_free(proto) else (1,):
            feeds = inputs_of(proto, name.rpartition("/")[2], batch)
            assert_close(runner.run(feeds), run_onnx(session, feeds))


@pytest.mark.parametrize(("package", "member"), RECURRENT)
def test_recurrent_models_are_refused_by_name(package: str, member: str) -> None:
    with pytest.raises(UnsupportedOpsError, match=r"(LSTM|GRU) \(version \d+\), \dx, first at"):
        Converter(model=onnx.load(zoo.model(package, member)), verify=False).to_tflite()


@pytest.mark.parametrize("member", MEDIAPIPE)
def test_there_and_back_by_onnx(member: str) -> None:
    """What comes out of ONNX again computes what the file computed, with no more operators."""
    origin = TFLiteModel.load(zoo.model("mediapipe", member))
    proto = Converter(model=origin, verify=False).to_onnx()
    made = Converter(model=proto, verify=False).to_tflite()
    assert made.signature.input_names == origin.signature.input_names
    assert made.signature.output_names == origin.signature.output_names
    storage = operators(origin)["DEQUANTIZE"] + operators(origin)["DENSIFY"]
    assert sum(operators(made).values()) <= sum(operators(origin).values()) - storage
    rng = np.random.default_rng(0)
    feeds = {}
    for spec in origin.signature.inputs:
        shape = spec.concrete()
        image = len(shape) == 4 and shape[3] == 3
        feeds[spec.name] = zoo.photograph(*shape[1:3]) if image else rng.normal(0, 0.1, shape).astype(np.float32)
    with made.runner(num_threads=2) as new, origin.runner(num_threads=2) as old:
        assert_close(new.run(feeds), old.run(feeds))


@pytest.mark.parametrize("name", sorted(zoo.torch_models()))
def test_torch_models(name: str) -> None:
    """Torch architectures at a batch of one, three and eight: a photograph, and noise."""
    module, x = zoo.torch_models()[name](), zoo.torch_input(name)
    proto = Converter(model=module, input_shape=tuple(x.shape), verify=False).to_onnx()
    made = Converter(model=proto, verify=False).to_tflite()
    assert operators(made)["TRANSPOSE"] <= TRANSPOSES.get(name, 99)
    assert "BATCH_MATMUL" not in operators(made) or name == "vit_b_16"
    signature = OnnxIO(proto).signature
    (entry,) = signature.inputs
    photographs = [{entry.name: np.concatenate([np.roll(x, 7 * i, -1) for i in range(batch)])} for batch in (1, 3, 8)]
    # Untrained networks amplify rounding on noise; the verifier asks for no more than what the source itself keeps to.
    noise = [{entry.name: np.random.default_rng(0).uniform(0, 1, x.shape).astype(np.float32)}]
    with OnnxRuntimeRunner(proto, signature) as source, made.runner(num_threads=2) as runner:
        for feeds in photographs:
            assert_close(runner.run(feeds), source.run(feeds))
        result = verify_runners(source, runner, inputs=noise, rtol=RTOL)
        assert result, result.summary()
