"""Free the batch of a graph whose batch is baked to 1.

This only *proposes* a graph with a free batch. Whether it treats every item of a batch by itself is for the
caller to prove by running it, see :func:`mlconverter.verification.batch_failure`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from mlconverter.hub.io import spec_of
from mlconverter.hub.model import BATCH, HubModel
from mlconverter.hub.naming import Names
from mlconverter.hub.normalise import infer_shapes, normalise


def batch_is_baked(hub: HubModel) -> bool:
    """Whether every input and output has a first axis of exactly 1."""
    specs = (*hub.signature.inputs, *hub.signature.outputs)
    return bool(hub.signature.inputs) and all(s.shape is not None and len(s.shape) > 0 and s.shape[0] == 1 for s in specs)


def free_batch(hub: HubModel) -> HubModel:
    """The model with a free first axis of every input and output: a normalised copy.

    Constant targets of Reshape that keep a leading 1 get a leading -1 instead; the size that was -1 before is
    written out from the shapes of the baked graph.
    """
    model = normalise(hub.model)
    graph, names = model.graph, Names(model)
    for node in graph:
        if node.op_type == "Reshape":
            _free_reshape(graph, node, names)
    for value in graph.inputs:
        if value.name not in graph.initializers and value.shape is not None:
            value.shape = ir.Shape([BATCH, *value.shape[1:]])
    for node in graph:
        for output in node.outputs:
            output.shape = None
    infer_shapes(model)
    outputs = []
    for spec, value in zip(hub.signature.outputs, graph.outputs, strict=True):
        value.shape = ir.Shape([BATCH, *(spec.shape or ())[1:]])
        outputs.append(replace(spec, shape=spec_of(value).shape))
    inputs = [replace(s, shape=(BATCH, *(s.shape or ())[1:])) for s in hub.signature.inputs]
    return replace(hub, model=model, signature=replace(hub.signature, inputs=tuple(inputs), outputs=tuple(outputs)))


def _free_reshape(graph: ir.Graph, node: ir.Node, names: Names) -> None:
    data, target, result = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None, node.outputs[0]
    if data is None or data.const_value is not None or target is None or target.const_value is None:
        return
    if not data.shape or not result.shape or data.shape[0] != 1 or result.shape[0] != 1:
        return
    sizes = [int(s) for s in target.const_value.numpy()]
    fixed = [result.shape[i] if s in (-1, 0) else s for i, s in enumerate(sizes)]
    if sizes[0] not in (0, 1, -1) or not all(isinstance(s, int) for s in fixed):
        return
    freed = np.array([-1, *fixed[1:]], np.int64)
    name = names.new(f"{result.name}_free_shape")
    value = ir.Value(
        name=name, shape=ir.Shape((len(freed),)), type=ir.TensorType(ir.DataType.INT64), const_value=ir.tensor(freed, name=name)
    )
    graph.register_initializer(value)
    node.replace_input_with(1, value)
