"""Another axis layout at a graph's border: transposes at inputs and outputs, merged with those that are there."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from mlconverter.hub.border import BorderChange, Perm, inverted
from mlconverter.hub.model import HubModel


def change_border(hub: HubModel, change: BorderChange) -> HubModel:
    """The same model under another border; the graph is a copy, its tensors are shared."""
    if not change:
        return hub
    model = hub.model.clone()
    for name, perm in change.inputs.items():
        _change_input(model.graph, name, perm)
    for name, perm in change.outputs.items():
        _change_output(model.graph, name, perm)
    return replace(hub, model=model, signature=change.of(hub.signature))


def _transposed(shape: ir.Shape | None, perm: Perm) -> ir.Shape | None:
    return None if shape is None else ir.Shape([shape[p] for p in perm])


def _transpose(source: ir.Value, perm: Perm, name: str) -> ir.Node:
    node = ir.Node("", "Transpose", [source], [ir.AttrInt64s("perm", perm)], name=f"{name}_transpose")
    node.outputs[0].name = name
    node.outputs[0].type, node.outputs[0].shape = source.type, _transposed(source.shape, perm)
    return node


def _perm_of(node: ir.Node | None) -> Perm | None:
    if node is None or node.op_type != "Transpose" or node.domain != "" or "perm" not in node.attributes:
        return None
    return tuple(node.attributes["perm"].as_ints())


def _change_input(graph: ir.Graph, name: str, perm: Perm) -> None:
    old = next(v for v in graph.inputs if v.name == name)
    new = ir.Value(name=name, type=old.type, shape=_transposed(old.shape, perm))
    old.name = f"{name}_inner"
    graph.inputs[list(graph.inputs).index(old)] = new
    back = inverted(perm)
    # A transpose that reads the input merges with the one that undoes the new layout; mostly both vanish.
    for node in list(old.consumers()):
        inner = _perm_of(node)
        if inner is None or node.outputs[0].is_graph_output():
            continue
        merged = tuple(back[p] for p in inner)
        if merged == tuple(range(len(merged))):
            node.outputs[0].replace_all_uses_with(new)
            graph.remove(node, safe=True)
        else:
            node.replace_input_with(0, new)
            node.attributes["perm"] = ir.AttrInt64s("perm", merged)
    if old.uses() or old.is_graph_output():
        undo = _transpose(new, back, f"{name}_inner_layout")
        graph.insert_before(graph[0], undo)
        old.replace_all_uses_with(undo.outputs[0], replace_graph_outputs=True)


def _change_output(graph: ir.Graph, name: str, perm: Perm) -> None:
    position = next(i for i, v in enumerate(graph.outputs) if v.name == name)
    old = graph.outputs[position]
    producer = old.producer()
    inner = _perm_of(producer)
    if producer is not None and inner is not None and producer.inputs[0] is not None:
        source, merged = producer.inputs[0], tuple(inner[p] for p in perm)
    else:
        source, merged = old, perm
    old.name = f"{name}_inner"
    computed = source.producer() is not None and not source.is_graph_output()
    if merged == tuple(range(len(merged))) and computed:
        source.name = name
        graph.outputs[position] = source
    else:
        node = _transpose(source, merged, name)
        graph.append(node)
        graph.outputs[position] = node.outputs[0]
    if producer is not None and inner is not None and not old.uses() and not old.is_graph_output():
        graph.remove(producer, safe=True)
