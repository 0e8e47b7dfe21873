"""Batch normalisations behind convolutions, taken into their weights: what is quantised then is what is multiplied."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mlconverter.formats.trt.constants import array_of, constant
from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import attributes_of, opset_of
from mlconverter.hub.walk import drop_unused

_AXES = {"Conv": 0, "ConvTranspose": 1}
"""Where the weight has the channels of the result."""


def fold_batch_norms(model: ir.Model) -> None:
    """Multiply what a BatchNormalization does into the convolution before it, in place."""
    names = Names(model)
    for node in list(model.graph):
        settings = [array_of(v, model.opset_imports) for v in node.inputs[1:5]] if node.op_type == "BatchNormalization" else []
        source = node.inputs[0] if settings else None
        conv = None if source is None else source.producer()
        if (
            conv is None
            or source is None
            or conv.op_type not in _AXES
            or len(list(source.uses())) > 1
            or source.is_graph_output()
        ):
            continue
        weight = array_of(conv.inputs[1], model.opset_imports)
        bias = array_of(conv.inputs[2], model.opset_imports) if len(conv.inputs) > 2 else np.zeros((), np.float32)
        attributes = attributes_of(node, opset_of(node, model.opset_imports))
        grouped = conv.op_type == "ConvTranspose" and "group" in conv.attributes and conv.attributes["group"].as_int() > 1
        if weight is None or bias is None or grouped or any(s is None for s in settings) or attributes.get("training_mode"):
            continue
        scale, shift, mean, variance = (np.asarray(s, np.float64) for s in settings)
        factor = scale / np.sqrt(variance + attributes["epsilon"])
        along = [-1 if axis == _AXES[conv.op_type] else 1 for axis in range(weight.ndim)]
        arrays = (weight * factor.reshape(along), (bias - mean) * factor + shift)
        values = [
            constant(model, names, f"{conv.name}/{what}", a.astype(np.float32))
            for what, a in zip(("weight", "bias"), arrays, strict=True)
        ]
        conv.resize_inputs(3)
        for position, value in enumerate(values, 1):
            conv.replace_input_with(position, value)
        result, kept = node.outputs[0], conv.outputs[0]
        result.replace_all_uses_with(kept, replace_graph_outputs=True)
        model.graph.remove(node, safe=True)
        if kept.is_graph_output():
            kept.name, result.name = result.name, None
    drop_unused(model)
