"""Which nodes stay in single precision where a graph is computed in half, and why.

As few as can be: each costs time. What stays is what half cannot say, not what half says less exactly. TensorRT adds up
the products of convolutions and of matrices in single precision whatever the type of their operands, so those are never here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from mlconverter.hub.nodes import DEFAULT_DOMAINS, call_of, opset_of, schema, version_of
from mlconverter.hub.walk import graphs_of

LONGEST_SUM = 256
"""Elements that are added up in half at most: the sum of more leaves its range, or has steps larger than what is added."""

_SQUARES = "its squares are beyond the range of half"
_SUMS = "it adds up more than half can count"
_POWERS = "it grows beyond the range of half from small arguments"
_SMALL = "what half rounds to zero is a divisor, or the argument of a logarithm"
_PLACES = "half tells no more than about a thousand positions apart"
_ANGLES = "an angle of many turns has no place within a turn in half"
_GRID = "integers stand for steps of a size in single precision"
_STEPS = "it counts the steps of a grid"
_TYPED = "its type is an attribute of its own"
_GRAPHS = "its graphs are computed in single precision"
_INTEGERS = "half counts to 2048"
_DIVISOR = "what it divides by is computed in single precision"
_WHOLE = "its operands are integers"
_UNKNOWN = "half is no type of it"
_CONSTANT = "it has a constant that half does not hold"
_BETWEEN = "it stands between others that stay"

SENSITIVE: dict[str, str] = {
    **dict.fromkeys("LayerNormalization InstanceNormalization GroupNormalization RMSNormalization".split(), _SQUARES),
    **dict.fromkeys(
        "LpNormalization MeanVarianceNormalization LRN ReduceL2 ReduceSumSquare LpPool GlobalLpPool".split(), _SQUARES
    ),
    **dict.fromkeys("ReduceProd Det Exp Pow Sinh Cosh Softplus Softmax LogSoftmax ReduceLogSumExp".split(), _POWERS),
    **dict.fromkeys("CumSum DFT STFT".split(), _SUMS),
    **dict.fromkeys("Log ReduceLogSum Reciprocal Sqrt".split(), _SMALL),
    **dict.fromkeys("Sin Cos Tan".split(), _ANGLES),
    **dict.fromkeys("GridSample AffineGrid RoiAlign MaxRoiPool".split(), _PLACES),
    **dict.fromkeys("QuantizeLinear DequantizeLinear DynamicQuantizeLinear".split(), _GRID),
    **dict.fromkeys("Constant EyeLike RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli".split(), _TYPED),
    **dict.fromkeys("HannWindow HammingWindow BlackmanWindow CastLike BitCast".split(), _TYPED),
    "Range": _INTEGERS,
    "Round": _STEPS,
}
"""Operators that stay, each for a reason."""

_SUMMED = frozenset("ReduceSum ReduceMean ReduceL1 GlobalAveragePool".split())
"""Operators that stay where they add up many elements."""

_WITHOUT_BFLOAT16 = frozenset("ConvTranspose GRU HardSwish Mish LpNormalization".split())
"""What TensorRT for RTX 1.7 does not compute in bfloat16."""

_PRODUCTS = frozenset("Conv ConvTranspose Gemm MatMul".split())

_LIMITS = {"Clip": (1, 2), "Min": None, "Max": None, "Pad": (2,)}
"""Operators and those of their inputs, ``None`` for all, that mean the same at the end of half's range as beyond it."""

_SUMMANDS = {"Add": (0, 1), "Sub": (0, 1), "Conv": (2,), "ConvTranspose": (2,), "Gemm": (2,)}
"""Operators and those of their inputs that may be rounded to zero where they are biases: no single number, as an epsilon is."""

_MOVING = frozenset(
    "Concat Expand Flatten Gather GatherElements GatherND Identity Pad Reshape Slice Split Squeeze Tile Transpose Unsqueeze "
    "DepthToSpace SpaceToDepth".split()
)
_CHEAP = _MOVING | frozenset(
    "Abs Add AveragePool Cast Ceil Clip Div Elu Erf Floor Gelu GlobalAveragePool GlobalMaxPool HardSigmoid HardSwish LeakyRelu "
    "Max MaxPool Mean Min Mul Neg PRelu ReduceL1 ReduceMax ReduceMean ReduceMin ReduceSum Relu Resize Round ScatterElements "
    "ScatterND Sigmoid Sign Sub Sum Tanh Trilu Where".split()
)
"""Operators that take less time than the Casts around them."""

_THROUGH = _MOVING | frozenset("Abs Add Clip Max Relu".split())
"""Operators behind which a divisor is what it was before them, or a little more."""

_NAMES = {ir.DataType.FLOAT16: "tensor(float16)", ir.DataType.BFLOAT16: "tensor(bfloat16)"}

_RANGES = {ir.DataType.FLOAT16: (65504.0, 2.0**-24), ir.DataType.BFLOAT16: ((2 - 2.0**-7) * 2.0**127, 2.0**-133)}
"""The largest finite number of a half, and the smallest that is not zero."""

