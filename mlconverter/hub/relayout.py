"""Another axis layout at a graph's border: transposes at inputs and outputs, merged with those that are there."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from mlconverter.hub.border import BorderChange, Perm, inverted
from mlconverter.hub.io import detached
from mlconverter.hub.model import SOURCE_KEY, HubModel
from mlconverter.hub.naming import Names


def change_border(hub: HubModel, change: BorderChange) -> HubModel:
    """The same model under another border; the graph is a copy, its tensors are shared."""
    if not change:
        return hub
    model = hub.model.clone()
    names = Names(model)
    for name, perm in change.inputs.items():
        _change_input(model.graph, name, perm, names)
    for name, perm in change.outputs.items():
        if not any(v.name == name for v in model.graph.inputs):  # what is both has changed with the input
            _change_output(model.graph, name, perm, names)
    return replace(hub, model=model, signature=change.of(hub.signature))


def _transposed(shape: ir.Shape | None, perm: Perm) -> ir.Shape | None:
    return None if shape is None else ir.Shape([shape[p] for p in perm])


def _transpose(source: ir.Value, perm: Perm, name: str) -> ir.Node:
    node = ir.Node("", "Transpose", [source], [ir.AttrInt64s("perm", perm)], name=f"{name}_transpose")
    node.outputs[0].name = name
    node.outputs[0].type, node.outputs[0].shape = source.type, _transposed(source.shape, perm)
    return node


def _perm_of(node: ir.Node | None, rank: int) -> Perm | None:
    if node is None or node.op_type != "Transpose" or node.domain != "" or "perm" not in node.attributes:
        return None
    perm = tuple(node.attributes["perm"].as_ints())
    return perm if sorted(perm) == list(range(rank)) else None


def _change_input(graph: ir.Graph, name: str, perm: Perm, names: Names) -> None:
    old = next(v for v in graph.inputs if v.name == name)
    new = ir.Value(name=name, type=old.type, shape=_transposed(old.shape, perm))
    old.name = names.new(f"{name}_inner")
    graph.inputs[list(graph.inputs).index(old)] = new
    for position, output in enumerate(graph.outputs):
        if output is old:  # one name is one value: what comes out as it came in has one layout
            graph.outputs[position] = new
    back = inverted(perm)
    # A transpose that reads the input merges with the one that undoes the new layout; mostly both vanish.
    for node in list(old.consumers()):
        inner = _perm_of(node, len(perm))
        if inner is None or node.graph is not graph or node.outputs[0].is_graph_output():
            continue
        merged = tuple(back[p] for p in inner)
        if merged == tuple(range(len(merged))):
            node.outputs[0].replace_all_uses_with(new)
            graph.remove(node, safe=True)
        else:
            node.replace_input_with(0, new)
            node.attributes["perm"] = ir.AttrInt64s("perm", merged)
    if old.uses():
        undo = _transpose(new, back, names.new(f"{name}_inner_layout"))
        graph.insert_before(graph[0], undo)
        old.replace_all_uses_with(undo.outputs[0])


def _change_output(graph: ir.Graph, name: str, perm: Perm, names: Names) -> None:
    old = next(v for v in graph.outputs if v.name == name)
    positions = [i for i, v in enumerate(graph.outputs) if v is old]
    producer = old.producer()
    inner = _perm_of(producer, len(perm))
    if producer is not None and inner is not None and producer.inputs[0] is not None:
        source, merged = producer.inputs[0], tuple(inner[p] for p in perm)
    else:
        source, merged = old, perm
    _make_way(old, names.new(f"{name}_inner"))
    computed = source.graph is graph and source.producer() is not None and not source.is_graph_output()
    if merged == tuple(range(len(merged))) and computed:
        source.name, new = name, source
    else:
        node = _transpose(source, merged, name)
        graph.append(node)
        new = node.outputs[0]
    for position in positions:
        graph.outputs[position] = new
    if producer is not None and inner is not None and not old.uses() and not old.is_graph_output():
        graph.remove(producer, safe=True)


def _make_way(value: ir.Value, name: str) -> None:
    """Give a value another name; a weight stays known by the one that it has in its source."""
    if value.is_initializer() and value.const_value is not None:
        value.metadata_props.setdefault(SOURCE_KEY, value.name or "")
        value.const_value = detached(value.const_value)
    value.name = name
