"""Compute beforehand what depends on no input: constants that hold no weight, and the fixed part of shapes.

A node that cannot be computed is left as it is, whatever the reason: what is wrong with it is for others to say.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from mlconverter.hub.evaluate import LARGEST, evaluate, evaluates
from mlconverter.hub.model import is_weight
from mlconverter.hub.named_sizes import settle
from mlconverter.hub.nodes import call_of, opset_of, specified, version_of
from mlconverter.hub.sizes import Free
from mlconverter.hub.walk import graphs


def _is_plain(value: ir.Value) -> bool:
    return value.const_value is not None and not is_weight(value) and value.const_value.size <= LARGEST


def fold_constants(model: ir.Model) -> bool:
    """Replace nodes whose inputs are all constants without weights by their value; whether anything was."""
    folded = False
    for graph in graphs(model):
        for node in specified(model, graph):
            if not evaluates(node.op_type) or not all(i is None or _is_plain(i) for i in node.inputs):
                continue
            if any(o.is_graph_output() for o in node.outputs):
                continue
            try:
                with np.errstate(all="ignore"):
                    results = _computed(node, model.opset_imports)
            except (TypeError, ValueError):
                continue  # a dtype, a size or a mistake that evaluation leaves to whatever comes next
            if len(results) == len(node.outputs):
                _replace(graph, node, results)
                folded = True
    return folded


def _computed(node: ir.Node, opsets: dict[str, int]) -> list[np.ndarray]:
    """The outputs of a node whose inputs are all known."""
    call = call_of(node, opset_of(node, opsets), version_of(node, opsets) or 0)
    attributes = dict(call.attributes)
    if node.op_type == "Split" and len(call.inputs) < 2:
        attributes["num_outputs"] = len(node.outputs)
    return evaluate(node.op_type, [_array(i) for i in call.inputs], attributes)


def fold_shapes(model: ir.Model) -> bool:
    """Replace what is computed from shapes by constants as far as the sizes in it are fixed; whether anything was.

    Sizes are followed element by element: of ``Shape(x) = [batch, 3, 224]`` the part ``[1:]`` folds although ``batch`` is free.
    """
    folded = False
    names = {dim.value for value in model.graph.inputs for dim in value.shape or () if isinstance(dim, ir.SymbolicDim)}
    free = {name: Free(name=name) for name in names}
    for graph in graphs(model):
        known: dict[ir.Value, np.ndarray] = {}
        for node in specified(model, graph):
            folded |= settle(graph, node, known)
            sizes = _sizes_of(node, known, free, model.opset_imports)
            if sizes is None:
                continue
            if all(isinstance(s, (int, np.integer)) for s in sizes.reshape(-1)):
                if not node.outputs[0].is_graph_output():
                    _replace(graph, node, [sizes.astype(np.int64)])
                    folded = True
            else:
                known[node.outputs[0]] = sizes
    return folded


_Names = dict[str | None, Free]
"""The free sizes of the model's inputs."""


def _sizes_of(node: ir.Node, known: dict[ir.Value, np.ndarray], free: _Names, opsets: dict[str, int]) -> np.ndarray | None:
    """The one output of a node as an array of sizes, some of them free; ``None`` where it is no such thing."""
    if len(node.outputs) != 1 or not node.inputs or node.inputs[0] is None:
        return None
    if node.op_type in ("Shape", "Size"):
        shape = node.inputs[0].shape
        if shape is None:
            return None
        unknown = Free()
        sizes = np.array(
            [d if isinstance(d, int) and d >= 0 else free.get(getattr(d, "value", None), unknown) for d in shape], object
        )
        if node.op_type == "Size":
            return np.array(np.prod(sizes), object)
        start = node.attributes["start"].as_int() if "start" in node.attributes else 0
        end = node.attributes["end"].as_int() if "end" in node.attributes else len(sizes)
        return sizes[start:end]
    if not any(i in known for i in node.inputs if i is not None) or not evaluates(node.op_type, symbolic=True):
        return None
    if any(i is not None and i not in known and (i.const_value is None or is_weight(i)) for i in node.inputs):
        return None
    try:
        call = call_of(node, opset_of(node, opsets), version_of(node, opsets) or 0)
        arrays = [known[i] if isinstance(i, ir.Value) and i in known else _array(i) for i in call.inputs]
        return evaluate(node.op_type, arrays, call.attributes)[0]
    except (TypeError, ValueError):
        return None  # depends on a free size in a way that only the run time can tell


def _array(value: ir.Value | np.ndarray | None) -> np.ndarray | None:
    if value is None or isinstance(value, np.ndarray):
        return value
    assert value.const_value is not None
    return value.const_value.numpy()


def _replace(graph: ir.Graph, node: ir.Node, results: Iterable[np.ndarray]) -> None:
    for output, result in zip(node.outputs, results, strict=False):
        tensor = ir.tensor(np.ascontiguousarray(result).reshape(result.shape), name=output.name)
        constant = ir.Value(name=output.name, shape=ir.Shape(result.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        output.replace_all_uses_with(constant)
        output.name = None
        graph.register_initializer(constant)
    graph.remove(node, safe=True)
