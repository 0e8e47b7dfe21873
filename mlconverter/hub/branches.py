"""Branches that are decided before the model runs."""

from __future__ import annotations

import onnx_ir as ir

from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import specified
from mlconverter.hub.walk import graphs


def take_branches(model: ir.Model) -> bool:
    """Write out the branch of every ``If`` whose condition is known where the node stands; whether there was one."""
    taken = False
    for graph in graphs(model):
        for node in specified(model, graph):
            condition = node.inputs[0].const_value if node.op_type == "If" and node.inputs[0] is not None else None
            if condition is None or condition.size != 1 or node.graph is None:
                continue
            chosen = node.attributes["then_branch" if condition.numpy().reshape(-1)[0] else "else_branch"].as_graph()
            _write_out(graph, node, chosen, Names(model))
            taken = True
    return taken


def _write_out(graph: ir.Graph, node: ir.Node, branch: ir.Graph, names: Names) -> None:
    for value in list(branch.initializers.values()):
        branch.initializers.pop(value.name or "")
        value.name = names.new(value.name or "constant")
        graph.register_initializer(value)
    results = list(branch.outputs)
    branch.outputs.clear()
    for inner in list(branch):
        branch.remove(inner)
        for output in inner.outputs:
            if output.name:
                output.name = names.new(output.name)
        graph.insert_before(node, inner)
    for old, new in zip(node.outputs, results, strict=True):
        _give(graph, node, old, new, names)
    graph.remove(node, safe=True)


def _give(graph: ir.Graph, node: ir.Node, old: ir.Value, new: ir.Value, names: Names) -> None:
    """Let a value of the branch take the place of an output of the node; the name of a graph's output stays."""
    if old.is_graph_output():
        # The value may be a constant, or a graph's input, or two outputs at once: none of which an output can be.
        kept = ir.Node("", "Identity", [new], num_outputs=1)
        graph.insert_before(node, kept)
        output = kept.outputs[0]
        output.type, output.shape = new.type or old.type, new.shape or old.shape
        name, old.name = old.name, names.new(f"{old.name}_before")
        old.replace_all_uses_with(output, replace_graph_outputs=True)
        output.name = name
    else:
        old.replace_all_uses_with(new)
