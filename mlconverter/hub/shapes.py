"""Shapes of values that are computed: inferred, and as the model says where inference does not get to."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from mlconverter.hub import ml_types
from mlconverter.hub.inference import infer_once
from mlconverter.hub.walk import graphs

MOST_ROUNDS = 16
"""Of what reveals shapes from which more can be told."""

_MADE_UP = "unk__"
"""How inference calls sizes that it does not know."""


def infer_shapes(model: ir.Model) -> None:
    """Infer shapes in place; what cannot be inferred keeps the shape it has."""
    _forget_made_up_names(model)
    nodes = [node for graph in graphs(model) for node in graph if node.domain == ml_types.DOMAIN]
    for _ in range(MOST_ROUNDS):
        with ml_types.hidden(nodes, model):
            infer_once(model)
        if not ml_types.infer_types(nodes, model.opset_imports):
            break


def infer_shapes_anew(model: ir.Model) -> None:
    """Infer shapes from inputs and weights; what the model says itself counts only where that leads nowhere.

    Whoever frees the batch of a model by hand, or cuts it, leaves the shapes behind that its values had before.
    """
    said = {value: value.shape for value in _computed(model) if value.shape is not None}
    for value in said:
        value.shape = None
    infer_shapes(model)
    free = {str(d) for value in model.graph.inputs for d in value.shape or ()}
    completed = {value for value, shape in said.items() if _complete(value, shape, free)}
    # What depends on shapes as numbers is found when those are folded.
    if completed and any(
        any(i in completed for i in node.inputs) and any(_is_incomplete(o, free) for o in node.outputs)
        for graph in graphs(model)
        for node in graph
    ):
        infer_shapes(model)


def _forget_made_up_names(model: ir.Model) -> None:
    """Leave sizes that an earlier inference knew nothing about without a name, for inference keeps the names that there are."""
    free = {str(d) for value in model.graph.inputs for d in value.shape or ()}
    for value in _computed(model):
        if value.shape is not None and any(_is_made_up(d, free) for d in value.shape):
            value.shape = ir.Shape([None if _is_made_up(d, free) else d for d in value.shape])


def _is_made_up(dim: int | ir.SymbolicDim, free: set[str]) -> bool:
    return not isinstance(dim, int) and dim.value is not None and dim.value.startswith(_MADE_UP) and dim.value not in free


def _complete(value: ir.Value, said: ir.Shape, free: set[str]) -> bool:
    """Fill in what is not known of a shape by what the model says of it; whether more can be told from that."""
    if value.shape is None:
        value.shape = said
        return True
    if len(value.shape) != len(said):
        return False
    dims = [s if _unknown(d, free) and not _unknown(s, set()) else d for d, s in zip(value.shape, said, strict=True)]
    sized = any(isinstance(d, int) and not isinstance(before, int) for d, before in zip(dims, value.shape, strict=True))
    value.shape = ir.Shape(dims)
    return sized  # another name for a size reveals nothing


def _is_incomplete(value: ir.Value, free: set[str]) -> bool:
    return value.shape is None or any(_unknown(d, free) for d in value.shape)


def _unknown(dim: int | ir.SymbolicDim, free: set[str]) -> bool:
    return not isinstance(dim, int) and (dim.value is None or _is_made_up(dim, free))


def _computed(model: ir.Model) -> Iterator[ir.Value]:
    for graph in graphs(model):
        for node in graph:
            yield from (output for output in node.outputs if not output.is_graph_output())
