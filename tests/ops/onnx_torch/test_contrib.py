"""What ONNX Runtime's own operators become gives what they give, at a batch of one and of three."""

import pytest

from tests.ops.onnx_torch.cases_contrib import CASES, Contrib
from tests.ops.onnx_torch.check import check


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_as_onnx_runtime(case: Contrib):
    check(case.build(), low=case.low, high=case.high)
