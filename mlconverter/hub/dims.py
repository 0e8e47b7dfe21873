"""Other names, or sizes, for the free dimensions of a graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import onnx_ir as ir

from mlconverter.hub.io import signature_of
from mlconverter.hub.model import HubModel
from mlconverter.hub.walk import graphs


def rename_dims(hub: HubModel, names: Mapping[str, str | int | None]) -> HubModel:
    """The model with its free dimensions under other names, or of a size; the graph is a copy, its tensors are shared.

    Args:
        hub: the model.
        names: new names or sizes by old names, ``None`` for no name. A dimension that is computed from such a one, as ``n//2``
            is, is left without a name.
    """
    if not names:
        return hub
    model = hub.model.clone()
    word = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in names))
    for graph in graphs(model):
        for value in (*graph.inputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs)):
            if value.shape is not None:
                value.shape = ir.Shape([_renamed(dim, names, word) for dim in value.shape])
    layouts = {spec.name: spec.layout for spec in (*hub.signature.inputs, *hub.signature.outputs)}
    signature = signature_of(model)
    inputs, outputs = (
        tuple(replace(spec, layout=layouts[spec.name]) for spec in specs) for specs in (signature.inputs, signature.outputs)
    )
    return replace(hub, model=model, signature=replace(hub.signature, inputs=inputs, outputs=outputs))


def _renamed(dim: int | ir.SymbolicDim, names: Mapping[str, str | int | None], word: re.Pattern[str]) -> int | ir.SymbolicDim:
    if isinstance(dim, int) or dim.value is None:
        return dim
    text = str(dim.value)
    if text not in names:
        return ir.SymbolicDim(None) if word.search(text) else dim
    new = names[text]
    return new if isinstance(new, int) else ir.SymbolicDim(new)
