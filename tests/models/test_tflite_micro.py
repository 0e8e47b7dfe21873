"""The files of TensorFlow's microcontroller examples (Apache-2.0): quantised networks, recurrent ones, filters with a state.

They are read from the folder that the environment variable ``MLCONVERTER_MODELS`` names, and skipped without.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from mlconverter import Converter
from mlconverter.formats.onnx.converter import ONNXConverter
from mlconverter.formats.tflite.runner import LiteRTRunner
from mlconverter.formats.tflite.schema import load
from mlconverter.formats.torch.runner import TorchRunner
from mlconverter.verification.singly import Singly
from mlconverter.verification.steps import stepwise
from mlconverter.verification.tolerance import Tolerances
from tests import zoo

RUNNING = ["keyword_svdf_int16", "micro_speech_int8", "mnist_lstm", "mnist_lstm_int8", "mobilenet_v2_int8"]
STATEFUL = {"keyword_svdf_int16", "mnist_lstm", "mnist_lstm_int8"}
PERSON = "person_detect_int8"
"""LiteRT refuses its quantisation, which says an axis that its biases have not."""


def path_of(name: str) -> Path:
    return zoo.shared_model(f"tflite-micro/{name}.tflite")


def inputs_for(spec, seed: int) -> np.ndarray:
    """Smooth numbers and noise by turns, as the file takes them."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=spec.concrete())
    real = np.cumsum(noise, axis=-1) / 3 if seed % 2 else noise
    if spec.quantization is None:
        return real.astype(spec.dtype)
    limits = np.iinfo(spec.dtype)
    middle = (int(limits.max) + int(limits.min)) // 2
    return np.clip(np.rint(real * (limits.max - middle) / 3) + middle, limits.min, limits.max).astype(spec.dtype)


@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize("to", ["onnx", "torch"])
def test_every_operator_is_right(name: str, to: str):
    """Judged by the package itself, more thoroughly than usual: twenty successive calls where there is a state."""
    converter = Converter(model_path=path_of(name), verify="full")
    converter.to(to)
    result = converter.report.steps[-1].verification
    assert result is not None and result.verdict in ("verified", "inconclusive")
    assert (result.verdict == "inconclusive") == (name == "keyword_svdf_int16"), result.summary()


@pytest.mark.parametrize("name", RUNNING)
def test_there_and_back(name: str):
    """Untouched the very file comes back; made anew by the engine the file computes what the original does."""
    path = path_of(name)
    converter = Converter(model_path=path, verify=False)
    module = converter.to_torch()
    assert bytes(converter.to_origin_type(module)) == path.read_bytes()
    made = Converter(converter.to_onnx(), verify=False).to_tflite()
    spec = converter.signature.inputs[0]
    with LiteRTRunner(path) as original, made.runner() as anew:
        for call in range(20):
            given = {spec.name: inputs_for(spec, call)}
            (want,), (got,) = original.run(given).values(), anew.run(given).values()
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            apart = np.abs(got.astype(np.float64) - want).max()
            assert apart <= (1e-4 * np.abs(want).max() + 1e-6 if want.dtype.kind == "f" else 1)


@pytest.mark.parametrize("name", [*RUNNING, PERSON])
def test_through_torch_into_another_file(name: str):
    """A module becomes a quantised file again, whose operators are judged one by one."""
    path = path_of(name)
    converter = Converter(Converter(model_path=path, verify=False).to_torch())
    made = converter.to_tflite()
    assert converter.report.verdict == "verified"
    if name not in STATEFUL:
        assert not any(t.dtype == "float32" for t in made.structure.subgraphs[0].tensors)
        assert len(made) < 1.1 * path.stat().st_size


