"""Make a graph simple before it is translated, without touching a weight.

After :func:`normalise` there are no functions, no Constant nodes, no Identity, no unused nodes, no node whose
inputs are all constants without weights, nodes stand in topological order, and shapes are inferred as far as they can be.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import numpy as np
import onnx_ir as ir
import onnx_ir.passes.common as passes

from mlconverter.hub.evaluate import LARGEST, evaluate, evaluates
from mlconverter.hub.model import WEIGHT_KEY
from mlconverter.hub.nodes import DEFAULT_DOMAINS, call_of, op_name, opset_of, version_of
from mlconverter.hub.weights import WeightLink

_TAKE_WEIGHTS = frozenset(
    "Conv ConvTranspose Gemm MatMul BatchNormalization InstanceNormalization LayerNormalization GroupNormalization "
    "RMSNormalization PRelu LSTM GRU RNN".split()
)
"""Operators for which even a one-element operand is a weight (the bias of a convolution with one output channel)."""

_NOT_WEIGHTS = {
    **dict.fromkeys("Resize Upsample QuantizeLinear DequantizeLinear OneHot Clip Pad".split(), 1),
    "Range": 0,
}
"""Operators whose inputs from this position on are settings, not weights."""

MOST_ROUNDS = 16

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE})


def normalise(model: ir.Model) -> ir.Model:
    """A simplified copy of ``model``; tensors are shared with it, the graph is not."""
    copy = model.clone()
    _lift(copy)
    mark_weights(copy)
    passes.TopologicalSortPass()(copy)
    passes.RemoveInitializersFromInputsPass()(copy)
    _drop_casts_to_the_same(copy)
    _drop_identities(copy)
    passes.RemoveUnusedNodesPass()(copy)
    _split_sequences(copy)
    fold_constants(copy)
    infer_shapes(copy)
    # Folding reveals shapes and shapes reveal what can be folded; each round settles one more link of such a chain.
    for _ in range(MOST_ROUNDS):
        ranked = _rank_reshapes(copy)
        _drop_casts_to_the_same(copy)
        folded = fold_shapes(copy)
        if not (fold_constants(copy) or folded or ranked):
            break
        infer_shapes(copy)
    _drop_identities(copy)
    _drop_zero_biases(copy)
    passes.RemoveUnusedNodesPass()(copy)
    return copy


def mark_weights(model: ir.Model) -> tuple[WeightLink, ...]:
    """Give every float weight its identity; weights that have one keep it.

    A weight is a float initializer with more than one element, or with one where an operator takes it that has weights.

    Returns:
        An identity link for each weight: its name is its source.
    """
    links = []
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is None or tensor.dtype not in _FLOATS:
                continue
            uses = list(value.uses())
            if uses and all(use.idx >= _NOT_WEIGHTS.get(op_name(use.node), use.idx + 1) for use in uses):
                continue
            if tensor.size > 1 or (tensor.size == 1 and any(op_name(use.node) in _TAKE_WEIGHTS for use in uses)):
                links.append(WeightLink(name := value.metadata_props.setdefault(WEIGHT_KEY, value.name or ""), name))
    return tuple(links)


def is_weight(value: ir.Value | None) -> bool:
    """Whether a value is an initializer that holds a weight."""
    return value is not None and WEIGHT_KEY in value.metadata_props


def infer_shapes(model: ir.Model) -> None:
    """Infer shapes in place; what cannot be inferred keeps the shape it has."""
    # The pass reports what it fails at by log lines with tracebacks; translators check what they need themselves.
    loggers = [logging.getLogger(name) for name in ("onnx_ir.passes.common.shape_inference", "onnx_ir.serde")]
    disabled = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        passes.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
    finally:
        for logger, before in zip(loggers, disabled, strict=True):
            logger.disabled = before


def _is_plain(value: ir.Value) -> bool:
    return value.const_value is not None and not is_weight(value) and value.const_value.size <= LARGEST


def fold_constants(model: ir.Model) -> bool:
    """Replace nodes whose inputs are all constants without weights by their value; whether anything was."""
    folded = False
    for graph in model.graphs():
        for node in list(graph):
            if node.domain not in DEFAULT_DOMAINS or not evaluates(node.op_type) or not node.outputs:
                continue
            if not all(i is None or _is_plain(i) for i in node.inputs):
                continue
            version = version_of(node, model.opset_imports)
            if version is None or any(o.is_graph_output() for o in node.outputs):
                continue
            call = call_of(node, opset_of(node, model.opset_imports), version)
            try:
                arrays = [_array(i) for i in call.inputs]
                attributes = dict(call.attributes)
                if node.op_type == "Split" and len(call.inputs) < 2:
                    attributes["num_outputs"] = len(node.outputs)
                with np.errstate(all="ignore"):
                    results = evaluate(node.op_type, arrays, attributes)
            except TypeError:
                continue  # a dtype or size that evaluation leaves to the run time
            _replace(graph, node, results)
            folded = True
    return folded


class _Free:
    """A size that is not known yet: whatever is computed from it is not known either."""

    def __add__(self, other: object) -> _Free:
        return self

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __add__


def fold_shapes(model: ir.Model) -> bool:
    """Replace what is computed from shapes by constants as far as the sizes in it are fixed; whether anything was.

    Sizes are followed element by element: of ``Shape(x) = [batch, 3, 224]`` the part ``[1:]`` folds although ``batch`` is free.
    """
    folded = False
    free = _Free()
    for graph in model.graphs():
        known: dict[ir.Value, np.ndarray] = {}
        for node in list(graph):
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


def _sizes_of(node: ir.Node, known: dict[ir.Value, np.ndarray], free: _Free, opsets: dict[str, int]) -> np.ndarray | None:
    """The one output of a node as an array of sizes, some of them free; ``None`` where it is no such thing."""
    if node.domain not in DEFAULT_DOMAINS or len(node.outputs) != 1 or not node.inputs or node.inputs[0] is None:
        return None
    if node.op_type in ("Shape", "Size"):
        shape = node.inputs[0].shape
        if shape is None:
            return None
        sizes = np.array([d if isinstance(d, int) and d >= 0 else free for d in shape], object)
        if node.op_type == "Size":
            return np.array(np.prod(sizes), object)
        start = node.attributes["start"].as_int() if "start" in node.attributes else 0
        end = node.attributes["end"].as_int() if "end" in node.attributes else len(sizes)
        return sizes[start:end]
    if not any(i in known for i in node.inputs if i is not None) or not evaluates(node.op_type, symbolic=True):
        return None
    if any(i is not None and i not in known and (i.const_value is None or is_weight(i)) for i in node.inputs):
        return None
    version = version_of(node, opsets)
    if version is None:
        return None
    call = call_of(node, opset_of(node, opsets), version)
    arrays = [known[i] if isinstance(i, ir.Value) and i in known else _array(i) for i in call.inputs]
    try:
        return evaluate(node.op_type, arrays, call.attributes)[0]
    except TypeError:
        return None  # depends on a free size in a way that only the run time can tell


def _rank_reshapes(model: ir.Model) -> bool:
    """Where the length of a Reshape's target is known, so is the rank of its result, which inference does not say."""
    ranked = False
    for graph in model.graphs():
        for node in graph:
            if node.op_type not in ("Reshape", "ConstantOfShape") or node.outputs[0].shape is not None:
                continue
            target = node.inputs[-1]
            if target is not None and target.shape is not None and len(target.shape) == 1 and isinstance(target.shape[0], int):
                node.outputs[0].shape = ir.Shape([None] * target.shape[0])
                ranked = True
    return ranked


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


