"""Networks quantised by ONNX Runtime's own tool, in all the forms that it writes, as TFLite files that compute with integers.

torchvision's networks (BSD-3-Clause) with random weights; batch statistics come from random pictures.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import torchvision
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from mlconverter import Converter

SHAPE = (1, 3, 64, 64)
KINDS = {
    "unsigned": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True},
    "signed": {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": True},
    "unsigned-filters": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8},
    "operators": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "quant_format": QuantFormat.QOperator},
}
REAL = {"CAST", "DIV", "ROUND"}
"""What quantising in single precision is written with."""


class Pictures(CalibrationDataReader):
    """Random pictures."""

    def __init__(self, name: str) -> None:
        rng = np.random.default_rng(0)
        self._left: Iterator[dict[str, np.ndarray]] = iter([{name: rng.random(SHAPE, np.float32)} for _ in range(3)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._left, None)


@pytest.fixture(scope="module", params=["resnet18", "mobilenet_v2", "shufflenet_v2_x1_0"])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    module = getattr(torchvision.models, request.param)(weights=None).train()
    with torch.no_grad():
        for _ in range(3):
            module(torch.rand(8, *SHAPE[1:]))
    path = tmp_path_factory.mktemp(request.param) / "net.onnx"
    Converter(module.eval(), input_shape=SHAPE, dynamic_batch=False, verify=False).save(path)
    quant_pre_process(path, path, skip_symbolic_shape=True)  # folds the normalisations, which it cannot quantise
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_computes_with_integers(exported: Path, kind: str):
    name = onnx.load(exported, load_external_data=False).graph.input[0].name
    path = exported.with_name(f"{kind}.onnx")
    quantize_static(exported, path, Pictures(name), **KINDS[kind])
    converter = Converter(model_path=path)
    made = converter.to_tflite()  # every operator is compared with ONNX Runtime's
    result = converter.report.steps[-1].verification
    assert result is not None and result.verdict == "verified"
    operators = made.structure.subgraphs[0].operators
    assert not REAL & {o.op for o in operators}
    assert sum(o.op == "DEQUANTIZE" for o in operators) <= 2
    assert len(made) < exported.stat().st_size / 3
    x = np.random.default_rng(1).random(SHAPE, np.float32)
    (want,) = ort.InferenceSession(path).run(None, {name: x})
    with made.runner() as target:
        (got,) = target.run({name: x}).values()
    assert got.argmax() == want.argmax()


def test_scales_that_the_run_time_finds(exported: Path):
    path = exported.with_name("dynamic.onnx")
    quantize_dynamic(exported, path, weight_type=QuantType.QInt8)
    session = ort.InferenceSession(path)
    x = np.random.default_rng(1).random(SHAPE, np.float32)
    (want,) = session.run(None, {session.get_inputs()[0].name: x})
    with torch.no_grad():
        got = Converter(model_path=path).to_torch()(torch.from_numpy(x)).numpy()
    assert np.abs(got - want).max() <= 1e-3 * np.abs(want).max()
    assert np.abs(Converter(model_path=path).to_tflite()(x) - want).max() <= 1e-3 * np.abs(want).max()
