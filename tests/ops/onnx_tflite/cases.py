"""The cases of the route to PyTorch, which say nothing of a target, and what matters to TFLite alone."""

from collections.abc import Callable

import numpy as np
import onnx

from tests.ops.onnx_tflite.cases_elementary import CASES as ELEMENTARY
from tests.ops.onnx_tflite.cases_images import CASES as IMAGES
from tests.ops.onnx_tflite.cases_places import CASES as PLACES
from tests.ops.onnx_tflite.cases_pooling import CASES as POOLING
from tests.ops.onnx_tflite.cases_products import CASES as PRODUCTS
from tests.ops.onnx_torch.cases import CASES as SHARED
from tests.ops.onnx_torch.cases import Case
from tests.ops.onnx_torch.models import BOOL, FLOAT, INT64, N, ints, weight

INT32, INT8, UINT8 = onnx.TensorProto.INT32, onnx.TensorProto.INT8, onnx.TensorProto.UINT8


def _small_integers() -> list[Case]:
    """Kernels that take plain 8-bit tensors for quantised ones, or end the process on them, are gone round."""
    cases = []
    for kind in (INT8, UINT8, INT32, INT64):
        x, low = (N, 3, 4), 0 if kind == UINT8 else -9
        cases += [Case(op, (x, x), kind=kind, outputs=(kind,), low=low, high=9) for op in ("Add", "Sub", "Mul", "Max", "Min")]
        comparisons = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
        cases += [Case(op, (x, x), kind=kind, outputs=(BOOL,), low=low, high=9) for op in comparisons]
        cases += [Case("Concat", (x, x), {"axis": 2}, kind=kind, outputs=(kind,), low=low, high=9)]
        cases += [Case("Transpose", (x,), {"perm": [2, 0, 1]}, kind=kind, outputs=(kind,), low=low, high=9)]
        cases += [Case("Relu", (x,), kind=kind, outputs=(kind,), low=low, high=9)] if kind in (INT8, INT32) else []
        cases += [Case("Abs", (x,), kind=kind, outputs=(kind,), low=low, high=9)]
        cases += [Case("ReduceMax", (x, ints(1)), kind=kind, outputs=(kind,), low=low, high=9)]
    cases += [Case("Concat", ((N, 3), (N, 3)), {"axis": 1}, kind=BOOL, outputs=(BOOL,))]
    cases += [Case("Pad", ((N, 3), ints(0, 1, 0, 2)), kind=BOOL, outputs=(BOOL,))]
    return cases


