"""Element types and shapes of what the operators of ``ai.onnx.ml`` give.

Inference of whole graphs takes for granted that types of their inputs are known, and ends the process where one is not.
Here one node after the other is inferred, those alone whose inputs are known, and hidden while the others are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import onnx_ir as ir

from mlconverter.hub.nodes import schema

DOMAIN = "ai.onnx.ml"
_HIDDEN = "mlconverter.hidden"

_AS_INPUT = frozenset("Scaler Normalizer Imputer".split())
"""Operators that keep the shape of their input, which the specification's inference does not say."""

_RANKS: dict[str, Sequence[int]] = {
    "FeatureVectorizer": (2,),
    "LinearRegressor": (2,),
    "SVMRegressor": (2,),
    "SVMClassifier": (1, 2),
}
"""How many axes the outputs of an operator have, the rows of its input along the first."""


@contextmanager
def hidden(nodes: Iterable[ir.Node], model: ir.Model) -> Iterator[None]:
    """Nodes as operators that nobody knows."""
    kept = list(nodes)
    model.opset_imports[_HIDDEN] = 1
    for node in kept:
        node.domain = _HIDDEN
    try:
        yield
    finally:
        for node in kept:
            node.domain = DOMAIN
        model.opset_imports.pop(_HIDDEN)


def infer_types(nodes: Iterable[ir.Node], opsets: dict[str, int]) -> bool:
    """Give the outputs of nodes their types and shapes, as far as those of their inputs are known; whether that is news."""
    news = False
    for node in nodes:
        if all(value.type is not None and value.shape is not None for value in node.outputs):
            continue
        for value, (kind, shape) in _inferred(node, opsets).items():
            if value.type is None:
                value.type, news = ir.TensorType(kind), True
            if value.shape is None and shape is not None:
                value.shape, news = shape, True
    return news


def _inferred(node: ir.Node, opsets: dict[str, int]) -> dict[ir.Value, tuple[ir.DataType, ir.Shape | None]]:
    from onnx import TypeProto, helper
    from onnx.shape_inference import InferenceError, infer_node_outputs

    inputs = [value for value in node.inputs if value is not None]
    found = schema(node.op_type, DOMAIN, opsets.get(DOMAIN, 1))
    if found is None or any(value.type is None for value in inputs):
        return {}
    given: dict[str, TypeProto] = {value.name or "": ir.to_proto(value).type for value in inputs}
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        results = infer_node_outputs(found, ir.to_proto(node), given, opset_imports=imports)
    except InferenceError:
        return {}  # what is wrong with it is said by whoever runs or translates it
    types = {}
    for position, value in enumerate(node.outputs):
        result = results.get(value.name or "")
        if result is not None and result.HasField("tensor_type"):
            kind = ir.DataType(result.tensor_type.elem_type)
            types[value] = (kind, ir.serde.deserialize_type_proto_for_shape(result) or _shape(node, position))
    return types


def _shape(node: ir.Node, position: int) -> ir.Shape | None:
    of = node.inputs[0].shape if node.inputs and node.inputs[0] is not None else None
    if of is None:
        return None
    if node.op_type in _AS_INPUT:
        return of
    rank = _RANKS.get(node.op_type, ())[position : position + 1]
    return ir.Shape([of[0] if len(of) > 1 else None, *[None] * (rank[0] - 1)]) if rank else None
