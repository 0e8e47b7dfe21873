"""Recurrent operators give in ONNX Runtime and in torch what they give in LiteRT, call after call."""

import copy
from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch

from mlconverter import Converter
from mlconverter.errors import UnsupportedOpsError
from mlconverter.formats.tflite.runner import LiteRTRunner
from mlconverter.formats.tflite.to_onnx.convert import convert
from mlconverter.formats.torch.runner import TorchRunner
from mlconverter.hub.states import initial_states
from tests.ops.tflite_onnx.cases_recurrent import CASES, Recurrent
from tests.ops.tflite_onnx.files import File

CALLS = 3

RUNS = [pytest.param(case, batch, id=f"{case.id} n={batch}") for case in CASES for batch in case.batches if not case.refused]


def written(case: Recurrent, batch: int, shapes: bool = True) -> bytes:
    file = File()
    outputs = case.build(file, batch)
    return file.finish(*(outputs if isinstance(outputs, list) else [outputs]), shapes=shapes)


def successive(hub) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """A function that runs the graph and feeds its states with what they were after the call before."""
    proto = ir.to_proto(hub.model)
    onnx.checker.check_model(proto, full_check=True)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    states = initial_states(hub.model.metadata_props, hub.signature)
    names = list(hub.signature.output_names)

    def run(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = dict(zip(names, session.run(names, {**feeds, **states}), strict=True))
        states.update({came: outputs.pop(goes) for came, goes in hub.signature.states})
        return outputs

    return run


def fed(runner: LiteRTRunner, rng: np.random.Generator) -> dict[str, np.ndarray]:
    feeds = {}
    for spec in runner.signature.inputs:
        values = rng.uniform(-2, 2, spec.concrete()).astype(np.float32)
        if spec.quantization is not None:
            values = np.round(values * 50 + spec.quantization.zero_point[0])
        feeds[spec.name] = values.astype(spec.dtype)
    return feeds


def assert_close(got: dict[str, np.ndarray], want: dict[str, np.ndarray], case: Recurrent) -> None:
    assert list(got) == list(want)
    for name, expected in want.items():
        assert (got[name].shape, got[name].dtype) == (expected.shape, expected.dtype)
        whole = expected.dtype.kind != "f"
        limit = case.tolerance if whole else case.tolerance * np.abs(expected).max() + 1e-6
        np.testing.assert_allclose(got[name].astype(float), expected.astype(float), rtol=0, atol=limit)
        assert expected.std() > 0


@pytest.mark.parametrize(("case", "batch"), RUNS)
def test_recurrent(case: Recurrent, batch: int):
    data = written(case, batch)
    hub = convert(data)
    assert {n.op_type for n in hub.model.graph} >= set(case.expects)
    run = successive(hub)
    rng = np.random.default_rng(3)
    with LiteRTRunner(data) as runner:
        for _ in range(CALLS):
            feeds = fed(runner, rng)
            assert_close(run(feeds), runner.run(feeds), case)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES if not c.refused and "8-bit weights" not in c.id])
def test_torch(case: Recurrent, tmp_path):
    """The module remembers as LiteRT does, and starts anew where it is told to."""
    path = tmp_path / "model.tflite"
    path.write_bytes(written(case, 1))
    converter = Converter(model_path=path, verify=False)
    module = converter.to_torch()
    rng = np.random.default_rng(3)
    with LiteRTRunner(path) as runner, TorchRunner(module, runner.signature) as torch_runner:
        for _ in range(2):
            for _ in range(CALLS):
                feeds = fed(runner, rng)
                assert_close(torch_runner.run(feeds), runner.run(feeds), case)
            runner.reset()
            torch_runner.reset()


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES if not c.refused and "8-bit weights" not in c.id])
def test_the_way_back(case: Recurrent, tmp_path):
    """What was not trained comes back as the same file; what was, as one that gives what the module gives."""
    path = tmp_path / "model.tflite"
    path.write_bytes(data := written(case, 1))
    converter = Converter(model_path=path, verify=False)
    module = converter.to_torch()
    assert bytes(converter.to_origin_type(module)) == data
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(0.5)
    tuned = converter.to_origin_type(module)
    assert bytes(tuned) != data
    rng = np.random.default_rng(3)
    with tuned.runner() as runner, TorchRunner(copy.deepcopy(module), runner.signature) as torch_runner:
        for _ in range(CALLS):
            feeds = fed(runner, rng)
            assert_close(torch_runner.run(feeds), runner.run(feeds), case)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES if c.refused])
def test_refused(case: Recurrent):
    with pytest.raises(UnsupportedOpsError, match=case.refused):
        convert(written(case, case.batches[-1], shapes=False))