def _lift(model: ir.Model) -> None:
    passes.InlinePass()(model)
    # A Constant's tensor may carry the name of something else; the value's name is the identity.
    passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)


def _drop_identities(model: ir.Model) -> None:
    if sum(1 for _ in model.graphs()) == 1:  # the pass fails where a branch hands out a value from outside it
        passes.IdentityEliminationPass()(model)


def _drop_zero_biases(model: ir.Model) -> None:
    """Take out biases that the graph itself computes as zeros: torch's exporter gives one to a convolution without a bias."""
    for graph in model.graphs():
        for node in graph:
            bias = node.inputs[2] if node.op_type in ("Conv", "ConvTranspose") and len(node.inputs) == 3 else None
            if bias is not None and bias.const_value is not None and not is_weight(bias) and not bias.const_value.numpy().any():
                node.resize_inputs(2)


def _drop_casts_to_the_same(model: ir.Model) -> None:
    """Casts that change nothing become Identity, so that a weight behind one is seen as a weight."""
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.domain not in DEFAULT_DOMAINS or node.op_type not in ("Cast", "CastLike"):
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


def _split_sequences(model: ir.Model) -> None:
    """``SplitToSequence → SequenceAt(constant)`` becomes ``Split``: torch's exporter writes ``chunk`` so."""
    for graph in model.graphs():
        for node in list(graph):
            if node.op_type != "SplitToSequence" or node.domain not in DEFAULT_DOMAINS or node.outputs[0].is_graph_output():
                continue
            readers = list(node.outputs[0].consumers())
            picks = [_constant_index(reader) for reader in readers]
            sizes = _split_sizes(node)
            if sizes is None or any(p is None or not -len(sizes) <= p < len(sizes) for p in picks):
                continue
            axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
            split = ir.Value(
                name=f"{node.outputs[0].name}_sizes",
                shape=ir.Shape((len(sizes),)),
                type=ir.TensorType(ir.DataType.INT64),
                const_value=ir.tensor(np.array(sizes, np.int64)),
            )
            graph.register_initializer(split)
            along = [ir.AttrInt64("axis", axis)]
            parts = ir.Node("", "Split", [node.inputs[0], split], along, num_outputs=len(sizes), name=node.name)
            graph.insert_before(node, parts)
            for i, part in enumerate(parts.outputs):
                part.name = f"{node.outputs[0].name}_{i}"
            for reader, pick in zip(readers, picks, strict=True):
                assert pick is not None
                part = parts.outputs[pick]
                part.type, part.shape = reader.outputs[0].type, reader.outputs[0].shape
                reader.outputs[0].replace_all_uses_with(part, replace_graph_outputs=True)
                graph.remove(reader, safe=True)
            graph.remove(node, safe=True)


def _constant_index(node: ir.Node) -> int | None:
    position = node.inputs[1] if node.op_type == "SequenceAt" else None
    return None if position is None or position.const_value is None else int(position.const_value.numpy())


def _split_sizes(node: ir.Node) -> list[int] | None:
    """Sizes of the parts where they are known: from the second input, as one size or a list of them."""
    data, split = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    if split is None or split.const_value is None:
        return None
    sizes = split.const_value.numpy()
    if sizes.ndim:
        return [int(s) for s in sizes]
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
    total = None if data is None or data.shape is None else data.shape[axis]
    if not isinstance(total, int):
        return None
    size = int(sizes)
    return [min(size, total - start) for start in range(0, total, size)]