_FEWEST_STEPS = 64
"""Of the smallest numbers, how many the largest of a constant is at least: it is rounded by less than a hundredth then."""

_EXACT = frozenset((ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.UINT8))
"""Integers that half holds."""


@dataclass
class Staying:
    """What stays in single precision.

    Attributes:
        nodes: the nodes, with the reason.
        beyond: values that may be beyond the range of half because a constant is.
        constants: nodes that have a constant which half does not hold, with its name.
    """

    nodes: dict[ir.Node, str] = field(default_factory=dict)
    beyond: set[ir.Value] = field(default_factory=set)
    constants: dict[ir.Node, str] = field(default_factory=dict)


def takes_half(node: ir.Node, position: int, dtype: ir.DataType, opsets: dict[str, int]) -> bool:
    """Whether an input of a node is in half where the node computes in half."""
    if node.op_type == "BatchNormalization" and position:
        # Newer ones have types of their own for these few numbers, one of which is a divisor.
        return (version_of(node, opsets) or 0) < 15
    if node.op_type == "Resize" and position:
        return False
    found = schema(node.op_type, node.domain, opset_of(node, opsets))
    return found is not None and bool(found.inputs) and _NAMES[dtype] in found.inputs[min(position, len(found.inputs) - 1)].types


def staying(model: ir.Model, dtype: ir.DataType) -> Staying:
    """What stays in single precision of the graph of a model; graphs of nodes stay as a whole."""
    found = Staying()
    for node in model.graph:
        reason = _reason(node, dtype, model.opset_imports) or _of_divisor(node, found) or _on_grid(node, found)
        constant = None if reason else _too_much(node, dtype, model.opset_imports)
        if constant is not None:
            found.constants[node] = constant.name or ""
        if reason or constant is not None:
            found.nodes[node] = reason or _CONSTANT
    _fill_between(model.graph, found)
    for node in model.graph:
        if _exceeds(node, found, dtype):
            found.beyond.update(node.outputs)
    return found


def is_real(value: ir.Value | None) -> bool:
    """Whether a value is of single precision."""
    return value is not None and value.dtype is ir.DataType.FLOAT


def finite(dtype: ir.DataType) -> float:
    """The largest finite number."""
    return _RANGES[dtype][0]


def _reason(node: ir.Node, dtype: ir.DataType, opsets: dict[str, int]) -> str | None:
    """Why a node stays, whatever stands around it."""
    if node.domain not in DEFAULT_DOMAINS:
        return _UNKNOWN
    if graphs_of(node):
        return _GRAPHS
    if any(v is not None and not isinstance(v.type, ir.TensorType) for v in (*node.inputs, *node.outputs)):
        return _UNKNOWN  # not known, or a sequence
    if node.op_type in SENSITIVE:
        return SENSITIVE[node.op_type]
    if node.op_type in _SUMMED:
        return _SUMS if _summed(node, opsets) > LONGEST_SUM else None
    if node.op_type == "Cast" and node.inputs[0] is not None and not node.inputs[0].dtype.is_floating_point():  # type: ignore[union-attr]
        return None if node.inputs[0].dtype in _EXACT else _INTEGERS
    if node.op_type in _PRODUCTS and all(_maker(v) == "DequantizeLinear" for v in node.inputs[:2]):
        return _WHOLE
    if node.op_type == "MatMul" and _is_outer(node) and _maker(node.inputs[1]) == "Cast":
        return _INTEGERS  # the table of positions times frequencies
    if dtype is ir.DataType.BFLOAT16 and node.op_type in _WITHOUT_BFLOAT16:
        return _UNKNOWN
    found = schema(node.op_type, node.domain, opset_of(node, opsets))
    if found is None or not found.outputs:
        return _UNKNOWN
    formals = [found.outputs[min(i, len(found.outputs) - 1)] for i, v in enumerate(node.outputs) if is_real(v)]
    if any(_NAMES[dtype] not in formal.types for formal in formals):
        return _UNKNOWN
    if not formals and any(is_real(v) and not takes_half(node, i, dtype, opsets) for i, v in enumerate(node.inputs)):
        return _UNKNOWN
    return None


def _maker(value: ir.Value | None) -> str | None:
    """The operator that gives a value, by whatever it was moved before."""
    node = None if value is None else value.producer()
    while node is not None and node.op_type in _MOVING and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return None if node is None else node.op_type


def _is_outer(node: ir.Node) -> bool:
    left = node.inputs[0]
    return left is not None and left.shape is not None and len(left.shape) > 1 and left.shape[-1] == 1


def _summed(node: ir.Node, opsets: dict[str, int]) -> float:
    """How many elements a node adds up, as many as can be where that is not known."""
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    if shape is None:
        return math.inf
    axes = list(range(2, len(shape)))
    if node.op_type != "GlobalAveragePool":
        call = call_of(node, opset_of(node, opsets), version_of(node, opsets) or 0)
        given = call.inputs[1] if len(call.inputs) > 1 else None
        if isinstance(given, ir.Value):
            if given.const_value is None:
                return math.inf
            given = given.const_value.numpy()
        axes = list(range(len(shape))) if given is None else [int(a) for a in given.reshape(-1)]
    sizes = [shape[axis] for axis in axes]
    return math.prod(size if isinstance(size, int) else math.inf for size in sizes)


