"""Models that are called again and again with the state of the call before.

silero-vad, with its branches and recurrence, takes the state as an input; wake words in 8-bit integers keep it themselves.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch

from mlconverter import Converter
from mlconverter.formats.tflite.model import TFLiteModel
from tests import zoo

CALLS = 10
RTOL = 1e-4
RATE = 16000
WINDOW = {16000: (512, 576), 8000: (256, 288)}
"""Samples of one call by sampling rate: new ones, and with those of the call before that some models want in front."""


def inputs_of(model: onnx.ModelProto, state: dict[str, np.ndarray], samples: int, seed: int, rate: int) -> dict[str, np.ndarray]:
    """Sound of a call, and the state."""
    made = {}
    for value in model.graph.input:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if value.name in state:
            made[value.name] = state[value.name]
        elif value.name == "sr":
            made[value.name] = np.array(rate, dtype)
        else:
            dims = [d.dim_value or None for d in value.type.tensor_type.shape.dim]
            shape = [samples, dims[1]] if dims[1] and not dims[0] else [dims[0] or 1, dims[1] or samples]
            sound = np.random.default_rng(seed).uniform(-0.5, 0.5, shape)
            made[value.name] = sound.astype(dtype)
    return made


def states(model: onnx.ModelProto) -> dict[str, str]:
    """By input that holds a state, the output that gives the next one."""
    names = {"state": ("stateN", "state_out", "staten"), "h": ("hn", "h_out"), "c": ("cn", "c_out")}
    outputs = {o.name.lower(): o.name for o in model.graph.output}
    found = {}
    for value in model.graph.input:
        for candidate in names.get(value.name.lower(), ()):
            if candidate.lower() in outputs:
                found[value.name] = outputs[candidate.lower()]
    return found


def first_state(model: onnx.ModelProto, name: str) -> np.ndarray:
    value = next(v for v in model.graph.input if v.name == name)
    shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
    return np.zeros(shape, onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("rate", [16000, 8000])
@pytest.mark.parametrize("member", zoo.members("silero-vad", ".onnx"))
def test_state_over_ten_calls(member: str, rate: int, long: bool) -> None:
    path = zoo.model("silero-vad", member)
    proto = onnx.load(path)
    if rate != RATE and not any(v.name == "sr" for v in proto.graph.input):
        pytest.skip("this one knows a single sampling rate")
    sound = next(v for v in proto.graph.input if v.name == "input")
    fixed = [d.dim_value > 0 for d in sound.type.tensor_type.shape.dim]
    if long and all(fixed):
        pytest.skip("this one takes sound of a single length")
    length = (1, 3)[long] if fixed[1] else WINDOW[rate][long]
    following = states(proto)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    module = Converter(path, verify=False).to_torch()
    names = [o.name for o in session.get_outputs()]
    state = {name: first_state(proto, name) for name in following}
    kept = dict(state)
    ran = 0
    for call in range(CALLS):
        given = inputs_of(proto, state, length, call, rate)
        want = dict(zip(names, session.run(None, given), strict=True))
        with torch.no_grad():
            result = module(*(torch.from_numpy(kept.get(n, v)) for n, v in given.items()))
        got = dict(zip(names, (t.numpy() for t in (result if isinstance(result, tuple) else (result,))), strict=True))
        for name in names:
            assert got[name].shape == want[name].shape and got[name].dtype == want[name].dtype
            np.testing.assert_allclose(got[name], want[name], atol=RTOL * np.abs(want[name]).max() + 1e-6)
        state = {name: want[output] for name, output in following.items()}
        kept = {name: got[output] for name, output in following.items()}
        ran += 1
    assert ran == CALLS


# -- states that a file keeps itself -----------------------------------------------------------------------------------

STREAM = 40
"""Calls, so that even the longest memory of a wake word has seen what came first and has lost it again."""


def variables(model: TFLiteModel) -> dict[str, str]:
    """By name of a variable, the tensor that is assigned to it."""
    graph = model.structure.subgraphs[0]
    names = {o.outputs[0]: o.options.sharedName.decode() for o in graph.operators if o.op == "VAR_HANDLE"}
    assigned = [o for o in graph.operators if o.op == "ASSIGN_VARIABLE"]
    return {names[o.inputs[0]]: graph.tensors[o.inputs[1]].name for o in assigned}


def loudness(call: int, shape: tuple[int, ...]) -> np.ndarray:
    """Features of sound that is now louder, now softer, now nothing like sound."""
    rng = np.random.default_rng(call)
    if call % 8 == 7:
        return rng.integers(-128, 128, shape).astype(np.int8)
    return np.clip(rng.normal(-90 + 60 * np.sin(call / 3), 40, shape), -128, 127).astype(np.int8)


def one_verdict(converter: Converter) -> str:
    """The verdict on all conversions so far."""
    (verdict,) = {step.verification.verdict for step in converter.report.steps}
    return verdict


@pytest.mark.parametrize("member", zoo.members("pymicro-wakeword", ".tflite"))
def test_wake_words(member: str, tmp_path: Path) -> None:
    """Through ONNX into a file again: the same integers in the same states, call by call."""
    path = zoo.model("pymicro-wakeword", member)
    there = Converter(path, verify="full")
    there.save(tmp_path / "wake.onnx")
    back = Converter(tmp_path / "wake.onnx", verify="full")
    made, original = back.to_tflite(), TFLiteModel.load(path)
    assert one_verdict(there) == one_verdict(back) == "verified"
    assert made.signature == original.signature
    operators = [{o.op for o in m.structure.subgraphs[0].operators} for m in (made, original)]
    assert operators[0] - operators[1] <= {"SPLIT"}
    kept, was = variables(made), variables(original)
    assert kept.keys() == was.keys() and len(kept) == 6
    (spec,) = original.signature.inputs
    moved = set()
    with made.runner(num_threads=1) as got, original.runner(num_threads=1) as want:
        for call in range(STREAM):
            given = {spec.name: loudness(call, spec.concrete())}
            for (name, result), expected in zip(got.run(given).items(), want.run(given).values(), strict=True):
                np.testing.assert_array_equal(result, expected, name)
        for call in range(STREAM):
            given = {spec.name: loudness(call, spec.concrete())}
            now, then = got.intermediates(given), want.intermediates(given)
            for name in kept:
                np.testing.assert_array_equal(now[kept[name]], then[was[name]], name)
                moved.update([name] if np.ptp(now[kept[name]]) else [])
    assert moved == kept.keys()


@pytest.mark.parametrize("member", zoo.members("pymicro-wakeword", ".tflite"))
def test_wake_words_as_modules(member: str) -> None:
    path = zoo.model("pymicro-wakeword", member)
    converter = Converter(path, verify="full")
    module = converter.to_torch()
    assert one_verdict(converter) == "verified"
    (spec,) = converter.signature.inputs
    with TFLiteModel.load(path).runner(num_threads=1) as want, torch.no_grad():
        for call in range(STREAM):
            x = loudness(call, spec.concrete())
            (expected,) = want.run({spec.name: x}).values()
            assert np.abs(module(torch.from_numpy(x)).numpy().astype(int) - expected).max() <= 1
    assert bytes(converter.to_origin_type(module)) == path.read_bytes()
