"""Every direction in one chain: a torch module to ONNX, to TFLite, to ONNX again and to torch again."""

import copy

import numpy as np
import pytest
import torch

from mlconverter import Converter
from tests import zoo

pytestmark = pytest.mark.zoo

TO_TFLITE, ELSEWHERE = 1e-3, 1e-4

OWN_ROUNDING = 4
"""How often a difference may exceed torch's own from float64: untrained networks amplify rounding on noise."""


def results(outputs) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(o.detach() if isinstance(o, torch.Tensor) else o) for o in as_tuple(outputs))


def as_tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def assert_close(got, want, exact, rtol: float) -> None:
    for g, w, e in zip(got, want, exact, strict=True):
        assert g.shape == w.shape
        rounding = float(np.abs(w - e).max())
        assert float(np.abs(g - w).max()) <= max(rtol * float(np.abs(w).max()) + 1e-6, OWN_ROUNDING * rounding)


@pytest.mark.parametrize("name", sorted(zoo.torch_models()))
def test_round(name: str) -> None:
    """A photograph and noise come out as they do of the module itself."""
    original = zoo.torch_models()[name]()
    photograph = zoo.torch_input(name)[:1]
    noise = np.random.default_rng(0).uniform(0, 1, photograph.shape).astype(np.float32)
    exported = Converter(model=original, input_shape=tuple(photograph.shape), verify=False).to_onnx()
    tflite = Converter(model=exported, verify=False).to_tflite()
    again = Converter(model=tflite, verify=False)
    assert again.to_onnx().graph.node
    module = again.to_torch()
    double = copy.deepcopy(original).double()
    for x in (photograph, noise):
        with torch.no_grad():
            want, got = (results(m(torch.from_numpy(x))) for m in (original, module))
            exact = results(double(torch.from_numpy(x).double()))
        stored = results(tflite(x))
        assert_close(stored, want, exact, TO_TFLITE)
        assert_close(got, stored, exact, ELSEWHERE)
        assert_close(got, want, exact, TO_TFLITE)
    assert sum(p.numel() for p in module.parameters()) > 0.9 * sum(p.numel() for p in original.parameters())
