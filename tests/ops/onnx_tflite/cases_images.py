"""Images that are resampled: by any kernel, in parts, at computed places."""

import itertools
from typing import Any

import numpy as np

from tests.ops.onnx_torch.cases import Case
from tests.ops.onnx_torch.models import N, ints, weight

IMAGE = (N, 3, 6, 7)
_ALIGNED = {"coordinate_transformation_mode": "align_corners"}


def _scales(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def _resizes() -> list[Case]:
    cases = []
    ways = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")
    for way, scales in itertools.product(ways, ((2, 3), (0.5, 2), (1, 0.6))):
        if way == "align_corners" and scales == (1, 0.6):
            continue  # ONNX Runtime rounds the length of the result first
        given = {"coordinate_transformation_mode": way, "mode": "cubic"}
        cases.append(Case("Resize", (IMAGE, None, _scales(1, 1, *scales)), given, opset=19))
        cases.append(Case("Resize", (IMAGE, None, _scales(1, 1, *scales)), {**given, "exclude_outside": 1}, opset=19))
        cases.append(Case("Resize", (IMAGE, None, _scales(1, 1, *scales)), {**given, "cubic_coeff_a": -0.5}, opset=19))
    for mode, sizes in itertools.product(("linear", "cubic"), ((3, 5), (9, 3), (2, 14))):
        cases.append(Case("Resize", ((2, 3, 6, 7), None, None, ints(2, 3, *sizes)), {"mode": mode, "antialias": 1}, opset=19))
    for policy, axes in itertools.product(("not_larger", "not_smaller"), ([2, 3], [3, 2])):
        for mode in ("nearest", "linear", "cubic"):
            given: dict[str, Any] = {"keep_aspect_ratio_policy": policy, "axes": axes, "mode": mode}
            cases.append(Case("Resize", ((2, 3, 6, 7), None, None, ints(9, 8)), given, opset=19))
    region = _scales(0, 0, 0.2, -0.1, 1, 1, 0.8, 1.3)
    for mode, sizes in itertools.product(("nearest", "linear", "cubic"), ((4, 5), (9, 6), (1, 6))):
        given = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": mode, "extrapolation_value": 5.0}
        cases.append(Case("Resize", ((2, 3, 6, 7), region, None, ints(2, 3, *sizes)), given))
    return cases


def _samples() -> list[Case]:
    cases = []
    ways = itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (0, 1))
    for mode, padding, aligned in ways:
        given = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
        cases.append(Case("GridSample", ((N, 3, 6, 7), (N, 4, 5, 2)), given, opset=16))
        cases.append(Case("GridSample", ((N, 3, 6, 7), (N, 9, 9, 2)), given, opset=16, low=-1, high=1))
        if mode != "bicubic":
            volume = {**given, "mode": "linear" if mode == "bilinear" else mode}
            cases.append(Case("GridSample", ((N, 2, 4, 5, 6), (N, 3, 4, 5, 3)), volume, opset=20))
    cases += [Case("GridSample", ((N, 3, 6, 7), (N, 4, 5, 2)), opset=20)]
    for aligned, (rank, size) in itertools.product((0, 1), ((2, (3, 2, 5, 6)), (3, (3, 2, 4, 5, 6)))):
        cases.append(Case("AffineGrid", ((3, rank, rank + 1), ints(*size)), {"align_corners": aligned}, opset=20))
    return cases


def _deformed() -> list[Case]:
    cases = []
    for given, out in (
        ({}, (5, 6)),
        ({"pads": [1, 0, 1, 1], "strides": [2, 1]}, (4, 7)),
        ({"dilations": [2, 1]}, (4, 6)),
        ({"group": 2, "offset_group": 2}, (5, 6)),
        ({"offset_group": 4, "pads": [0, 1, 0, 0]}, (5, 7)),
    ):
        groups = given.get("offset_group", 1)
        moves, marks = (N, groups * 2 * 4, *out), (N, groups * 4, *out)
        w = weight(6, 4 // given.get("group", 1), 2, 2)
        cases.append(Case("DeformConv", ((N, 4, 6, 7), w, moves), given, opset=19))
        cases.append(Case("DeformConv", ((N, 4, 6, 7), w, moves, weight(6), marks), given, opset=19))
    volume = ((N, 4, 5, 6, 7), weight(6, 2, 2, 3, 2))
    cases += [Case("Conv", (*volume, *bias), {"group": 2, "pads": [1, 0, 0, 1, 0, 1]}) for bias in ((), (weight(6),))]
    return cases


CASES = [*_resizes(), *_samples(), *_deformed()]

OTHERWISE = [
    Case("Resize", ((2, 3, 10, 7), None, _scales(1, 1, 1.05, 1)), {"mode": "linear"}),
    Case("Resize", ((2, 3, 6, 7), None, _scales(1, 1, 1.5, 0.6)), {"mode": "cubic", **_ALIGNED}),
    *(
        Case(
            "Resize",
            ((2, 3, 6, 7), _scales(0, 0, 0.2, -0.1, 1, 1, 0.8, 1.3), None, ints(2, 3, 9, 7)),
            {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": mode, "extrapolation_value": 5.0},
        )
        for mode in ("linear", "cubic")
    ),
]
"""What the specification's reference computes, and ONNX Runtime otherwise."""
