"""Make a graph simple before it is translated, without touching a weight.

After :func:`normalise` there are no functions, no Constant nodes but outputs, no Identity but those that stop gradients, no
unused nodes, no branch that is decided, no node whose inputs are all constants without weights; nodes stand in topological
order, and shapes are inferred as far as they can be.
"""

from __future__ import annotations

import onnx_ir as ir
import onnx_ir.passes.common as passes

from mlconverter.errors import ConversionError, CorruptModelError
from mlconverter.hub.branches import take_branches
from mlconverter.hub.fold import fold_constants, fold_shapes
from mlconverter.hub.fused import write_out
from mlconverter.hub.model import PARAMETERS, ROLE_KEY, SOURCE_KEY, WEIGHT_KEY, WEIGHTED
from mlconverter.hub.model import is_weight as is_weight  # noqa: PLC0414 - what is said twice is exported
from mlconverter.hub.nodes import DEFAULT_DOMAINS, RUNTIMES_DOMAIN, op_name, specified, stops_gradient
from mlconverter.hub.noops import drop_noops
from mlconverter.hub.sequences import split_sequences
from mlconverter.hub.shapes import MOST_ROUNDS, infer_shapes, infer_shapes_anew
from mlconverter.hub.walk import drop_unused, graphs, sort_nodes
from mlconverter.hub.weights import WeightLink

_TAKE_WEIGHTS = WEIGHTED.union(
    ["SimplifiedLayerNormalization"],
    (f"{RUNTIMES_DOMAIN}::{op}" for op in ("FusedConv", "FusedGemm", "FusedMatMul", "TransposeMatMul")),
)
"""Operators for which even a one-element operand is a weight (the bias of a convolution with one output channel)."""

_NOT_WEIGHTS = {
    **dict.fromkeys("Resize Upsample QuantizeLinear DequantizeLinear OneHot Clip Pad".split(), 1),
    "Range": 0,
}
"""Operators whose inputs from this position on are settings, not weights."""

_KEEP_SHAPE = frozenset(("Gelu", "LayerNormalization", "RMSNormalization", "com.microsoft::Inverse"))
"""Operators that give what is shaped as their input, and that may be newer than the opset of the model."""

_RECURRENT = frozenset(("LSTM", "GRU", "RNN"))
_STATES = slice(5, 7)
"""Which inputs of a recurrent operator are its first states."""

_STOP = "StopGradient"
"""What an Identity that stops gradients is called while the others are taken out."""

_MOVE_ZEROS = frozenset("Concat Expand Gather Reshape Slice Squeeze Tile Transpose Unsqueeze".split())

MOST_AXES = 64
"""As many as numpy and torch have; what claims more is a mistake."""

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE})


def normalise(model: ir.Model) -> ir.Model:
    """A simplified copy of ``model``; tensors are shared with it, the graph is not."""
    copy = model.clone()
    _lift(copy)
    mark_weights(copy)
    sort_nodes(copy)
    passes.RemoveInitializersFromInputsPass()(copy)
    _drop_casts_to_the_same(copy)
    _drop_identities(copy)
    drop_unused(copy)
    fold_constants(copy)
    infer_shapes_anew(copy)
    while write_out(copy) | _shape_as_input(copy):  # one needs to know what another one gives
        infer_shapes(copy)
    # Folding reveals shapes and shapes reveal what can be folded; each round settles one more link of such a chain.
    for _ in range(MOST_ROUNDS):
        ranked = _rank_reshapes(copy)
        _drop_casts_to_the_same(copy)
        folded = fold_shapes(copy)
        if not (fold_constants(copy) or take_branches(copy) or drop_noops(copy) or split_sequences(copy) or folded or ranked):
            break
        infer_shapes(copy)
    _drop_identities(copy)
    _drop_zero_biases(copy)
    _drop_zero_states(copy)
    drop_unused(copy)
    return copy


def mark_weights(model: ir.Model) -> tuple[WeightLink, ...]:
    """Give every float weight its identity; weights that have one keep it.

    A weight is a float initializer with more than one element, or with one where an operator takes it that has weights or
    the source calls it a parameter; but none that has no place in its source, where it could not be written back.

    Returns:
        An identity link for each weight: its name is its source.
    """
    links = []
    for graph in graphs(model):
        for value in graph.initializers.values():
            tensor = value.const_value
            source = value.metadata_props.get(SOURCE_KEY, value.name)
            if tensor is None or tensor.dtype not in _FLOATS or not source:
                continue
            uses = list(value.uses())
            if uses and all(use.idx >= _NOT_WEIGHTS.get(op_name(use.node), use.idx + 1) for use in uses):
                continue
            said = value.metadata_props.get(ROLE_KEY) in PARAMETERS
            if tensor.size > 1 or (tensor.size == 1 and (said or any(op_name(use.node) in _TAKE_WEIGHTS for use in uses))):
                links.append(WeightLink(name := value.metadata_props.setdefault(WEIGHT_KEY, source), name))
    return tuple(links)


