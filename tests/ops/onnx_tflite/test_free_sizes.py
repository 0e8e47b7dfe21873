"""Operators that are written out take images of any size, not of the batch alone."""

import numpy as np
import pytest

from tests.ops.onnx_tflite.check import check
from tests.ops.onnx_torch.cases import Case


@pytest.mark.parametrize(
    "case",
    [
        Case("MaxPool", (("n", 3, "h", "w"),), {"kernel_shape": [3, 3], "dilations": [2, 1]}),
        Case("AveragePool", (("n", 3, "d", "h", "w"),), {"kernel_shape": [3, 2, 2], "strides": [2, 1, 1]}),
        Case("LpPool", (("n", 3, "h", "w"),), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
        Case("Asinh", (("n", "h", "w"),)),
        Case("NonZero", (("n", "h", "w"),), outputs=(7,)),
    ],
    ids=lambda case: case.id,
)
def test_any_size(case):
    made = case.build()
    sizes = {"n": 2, "d": 5, "h": 7, "w": 6}
    shape = [sizes.get(d.dim_param, d.dim_value) for d in made.graph.input[0].type.tensor_type.shape.dim]
    check(made, {"i0": np.random.default_rng(0).normal(size=shape).astype(np.float32)})
