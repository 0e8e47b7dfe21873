"""Real models that a later step is for: refused with every operator and reason, never half converted."""

import os

import pytest

from mlconverter import Converter, UnsupportedOpsError
from tests import zoo

TFLITE = [("pymicro-wakeword", m) for m in zoo.members("pymicro-wakeword", ".tflite")]


@pytest.mark.parametrize(("package", "member"), TFLITE, ids=lambda v: os.path.basename(v))
def test_quantised_streaming_models(package: str, member: str) -> None:
    """Quantised activations and variables are named."""
    with pytest.raises(UnsupportedOpsError) as caught:
        Converter(zoo.model(package, member)).to_onnx()
    assert any("quantised" in op.reason for op in caught.value.ops)
    assert any(op.op == "VAR_HANDLE" for op in caught.value.ops)


@pytest.mark.parametrize("name", zoo.SHARED_MODELS)
def test_microcontroller_models(name: str) -> None:
    """int8 and int16 models, and a float LSTM."""
    with pytest.raises(UnsupportedOpsError) as caught:
        Converter(zoo.shared_model(name)).to_onnx()
    assert all(op.reason for op in caught.value.ops)
