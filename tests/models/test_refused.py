"""Real models that a later step is for: refused with every operator and reason, never half converted."""

import pytest

from mlconverter import Converter, UnsupportedOpsError
from tests import zoo


@pytest.mark.parametrize("name", zoo.SHARED_MODELS)
def test_microcontroller_models(name: str) -> None:
    """int8 and int16 models, and a float LSTM."""
    with pytest.raises(UnsupportedOpsError) as caught:
        Converter(zoo.shared_model(name)).to_onnx()
    assert all(op.reason for op in caught.value.ops)