@pytest.mark.parametrize("name", sorted(set(RUNNING) - STATEFUL))
def test_no_further_than_other_kernels(name: str):
    """On a hundred inputs no further from LiteRT's default kernels than its reference kernels are, and as often of one mind."""
    path = path_of(name)
    converter = Converter(model_path=path, verify=False)
    spec, module = converter.signature.inputs[0], converter.to_torch()
    apart = {"reference": 0, "onnx": 0, "torch": 0}
    alike = dict.fromkeys(apart, 0)
    runners = {"reference": LiteRTRunner(path, kernels="reference"), "onnx": ONNXConverter(converter.to_onnx()).source_runner()}
    with LiteRTRunner(path) as default:
        for seed in range(100):
            given = inputs_for(spec, seed)
            (want,) = default.run({spec.name: given}).values()
            results = {kind: next(iter(runner.run({spec.name: given}).values())) for kind, runner in runners.items()}
            with torch.no_grad():
                results["torch"] = module(torch.from_numpy(given)).numpy()
            for kind, got in results.items():
                apart[kind] = max(apart[kind], int(np.abs(got.astype(np.int64) - want).max()))
                alike[kind] += int(got.reshape(-1)[want.argmax()] == got.max())
    for kind in ("onnx", "torch"):
        assert apart[kind] <= apart["reference"]
        assert alike[kind] >= alike["reference"] - 5  # of a hundred; noise leaves no clear winner


def test_a_photograph_has_one_winner():
    path = path_of("mobilenet_v2_int8")
    converter = Converter(model_path=path, verify=False)
    spec, module = converter.signature.inputs[0], converter.to_torch()
    for photo in ("china.jpg", "flower.jpg"):
        picture = zoo.photograph(224, 224, name=photo).transpose(0, 3, 1, 2)
        scaled = (picture - picture.mean()) / picture.std()
        quantization = spec.quantization
        whole = np.clip(np.rint(scaled / quantization.scale[0]) + quantization.zero_point[0], -128, 127).astype(np.int8)
        with LiteRTRunner(path) as runner, torch.no_grad():
            (want,) = runner.run({spec.name: whole}).values()
            assert module(torch.from_numpy(whole)).numpy().argmax() == want.argmax()


@pytest.mark.parametrize("name", ["micro_speech_int8", "mobilenet_v2_int8", PERSON])
def test_a_batch_of_four_is_four_runs(name: str):
    converter = Converter(model_path=path_of(name), verify=False)
    spec, module = converter.signature.inputs[0], converter.to_torch()
    runner = TorchRunner(module, module.origin.signature)
    items = np.concatenate([inputs_for(spec, seed) for seed in range(4)])
    # With several threads torch adds up a batch in another order, and fifty operators make much of a step.
    found = stepwise(Singly(runner), runner, {spec.name: items}, Tolerances())
    assert found and found.compared == len(runner.quantized) and found.alive > 0.9 * found.compared
    assert runner.run({spec.name: items})[module.origin.signature.output_names[0]].shape[0] == 4


def test_a_file_that_only_the_micro_runtime_runs():
    """Where LiteRT does not run a file nothing is compared, and that is said; the package tflite-micro runs it.

    Every operator is fed with that runtime's own integers, and has to give the next ones within a step.
    """
    micro = pytest.importorskip("tflite_micro", reason="the package tflite-micro is not installed").runtime
    path = path_of(PERSON)
    converter = Converter(model_path=path)
    model, module = converter.to_onnx(), converter.to_torch()
    assert converter.report.steps[-1].verdict == "unverified"
    spec, graph = converter.signature.inputs[0], load(path.read_bytes()).subgraphs[0]
    interpreter = micro.Interpreter.from_file(str(path), intrepreter_config=micro.InterpreterConfig.kPreserveAllTensors)
    runners = [ONNXConverter(model).source_runner(), TorchRunner(module, module.origin.signature)]
    for seed in range(10):
        given = {spec.name: inputs_for(spec, seed)}
        interpreter.set_input(given[spec.name], 0)
        interpreter.invoke()
        want = interpreter.get_output(0)
        tensors = {graph.tensors[i].label: i for operator in graph.operators for i in operator.outputs}
        for runner in runners:
            own = runner.intermediates(given)
            named = {n: interpreter.GetTensor(tensors[n], 0) for n in runner.quantized if n in tensors}
            values = {n: _as_stored(value["tensor_data"], own[n]) for n, value in named.items()}
            assert len(values) >= 28
            for name, got in runner.resumed(given, values).items():
                if name in values:
                    assert np.abs(got.astype(np.int64) - values[name]).max() <= 1, name
            (got,) = runner.run(given).values()
            assert np.abs(got.astype(np.int64) - want).max() <= 8 and got.argmax() == want.argmax()
    assert bytes(converter.to_origin_type(module)) == path.read_bytes()


def _as_stored(value: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Channels last as the graph has them: channels first."""
    return value if value.ndim < 4 else np.ascontiguousarray(value.transpose(0, 3, 1, 2)).reshape(like.shape)
