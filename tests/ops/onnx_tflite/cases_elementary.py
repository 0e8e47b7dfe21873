"""Functions and small makers of tensors that LiteRT has no operator for."""

import numpy as np
import onnx

from tests.ops.onnx_torch.cases import Case
from tests.ops.onnx_torch.models import BOOL, FLOAT, INT64, N, ints

INT32, INT8, UINT8 = onnx.TensorProto.INT32, onnx.TensorProto.INT8, onnx.TensorProto.UINT8


def _functions() -> list[Case]:
    """Near zero, where differences are lost in rounding, at the ends of what is defined, and far away."""
    near_and_far = [(-1, 1), (-1e-3, 1e-3), (-60, 60), (-2e6, 2e6)]
    cases = [Case(op, ((N, 3, 99),), low=low, high=high) for op in ("Atan", "Asinh") for low, high in near_and_far]
    cases += [Case(op, ((N, 3, 99),), low=low, high=high) for op in ("Sinh", "Cosh") for low, high in near_and_far[:3]]
    cases += [Case(op, ((N, 99),), low=low, high=high) for op in ("Asin", "Acos", "Atanh") for low, high in near_and_far[:2]]
    cases += [Case("Acosh", ((N, 3, 99),), low=1, high=high) for high in (1.001, 2, 1e6)]
    cases += [
        Case(op, ((N, 4),), opset=9, low=-0.9, high=0.9) for op in ("Atan", "Asin", "Acos", "Sinh", "Cosh", "Asinh", "Atanh")
    ]
    return cases


def _makers() -> list[Case]:
    cases = [Case("Hardmax", ((N, 3, 4, 5),), {"axis": axis}) for axis in (1, 2, -1)]
    cases += [Case("Hardmax", ((N, 3, 4),), opset=opset) for opset in (11, 13)]
    cases += [Case("Hardmax", ((N, 3, 4),), {"axis": 1}, opset=11), Case("Hardmax", ((2, 3, 4),), {"axis": 0}, opset=11)]
    cases += [Case("EyeLike", (shape,), {"k": k}) for shape in ((4, 4), (3, 5), (N, 5), ("rows", N)) for k in (0, 1, -2)]
    cases += [
        Case("EyeLike", ((N, 4),), {"dtype": INT64}, outputs=(INT64,)),
        Case("EyeLike", ((3, N),), kind=INT32, outputs=(INT32,)),
    ]
    cases += [
        Case("NonZero", (shape,), kind=kind, outputs=(INT64,)) for shape in ((N, 5), (2, 3, 4)) for kind in (FLOAT, BOOL, INT64)
    ]
    mask = np.array([True, False, True])
    cases += [Case("Compress", ((N, 3, 4), mask), {"axis": 1}, opset=opset) for opset in (9, 11)]
    cases += [Case("Compress", ((N, 4, 3), mask), {"axis": -1}), Case("Compress", ((2, 3, 4), mask))]
    cases += [Case("Compress", ((N, 4, 3), (BOOL, (4,))), {"axis": 1}), Case("Compress", ((2, 3), (BOOL, (6,))))]
    for kind in (FLOAT, INT64, INT8, BOOL):
        cases += [
            Case("ReverseSequence", ((3, 5, 2), ints(1, 5, 3)), {"batch_axis": 0, "time_axis": 1}, kind=kind, outputs=(kind,)),
            Case("ReverseSequence", ((4, 3, 2), ints(1, 4, 2)), kind=kind, outputs=(kind,)),
        ]
    cases += [
        Case("IsInf", ((N, 4),), {"detect_negative": a, "detect_positive": c}, outputs=(BOOL,)) for a in (0, 1) for c in (0, 1)
    ]
    for attributes in (
        {},
        {"strides": [2, 1]},
        {"pads": [0, 1, 1, 2]},
        {"dilations": [1, 2]},
        {"pads": [1] * 4, "strides": [2, 2]},
    ):
        pads, steps, gaps = (attributes.get(k, d) for k, d in (("pads", [0] * 4), ("strides", [1, 1]), ("dilations", [1, 1])))
        reach = zip((6, 7), (2, 3), range(2), strict=True)
        count = np.prod([(n + pads[i] + pads[i + 2] - (k - 1) * gaps[i] - 1) // steps[i] + 1 for n, k, i in reach])
        cases.append(Case("Col2Im", ((3, 4 * 6, int(count)), ints(6, 7), ints(2, 3)), attributes))
    cases += [Case("Col2Im", ((n, 3 * 2, 4), ints(5), ints(2))) for n in (2, N)]
    return cases


CASES = [*_functions(), *_makers()]