def _shape_as_input(model: ir.Model) -> bool:
    """Give values the shape of what they are computed from where inference does not know the operator; whether any got one."""
    found = False
    for graph in graphs(model):
        for node in graph:
            source = node.inputs[0] if node.inputs and op_name(node) in _KEEP_SHAPE else None
            if source is not None and source.shape is not None and node.outputs[0].shape is None:
                node.outputs[0].shape, node.outputs[0].type = source.shape.copy(), source.type
                found = True
    return found


def _rank_reshapes(model: ir.Model) -> bool:
    """Where the length of a Reshape's target is known, so is the rank of its result, which inference does not say."""
    ranked = False
    for graph in graphs(model):
        for node in specified(model, graph):
            if node.op_type not in ("Reshape", "ConstantOfShape") or node.outputs[0].shape is not None:
                continue
            target = node.inputs[-1]
            if node.op_type == "Reshape" and len(node.inputs) < 2:
                continue  # old opsets have the target in an attribute
            length = target.shape[0] if target is not None and target.shape is not None and len(target.shape) == 1 else None
            if isinstance(length, int) and 0 <= length <= MOST_AXES:
                node.outputs[0].shape = ir.Shape([None] * length)
                ranked = True
    return ranked


def _lift(model: ir.Model) -> None:
    try:
        passes.InlinePass()(model)
        # A Constant's tensor may carry the name of something else; the value's name is the identity.
        passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    except (ValueError, RuntimeError, ir.passes.InvariantError) as error:
        raise ConversionError(f"The model's functions and constants cannot be written out: {error}") from error


def _drop_identities(model: ir.Model) -> None:
    """Take out Identity nodes, but for those that stop gradients."""
    if len(graphs(model)) > 1:  # the pass fails where a branch hands out a value from outside it
        return
    stops = [node for node in model.graph if stops_gradient(node)]
    for node in stops:
        node.op_type = _STOP
    try:
        passes.IdentityEliminationPass()(model)
    except ValueError as error:
        raise CorruptModelError(f"The model gives one value two shapes, before and behind an Identity: {error}") from error
    finally:
        for node in stops:
            node.op_type = "Identity"


def _drop_zero_biases(model: ir.Model) -> None:
    """Take out biases that the graph itself computes as zeros: torch's exporter gives one to a convolution without a bias."""
    for graph in graphs(model):
        for node in specified(model, graph):
            bias = node.inputs[2] if node.op_type in ("Conv", "ConvTranspose") and len(node.inputs) == 3 else None
            if bias is not None and bias.const_value is not None and not is_weight(bias) and not bias.const_value.numpy().any():
                node.resize_inputs(2)


def _drop_zero_states(model: ir.Model) -> None:
    """Take out zeros as the first states of a recurrence, which are the default and fix the batch, unless they are learned."""
    for graph in graphs(model):
        for node in (n for n in specified(model, graph) if n.op_type in _RECURRENT):
            for position, state in enumerate(node.inputs[_STATES], _STATES.start):
                if state is not None and _is_zero(state):
                    node.replace_input_with(position, None)


def _is_zero(value: ir.Value | None) -> bool:
    """Whether all elements are zeros that nobody has learned, moved and repeated as may be."""
    if value is None or value.metadata_props.get(ROLE_KEY) in PARAMETERS:
        return False
    if value.const_value is not None:
        return not value.const_value.numpy().any()
    node = value.producer()
    if node is None or node.domain not in DEFAULT_DOMAINS:
        return False
    if node.op_type == "ConstantOfShape":
        return "value" not in node.attributes or not node.attributes["value"].as_tensor().numpy().any()
    return node.op_type in _MOVE_ZEROS and all(
        _is_zero(i) for i in (node.inputs if node.op_type == "Concat" else node.inputs[:1])
    )


def _drop_casts_to_the_same(model: ir.Model) -> None:
    """Casts that change nothing become Identity, so that a weight behind one is seen as a weight."""
    for node in (n for graph in graphs(model) for n in specified(model, graph)):
        if node.op_type not in ("Cast", "CastLike"):
            continue
        source = node.inputs[0]
        if node.op_type == "Cast":
            wanted: ir.DataType | None = ir.DataType(node.attributes["to"].as_int())
        else:
            wanted = None if node.inputs[1] is None else node.inputs[1].dtype
        if source is None or wanted is None:
            continue
        if node.op_type == "CastLike":  # how it saturates and rounds are attributes of Cast as well
            node.resize_inputs(1)
            node.op_type = "Cast"
            node.attributes["to"] = ir.AttrInt64("to", wanted.value)
        if source.dtype is wanted:
            for name in list(node.attributes):
                node.attributes.pop(name)
            node.op_type = "Identity"
