"""Quantised models of one operator each, with real numbers at the border: Q/DQ graphs, and operators on quantised values."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

N = "batch"
KINDS = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int16": TensorProto.INT16, "int32": TensorProto.INT32}


@dataclass(frozen=True)
class Quantised:
    """A model and what is expected of it.

    Attributes:
        native: the operators that have to be in a TFLite file made of it; ``None`` where it stays in single precision.
        step: of the output, in real numbers.
    """

    id: str
    proto: onnx.ModelProto
    native: tuple[str, ...] | None
    step: float


class Net:
    """Collects nodes; every method gives the name of a value."""

    def __init__(self, kind: str = "int8", opset: int = 21) -> None:
        self.kind, self.opset = kind, opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.scales: Any = 0.01  # of the last weight

    def node(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> str:
        names = [f"v{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, domain=domain, **attributes))
        return names[0]

    def constant(self, array: Any, dtype: Any = None) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def grid(self, scale: Any, zero: Any = None, kind: str = "") -> tuple[str, str]:
        kind = kind or self.kind
        zero = self.middle(kind) if zero is None else zero
        return self.constant(scale, np.float32), self.constant(np.broadcast_to(zero, np.shape(scale)), kind)

    def middle(self, kind: str = "") -> int:
        return 128 if (kind or self.kind) == "uint8" else 0

    def real(self, shape: tuple[Any, ...], scale: float = 0.03, zero: Any = None) -> str:
        """A real input, quantised and dequantised."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return self.rounded(name, scale, zero)

    def quantised(self, shape: tuple[Any, ...], scale: float = 0.03, zero: Any = None) -> tuple[str, str, str]:
        """A real input, quantised, and its grid."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        grid = self.grid(scale, zero)
        return self.node("QuantizeLinear", name, *grid), *grid

    def rounded(self, value: str, scale: float, zero: Any = None) -> str:
        grid = self.grid(scale, zero)
        return self.node("DequantizeLinear", self.node("QuantizeLinear", value, *grid), *grid)

    def weight(self, *shape: int, axis: int | None = None, kind: str = "int8", seed: int = 0, zero: Any = None) -> str:
        """A constant that is dequantised, by a scale for each place along an axis."""
        rng = np.random.default_rng(seed)
        limits = np.iinfo(kind)
        values = rng.integers(max(limits.min, -127), limits.max + 1, shape).astype(kind)
        scale = 0.01 if axis is None else rng.uniform(0.004, 0.02, shape[axis])
        self.scales = scale
        grid = self.grid(scale, zero, kind)
        settings = {} if axis is None else {"axis": axis}
        return self.node("DequantizeLinear", self.constant(values), *grid, **settings)

    def bias(self, size: int, data: float = 0.03) -> str:
        """A bias on the grid of what the last weight is multiplied with, which ONNX Runtime takes for granted."""
        values = np.random.default_rng(5).integers(-3000, 3000, size).astype(np.int32)
        scale = np.float32(data) * np.asarray(self.scales, np.float32)
        settings = {"axis": 0} if scale.ndim else {}
        return self.node("DequantizeLinear", self.constant(values), self.constant(scale), **settings)

    def model(self, output: str, kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
        # Ranks and sizes of outputs are inferred.
        result = helper.make_tensor_value_info("y", kind, None)
        nodes = [*self.nodes, helper.make_node("Identity", [output], ["y"])]
        graph = helper.make_graph(nodes, "quantised", self.inputs, [result], self.constants)
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=imports, ir_version=10))


STEP = 0.05


def case(
    name: str, native: str | None, build: Callable[[Net], str], *, kind: str = "int8", step: float = STEP, zero: Any = None
) -> Quantised:
    """A model whose last value is rounded to a grid."""
    net = Net(kind)
    proto = net.model(net.rounded(build(net), step, zero))
    return Quantised(f"{name}-{kind}", proto, None if native is None else tuple(native.split()), step)


def _convolutions() -> list[Quantised]:
    def conv(
        axis: int | None = 0,
        bias: bool = True,
        kind: str = "int8",
        shape: tuple[int, ...] = (5, 3, 3, 3),
        then: str = "",
        **more: Any,
    ):
        def build(net: Net) -> str:
            filters = net.weight(*shape, axis=axis, kind=kind)
            image = net.real((N, shape[1] * more.get("group", 1), 8, 7))
            y = net.node("Conv", image, filters, *([net.bias(shape[0])] if bias else []), **more)
            return net.node(then, y) if then else y

        return build

    cases = []
    for kind in ("int8", "uint8", "int16"):
        cases += [
            case("conv", "CONV_2D", conv(), kind=kind),
            case("conv-tensor", "CONV_2D", conv(axis=None), kind=kind),
            case("conv-no-bias", "CONV_2D", conv(bias=False), kind=kind),
            case("conv-pads", "PAD CONV_2D", conv(pads=[1, 0, 2, 1], strides=[2, 1]), kind=kind),
            case("conv-same", "CONV_2D", conv(pads=[1, 1, 1, 1]), kind=kind),
            case("conv-relu", "CONV_2D", conv(then="Relu"), kind=kind),
            case("depthwise", "DEPTHWISE_CONV_2D", conv(shape=(4, 1, 3, 3), group=4), kind=kind),
            case("depthwise-multiplied", "DEPTHWISE_CONV_2D", conv(shape=(8, 1, 3, 3), group=4), kind=kind),
        ]
    return [
        *cases,
        case("conv-moved-zero", "CONV_2D", conv(), zero=-100, step=0.1),
        case("conv-moved-zero", "CONV_2D", conv(), kind="uint8", zero=3, step=0.1),
        case("conv-unsigned-filter", "CONV_2D", conv(axis=None, kind="uint8"), kind="uint8"),
        case("conv-groups", "CONV_2D", conv(shape=(6, 2, 3, 3), group=2)),
    ]


def _products() -> list[Quantised]:
    def gemm(net: Net) -> str:
        return net.node("Gemm", net.real((N, 6)), net.weight(4, 6, axis=0), net.bias(4), transB=1)

    def gemm_columns(net: Net) -> str:
        return net.node("Gemm", net.real((N, 6)), net.weight(6, 4, axis=1), net.bias(4))

    def matmul(net: Net) -> str:
        return net.node("MatMul", net.real((N, 3, 6)), net.weight(6, 4, axis=1))

    def matmul_tensor(net: Net) -> str:
        return net.node("Add", net.node("MatMul", net.real((N, 3, 6)), net.weight(6, 4)), net.bias(4))

    return [
        case(name, "FULLY_CONNECTED", build, kind=kind)
        for kind in ("int8", "uint8")
        for name, build in (("gemm", gemm), ("gemm-columns", gemm_columns), ("matmul", matmul), ("matmul-bias", matmul_tensor))
    ] + [case("gemm", "FULLY_CONNECTED", gemm, kind="int16")]


def _elementwise() -> list[Quantised]:
    def two(op: str, a: tuple[Any, ...] = (N, 3, 5, 4), b: tuple[Any, ...] = (N, 3, 5, 4)):
        return lambda net: net.node(op, net.real(a, 0.02), net.real(b, 0.05))

    def with_constant(op: str):
        return lambda net: net.node(op, net.real((N, 3, 5, 4)), net.weight(3, 1, 1))

    def one(op: str, **attributes: Any):
        return lambda net: net.node(op, net.real((N, 3, 5, 4)), **attributes)

    cases = []
    for kind in ("int8", "uint8"):
        cases += [
            *(case(op.lower(), op.upper(), two(op), kind=kind) for op in ("Add", "Sub", "Mul")),
            case("add-broadcast", "ADD", two("Add", b=(1, 3, 1, 1)), kind=kind),
            case("mul-constant", "MUL", with_constant("Mul"), kind=kind),
            case("add-constant", "ADD", with_constant("Add"), kind=kind),
            case("relu", "RELU", one("Relu"), kind=kind),
            case("leaky-relu", "LEAKY_RELU", one("LeakyRelu", alpha=0.1), kind=kind),
            case("hard-swish", "HARD_SWISH", one("HardSwish"), kind=kind),
            case("exp", None, one("Exp"), kind=kind),
            case("softmax-other-grid", None, one("Softmax", axis=1), kind=kind),
        ]
    return [
        *cases,
        case("add", "ADD", two("Add"), kind="int16"),
        case("sigmoid", "LOGISTIC", one("Sigmoid"), step=1 / 256, zero=-128),
        case("sigmoid", "LOGISTIC", one("Sigmoid"), kind="uint8", step=1 / 256, zero=0),
        case("tanh", "TANH", one("Tanh"), step=1 / 128, zero=0),
        case("softmax", "SOFTMAX", lambda net: net.node("Softmax", net.real((N, 6)), axis=1), step=1 / 256, zero=-128),
    ]


def _moves() -> list[Quantised]:
    image = (N, 4, 6, 5)

    def one(op: str, *settings: Any, **attributes: Any):
        return lambda net: net.node(
            op, net.real(image, STEP), *(net.constant(s) if s is not None else "" for s in settings), **attributes
        )

    def concat(net: Net) -> str:
        return net.node("Concat", net.real(image, 0.02), net.real(image, 0.04), axis=1)

    def chain(net: Net) -> str:
        y = net.node("Conv", net.real(image), net.weight(4, 4, 3, 3, axis=0), net.bias(4))
        y = net.node("MaxPool", net.rounded(y, 0.1), kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
        y = net.node("Transpose", net.rounded(y, 0.1), perm=[0, 2, 3, 1])
        y = net.node("Reshape", y, net.constant([0, -1, 4], np.int64))
        return net.node("MatMul", net.rounded(y, 0.1), net.weight(4, 3, axis=1))

    def split(net: Net) -> str:
        first = net.node("Split", net.real(image), net.constant([1, 3], np.int64), outputs=2, axis=1)
        return net.node("Add", net.rounded(first, 0.03), net.real((N, 1, 6, 5)))

    def used_twice(net: Net) -> str:
        x = net.real(image)
        y = net.rounded(net.node("Conv", x, net.weight(4, 4, 1, 1, axis=0), net.bias(4)), 0.1)
        return net.node("Add", net.rounded(net.node("Sin", y), 0.01), y)

    pooled = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    return [
        case("max-pool-alone", None, one("MaxPool", **pooled)),
        case("concat", "CONCATENATION QUANTIZE", concat),
        case("transpose-alone", None, one("Transpose", perm=[0, 3, 1, 2])),
        case("average-pool", "AVERAGE_POOL_2D", one("AveragePool", kernel_shape=[2, 2])),
        case("global-average-pool", "MEAN", one("GlobalAveragePool")),
        case("global-average-pool", "MEAN", one("GlobalAveragePool"), kind="uint8", step=0.02),
        case("reduce-mean", "MEAN", one("ReduceMean", np.array([2], np.int64), keepdims=0), step=0.02),
        *(
            case("chain", "CONV_2D MAX_POOL_2D TRANSPOSE FULLY_CONNECTED", chain, kind=k, step=0.2)
            for k in ("int8", "uint8", "int16")
        ),
        case("split", "SPLIT_V ADD", split),
        *(case("used-twice", "CONV_2D SIN ADD", used_twice, kind=k, step=0.2) for k in ("int8", "uint8")),
    ]


def _qlinear() -> list[Quantised]:
    cases = []
    image = (N, 4, 6, 5)

    def add(name: str, native: str | None, build: Callable[[Net], str], kind: str) -> None:
        net = Net(kind)
        made = build(net)
        proto = net.model(net.node("DequantizeLinear", made, *net.grid(STEP)))
        cases.append(Quantised(f"{name}-{kind}", proto, None if native is None else tuple(native.split()), STEP))

    def contrib(op: str, *shapes: tuple[Any, ...], **attributes: Any):
        def build(net: Net) -> str:
            given = [part for i, shape in enumerate(shapes) for part in net.quantised(shape, 0.02 + 0.02 * i)]
            return net.node(op, *given, *net.grid(STEP), domain="com.microsoft", **attributes)

        return build

    def concat(net: Net) -> str:
        parts = [part for i in range(3) for part in net.quantised(image, 0.02 * (i + 1))]
        return net.node("QLinearConcat", *net.grid(STEP), *parts, domain="com.microsoft", axis=1)

    def where(net: Net) -> str:
        net.inputs.append(helper.make_tensor_value_info("condition", TensorProto.BOOL, image))
        parts = [*net.quantised(image, 0.02), *net.quantised(image, 0.04)]
        return net.node("QLinearWhere", "condition", *parts, *net.grid(STEP), domain="com.microsoft")

    def gemm(per_column: bool, bias: bool, transposed: bool):
        def build(net: Net) -> str:
            shape = (4, 6) if transposed else (6, 4)
            scale = np.linspace(0.01, 0.02, 4, dtype=np.float32) if per_column else np.float32(0.01)
            filters = net.constant(np.random.default_rng(0).integers(-127, 128, shape), np.int8)
            c = net.constant(np.arange(-40, 40, 20), np.int32) if bias else ""
            given = (*net.quantised((N, 6)), filters, *net.grid(scale, 0, "int8"), c, *net.grid(STEP))
            return net.node("QGemm", *given, domain="com.microsoft", transB=int(transposed), alpha=1.0)

        return build

    def conv(net: Net) -> str:
        filters = net.constant(np.random.default_rng(0).integers(-127, 128, (3, 4, 3, 3)), np.int8)
        bias = net.constant(np.arange(-400, 500, 400), np.int32)
        scale = np.linspace(0.01, 0.02, 3, dtype=np.float32)
        return net.node(
            "QLinearConv", *net.quantised(image), filters, *net.grid(scale, 0, "int8"), *net.grid(STEP), bias, pads=[1] * 4
        )

    def matmul(net: Net) -> str:
        kind = net.kind
        filters = net.constant(np.random.default_rng(0).integers(0, 100, (6, 4)), kind)
        return net.node("QLinearMatMul", *net.quantised((N, 3, 6)), filters, *net.grid(0.01), *net.grid(STEP))

    for kind in ("uint8", "int8"):
        add("qlinear-add", "ADD", contrib("QLinearAdd", image, image), kind)
        add("qlinear-add-broadcast", "ADD", contrib("QLinearAdd", image, (4, 1, 1)), kind)
        add("qlinear-mul", "MUL", contrib("QLinearMul", image, image), kind)
        add("qlinear-sigmoid", None, contrib("QLinearSigmoid", image), kind)
        add("qlinear-leaky-relu", "LEAKY_RELU", contrib("QLinearLeakyRelu", image, alpha=0.2), kind)
        add("qlinear-average-pool", None, contrib("QLinearAveragePool", image, kernel_shape=[2, 2]), kind)
        add("qlinear-global-average-pool", "MEAN", contrib("QLinearGlobalAveragePool", image), kind)
        add("qlinear-softmax", None, contrib("QLinearSoftmax", (N, 5, 6), axis=-1, opset=13), kind)
        add("qlinear-concat", "CONCATENATION QUANTIZE", concat, kind)
        add("qlinear-conv", "CONV_2D", conv, kind)
        add("qlinear-matmul", "FULLY_CONNECTED", matmul, kind)
        add("qgemm", "FULLY_CONNECTED", gemm(False, True, True), kind)
        add("qgemm-columns", "FULLY_CONNECTED", gemm(True, True, False), kind)
        add("qgemm-no-bias", "FULLY_CONNECTED", gemm(False, False, False), kind)
    add("qlinear-where", None, where, "uint8")
    return cases


CASES = [*_convolutions(), *_products(), *_elementwise(), *_moves(), *_qlinear()]
