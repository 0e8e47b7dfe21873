"""Elements read and written at places that are computed."""

import numpy as np
import onnx

from tests.ops.onnx_torch.cases import Case
from tests.ops.onnx_torch.models import FLOAT, INT64, N, ints

INT32 = onnx.TensorProto.INT32


def _cases() -> list[Case]:
    cases = []
    places = np.array([[0, 2], [-1, 0], [0, 2]])
    elements = np.array([[[0, 2, -1, 0], [2, 1, 0, 1]], [[1, 1, 0, 0], [0, -2, 1, 1]]])
    for reduction in ("none", "add", "mul", "max", "min"):
        for kind in (FLOAT, INT32):
            given = {} if reduction == "none" else {"reduction": reduction}
            more = {"kind": kind, "outputs": (kind,), "low": -9, "high": 9}
            unique = places[:2] if reduction == "none" else places
            cases.append(Case("ScatterND", ((3, 4, 5), unique, (len(unique), 5)), given, opset=18, **more))
            cases.append(Case("ScatterND", ((3, 4), unique[:, :1], (len(unique), 4)), given, opset=18, **more))
            one = elements if reduction != "none" else np.array([[[0, 2, -1, 0], [2, 1, 0, 1]]])
            target = (2, 3, 4)
            cases.append(Case("ScatterElements", (target, one, one.shape), {"axis": 1, **given}, opset=18, **more))
    cases += [Case("TopK", ((N, 3, 7), (INT64, (1,))), {"axis": 1}, outputs=(FLOAT, INT64), low=1, high=3)]
    cases += [Case("OneHot", ((INT64, (N, 3)), (INT64, (1,)), (2,)), {"axis": axis}, low=1, high=4) for axis in (-1, 1)]
    cases += [Case("OneHot", ((INT64, (N, 3)), np.array(5), (INT64, (2,))), outputs=(INT64,), low=-6, high=6)]
    cases += [Case("GatherND", ((2, 3, 4), np.array([[[1], [-1]], [[0], [2]]])), {"batch_dims": 1})]
    cases += [Case("GatherND", ((2, 3, 4, 5), (INT64, (2, 3, 2))), {"batch_dims": 2}, low=-4, high=3)]
    cases += [Case("GatherElements", ((4, 5, 6), (INT64, (2, 9, 3))), {"axis": 1}, low=-5, high=4)]
    cases += [Case("GatherElements", ((N, 5, 6), (INT64, (N, 5, 3))), {"axis": 2}, low=-6, high=5)]
    cases += [Case("GatherElements", ((4, 5), ints(0, 2, 1, 1).reshape(2, 2)), {"axis": axis}) for axis in (0, 1)]
    cases += [Case("ScatterElements", ((2, 5, 3), (INT64, (2, 1, 3)), (2, 1, 3)), {"axis": 1}, low=-5, high=4)]
    cases += [Case("Det", (shape,)) for shape in ((N, 1, 1), (N, 2, 2), (N, 3, 3), (N, 2, 3, 3), (3, 3))]
    for kind in (FLOAT, INT64):
        for order in (0, 1):
            outputs = (kind, INT64, INT64, INT64)
            cases.append(Case("Unique", ((17,),), {"sorted": order}, kind=kind, outputs=outputs, low=-3, high=3))
            cases.append(Case("Unique", ((3, 4),), {"sorted": order}, kind=kind, outputs=outputs, low=-3, high=3))
    cases += [Case("Unique", ((9,),), kind=INT64, outputs=(INT64,), low=0, high=4)]
    return cases


CASES = _cases()
