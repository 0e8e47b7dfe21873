"""QuantizeLinear and DequantizeLinear as TensorRT has them: to eight bits around zero, by constants. Others become arithmetic.

The arithmetic is that of the specification, in single precision, which holds all integers that are met here: what is computed
is the same, without the speed of integers.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mlconverter.formats.trt.constants import Array, constant
from mlconverter.hub.fused.writer import Writer, rank_of, replace
from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import specified
from mlconverter.hub.quantised_pairs import share_grid
from mlconverter.hub.walk import graphs

_PRODUCTS = frozenset("Conv ConvTranspose Gemm MatMul".split())
_MOVING = frozenset("Flatten Reshape Squeeze Transpose Unsqueeze".split())

_WHOLE = frozenset((ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT32))
"""Integers that are made real here; narrower ones, and floats of eight bits, are left to the parser."""

_DEFAULT_AXIS = 1


def write_grids(model: ir.Model) -> tuple[int, int]:
    """Write what TensorRT does not quantise as arithmetic, in place.

    Returns:
        How many nodes became arithmetic, and how many constants became numbers of single precision.
    """
    names, kept = Names(model), _kept(model)
    written, stored = 0, 0
    for graph in graphs(model):
        centred: dict[ir.Value, tuple[ir.Value, ir.Node]] = {}  # integers: their distance from the zero point, what made them
        for node in specified(model, graph):
            if node in kept or node.op_type not in ("QuantizeLinear", "DequantizeLinear") or _whole(node) not in _WHOLE:
                continue
            w, data = Writer(model, node, names), node.inputs[0]
            if node.op_type == "QuantizeLinear":
                if _blocked(node):
                    continue
                distance = _steps(w, model, names, node)
                centred[node.outputs[0]] = distance, node
                written += 1
            elif data is not None and data.const_value is not None and _settings(node) is not None:
                _store(model, names, node, data.const_value.numpy())
                stored += 1
            elif not _blocked(node) and data is not None:
                _make_real(w, model, names, node, centred.get(data))
                written += 1
        for distance, node in centred.values():
            _hand_out(model, names, node, distance)
    return written, stored


def _kept(model: ir.Model) -> set[ir.Node]:
    """Nodes that TensorRT takes: pairs around zero, and the weights of products whose other operand is such a pair."""
    kept: set[ir.Node] = set()
    for graph in graphs(model):
        nodes = specified(model, graph)
        quantised = {n for n in nodes if n.op_type == "QuantizeLinear" and _around_zero(n)}
        kept |= quantised
        for node in nodes:
            data = node.inputs[0] if node.op_type == "DequantizeLinear" else None
            if data is not None and _around_zero(node) and (data.producer() in quantised or data.is_graph_input()):
                kept.add(node)
        weights = [n for n in nodes if n.op_type == "DequantizeLinear" and _around_zero(n) and n not in kept]
        for node in weights:
            if node.inputs[0] is not None and node.inputs[0].const_value is not None and _is_multiplied(node, kept):
                kept.add(node)
    return kept


def _is_multiplied(node: ir.Node, kept: set[ir.Node]) -> bool:
    """Whether all that reads a weight multiplies it with what is quantised around zero."""
    readers = list(node.outputs[0].uses())
    for use in readers:
        if use.node.op_type in _MOVING:
            if not _is_multiplied(use.node, kept):
                return False
            continue
        other = use.node.inputs[1 - use.idx] if use.node.op_type in _PRODUCTS and use.idx < 2 else None
        if other is None or other.producer() not in kept:
            return False
    return bool(readers) and not node.outputs[0].is_graph_output()


def _whole(node: ir.Node) -> ir.DataType | None:
    """The type of the integers."""
    value = node.outputs[0] if node.op_type == "QuantizeLinear" else node.inputs[0]
    return None if value is None else value.dtype


def _around_zero(node: ir.Node) -> bool:
    """Whether integers of eight bits stand for numbers by constants, zero for zero."""
    settings = _settings(node)
    if settings is None or _whole(node) is not ir.DataType.INT8 or _blocked(node):
        return False
    return settings[0].dtype == np.float32 and not settings[1].any()


def _settings(node: ir.Node) -> tuple[Array, Array] | None:
    """Scale and zero point, where both are constants."""
    scale, zero = (*node.inputs[1:3], None)[:2]
    if scale is None or scale.const_value is None or (zero is not None and zero.const_value is None):
        return None
    numbers = scale.const_value.numpy()
    return numbers, np.zeros(numbers.shape, np.int64) if zero is None else zero.const_value.numpy().astype(np.int64)  # type: ignore[union-attr]


def _blocked(node: ir.Node) -> bool:
    return "block_size" in node.attributes and node.attributes["block_size"].as_int() > 0


def _axis(node: ir.Node) -> int:
    return node.attributes["axis"].as_int() if "axis" in node.attributes else _DEFAULT_AXIS


def _store(model: ir.Model, names: Names, node: ir.Node, whole: Array) -> None:
    """Put the numbers in the place of the integers that stand for them."""
    settings = _settings(node)
    assert settings is not None
    wide = [_spread(s, whole.shape, node) for s in settings]
    real = (whole.astype(np.float64) - wide[1]) * wide[0].astype(np.float64)
    dtype = node.outputs[0].dtype or ir.DataType.FLOAT
    value = constant(model, names, f"{node.inputs[0] and node.inputs[0].name}/real", real.astype(dtype.numpy()), dtype)
    output = node.outputs[0]
    if output.is_graph_output():
        value = Writer(model, node, names)("Identity", value)
        value.type, value.shape = output.type, output.shape
        value.name, output.name = output.name, None
    output.replace_all_uses_with(value, replace_graph_outputs=True)
    assert node.graph is not None
    node.graph.remove(node, safe=True)


def _spread(setting: Array, shape: tuple[int, ...], node: ir.Node) -> Array:
    """Scales or zero points, one for each element that they are for, or as broadcasting does that."""
    if setting.size == 1:
        return setting.reshape(())
    axis = _axis(node) % len(shape)
    if _blocked(node):
        return np.repeat(setting, node.attributes["block_size"].as_int(), axis).take(range(shape[axis]), axis)
    return setting.reshape([-1 if a == axis else 1 for a in range(len(shape))])


def _given(w: Writer, model: ir.Model, names: Names, node: ir.Node, position: int) -> ir.Value | None:
    """The scale or zero point of a node in single precision and as broadcasting takes it; ``None`` where it is zero."""
    value, data = node.inputs[position] if position < len(node.inputs) else None, node.inputs[0]
    assert data is not None
    if value is None:
        return None
    several = value.shape is None or (len(value.shape) > 0 and value.shape != (1,))
    rank, axis = (rank_of(data), _axis(node)) if several else (0, 0)
    form = [-1 if a == axis % rank else 1 for a in range(rank)]
    if value.const_value is not None:
        array = value.const_value.numpy().astype(np.float32).reshape(form)
        return constant(model, names, f"{value.name}/real", array) if position == 1 or array.any() else None
    real = value if value.dtype is ir.DataType.FLOAT else w("Cast", value, to=ir.DataType.FLOAT.value)
    return w("Reshape", real, w.ints(*form))


def _steps(w: Writer, model: ir.Model, names: Names, node: ir.Node) -> ir.Value:
    """QuantizeLinear → Div, Round, Clip: the distance from the zero point, in steps. Round goes to even ones, as it says."""
    data, whole = node.inputs[0], _whole(node)
    assert data is not None and whole is not None
    real = data if data.dtype is ir.DataType.FLOAT else w("Cast", data, to=ir.DataType.FLOAT.value)
    scale = _given(w, model, names, node, 1)
    assert scale is not None
    limits = np.iinfo(whole.numpy())
    steps, zero = w("Round", w("Div", real, scale)), _given(w, model, names, node, 2)
    if zero is None or (zero.const_value is not None and zero.const_value.size == 1):
        at = 0.0 if zero is None or zero.const_value is None else float(zero.const_value.numpy().item())
        return w("Clip", steps, *(w.constant(np.array(end - at, np.float32)) for end in (limits.min, limits.max)))
    ends = [w.constant(np.array(end, np.float32)) for end in (limits.min, limits.max)]
    return w("Sub", w("Clip", w("Add", steps, zero), *ends), zero)


def _make_real(w: Writer, model: ir.Model, names: Names, node: ir.Node, made: tuple[ir.Value, ir.Node] | None) -> None:
    """DequantizeLinear → Sub, Mul; only Mul behind what quantised by the same scale and zero point."""
    data = node.inputs[0]
    assert data is not None
    scale, zero = (_given(w, model, names, node, position) for position in (1, 2))
    assert scale is not None
    if made is not None and share_grid(node, made[1]):
        steps = made[0]
    else:
        steps = w("Cast", data, to=ir.DataType.FLOAT.value)
        steps = steps if zero is None else w("Sub", steps, zero)
    real = w("Mul", steps, scale)
    dtype = node.outputs[0].dtype
    if dtype is not None and dtype is not ir.DataType.FLOAT:
        real = w("Cast", real, to=dtype.value)
    replace(w, node, [real])


def _hand_out(model: ir.Model, names: Names, node: ir.Node, distance: ir.Value) -> None:
    """Give what else reads the integers those: at the border of the model TensorRT has them."""
    w, whole = Writer(model, node, names), node.outputs[0]
    if not w.is_read(0):
        assert node.graph is not None
        node.graph.remove(node, safe=True)
        return
    zero = _given(w, model, names, node, 2)
    integers = distance if zero is None else w("Add", distance, zero)
    assert whole.dtype is not None
    replace(w, node, [w("Cast", integers, to=whole.dtype.value)])
