"""Operators that are written out take tensors of any size, not of any batch alone."""

import numpy as np
import pytest
from onnx import helper

from tests.ops.onnx_tflite.check import check
from tests.ops.onnx_torch.cases import Case
from tests.ops.onnx_torch.models import BOOL, FLOAT, INT64, N, ints, model, weight

SIZES = {"n": 2, "d": 5, "h": 7, "w": 6, "q": 3, "k": 4}
CASES = [
    Case("MaxPool", (("n", 3, "h", "w"),), {"kernel_shape": [3, 3], "dilations": [2, 1]}),
    Case("AveragePool", (("n", 3, "d", "h", "w"),), {"kernel_shape": [3, 2, 2], "strides": [2, 1, 1]}),
    Case("LpPool", (("n", 3, "h", "w"),), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
    Case("ConvTranspose", (("n", 4, "h", "w"), np.ones((4, 2, 3, 3), np.float32)), {"group": 2, "strides": [2, 2]}),
    Case("Asinh", (("n", "h", "w"),)),
    Case("Div", ((INT64, ("n", "h", "w")), (INT64, ("h", 1))), outputs=(INT64,)),
    Case("BitwiseAnd", ((INT64, ("n", "h", "w")), (INT64, ("h", 1))), outputs=(INT64,)),
    Case("BitwiseXor", ((INT64, ("n", "h", "w")), (INT64, ("h", 1))), outputs=(INT64,)),
    Case("NonZero", (("n", "h", "w"),), outputs=(INT64,)),
    Case("Compress", (("n", "h", "w"), (BOOL, ("h",))), {"axis": 1}),
    Case("Hardmax", (("n", "h", 5),)),
    Case("CumProd", (("n", 4, "w"), np.array(1)), opset=26),
    Case("ReverseSequence", (("h", 2, "w"), ints(1, 4))),
    Case("Einsum", (("n", 2, "q", 4), ("n", 2, "k", 4)), {"equation": "bhqd,bhkd->bhqk"}),
    Case("Einsum", (("n", "q", 2, 4), ("n", "k", 2, 4)), {"equation": "bqhd,bkhd->bhqk"}),
    Case("Einsum", (("n", "q", 4), np.ones((4, 6), np.float32)), {"equation": "bqd,de->bqe"}),
    Case("Einsum", (("n", "q"), ("n", "k")), {"equation": "bi,bj->bij"}),
    Case("GridSample", (("n", 3, 5, 6), ("n", "h", "w", 2)), opset=16),
    Case("GridSample", (("n", 3, 5, 6), ("n", "h", "w", 2)), {"mode": "bicubic"}, opset=16),
    Case("TopK", (("n", "h", "w"), (INT64, (1,))), outputs=(FLOAT, INT64)),
    Case("GatherND", ((5, 6, "w"), (INT64, ("n", "q", 2))), outputs=(FLOAT,)),
    *(
        Case("ScatterElements", (x, (INT64, i), i), {"axis": axis, **reduction}, opset=18)
        for reduction in ({}, {"reduction": "add"})
        for x, i, axis in (
            (("n", 5, "h", "w"), ("n", 1, "h", "w"), 1),
            (("n", "d", "w"), ("n", 1, "w"), -2),
            (("d", "w"), (1, "w"), 0),
            ((5, 6), (1, "w"), 0),
            (("d",), (1,), 0),
        )
    ),
    Case("DFT", (("n", 6, 2), None, np.array(1)), opset=20),
    Case("Resize", (("n", "d", 6, 7), None, np.array([1, 1, 2, 1.5], np.float32)), {"mode": "cubic"}),
    Case("Trilu", (("n", "h", "w"),)),
    Case("Trilu", (("n", "h", "w"), np.array(-1)), {"upper": 0}),
    Case("Trilu", ((4, 5), (INT64, ())), {"upper": 0}),
    Case("Trilu", (("h", 5), (INT64, ()))),
    Case("Det", (("n", 3, 3),)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_any_size(case):
    made, numbers, feeds = case.build(), np.random.default_rng(0), {}
    for info in made.graph.input:
        shape = [SIZES.get(d.dim_param, d.dim_value) for d in info.type.tensor_type.shape.dim]
        kind = info.type.tensor_type.elem_type
        whole = numbers.integers(1, 4, shape) if kind == INT64 else numbers.random(shape) > 0.4
        feeds[info.name] = numbers.normal(size=shape).astype(np.float32) if kind == FLOAT else whole
    check(made, feeds)


@pytest.mark.parametrize("window", [([2, 2], [2, 2], [0] * 4), ([2, 3], [2, 3], [1, 0, 1, 1]), ([3, 3], [2, 2], [0] * 4)])
def test_what_was_pooled_goes_back(window):
    kernel, strides, pads = window
    given = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    nodes = [helper.make_node("MaxPool", ["x"], ["m", "i"], **given), helper.make_node("MaxUnpool", ["m", "i"], ["y"], **given)]
    height, width = (kernel[a] + 2 * strides[a] - pads[a] - pads[a + 2] for a in (0, 1))
    check(model(nodes, {"x": (2, 3, height, width)}, {"y": FLOAT, "i": INT64}))


@pytest.mark.parametrize("shape", [(N, 2, 3, 1, 2, 3, 2), (N, 2, 3, 1, 2, 2, 2, 2)])
@pytest.mark.parametrize("last", [1, 4])
def test_many_axes(shape, last):
    rank = len(shape)
    perm = [*(a for a in range(rank) if a != last), last]
    nodes = [
        helper.make_node("Add", ["x", "c"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=perm),
        helper.make_node("Mul", ["t", "d"], ["m"]),
        helper.make_node("Sigmoid", ["m"], ["y"]),
    ]
    constants = {"c": weight(shape[-2], 1), "d": weight(1, shape[last])}
    check(model(nodes, {"x": shape}, {"y": FLOAT, "r": FLOAT}, constants))
