"""Every case gives in LiteRT what it gives in ONNX Runtime, at a batch of one and of three, or is refused for a known reason."""

import numpy as np
import pytest

from mlconverter import Converter
from mlconverter.errors import UnsupportedOpsError
from mlconverter.formats.tflite.from_onnx import translates
from tests.ops.onnx_tflite.cases import CASES, REFUSED
from tests.ops.onnx_tflite.check import check, run_tflite
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


@pytest.mark.parametrize("op", ["Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"])
def test_functions_are_accurate_everywhere(op):
    sizes = np.logspace(-20, 20, 400, dtype=np.float32)
    ends = np.array([0, 1, 88.5, 3e38, np.inf, np.nan], np.float32)
    x = np.concatenate([sizes, 1 - sizes[:200], 1 + sizes, np.linspace(0, 95, 400, dtype=np.float32), ends])
    x = np.concatenate([x, -x])
    made = Case(op, (x.shape,)).build()
    got = run_tflite(Converter(made, verify=False).to_tflite(), {"i0": x})["o0"]
    name = op.lower().replace("a", "arc", 1) if op[0] == "A" else op.lower()
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(got, exact, rtol=5e-6, atol=1e-37)
