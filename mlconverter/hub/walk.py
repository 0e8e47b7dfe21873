"""Walks over a model's graphs, the graphs of nodes included, and what onnx_ir's passes do, left out where there is nothing to do.

A pass of onnx_ir looks at every node several times. Most graphs are in order and have no graphs in their nodes, which one
look tells; of large graphs such looks are a good part of a conversion's time.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import onnx_ir.passes.common as passes

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def graphs(model: ir.Model) -> list[ir.Graph]:
    """The graph of a model and those of its nodes, an outer one before what is in it."""
    found = [model.graph]
    for graph in found:
        for node in graph:
            for attribute in node.attributes.data.values():  # of UserDict, whose own views take five times as long
                if attribute.type in _GRAPHS:
                    found.extend(graphs_in(attribute))
    return found


def graphs_of(node: ir.Node) -> list[ir.Graph]:
    """The graphs that a node has as attributes."""
    return [graph for attribute in node.attributes.values() for graph in graphs_in(attribute)]


def graphs_in(attribute: ir.Attr) -> Sequence[ir.Graph]:
    """The graphs that an attribute is, mostly none."""
    if attribute.type not in _GRAPHS or attribute.is_ref():
        return ()
    return [attribute.as_graph()] if attribute.type is ir.AttributeType.GRAPH else attribute.as_graphs()


def sort_nodes(model: ir.Model) -> None:
    """Put every node behind those whose outputs it needs.

    Raises:
        ValueError: some wait for one another.
    """
    if len(graphs(model)) > 1 or model.functions or not _in_order(model.graph):
        passes.TopologicalSortPass()(model)


def drop_unused(model: ir.Model) -> None:
    """Take out nodes, optional outputs and initializers that nothing uses."""
    if any(map(_has_unused, graphs(model))) or model.functions:
        passes.RemoveUnusedNodesPass()(model)


def _in_order(graph: ir.Graph) -> bool:
    done: set[ir.Node | None] = {None}
    for node in graph:
        if not all(value is None or value.producer() in done for value in node.inputs):
            return False
        done.add(node)
    return True


def _has_unused(graph: ir.Graph) -> bool:
    if any(node.inputs and node.inputs[-1] is None for node in graph):
        return True  # said to be absent, which is the same as not said
    values = (*graph.initializers.values(), *(output for node in graph for output in node.outputs))
    return any(not value.is_graph_output() and not value.is_graph_input() and not value.uses() for value in values)
