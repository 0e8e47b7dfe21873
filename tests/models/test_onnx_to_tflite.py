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
from tests.models.test_onnx_models import LIGHT, PACKAGED, RECURRENT, STATEFUL, batch_is_free, inputs_of
from tests.models.test_streams import CALLS, RATE, WINDOW, first_state, states
from tests.models.test_streams import inputs_of as sounds_of

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


RANKED_BY_BATCH = ("speechmos", "plcmos_models/plcmos_v2.onnx")
"""It takes out every axis of one element: whether the batch is one of them decides the rank of its result."""


def fixed(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> onnx.ModelProto:
    """The model for inputs of these shapes alone."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for value in made.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, feeds[value.name].shape, strict=True):
            dim.dim_value = size
    return made


@pytest.mark.parametrize(("package", "member"), [model for model in RECURRENT if model != RANKED_BY_BATCH])
def test_recurrent_models(package: str, member: str) -> None:
    """With sequences of any length, or any batch, where the models leave them free."""
    proto = onnx.load(zoo.model(package, member))
    name = member.rpartition("/")[2]
    made = Converter(model=proto, verify=False).to_tflite()
    session = ort.InferenceSession(proto.SerializeToString())
    with made.runner(num_threads=2) as runner:
        for length in (1, 2, 31) if batch_is_free(proto) and name not in STATEFUL else (1,):
            feeds = inputs_of(proto, name, length)
            assert_close(runner.run(feeds), run_onnx(session, feeds))


def test_a_recurrent_model_whose_rank_depends_on_the_batch() -> None:
    proto = onnx.load(zoo.model(*RANKED_BY_BATCH))
    with pytest.raises(UnsupportedOpsError, match=r"Squeeze .*which axes have one element is only known at run time"):
        Converter(model=proto, verify=False).to_tflite()
    session = ort.InferenceSession(proto.SerializeToString())
    feeds = inputs_of(proto, RANKED_BY_BATCH[1].rpartition("/")[2], 1)
    with Converter(model=fixed(proto, feeds), verify=False).to_tflite().runner(num_threads=2) as runner:
        assert_close(runner.run(feeds), run_onnx(session, feeds))


@pytest.mark.parametrize("rate", sorted(WINDOW))
@pytest.mark.parametrize("member", zoo.members("silero-vad", ".onnx"))
def test_state_over_ten_calls(member: str, rate: int) -> None:
    """With one length of sound and one sampling rate, for which the models decide their branches beforehand."""
    proto = onnx.load(zoo.model("silero-vad", member))
    if rate != RATE and not any(v.name == "sr" for v in proto.graph.input):
        pytest.skip("this one knows a single sampling rate")
    following = states(proto)
    sound = next(v for v in proto.graph.input if v.name == "input")
    length = 1 if sound.type.tensor_type.shape.dim[1].dim_value > 0 else WINDOW[rate][0]
    state = {name: first_state(proto, name) for name in following}
    single = fixed(proto, sounds_of(proto, state, length, 0, rate))
    for value in [v for v in single.graph.input if v.name == "sr"]:
        single.graph.input.remove(value)
        single.graph.initializer.append(onnx.numpy_helper.from_array(np.array(rate, np.int64), "sr"))
    session = ort.InferenceSession(proto.SerializeToString())
    with Converter(model=single, verify=False).to_tflite().runner(num_threads=2) as runner:
        kept = dict(state)
        for call in range(CALLS):
            given = sounds_of(proto, state, length, call, rate)
            want = run_onnx(session, given)
            got = runner.run({n: kept.get(n, a) for n, a in given.items() if n != "sr"})
            assert_close(got, want)
            state = {name: want[output] for name, output in following.items()}
            kept = {name: got[output] for name, output in following.items()}


DECIDED_BY_LENGTH = ("silero_vad.onnx", "silero_vad_16k_op15.onnx", "silero_vad_half.onnx")


@pytest.mark.parametrize("member", DECIDED_BY_LENGTH)
def test_models_whose_ranks_depend_on_the_length_are_refused(member: str) -> None:
    with pytest.raises(UnsupportedOpsError) as caught:
        Converter(zoo.model("silero-vad", member), verify=False).to_tflite()
    assert {(op.op, op.reason) for op in caught.value.ops} == {
        ("If", "branches that give tensors of different ranks, which TFLite cannot say"),
        ("Pad", "mode=reflect along an axis whose length only the run time knows"),
    }


def test_a_model_that_decides_at_run_time() -> None:
    """Both sampling rates in one file, and any batch."""
    member = "silero_vad_op18_ifless.onnx"
    proto = onnx.load(zoo.model("silero-vad", member))
    samples = WINDOW[RATE][0]
    next(v for v in proto.graph.input if v.name == "input").type.tensor_type.shape.dim[1].dim_value = samples
    made = Converter(model=proto, verify=False).to_tflite()
    assert operators(made)["IF"] == 1
    session = ort.InferenceSession(proto.SerializeToString())
    rng = np.random.default_rng(0)
    with made.runner(num_threads=2) as runner:
        for batch in (1, 3):
            for rate in sorted(WINDOW):
                sound, state = rng.uniform(-0.5, 0.5, (batch, samples)), rng.uniform(-1, 1, (2, batch, 128))
                given = {"input": sound.astype(np.float32), "sr": np.array(rate), "state": state.astype(np.float32)}
                assert_close(runner.run(given), run_onnx(session, given))


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
