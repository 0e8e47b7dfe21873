"""Where ONNX Runtime computes something else than the specification says, its reference is asked."""

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from mlconverter import Converter
from tests.ops.onnx_tflite.cases_images import OTHERWISE
from tests.ops.onnx_tflite.check import run_tflite
from tests.ops.onnx_torch.check import compare, feeds_of


@pytest.mark.parametrize("case", OTHERWISE, ids=lambda case: case.id)
def test_as_the_reference(case):
    made = case.build()
    feeds = feeds_of(made, 1, case.low, case.high)
    wanted = ReferenceEvaluator(made).run(None, feeds)
    got = run_tflite(Converter(made, verify=False).to_tflite(), feeds)
    compare(list(got.values()), [np.asarray(w) for w in wanted], 2e-5)
