"""Pooling that LiteRT's own operators do not take: over three axes, dilated, of 8 bits, with the positions of the maxima."""

from typing import Any

import onnx

from tests.ops.onnx_torch.cases import Case
from tests.ops.onnx_torch.models import FLOAT, INT64, N

INT8, UINT8 = onnx.TensorProto.INT8, onnx.TensorProto.UINT8


def _attributes(rank: int) -> list[dict[str, Any]]:
    """Paddings, strides and dilations, the same along all axes and not."""
    steps, gaps, kernel = [2, 1, 3][:rank], [1, 2, 1][:rank], [2, 3, 2][:rank]
    around = [*[1, 0, 1][:rank], *[0, 1, 1][:rank]]
    return [
        {"kernel_shape": kernel},
        {"kernel_shape": kernel, "strides": steps, "pads": around},
        {"kernel_shape": kernel, "strides": steps, "pads": around, "ceil_mode": 1},
        {"kernel_shape": kernel, "auto_pad": "SAME_UPPER", "strides": steps},
        {"kernel_shape": kernel, "auto_pad": "SAME_LOWER"},
        {"kernel_shape": kernel, "dilations": gaps, "pads": around},
        {"kernel_shape": [3] * rank, "dilations": [2] * rank, "strides": steps},
        {"kernel_shape": kernel, "strides": [3] * rank, "ceil_mode": 1},
    ]


def _cases() -> list[Case]:
    cases = []
    for shape in ((N, 3, 9), (N, 3, 6, 7), (N, 2, 5, 6, 7)):
        for attributes in _attributes(len(shape) - 2):
            cases.append(Case("MaxPool", (shape,), attributes, opset=12))
            cases.append(Case("MaxPool", (shape,), attributes, outputs=(FLOAT, INT64)))
            averages = attributes if "dilations" not in attributes else {**attributes, "ceil_mode": 0}
            cases.append(Case("AveragePool", (shape,), averages, opset=19))
            cases.append(Case("AveragePool", (shape,), {**averages, "count_include_pad": 1}, opset=19))
            for p in (1, 2, 3):
                cases.append(Case("LpPool", (shape,), {**attributes, "p": p}, opset=18))
        cases.append(Case("MaxPool", (shape,), {**_attributes(len(shape) - 2)[1], "storage_order": 1}, outputs=(FLOAT, INT64)))
        cases += [Case(f"Global{kind}Pool", (shape,)) for kind in ("Average", "Max", "Lp")]
        cases += [Case("GlobalLpPool", (shape,), {"p": p}) for p in (1, 3)]
    for kind in (INT8, UINT8):
        for attributes in _attributes(2):
            cases.append(Case("MaxPool", ((N, 3, 6, 7),), attributes, kind=kind, outputs=(kind,), low=-99, high=99))
    plain = {"kernel_shape": [2, 2], "strides": [2, 2]}
    cases += [Case("LpPool", ((N, 3, 6, 7),), {**plain, "p": p}, opset=2) for p in (1, 2)]
    return cases


CASES = _cases()
