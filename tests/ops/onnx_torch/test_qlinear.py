"""Quantised models of one operator: within a step of ONNX Runtime in torch, and at another batch, too."""

import numpy as np
import onnxruntime as ort
import pytest
import torch

from mlconverter import Converter
from tests.ops.onnx_tflite.test_native import feeds_of
from tests.ops.quantised import CASES, Quantised


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_within_a_step(case: Quantised):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(case.proto.SerializeToString(), options)
    module = Converter(case.proto, verify=False).to_torch()
    for batch in (1, 3):
        feeds = feeds_of(session, batch)
        (want,) = session.run(None, feeds)
        with torch.no_grad():
            got = module(*map(torch.from_numpy, feeds.values())).numpy()
        assert got.shape == want.shape
        assert np.abs(got - want).max() <= case.step * 1.0001
