"""Every case gives in LiteRT what it gives in ONNX Runtime, at a batch of one and of three, or is refused for a known reason."""

import pytest

from mlconverter.errors import UnsupportedOpsError
from mlconverter.formats.tflite.from_onnx import translates
from tests.ops.onnx_tflite.cases import CASES, REFUSED
from tests.ops.onnx_tflite.check import check
from tests.ops.onnx_torch.cases import Case


def reason_for_refusal(case: Case) -> str | None:
    if case.op not in translates.ops():
        return "no translator"
    return next((reason for op, applies, reason in REFUSED if op == case.op and applies(case)), None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_as_onnx_runtime(case: Case):
    reason = reason_for_refusal(case)
    if reason is None:
        check(case.build(), low=case.low, high=case.high)
    else:
        with pytest.raises(UnsupportedOpsError) as caught:
            check(case.build(), low=case.low, high=case.high)
        assert reason in caught.value.ops[0].reason


def test_every_reason_is_still_needed():
    used = {id(entry) for case in CASES for entry in REFUSED if entry[0] == case.op and entry[1](case)}
    assert [entry[0] for entry in REFUSED if id(entry) not in used] == []
