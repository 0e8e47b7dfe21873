"""A quantised model as the plain model of real numbers that it came from: nothing is rounded between its operators any more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from mlconverter.errors import ConversionError
from mlconverter.hub.model import HubModel
from mlconverter.hub.nodes import specified
from mlconverter.hub.states import STATES_KEY
from mlconverter.hub.walk import drop_unused, graphs
from mlconverter.hub.weights import compose
from mlconverter.hub.whole_weights import make_weights_real
from mlconverter.signature import IOSignature, TensorSpec

_PAIR = ("QuantizeLinear", "DequantizeLinear")


def dequantised(hub: HubModel) -> HubModel:
    """The model without its quantisation; inputs and outputs that were integers are the real numbers that those stood for.

    Weights stay what the integers stand for, and have their way back into them.

    Raises:
        ConversionError: there is nothing to dequantise, or the model keeps quantised values from call to call.
    """
    model = hub.model.clone()
    real = make_weights_real(model)
    changed = bool(real)
    for graph in graphs(model):
        for node in list(specified(model, graph)):
            real_value = _undone(node)
            if real_value is not None:
                node.outputs[0].replace_all_uses_with(real_value, replace_graph_outputs=True)
                changed = True
    if STATES_KEY in hub.model.metadata_props and changed:
        raise ConversionError("dequantize=True: the model keeps integers from call to call, which have to stay ones.")
    inputs = tuple(_input(model.graph, value, spec) for value, spec in zip(model.graph.inputs, hub.signature.inputs, strict=True))
    pairs = enumerate(zip(list(model.graph.outputs), hub.signature.outputs, strict=True))
    outputs = tuple(_output(model.graph, position, value, spec) for position, (value, spec) in pairs)
    signature = IOSignature(inputs, outputs, hub.signature.key, hub.signature.states)
    if not changed and signature == hub.signature:
        raise ConversionError("dequantize=True has nothing to do: the model has no quantised weights and no quantised values.")
    drop_unused(model)
    names = {link.target for link in real}
    links = (*(link for link in hub.links if link.target not in names), *compose(hub.links, real))
    return replace(hub, model=model, signature=signature, links=links)


def _input(graph: ir.Graph, value: ir.Value, spec: TensorSpec) -> TensorSpec:
    """An input of real numbers where all that reads it dequantises it."""
    readers = [use.node for use in value.uses()]
    if not readers or not all(n.op_type == "DequantizeLinear" and n.inputs[0] is value for n in readers):
        return spec
    for node in readers:
        node.outputs[0].replace_all_uses_with(value, replace_graph_outputs=True)
    value.type = ir.TensorType(ir.DataType.FLOAT)
    return replace(spec, dtype="float32", quantization=None)


def _output(graph: ir.Graph, position: int, value: ir.Value, spec: TensorSpec) -> TensorSpec:
    """An output of real numbers where quantising gives it."""
    node = value.producer()
    if node is None or node.op_type != "QuantizeLinear" or node.inputs[0] is None:
        return spec
    real = ir.Node("", "Identity", [node.inputs[0]], name=f"{value.name}/real")
    graph.append(real)
    name, value.name = value.name, f"{value.name}/quantized"
    real.outputs[0].name, real.outputs[0].shape = name, value.shape
    real.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    graph.outputs[position] = real.outputs[0]
    return replace(spec, dtype="float32", quantization=None)


def _undone(node: ir.Node) -> ir.Value | None:
    """What was quantised by the scale and zero point by which a node dequantises; ``None`` where it does something else."""
    quantize = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
    if quantize is None or (quantize.op_type, node.op_type) != _PAIR:
        return None
    pairs = zip((*quantize.inputs[1:], None)[:2], (*node.inputs[1:], None)[:2], strict=True)
    return quantize.inputs[0] if all(_same(a, b) for a, b in pairs) else None


def _same(a: ir.Value | None, b: ir.Value | None) -> bool:
    if a is b or a is None or b is None or a.const_value is None or b.const_value is None:
        return a is b
    return np.array_equal(a.const_value.numpy(), b.const_value.numpy())
