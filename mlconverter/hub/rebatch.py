"""Free the batch of a graph whose batch is baked to 1.

This *proposes* a graph with a free batch, and refuses where an operator is known to mix its items. Whether what is
proposed treats every item by itself is for the caller to prove by running it, see
:func:`mlconverter.verification.batch_failure`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from mlconverter.errors import ConversionError
from mlconverter.hub import batch_layers, batch_ml, batch_rules  # noqa: F401  (they register their rules)
from mlconverter.hub.batch_axis import Batch, Mixes, Op, Shape, follow
from mlconverter.hub.model import BATCH, HubModel
from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import Call, call_of, op_name, opset_of, version_of
from mlconverter.hub.normalise import normalise
from mlconverter.hub.walk import graphs_of
from mlconverter.signature import TensorSpec


def batch_is_baked(hub: HubModel) -> bool:
    """Whether every input and output has a first axis of exactly 1; of some outputs the model may not say the shape."""
    return unbaked(hub) is None


def unbaked(hub: HubModel) -> str | None:
    """What at the border is not as a baked batch is, in words; ``None`` where everything is."""
    if not hub.signature.inputs:
        return "the model has no input"
    for spec in hub.signature.inputs:
        if spec.shape is None or spec.shape[:1] != (1,):
            return f"the first axis of the input {spec} is no batch of 1"
    for spec in hub.signature.outputs:
        if spec.shape is not None and spec.shape[:1] != (1,):
            return f"the first axis of the output {spec} is no batch of 1"
    return None


def free_batch(hub: HubModel) -> HubModel:
    """The model with a free first axis of every input, and of every output that depends on one: a normalised copy.

    Constant targets of Reshape are adapted to the batch.

    Raises:
        ConversionError: an operator mixes the items of a batch, or nobody can tell where it leaves them.
    """
    model = normalise(hub.model)
    graph, names = model.graph, Names(model)
    batches: dict[ir.Value, Batch] = {v: Batch(0) for v in graph.inputs if v.name not in graph.initializers}
    for node in graph:
        try:
            op = _op(node, batches, model.opset_imports)
            found = follow(op)
            for value, batch, shape in zip(node.outputs, found, op.results, strict=True):
                if batch is not None and value.name:
                    batches[value] = _checked(batch, shape)
            if node.op_type == "Reshape" and found[0] is not None and op.batches[0] is not None:
                _adapt(graph, node, op, op.batches[0], found[0], names)
        except Mixes as reason:
            raise ConversionError(f"{op_name(node)} '{node.name or node.outputs[0].name}' {reason}") from reason
    outputs = tuple(_freed(s, batches.get(v)) for s, v in zip(hub.signature.outputs, graph.outputs, strict=True))
    inputs = tuple(_freed(s, Batch(0)) for s in hub.signature.inputs)
    for value, batch in batches.items():
        assert value.shape is not None
        free = ir.SymbolicDim(BATCH if batch.rows == 1 else None)
        value.shape = ir.Shape([free if axis == batch.axis else d for axis, d in enumerate(value.shape)])
    return replace(hub, model=model, signature=replace(hub.signature, inputs=inputs, outputs=outputs))


def _op(node: ir.Node, batches: dict[ir.Value, Batch], opsets: dict[str, int]) -> Op:
    if graphs_of(node):
        raise Mixes("runs graphs of its own, in which the batch is not followed")
    version = version_of(node, opsets)
    if version is None:
        call = Call(op_name(node), 0, tuple(node.inputs), {})
    else:
        call = call_of(node, opset_of(node, opsets), version)
    values = [v if isinstance(v, ir.Value) else None for v in call.inputs]
    return Op(
        call,
        tuple(None if v is None else batches.get(v) for v in values),
        tuple(v.shape if isinstance(v, np.ndarray) else _shape(v) for v in call.inputs),
        tuple(_shape(v) for v in node.outputs),
    )


def _shape(value: ir.Value | None) -> Shape | None:
    if value is None or value.shape is None:
        return None
    return tuple(d if isinstance(d, int) and d >= 0 else None for d in value.shape)


def _checked(batch: Batch, shape: Shape | None) -> Batch:
    """The batch; whatever a rule says, the axis that it names has to be as long as one item is."""
    if shape is None or not batch.axis < len(shape) or shape[batch.axis] != batch.rows:
        raise Mixes(f"gives a value of shape {shape}, in which the batch is lost")
    return batch


def _adapt(graph: ir.Graph, node: ir.Node, op: Op, before: Batch, after: Batch, names: Names) -> None:
    """Let the target of a Reshape say the sizes of one item, and leave the batch free."""
    target = op.ints(1) or []
    sizes = [given if size is None else size for given, size in zip(target, op.result, strict=True)]
    inferred = [axis for axis, size in enumerate(op.result) if size is None and target[axis] != 0]
    if not inferred:
        sizes[after.axis] = -1
    elif before == after and not op.attribute("allowzero"):
        sizes[after.axis] = 0  # as long as in the data; -1 is taken by a size that only a run will tell
    else:
        raise Mixes("has two sizes that are known at run time only")
    values = np.array(sizes, np.int64)
    if len(node.inputs) < 2:
        node.attributes["shape"] = ir.AttrInt64s("shape", sizes)
        return
    name = names.new(f"{node.outputs[0].name}_free_shape")
    value = ir.Value(
        name=name, shape=ir.Shape((len(sizes),)), type=ir.TensorType(ir.DataType.INT64), const_value=ir.tensor(values, name=name)
    )
    graph.register_initializer(value)
    node.replace_input_with(1, value)


def _freed(spec: TensorSpec, batch: Batch | None) -> TensorSpec:
    """The spec with its batch free, or as it was where it has none."""
    if batch is None or spec.shape is None:
        return spec
    if batch != Batch(0):
        raise ConversionError(f"'{spec.name}' has its batch along axis {batch.axis}, {batch.rows} rows an item.")
    return replace(spec, shape=(BATCH, *spec.shape[1:]))
