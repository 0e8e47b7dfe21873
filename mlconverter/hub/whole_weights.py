"""Weights that a model stores as integers, as the real numbers that they stand for: what is trained are those."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from mlconverter.hub.model import ROLE_KEY, SOURCE_KEY, STORED_KEY, WEIGHT_KEY, WEIGHTED
from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import op_name, specified
from mlconverter.hub.walk import drop_unused, graphs
from mlconverter.hub.weights import Array, Dequantize, Grid, WeightLink, whole_limits

_INTEGERS = frozenset(("int8", "uint8", "int16", "uint16", "int32"))


_CARRIERS = {"int4": "int8", "int2": "int8"}
"""What holds integers narrower than a byte, which ONNX has in its newer versions only."""

SIXTEEN_BITS_SINCE = 21
"""The first opset that quantises to 16 bits."""


def make_weights_real(model: ir.Model) -> tuple[WeightLink, ...]:
    """Put weights of real numbers in the place of integers that are dequantised; the model is changed.

    Returns:
        How each of them comes from the integers.
    """
    links: list[WeightLink] = []
    for graph in graphs(model):
        made: dict[tuple[ir.Value, Dequantize], ir.Value] = {}
        for node in specified(model, graph):
            step = _step(node) if node.op_type == "DequantizeLinear" else None
            whole = node.inputs[0] if step is not None else None
            if step is None or whole is None or node.outputs[0].is_graph_output():
                continue
            if (whole, step) not in made:
                source = whole.metadata_props.get(WEIGHT_KEY) or whole.metadata_props.get(SOURCE_KEY, whole.name)
                if not source:
                    continue  # it has no place in its source, where it could be written back
                real = made[whole, step] = _real(whole, step, _name(graph, whole, node.outputs[0]))
                graph.register_initializer(real)
                links.append(WeightLink(source, real.metadata_props[WEIGHT_KEY], (step,)))
            node.outputs[0].replace_all_uses_with(made[whole, step])
    if links:
        drop_unused(model)
    return tuple(links)


def make_weights_whole(model: ir.Model, grids: Mapping[str, Grid]) -> None:
    """Put integers that are dequantised in the place of weights that stand on a grid; the model is changed.

    Args:
        model: the model; of its weights, those stay real numbers whose grid is none that its opset can write.
        grids: by the names of weights.
    """
    names, places = Names(model), {node: place for place, node in enumerate(model.graph)}
    for name, grid in grids.items():
        weight = model.graph.initializers.get(name)
        if weight is None or weight.const_value is None or weight.dtype is not ir.DataType.FLOAT or not weight.uses():
            continue
        settings = _settings(grid, weight.const_value.numpy(), model.opset_imports[""])
        if settings is None:
            continue
        arrays, axis = settings
        attributes = [ir.AttrInt64("axis", axis)] if arrays[1].ndim else []
        called = zip(arrays[1:], ("scale", "zero_point"), strict=False)
        values = [weight, *(_constant(model.graph, array, names.new(f"{name}/{setting}")) for array, setting in called)]
        node = ir.Node("", "DequantizeLinear", values, attributes, name=names.new(f"{name}/DequantizeLinear"))
        real, whole = node.outputs[0], ir.Tensor(arrays[0], name=name)
        real.name, real.shape, real.type = names.new(f"{name}/dequantized"), weight.shape, weight.type
        first = min((use.node for use in weight.uses()), key=lambda reader: places.get(reader, 0))
        weight.replace_all_uses_with(real, replace_graph_outputs=True)
        node.replace_input_with(0, weight)
        weight.const_value, weight.type = whole, ir.TensorType(whole.dtype)
        weight.metadata_props.pop(WEIGHT_KEY, None)
        model.graph.insert_before(first if first in places else model.graph[0], node)


def _settings(grid: Grid, weight: Array, opset: int) -> tuple[list[Array], int] | None:
    """The integers, scale and zero point of a weight, and the axis of these; ``None`` where ONNX has no such operator."""
    low, high = whole_limits(grid.dtype)
    dtype = np.dtype(_CARRIERS.get(grid.dtype, grid.dtype))
    zero = low - grid.low.astype(np.int64)
    axes = [axis for axis, size in enumerate(grid.scale.shape) if size > 1]
    unwritten = dtype.name not in _INTEGERS or (dtype == np.int32 and zero.any())
    if len(axes) > 1 or unwritten or (dtype.itemsize == 2 and opset < SIXTEEN_BITS_SINCE) or (grid.scale == 0).any():
        return None
    whole = np.clip(np.rint(weight / grid.scale) + zero, low, high).astype(dtype)
    shape = (-1,) if axes else ()
    scale = grid.scale.reshape(shape)
    zeros = np.broadcast_to(zero.reshape(shape) if zero.size > 1 or not axes else zero.reshape(()), scale.shape).astype(dtype)
    return [whole, scale, *([] if dtype == np.int32 else [zeros])], axes[0] if axes else 0


def _constant(graph: ir.Graph, array: Array, name: str) -> ir.Value:
    value = ir.Value(name=name, const_value=ir.tensor(array, name=name), shape=ir.Shape(array.shape))
    value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
    graph.register_initializer(value)
    return value


def _step(node: ir.Node) -> Dequantize | None:
    """The step from stored integers to real numbers, ``None`` where a node does something else."""
    values = [None if i is None else i.const_value for i in node.inputs]
    whole, scale = values[0], values[1]
    zero = values[2] if len(values) > 2 else None
    if whole is None or scale is None or (len(node.inputs) > 2 and node.inputs[2] is not None and zero is None):
        return None
    blocks = node.attributes.get("block_size")
    if whole.dtype.numpy().name not in _INTEGERS or scale.dtype is not ir.DataType.FLOAT:
        return None
    if whole.size == 0 or (whole.size == 1 and not any(op_name(use.node) in WEIGHTED for use in node.outputs[0].uses())):
        return None
    if len(scale.shape) > 1 or "output_dtype" in node.attributes or (blocks is not None and blocks.as_int()):
        return None
    scales = scale.numpy().reshape(-1)
    zeros: Array = np.zeros(scales.size, np.int64) if zero is None else zero.numpy().reshape(-1)
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 1
    along = axis % len(whole.shape) if scales.size > 1 else None
    given = node.inputs[0]
    stored = (given.metadata_props.get(STORED_KEY) if given is not None else None) or whole.dtype.numpy().name
    return Dequantize(tuple(map(float, scales)), tuple(map(int, zeros)), along, stored, tuple(whole.shape.numpy()))


def _name(graph: ir.Graph, whole: ir.Value, output: ir.Value) -> str:
    """What the weight is called: as the integers are, if nothing else reads them."""
    name = whole.name or ""
    if len(list(whole.uses())) == 1 and name in graph.initializers:
        del graph.initializers[name]
        return name
    name, output.name = output.name or "", f"{output.name}/dequantized"
    return name


def _real(whole: ir.Value, step: Dequantize, name: str) -> ir.Value:
    assert whole.const_value is not None
    array = step.get(whole.const_value.numpy())
    real = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(ir.DataType.FLOAT))
    real.const_value = ir.Tensor(array, name=name)
    real.metadata_props[WEIGHT_KEY] = name
    if ROLE_KEY in whole.metadata_props:
        real.metadata_props[ROLE_KEY] = whole.metadata_props[ROLE_KEY]
    return real
