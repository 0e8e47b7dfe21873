"""Sequences that are made and taken apart again are no sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import specified
from mlconverter.hub.walk import graphs


def split_sequences(model: ir.Model) -> bool:
    """``SplitToSequence → SequenceAt(constant)``, as torch's exporter writes ``chunk``, becomes ``Split``; whether any did."""
    if not any(node.op_type == "SplitToSequence" for graph in graphs(model) for node in graph):
        return False
    names, found = Names(model), False
    for graph in graphs(model):
        for node in specified(model, graph):
            if node.op_type != "SplitToSequence" or node.outputs[0].is_graph_output():
                continue
            readers = list(node.outputs[0].consumers())
            picks = [_constant_index(reader) for reader in readers]
            sizes = _split_sizes(node)
            if sizes is None and _is_one_size(node) and all(p is not None and p >= 0 for p in picks):
                _slice(graph, node, readers, [p or 0 for p in picks], names)
                found = True
                continue
            if sizes is None or any(p is None or not -len(sizes) <= p < len(sizes) for p in picks):
                continue
            axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
            split = ir.Value(
                name=names.new(f"{node.outputs[0].name}_sizes"),
                shape=ir.Shape((len(sizes),)),
                type=ir.TensorType(ir.DataType.INT64),
                const_value=ir.tensor(np.array(sizes, np.int64)),
            )
            graph.register_initializer(split)
            along = [ir.AttrInt64("axis", axis)]
            parts = ir.Node("", "Split", [node.inputs[0], split], along, num_outputs=len(sizes), name=node.name)
            graph.insert_before(node, parts)
            for i, part in enumerate(parts.outputs):
                part.name = names.new(f"{node.outputs[0].name}_{i}")
            for reader, pick in zip(readers, picks, strict=True):
                assert pick is not None
                part = parts.outputs[pick]
                part.type, part.shape = reader.outputs[0].type, reader.outputs[0].shape
                reader.outputs[0].replace_all_uses_with(part, replace_graph_outputs=True)
                graph.remove(reader, safe=True)
            graph.remove(node, safe=True)
            found = True
    return found


def _is_one_size(node: ir.Node) -> bool:
    """Whether all parts are as long as a number says that is computed."""
    split = node.inputs[1] if len(node.inputs) > 1 else None
    return split is not None and split.shape is not None and len(split.shape) == 0


def _slice(graph: ir.Graph, node: ir.Node, readers: list[ir.Node], picks: list[int], names: Names) -> None:
    """Parts of a length that is computed, each as a Slice from its number times that length on."""
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
    size = node.inputs[1]

    def constant(value: list[int]) -> ir.Value:
        array = np.array(value, np.int64)
        made = ir.Value(name=names.new("part"), shape=ir.Shape(array.shape), type=ir.TensorType(ir.DataType.INT64))
        made.const_value = ir.tensor(array)
        graph.register_initializer(made)
        return made

    def computed(op: str, *inputs: ir.Value | None, attributes: Sequence[ir.Attr] = ()) -> ir.Value:
        made = ir.Node("", op, inputs, attributes, num_outputs=1)
        made.outputs[0].name = names.new("part")
        graph.insert_before(node, made)
        return made.outputs[0]

    whole = [ir.AttrInt64("to", ir.DataType.INT64)]
    length = computed("Reshape", computed("Cast", size, attributes=whole), constant([1]))
    for reader, pick in zip(readers, picks, strict=True):
        bounds = [computed("Mul", length, constant([n])) for n in (pick, pick + 1)]
        part = computed("Slice", node.inputs[0], *bounds, constant([axis]))
        part.type, part.shape = reader.outputs[0].type, reader.outputs[0].shape
        reader.outputs[0].replace_all_uses_with(part, replace_graph_outputs=True)
        graph.remove(reader, safe=True)
    graph.remove(node, safe=True)


def _constant_index(node: ir.Node) -> int | None:
    position = node.inputs[1] if node.op_type == "SequenceAt" else None
    return None if position is None else _integer(position.const_value)


def _integer(tensor: ir.TensorProtocol | None) -> int | None:
    return int(tensor.numpy().item()) if tensor is not None and tensor.size == 1 and tensor.dtype.is_integer() else None


def _split_sizes(node: ir.Node) -> list[int] | None:
    """Sizes of the parts where they are known: from the second input, as one size or a list of them."""
    data, split = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    if split is None or split.const_value is None or not split.const_value.dtype.is_integer():
        return None
    if len(split.const_value.shape):
        return [int(s) for s in split.const_value.numpy().reshape(-1)]
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
    shape = None if data is None else data.shape
    total = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    size = _integer(split.const_value)
    if not isinstance(total, int) or size is None or size < 1:
        return None
    return [min(size, total - start) for start in range(0, total, size)]
