"""Graphs on which TensorRT, or tools that build engines with it, were wrong. Here they are built, on a GPU run as well.

Each is the text of a graph as ONNX's parser reads it, the shapes of its inputs, and the precision in which it once was wrong.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import onnx


@dataclass(frozen=True)
class Case:
    """One graph.

    Attributes:
        text: the graph.
        inputs: what it is run on, by name; ``n`` is 2.
        precision: of the engine.
        opset: of the graph.
    """

    text: str
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    precision: str = "fp32"
    opset: int = 20

    def model(self) -> onnx.ModelProto:
        """The graph as a model."""
        text = f'<ir_version: 10, opset_import: ["": {self.opset}]>\n{self.text}'
        model = onnx.parser.parse_model(text)
        onnx.checker.check_model(model)
        return model


_RNG = np.random.default_rng(0)


def _floats(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape, np.float32)


_LARGE = np.array([[18542495, -7, 2**31 - 1], [0, 31, -(2**31)]], np.int64)

_COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")


def _resize(mode: str, coordinates: str) -> Case:
    nearest = ', nearest_mode="floor"' if mode == "nearest" else ""
    attributes = f'mode="{mode}", coordinate_transformation_mode="{coordinates}"{nearest}'
    scales = "float[4] s = {1.0, 1.0, 2.0, 3.0}"
    text = f"g (float[n,2,5,7] x) => (float[n,2,10,21] y) <{scales}> {{ y = Resize<{attributes}>(x, , s) }}"
    return Case(text, {"x": _floats(2, 2, 5, 7)})


CASES = {
    **{
        f"mod-{name}": Case(
            f"g ({name}[n,3] x) => ({name}[n,3] y) <{name} d = {{32}}> {{ y = Mod(x, d) }}",
            {"x": np.clip(_LARGE, np.iinfo(name).min, np.iinfo(name).max).astype(name)},
        )
        for name in ("int32", "int64")
    },
    "mean-over-a-long-axis-in-half": Case(
        "g (float[n,4,65536] x) => (float[n,4] y) <int64[1] a = {2}> { y = ReduceMean<keepdims=0>(x, a) }",
        {"x": np.abs(_floats(2, 4, 65536)) * 40},
        "fp16",
    ),
    "or-then-cast": Case(
        "g (float[n,3] x) => (float[n,3] y) <float z = {0}, float o = {1}> "
        "{ a = Less(x, z) b = Greater(x, o) c = Or(a, b) y = Cast<to=1>(c) }",
        {"x": _floats(2, 3)},
    ),
    "a-chain-of-scalars": Case(
        "g (float[n,3] x) => (float y) <float h = {0.48}> "
        "{ m = ReduceMean<keepdims=0>(x) a = Mul(m, h) b = Sigmoid(a) y = Add(b, h) }",
        {"x": _floats(2, 3)},
    ),
    **{
        f"resize-{mode}-{coordinates}": _resize(mode, coordinates)
        for mode, coordinates in itertools.product(("nearest", "linear", "cubic"), _COORDINATES)
    },
    "slice-to-the-largest-int64": Case(
        "g (float[n,5] x) => (float[n,3] y) <int64[1] s = {2}, int64[1] e = {9223372036854775807}, int64[1] a = {1}> "
        "{ y = Slice(x, s, e, a) }",
        {"x": _floats(2, 5)},
    ),
    "loop-of-three": Case(
        "g (float[n,3] x) => (float[n,3] y) <int64 m = {3}, bool c = {1}> {"
        " y = Loop<body = b (int64 i, bool t, float[n,3] v) => (bool t2, float[n,3] w) { "
        "t2 = Identity(t) w = Add(v, x) }>(m, c, x) }",
        {"x": _floats(2, 3)},
    ),
    "one-batch-of-two-inputs": Case(
        "g (float[n,3] x, float[n,4] z) => (float[n,7] y) { y = Concat<axis=1>(x, z) }",
        {"x": _floats(2, 3), "z": _floats(2, 4)},
    ),
    "pieces-of-a-free-dimension": Case(
        "g (float[n,2] x) => (float[m,2] y) <int64[1] s = {0}, int64[1] e = {-1}, int64[1] a = {0}> "
        "{ h = Slice(x, s, e, a) y = Concat<axis=0>(h, x, h) }",
        {"x": _floats(2, 2)},
    ),
}  # fmt: skip