def _windows() -> list[Case]:
    """Strides longer than the window, which LiteRT's SAME is wrong for, and paddings just beside SAME."""
    cases = []
    for size in ((17, 18), (20, 20), (7, 11)):
        for attributes in (
            {"auto_pad": "SAME_UPPER", "strides": [10, 10]},
            {"auto_pad": "SAME_UPPER", "strides": [3, 2]},
            {"pads": [1, 1, 1, 1], "strides": [2, 2]},
            {"pads": [0, 0, 1, 1], "strides": [2, 2]},
            {"pads": [1, 0, 1, 2], "strides": [1, 2], "dilations": [1, 2]},
            {"pads": [2, 2, 2, 2], "dilations": [2, 2]},
        ):
            cases.append(Case("Conv", ((N, 4, *size), weight(6, 4, 3, 3), weight(6)), attributes))
            cases.append(Case("Conv", ((N, 4, *size), weight(8, 1, 3, 3)), {"group": 4, **attributes}))
            cases.append(Case("Conv", ((N, 4, *size), weight(8, 2, 3, 3)), {"group": 2, **attributes}))
    cases += [Case("Conv", ((N, 4, 9), weight(4, 1, 3)), {"group": 4, "pads": [1, 1]})]
    cases += [Case("Conv", ((N, 3, 4, 5, 6), weight(2, 3, 2, 2, 2)), {"pads": [1, 0, 0, 0, 1, 0], "strides": [1, 2, 1]})]
    for size in ((5, 5), (4, 7)):
        for attributes in (
            {"strides": [2, 2], "pads": [1, 1, 1, 1]},
            {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
            {"strides": [3, 2], "pads": [0, 1, 1, 0]},
            {"strides": [2, 2], "dilations": [2, 1]},
        ):
            cases.append(Case("ConvTranspose", ((N, 3, *size), weight(3, 4, 4, 4), weight(4)), attributes))
            cases.append(Case("ConvTranspose", ((N, 3, *size), weight(3, 4, 2, 2)), {**attributes, "pads": [0] * 4}))
            cases.append(Case("ConvTranspose", ((N, 6, *size), weight(6, 2, 4, 3), weight(6)), {"group": 3, **attributes}))
    for attributes in ({}, {"strides": [2, 1, 2], "pads": [1, 0, 1, 0, 1, 1]}, {"strides": [2] * 3, "output_padding": [1, 0, 1]}):
        cases.append(Case("ConvTranspose", ((N, 3, 4, 5, 6), weight(3, 2, 2, 3, 2), weight(2)), attributes))
        cases.append(Case("ConvTranspose", ((N, 4, 4, 5, 6), weight(4, 1, 3, 3, 2)), {"group": 2, **attributes}))
    cases += [Case("ConvTranspose", ((N, 4, 7), weight(4, 3, 3), weight(6)), {"group": 2, "strides": [2]})]
    cases += [Case("ConvTranspose", ((N, 3, 4, 5), weight(3, 2, 3, 3)), {"strides": [2, 2], "output_shape": [8, 11]})]
    return cases


def _axes() -> list[Case]:
    """Axes behind an operator that changed the order in which they are stored."""
    return [
        *(Case("Softmax", ((N, 3, 4, 5),), {"axis": axis}) for axis in (1, 2, -1)),
        *(Case("TopK", ((N, 3, 4, 5), ints(2)), {"axis": axis}, outputs=(FLOAT, INT64)) for axis in (1, 2)),
        *(Case("Gather", ((N, 3, 4, 5), np.array([[0, -1], [1, 0]])), {"axis": axis}) for axis in (1, 2, 3)),
        *(Case("Gather", ((N, 3, 4, 5), np.array(-1)), {"axis": axis}) for axis in (1, 2, 3)),
        *(Case("Unsqueeze", ((N, 3, 4), ints(*axes))) for axes in ((0, -1), (1, 2), (3, 4))),
        *(Case("Mod", ((N, 4), (N, 4)), {"fmod": fmod}, kind=INT32, outputs=(INT32,), low=1, high=9) for fmod in (0, 1)),
        *(Case("CumSum", ((N, 3, 4), np.array(axis))) for axis in (1, -1)),
        *(Case("ReduceLogSumExp", ((N, 3, 4), ints(1)), {"keepdims": keep}, low=80, high=100) for keep in (0, 1)),
        Case("Erf", ((N, 99),), low=-4, high=4),
        Case("LRN", ((N, 7, 3, 4),), {"size": 5, "alpha": 0.1, "beta": 0.75, "bias": 1.0}),
        Case("LRN", ((N, 7, 3, 4),), {"size": 2}),
        Case("MatMul", (weight(3, 4), (N, 4, 5))),
        Case("MatMul", ((2, 3, N, 4), (2, 3, 4, 5))),
    ]


CASES = [*SHARED, *ELEMENTARY, *POOLING, *IMAGES, *PLACES, *PRODUCTS, *_small_integers(), *_windows(), *_axes()]

REFUSED: list[tuple[str, Callable[[Case], bool], str]] = [
    ("Conv", lambda c: c.attributes.get("strides") == [10, 10], "do not reach the ends"),
    ("Dropout", lambda c: True, "its mask is read"),
    ("LRN", lambda c: c.attributes["size"] % 2 == 0, "even size"),
    ("ReduceMean", lambda c: c.kind != FLOAT, "does not take int32"),
]
"""Operator, which of its cases, and the reason."""
