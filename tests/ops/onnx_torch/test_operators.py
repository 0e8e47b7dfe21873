"""Every case gives in torch what it gives in ONNX Runtime, at a batch of one and of three where the batch is free."""

import pytest

from tests.ops.onnx_torch.cases import CASES, Case
from tests.ops.onnx_torch.cases_ml import ML_CASES
from tests.ops.onnx_torch.cases_more import FED, MORE, Fed
from tests.ops.onnx_torch.check import check


@pytest.mark.parametrize("case", [*CASES, *MORE], ids=lambda case: case.id)
def test_as_onnx_runtime(case: Case):
    check(case.build(), low=case.low, high=case.high)


@pytest.mark.parametrize("case", [*FED, *ML_CASES], ids=lambda case: case.id)
def test_as_onnx_runtime_on_given_inputs(case: Fed):
    check(case.build(), *map(case.feeds, case.batches), judge=case.build(case.judge))
