"""A quantised model as the plain model of real numbers that it came from: nothing is rounded between its operators any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from mlconverter.errors import ConversionError
from mlconverter.hub.model import HubModel
from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import specified
from mlconverter.hub.normalise import normalise
from mlconverter.hub.quantised_pairs import share_grid, undoes
from mlconverter.hub.spelled import spell_out
from mlconverter.hub.states import initial_states, say_states
from mlconverter.hub.walk import drop_unused, graphs
from mlconverter.hub.weights import Array, compose
from mlconverter.hub.whole_weights import make_weights_real
from mlconverter.signature import IOSignature, TensorSpec

_MOVING = frozenset("Concat Flatten Identity MaxPool Pad Reshape Slice Split Squeeze Transpose Unsqueeze".split())
"""Operators whose results are elements of what they are given."""

_LIMITED = frozenset("Clip DequantizeLinear HardSigmoid Relu Sigmoid Softmax".split())
"""Operators whose results are never below zero, or are rounded already: nothing has been left out behind them."""


def dequantised(hub: HubModel) -> HubModel:
    """The model without its quantisation; inputs, outputs and states that were integers are what those stood for.

    Weights stay what the integers stand for, and have their way back into them.

    Raises:
        ConversionError: there is nothing to dequantise.
    """
    model = normalise(hub.model)
    if spell_out(model):
        model = normalise(model)
    real = make_weights_real(model)
    names = Names(model)
    changed = _take_out_pairs(model, names)
    initial = initial_states(hub.model.metadata_props, hub.signature)
    real_states = _real_states(model, hub.signature, initial)
    whole = {name for pair in hub.signature.states if pair[0] not in real_states for name in pair}
    inputs = tuple(
        spec if spec.name in whole else _input(value, spec, names)
        for value, spec in zip(model.graph.inputs, hub.signature.inputs, strict=True)
    )
    outputs = tuple(
        spec if spec.name in whole else _output(model.graph, position, spec, names)
        for position, spec in enumerate(hub.signature.outputs)
    )
    signature = IOSignature(inputs, outputs, hub.signature.key, hub.signature.states)
    if not real and not changed and signature == hub.signature:
        raise ConversionError("dequantize=True has nothing to do: the model has no quantised weights and no quantised values.")
    say_states(model, signature, {**initial, **real_states})
    drop_unused(model)
    written = {link.target for link in real}
    links = (*(link for link in hub.links if link.target not in written), *compose(hub.links, real))
    return replace(hub, model=model, signature=signature, links=links)


def _take_out_pairs(model: ir.Model, names: Names) -> bool:
    """Let what was rounded pass as it is; whether anything was."""
    found = False
    for graph in graphs(model):
        for node in list(specified(model, graph)):
            quantize = _undone(node)
            if quantize is not None:
                _put(_unrounded(quantize, names), node.outputs[0], names)
                found = True
    return found


def _real_states(model: ir.Model, signature: IOSignature, initial: Mapping[str, Array]) -> dict[str, Array]:
    """What the states that go out on the grid on which they are read stand for before the first call, by their inputs."""
    values = {value.name: value for value in (*model.graph.inputs, *model.graph.outputs)}
    found = {}
    for i, o in signature.states:
        maker, readers = values[o].producer(), [use.node for use in values[i].uses()]
        if readers and maker is not None and all(share_grid(reader, maker) for reader in readers):
            settings = [None if v is None else v.const_value for v in (*maker.inputs[1:], None)][:2]
            scale, zero = (None if tensor is None else tensor.numpy() for tensor in settings)
            if scale is not None and scale.size == 1:
                steps = initial[i].astype(np.int64) - (0 if zero is None else int(zero.reshape(())))
                found[i] = (steps * scale.reshape(())).astype(np.float32)
    return found


def _input(value: ir.Value, spec: TensorSpec, names: Names) -> TensorSpec:
    """An input of real numbers where all that reads it dequantises it."""
    readers = [use.node for use in value.uses()]
    if not readers or not all(n.op_type == "DequantizeLinear" and n.inputs[0] is value for n in readers):
        return spec
    for node in readers:
        _put(value, node.outputs[0], names)
    value.type = ir.TensorType(ir.DataType.FLOAT)
    return replace(spec, dtype="float32", quantization=None)


def _output(graph: ir.Graph, position: int, spec: TensorSpec, names: Names) -> TensorSpec:
    """An output of real numbers where quantising gives it."""
    value = graph.outputs[position]
    node = value.producer()
    if node is None or node.op_type != "QuantizeLinear" or node.inputs[0] is None:
        return spec
    graph.outputs[position] = _named_like(value, _unrounded(node, names), names)
    return replace(spec, dtype="float32", quantization=None)


def _put(real: ir.Value, value: ir.Value, names: Names) -> None:
    """Have all that reads a value read another one; an output of the graph keeps its name."""
    if value.is_graph_output():
        real = _named_like(value, real, names)
    value.replace_all_uses_with(real, replace_graph_outputs=True)


def _named_like(value: ir.Value, real: ir.Value, names: Names) -> ir.Value:
    """A copy of real numbers, by the name of the value that it stands for."""
    maker = value.producer()
    assert maker is not None
    node = ir.Node("", "Identity", [real], name=names.new(f"{value.name}/real"))
    maker.append(node)
    copy = node.outputs[0]
    copy.name, value.name = value.name, names.new(f"{value.name}/quantized")
    copy.shape, copy.type = value.shape, ir.TensorType(ir.DataType.FLOAT)
    return copy


def _undone(node: ir.Node) -> ir.Node | None:
    """What quantised by the scale and zero point by which a node dequantises; ``None`` where it does something else."""
    quantize = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
    return quantize if quantize is not None and undoes(node, quantize) else None


def _unrounded(quantize: ir.Node, names: Names) -> ir.Value:
    """What is quantised, as it is; within its limits where those are all that is left of an activation.

    Tools that quantise leave out a Relu or Clip whose work the limits of the integers do: those begin at zero then.
    """
    real = quantize.inputs[0]
    assert real is not None
    zero = quantize.inputs[2].const_value if len(quantize.inputs) > 2 and quantize.inputs[2] is not None else None
    scale = None if quantize.inputs[1] is None else quantize.inputs[1].const_value
    maker = real.producer()
    if zero is None or scale is None or zero.size != 1 or maker is None or _is_limited(real):
        return real
    limits = np.iinfo(zero.dtype.numpy())
    if int(zero.numpy().reshape(())) != limits.min:
        return real
    high = np.asarray((limits.max - limits.min) * scale.numpy().reshape(()), np.float32)
    bound = ir.Value(name=names.new(f"{real.name}/bound"), shape=ir.Shape(()), type=ir.TensorType(ir.DataType.FLOAT))
    bound.const_value = ir.tensor(high, name=bound.name)
    graph = maker.graph
    assert graph is not None
    graph.register_initializer(bound)
    above = ir.Node("", "Relu", [real], name=names.new(f"{quantize.name}/Relu"))
    within = ir.Node("", "Min", [above.outputs[0], bound], name=names.new(f"{quantize.name}/Min"))
    for node in (above, within):
        node.outputs[0].name = names.new(f"{real.name}/{node.op_type}")
        node.outputs[0].shape, node.outputs[0].type = real.shape, real.type
    maker.append([above, within])
    return within.outputs[0]


def _is_limited(value: ir.Value) -> bool:
    """Whether all elements of a value come from where nothing can have been left out."""
    waiting, seen = [value], {value}
    while waiting:
        maker = waiting.pop().producer()
        if maker is None or maker.op_type in _LIMITED:
            continue
        if maker.op_type not in _MOVING:
            return False
        moved = [v for v in (maker.inputs if maker.op_type == "Concat" else maker.inputs[:1]) if v is not None and v not in seen]
        waiting += moved
        seen.update(moved)
    return True