def _of_divisor(node: ir.Node, found: Staying) -> str | None:
    """Why a division stays: what half would round to zero is no divisor."""
    if node.op_type != "Div":
        return None
    maker = None if node.inputs[1] is None else node.inputs[1].producer()
    while maker is not None and maker not in found.nodes and maker.op_type in _THROUGH:
        computed = [v for v in maker.inputs if v is not None and v.const_value is None]
        maker = computed[0].producer() if computed else None
    return _DIVISOR if maker in found.nodes else None


def _on_grid(node: ir.Node, found: Staying) -> str | None:
    """Why arithmetic around a Round stays: rounded to half first, or afterwards, it would be another step."""
    if node.op_type in ("Div", "Mul") and any(use.node.op_type == "Round" for use in node.outputs[0].uses()):
        return _STEPS
    makers = [v.producer() for v in node.inputs if v is not None] if node.op_type in ("Clip", "Add", "Sub", "Mul") else []
    steps = any(
        m in found.nodes and found.nodes[m] == _STEPS and m.op_type not in ("Div", "Mul") for m in makers if m is not None
    )
    return _STEPS if steps else None


def _too_much(node: ir.Node, dtype: ir.DataType, opsets: dict[str, int]) -> ir.Value | None:
    """A constant of a node that half does not hold."""
    limits = _LIMITS.get(node.op_type, ())
    for position, value in enumerate(node.inputs):
        if value is None or not is_real(value) or value.const_value is None or not takes_half(node, position, dtype, opsets):
            continue
        large = limits is None or position in limits
        small = value.const_value.size > 1 and position in _SUMMANDS.get(node.op_type, ())
        if not holds(value.const_value, dtype, large, small):
            return value
    filler = node.attributes.get("value") if node.op_type == "ConstantOfShape" else None
    if filler is not None and is_real(node.outputs[0]) and not holds(filler.as_tensor(), dtype):
        return node.outputs[0]
    return None


def holds(tensor: ir.TensorProtocol, dtype: ir.DataType, large: bool = False, small: bool = False) -> bool:
    """Whether half holds the numbers of a tensor, each as exactly as the largest of them.

    Args:
        tensor: in single precision.
        dtype: the half.
        large: whether what is beyond the range may become the end of it.
        small: whether all of them may become zero.
    """
    numbers = tensor.numpy()
    largest = np.abs(numbers, where=np.isfinite(numbers), out=np.zeros_like(numbers)).max(initial=0)
    end, step = _RANGES[dtype]
    if largest > end:
        return large
    # Near zero half has steps of one size. A weight may be lost in them beside larger ones; an epsilon may not.
    return bool(small or largest == 0 or largest >= _FEWEST_STEPS * step)


def _fill_between(graph: ir.Graph, found: Staying) -> None:
    """Let cheap nodes stay whose results are only read by what stays, and that read something in single precision."""
    candidates: set[ir.Node] = set()
    for node in reversed(graph):
        real = [v for v in node.outputs if is_real(v)]
        readers = [use.node for v in real for use in v.uses()]
        if node.op_type in _CHEAP and node not in found.nodes and node.domain in DEFAULT_DOMAINS and real:
            inside = all(r in found.nodes or r in candidates or r.graph is not graph for r in readers)
            if inside:
                candidates.add(node)
    for node in graph:
        if node in candidates and any(_is_stored(v, found) for v in node.inputs):
            found.nodes[node] = _BETWEEN
        computed = [v for v in node.inputs if is_real(v) and v is not None and v.const_value is None]
        if computed and not any(map(is_real, node.outputs)) and all(_is_stored(v, found) for v in computed):
            found.nodes.setdefault(node, _BETWEEN)  # it counts, compares or measures: nothing is to be gained by a Cast


def _is_stored(value: ir.Value | None, found: Staying) -> bool:
    """Whether a value is computed in single precision, or given so."""
    if value is None or not is_real(value) or value.const_value is not None:
        return False
    maker = value.producer()
    return maker is None or maker in found.nodes


def _exceeds(node: ir.Node, found: Staying, dtype: ir.DataType) -> bool:
    """Whether a node hands on what is beyond the range of half because a constant is."""
    if node not in found.nodes or node.op_type not in _CHEAP | {"ConstantOfShape"}:
        return False
    tensors = [v.const_value for v in node.inputs if v is not None and is_real(v) and v.const_value is not None]
    if node.op_type == "ConstantOfShape" and "value" in node.attributes:
        tensors.append(node.attributes["value"].as_tensor())
    large = any(t.size and float(np.nanmax(np.abs(t.numpy()))) > finite(dtype) for t in tensors if t.dtype is ir.DataType.FLOAT)
    return large or any(v in found.beyond for v in node.inputs)
