"""Operators with their attributes absent and present, equal and unequal sizes, and a free batch."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.ops.onnx_torch.models import BOOL, FLOAT, INT64, N, ints, model, node, weight


@dataclass(frozen=True)
class Case:
    """One node: run-time inputs are shapes or ``(element type, shape)``, constant ones arrays, absent ones ``None``."""

    op: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 21
    outputs: tuple[int | None, ...] = (FLOAT,)
    kind: int = FLOAT
    low: float = -2.0
    high: float = 2.0
    domain: str = ""

    @property
    def id(self) -> str:
        inputs = ["-" if i is None else f"c{i.shape}" if isinstance(i, np.ndarray) else str(i) for i in self.inputs]
        words = [f"{k}={v}" for k, v in self.attributes.items()]
        outputs = [] if self.outputs == (FLOAT,) else [f"→ {len(self.outputs)}"]
        return " ".join([f"{self.op}-{self.opset}", *inputs, *words, *outputs]).replace("'", "")

    def build(self) -> onnx.ModelProto:
        names = [f"i{n}" if i is not None else "_" for n, i in enumerate(self.inputs)]
        given = dict(zip(names, self.inputs, strict=True))
        shapes = {n: i if isinstance(i[-1], tuple) else (self.kind, i) for n, i in given.items() if isinstance(i, tuple)}
        consts = {n: i for n, i in given.items() if isinstance(i, np.ndarray)}
        outputs = {f"o{n}": kind for n, kind in enumerate(self.outputs) if kind is not None}
        made = node(self.op, " ".join(names), "o", domain=self.domain, **self.attributes)
        made.output[:] = [f"o{n}" if kind is not None else "" for n, kind in enumerate(self.outputs)]
        built = model([made], shapes, outputs, consts, self.opset)
        if self.domain:
            built.opset_import.append(helper.make_opsetid(self.domain, 1))
        return built


INT8 = onnx.TensorProto.INT8
EQUAL, UNEQUAL = (N, 5, 5, 5), (N, 4, 6, 7)
CUBE, PLAIN = (5, 5, 5), (4, 6, 7)
X = [EQUAL, UNEQUAL]


def _conv() -> list[Case]:
    cases = []
    for x in X:
        c = x[1]
        w = weight(6, c, 3, 3)
        for attributes in (
            {},
            {"strides": [2, 2]},
            {"strides": [2, 1], "pads": [1, 1, 1, 1]},
            {"pads": [0, 1, 2, 1]},
            {"dilations": [2, 1], "pads": [2, 1, 2, 1]},
            {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
            {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
            {"auto_pad": "SAME_UPPER", "dilations": [1, 1]},
            {"auto_pad": "VALID", "strides": [2, 2]},
        ):
            cases.append(Case("Conv", (x, w, weight(6)), attributes))
            cases.append(Case("Conv", (x, w), attributes, opset=7))
        cases.append(Case("Conv", (x, weight(2 * c, 1, 3, 3), weight(2 * c)), {"group": c}))
        cases.append(Case("Conv", ((1, *x[1:]), (6, c, 2, 3))))
    cases += [
        Case("Conv", ((N, 3, 9), weight(4, 3, 4)), {"pads": [2, 1]}),
        Case("Conv", ((N, 2, 5, 6, 7), weight(4, 2, 2, 3, 2), weight(4)), {"strides": [1, 2, 1]}),
        Case("Conv", ((N, 4, 6, 6), weight(6, 2, 1, 1)), {"group": 2}),
        Case("Conv", ((N, 1, 4, 4), weight(1, 1, 1, 1), weight(1))),
    ]
    for attributes in (
        {},
        {"strides": [2, 2]},
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
        {"strides": [2, 3], "pads": [0, 1, 1, 0]},
        {"strides": [2, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 0]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
        {"strides": [1, 1], "dilations": [2, 1]},
        {"strides": [2, 2], "output_shape": [11, 10]},
    ):
        cases.append(Case("ConvTranspose", ((N, 5, 5, 5), weight(5, 5, 3, 3), weight(5)), attributes))
        cases.append(Case("ConvTranspose", ((N, 4, 5, 5), weight(4, 3, 4, 4)), attributes))
    cases.append(Case("ConvTranspose", ((N, 4, 5, 6), weight(4, 3, 3, 3)), {"group": 2}))
    cases.append(Case("ConvTranspose", ((N, 4, 7), weight(4, 3, 3)), {"strides": [2]}))
    return cases


def _pool() -> list[Case]:
    cases = []
    for x in X:
        for attributes in (
            {},
            {"strides": [2, 2]},
            {"strides": [2, 2], "ceil_mode": 1},
            {"strides": [2, 2], "ceil_mode": 1, "pads": [1, 1, 1, 1]},
            {"strides": [2, 2], "pads": [0, 1, 2, 1]},
            {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
            {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
            {"pads": [2, 2, 2, 2]},
        ):
            cases.append(Case("MaxPool", (x,), {"kernel_shape": [3, 3], **attributes}))
            cases.append(Case("MaxPool", (x,), {"kernel_shape": [3, 3], **attributes}, outputs=(FLOAT, INT64)))
            if attributes.get("pads") != [2] * 4:
                cases.append(Case("MaxPool", (x,), {"kernel_shape": [4, 2], **attributes}))
            cases.append(Case("AveragePool", (x,), {"kernel_shape": [3, 3], **attributes}))
            if "auto_pad" not in attributes:  # ONNX Runtime does not count the padding at the end there
                cases.append(Case("AveragePool", (x,), {"kernel_shape": [3, 3], "count_include_pad": 1, **attributes}, opset=18))
            if "ceil_mode" not in attributes:
                cases.append(Case("LpPool", (x,), {"kernel_shape": [3, 3], "p": 3, **attributes}))
        cases.append(Case("MaxPool", (x,), {"kernel_shape": [2, 2], "dilations": [2, 1]}))
        cases.append(Case("MaxPool", (x,), {"kernel_shape": [2, 2], "storage_order": 1}, outputs=(FLOAT, INT64)))
        for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
            cases.append(Case(op, (x,)))
    cases.append(Case("MaxPool", ((N, 3, 9),), {"kernel_shape": [3], "strides": [2]}))
    cases.append(Case("AveragePool", ((N, 3, 5, 6, 7),), {"kernel_shape": [2, 3, 2], "ceil_mode": 1, "strides": [2, 2, 2]}))
    cases.append(Case("MaxPool", (EQUAL,), {"kernel_shape": [3, 3], "pads": [1] * 4}, kind=INT8, outputs=(INT8,)))
    return cases


def _linear() -> list[Case]:
    cases = []
    for m, k, n in ((4, 4, 4), (2, 3, 5)):
        for c in (None, weight(1), weight(n), weight(1, n), weight(m, 1), weight(m, n)):
            for attributes in ({}, {"alpha": 0.5}, {"beta": 2.0}, {"alpha": 2.0, "beta": 0.5}):
                cases.append(Case("Gemm", ((m, k), weight(k, n), c), attributes, opset=13))
                cases.append(Case("Gemm", ((m, k), weight(n, k), c), {"transB": 1, **attributes}, opset=13))
        cases.append(Case("Gemm", ((k, m), weight(k, n), weight(n)), {"transA": 1}, opset=13))
        cases.append(Case("Gemm", ((m, k), (k, n), (n,)), {"alpha": 0.5}, opset=13))
        cases.append(Case("Gemm", (weight(m, k), (k, n)), {}, opset=13))
        cases.append(Case("Gemm", ((m, k), weight(k, n), weight(n)), {}, opset=7))
        cases.append(Case("MatMul", ((N, m, k), weight(k, n))))
        cases.append(Case("MatMul", ((k,), weight(k, n))))
        cases.append(Case("MatMul", (weight(m, k), (N, k, n))))
        cases.append(Case("MatMul", ((N, m, k), weight(2, 1, k, n))))
        cases.append(Case("MatMul", ((N, m, k), weight(k))))
        cases.append(Case("Einsum", ((N, m, k), weight(k, n)), {"equation": "bmk,kn->bnm"}))
    return cases


def _normalisation() -> list[Case]:
    cases = []
    for x in [*X, (N, 5, 5), (N, 4, 6), (N, 4)]:
        c = x[1]
        var = np.abs(weight(c, seed=3)) + 0.5
        cases.append(Case("BatchNormalization", (x, weight(c), weight(c, seed=1), weight(c, seed=2), var)))
        cases.append(Case("BatchNormalization", (x, weight(c), weight(c), weight(c), var), {"epsilon": 0.1}, opset=9))
        for axis in {-1, 1, len(x) - 1}:
            shape = x[axis:]
            cases.append(Case("LayerNormalization", (x, weight(*shape), weight(*shape)), {"axis": axis}))
            cases.append(Case("LayerNormalization", (x, weight(*shape)), {"axis": axis, "epsilon": 0.1}))
            cases.append(Case("LayerNormalization", (x, weight(*shape)), {"axis": axis}, outputs=(FLOAT,) * 3))
        if len(x) > 2:
            cases.append(Case("InstanceNormalization", (x, weight(c), weight(c, seed=1))))
            cases.append(Case("LpNormalization", (x,), {"axis": 1, "p": 1}))
            cases.append(Case("LpNormalization", (x,)))
    cases += [Case("LRN", (x,), {"size": 3, **more}) for x in X for more in ({}, {"alpha": 0.1, "beta": 0.5, "bias": 2.0})]
    cases.append(Case("GroupNormalization", ((N, 6, 4, 5), weight(6), weight(6, seed=1)), {"num_groups": 3}))
    cases.append(Case("MeanVarianceNormalization", (UNEQUAL,)))
    for mode in (np.array(False), None):
        ratio = np.array(0.5, np.float32)
        cases.append(Case("Dropout", (UNEQUAL, ratio, mode), outputs=(FLOAT, BOOL)))
    return cases


def _resize() -> list[Case]:
    cases = []
    modes = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    for coordinates in modes:
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            attributes = {"mode": "nearest", "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
            for size in ((8, 8), (3, 4), (10, 15)):
                cases.append(Case("Resize", ((1, 5, 5, 5), None, None, ints(1, 5, *size)), attributes))
            cases.append(Case("Resize", (EQUAL, None, np.array([1, 1, 2, 2], np.float32)), attributes))
        for mode in ("linear", "cubic"):
            for more in ({}, {"exclude_outside": 1, "cubic_coeff_a": -0.5} if mode == "cubic" else {"antialias": 0}):
                attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, **more}
                cases.append(Case("Resize", ((1, 5, 5, 5), None, None, ints(1, 5, 8, 8)), attributes))
                cases.append(Case("Resize", ((1, 4, 6, 7), None, None, ints(1, 4, 3, 5)), attributes))
                if coordinates != "align_corners":  # ONNX Runtime rounds the length there, the specification does not
                    cases.append(Case("Resize", (EQUAL, None, np.array([1, 1, 1.5, 0.7], np.float32)), attributes))
                cases.append(Case("Resize", (EQUAL, None, np.array([1, 1, 2, 3], np.float32)), attributes))
    scales = np.array([1, 1, 2, 3], np.float32)
    for mode in ("nearest", "linear"):
        cases.append(Case("Upsample", ((1, 4, 6, 7), scales), {"mode": mode}, opset=9))
        cases.append(Case("Resize", ((1, 4, 6, 7), scales), {"mode": mode}, opset=10))
    cases.append(Case("Resize", ((1, 2, 6, 7), None, np.array([2, 1.5], np.float32)), {"axes": [2, 3], "mode": "linear"}))
    return cases


def _shapes() -> list[Case]:
    cases = []
    for x in X:
        cases += [
            Case("Reshape", (x, ints(0, -1))),
            Case("Reshape", (x, ints(-1, x[1], x[2] * x[3]))),
            Case("Flatten", (x,)),
            *(Case("Flatten", (x,), {"axis": a}) for a in (0, 2, 3, 4, -1)),
            Case("Transpose", (x,)),
            Case("Transpose", (x,), {"perm": [0, 2, 3, 1]}),
            Case("Unsqueeze", (x, ints(0, 2))),
            Case("Unsqueeze", (x,), {"axes": [1, -1]}, opset=11),
            Case("Expand", (x, ints(1, 1, 1, 1))),
            Case("Expand", (x, ints(2, 1, 1, 1, 1))),
            Case("Tile", (x, ints(1, 2, 1, 3))),
            Case(
                "Split",
                (x, ints(1, 3, x[1] - 4)) if x[1] > 4 else (x, ints(1, 3)),
                {"axis": 1},
                outputs=(FLOAT,) * (3 if x[1] > 4 else 2),
            ),
            Case("Split", (x,), {"axis": 3, "num_outputs": 3}, outputs=(FLOAT,) * 3),
            Case("Concat", (x, x), {"axis": 1}),
            Case("Concat", (x, x), {"axis": -1}),
            Case("Slice", (x, ints(1, 0), ints(3, 2), ints(1, 3))),
            Case("Slice", (x, ints(-1), ints(-9), ints(2), ints(-2))),
            Case("Slice", (x, ints(3, -2), ints(0, 2**31), ints(1, -1), ints(-1, 1))),
            Case("Slice", (x, ints(-100), ints(100), ints(3), ints(2))),
            Case("Slice", (x, ints(100), ints(-100), ints(3), ints(-3))),
            Case("Slice", (x,), {"starts": [1, 1], "ends": [3, -1], "axes": [1, 2]}, opset=9),
            Case("Pad", (x, ints(0, 0, 1, 2, 0, 0, 3, 4))),
            Case("Pad", (x, ints(0, 0, 1, 2, 0, 0, 3, 4), np.array(1.5, np.float32)), {"mode": "constant"}),
            Case("Pad", (x, ints(0, 1, 1, 2, 0, 0, 3, 4)), {"mode": "reflect"}),
            Case("Pad", (x, ints(0, 1, 1, 2, 0, 0, 3, 4)), {"mode": "edge"}),
            Case("Pad", (x, ints(0, 0, -1, 2, 0, 0, 3, -1))),
            Case("Pad", (x,), {"pads": [0, 0, 1, 2, 0, 0, 3, 4], "value": 2.0}, opset=10),
            Case("Pad", (x, ints(1, 2), None, ints(-1)), {"mode": "wrap"}),
        ]
    cases += [
        Case("DepthToSpace", ((N, 8, 2, 3),), {"blocksize": 2}),
        Case("DepthToSpace", ((N, 8, 2, 3),), {"blocksize": 2, "mode": "CRD"}),
        Case("SpaceToDepth", ((N, 3, 4, 6),), {"blocksize": 2}),
        Case("Squeeze", ((N, 1, 4, 1), ints(1, -1))),
        Case("Squeeze", ((N, 1, 4, 1),), {"axes": [1]}, opset=11),
        Case("Squeeze", ((2, 1, 4, 1),)),
        Case("Expand", ((N, 1, 4), ints(3, 1))),
        Case("Trilu", (CUBE,), {"upper": 0}),
        Case("Trilu", (PLAIN, np.array(2, np.int64))),
        Case("CumSum", (PLAIN, np.array(1, np.int64)), {"exclusive": 1, "reverse": 1}),
        Case("CumSum", (CUBE, np.array(-1, np.int64))),
    ]
    return cases


def _indices() -> list[Case]:
    cases = []
    for x in (CUBE, PLAIN):
        for axis in (0, 1, -1):
            cases += [
                Case("Gather", (x, np.array(2, np.int64)), {"axis": axis}),
                Case("Gather", (x, np.array(-1, np.int64)), {"axis": axis}),
                Case("Gather", (x, ints(0, -1, 2)), {"axis": axis}),
                Case("Gather", (x, np.array([[0, -2], [1, 3]], np.int64)), {"axis": axis}),
                Case("Gather", (x, np.array([[0, -2], [1, 3]], np.int32)), {"axis": axis}),
                Case("ArgMax", (x,), {"axis": axis}, outputs=(INT64,)),
                Case("ArgMin", (x,), {"axis": axis, "keepdims": 0, "select_last_index": 1}, outputs=(INT64,)),
                Case("TopK", (x, ints(3)), {"axis": axis}, outputs=(FLOAT, INT64)),
                Case("TopK", (x, ints(2)), {"axis": axis, "largest": 0}, outputs=(FLOAT, INT64)),
            ]
        rows = np.array([[0, -1], [2, 1], [3, 0]], np.int64)
        cases += [
            Case("GatherND", (x, rows)),
            Case("GatherND", (weight(3, 4, 5), np.array([[0], [2], [-1]], np.int64)), {"batch_dims": 1}),
            Case("GatherElements", (x, np.array([[[0, -1]], [[1, 2]]], np.int64)), {"axis": 2}),
            Case("ScatterND", (x, rows, weight(3, x[2]))),
            Case("ScatterND", (x, rows, weight(3, x[2])), {"reduction": "add"}),
            Case("ScatterND", (x, rows, weight(3, x[2])), {"reduction": "max"}),
            Case("ScatterElements", (x, np.array([[[0, -1]]], np.int64), weight(1, 1, 2)), {"axis": 2}),
            Case("ScatterElements", (x, np.array([[[0, 0]]], np.int64), weight(1, 1, 2)), {"axis": 1, "reduction": "add"}),
        ]
    cases.append(Case("Gather", (weight(7, 4), (N, 3)), kind=INT64, low=-7, high=6))
    cases.append(
        Case("OneHot", ((N, 3), np.array(4, np.int64), np.array([0.5, 2], np.float32)), {"axis": 1}, kind=INT64, low=-5, high=5)
    )
    return [c for c in cases if any(isinstance(i, tuple) for i in c.inputs)]


def _reductions() -> list[Case]:
    cases = []
    for op in "Mean Sum Max Min Prod L1 L2 SumSquare LogSum LogSumExp".split():
        low = 0.1 if op == "LogSum" else -2.0
        for x in X:
            for axes in (ints(1), ints(-1, 2), ints(1, 2, 3)):
                cases.append(Case(f"Reduce{op}", (x, axes), {}, opset=18, low=low))
                cases.append(Case(f"Reduce{op}", (x, axes), {"keepdims": 0}, opset=18, low=low))
            cases.append(Case(f"Reduce{op}", (x,), {"axes": [2]} if op != "Sum" else {}, opset=12, low=low))
        cases.append(Case(f"Reduce{op}", (CUBE,), {"noop_with_empty_axes": 1}, opset=18, low=low))
    cases.append(Case("ReduceSum", (CUBE, ints(1)), {}, kind=INT64, outputs=(INT64,)))
    cases.append(
        Case("ReduceMean", (CUBE, ints(1)), {}, opset=18, kind=onnx.TensorProto.INT32, outputs=(onnx.TensorProto.INT32,))
    )
    return cases


def _elementwise() -> list[Case]:
    cases = []
    for x in X:
        c, w = x[1], x[3]
        for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
            for other in (weight(w), weight(c, 1, 1), weight(1), np.array(0.5, np.float32), weight(1, 1, 1, 1, 1), x):
                cases.append(Case(op, (x, other), low=0.5))
            cases.append(Case(op, (weight(w), x), low=0.5))
        for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
            cases.append(Case(op, (x, weight(w)), outputs=(BOOL,)))
            cases.append(Case(op, (x, np.array(0.5, np.float32)), outputs=(BOOL,)))
        cases += [
            Case("Pow", (x, np.array(2, np.float32)), low=0.1),
            Case("Pow", (x, np.array(3, np.int64)), low=0.1),
            Case("PRelu", (x, weight(c, 1, 1))),
            Case("PRelu", (x, weight(1))),
            Case("PRelu", (x, weight(w))),
            Case("PRelu", (x, x)),
        ]
    numbers = ("INT32", "INT64", "INT8", "UINT8", "UINT32", "UINT64")
    for name in numbers[:4]:
        kind = getattr(onnx.TensorProto, name)
        two = np.array([2, 3, 3, 1, 2], onnx.helper.tensor_dtype_to_np_dtype(kind))
        for op in ("Add", "Sub", "Mul", "Div", "Mod"):
            if name in ("INT32", "INT64") or op in ("Div", "Mod"):
                cases.append(Case(op, (CUBE, two), kind=kind, outputs=(kind,), low=-100, high=100))
        cases.append(Case("Clip", (CUBE, two[:1].reshape(()), None), kind=kind, outputs=(kind,), low=-9, high=9))
    cases.append(Case("Mod", (PLAIN, np.array(1.5, np.float32)), {"fmod": 1}))
    for op in ("And", "Or", "Xor"):
        cases.append(Case(op, (CUBE, np.array([True])), kind=BOOL, outputs=(BOOL,)))
    for low, high in ((0.0, 6.0), (-1.0, 1.0), (None, 1.0), (0.5, None), (1.0, -1.0)):
        bounds = [None if b is None else np.array(b, np.float32) for b in (low, high)]
        cases.append(Case("Clip", (UNEQUAL, *bounds), low=-9, high=9))
    cases.append(Case("Clip", (UNEQUAL,), {"min": 0.0, "max": 6.0}, opset=6, low=-9, high=9))
    cases.append(Case("Clip", (UNEQUAL,), {"max": 6.0}, opset=6, low=-9, high=9))
    return cases


def _activations() -> list[Case]:
    cases = []
    plain = (
        "Relu Sigmoid Tanh Softplus Softsign HardSwish Mish Erf Abs Neg Exp Floor Ceil Round Sign Sin Cos Atan Identity".split()
    )
    for op in plain:
        cases.append(Case(op, (UNEQUAL,), low=-9, high=9))
    for op in ("Sqrt", "Log", "Reciprocal"):
        cases.append(Case(op, (UNEQUAL,), low=0.1))
    for op, attributes in {
        "LeakyRelu": {"alpha": 0.3},
        "Elu": {"alpha": 2.0},
        "Celu": {"alpha": 2.0},
        "Selu": {"alpha": 2.0, "gamma": 3.0},
        "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
        "ThresholdedRelu": {"alpha": 0.5},
        "Gelu": {"approximate": "tanh"},
        "Shrink": {"lambd": 1.0, "bias": 0.5},
    }.items():
        cases += [Case(op, (UNEQUAL,), low=-5, high=5), Case(op, (UNEQUAL,), attributes, low=-5, high=5)]
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for opset in (11, 21):
            for x in X:
                cases += [Case(op, (x,), {} if axis is None else {"axis": axis}, opset=opset) for axis in (None, 1, 2, -1)]
    return cases


CASES = [
    *_conv(),
    *_pool(),
    *_linear(),
    *_normalisation(),
    *_resize(),
    *_shapes(),
    *_indices(),
    *_reductions(),
    *_elementwise(),
    *_activations(),
]
