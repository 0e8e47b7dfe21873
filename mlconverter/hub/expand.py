"""Operators that the specification itself writes in terms of others: translated as what they are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import onnx_ir.passes.common as passes

from mlconverter.hub.model import SOURCE_KEY
from mlconverter.hub.nodes import attributes_of, op_name, opset_of, schema, version_of
from mlconverter.hub.normalise import normalise
from mlconverter.hub.quiet import quiet
from mlconverter.registry import OpRegistry

if TYPE_CHECKING:
    from onnx import FunctionProto, NodeProto

DOMAIN = "mlconverter.body"
DEEPEST = 8
"""Bodies may use operators that have bodies themselves."""


def expand(model: ir.Model, translates: OpRegistry) -> ir.Model:
    """The normalised model with operators that have no translator written out as the specification does.

    Args:
        model: it is changed.
        translates: the operators of a route.
    """
    for _ in range(DEEPEST):
        if not _expand_once(model, translates):
            break
        model = normalise(model)  # a body depends on types, which shape inference finds
    return model


def _expand_once(model: ir.Model, translates: OpRegistry) -> bool:
    """One level of bodies, in place; whether there were any."""
    calls = 0
    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        version = version_of(node, model.opset_imports)
        if version is None or translates.find(op_name(node), version) is not None or translates.versions(op_name(node)):
            continue
        opset = opset_of(node, model.opset_imports)
        with quiet():
            proto = _body(node, opset, f"{node.op_type}_{calls}")
        if proto is None:
            continue
        kept = _computed(proto, node)
        body = ir.serde.deserialize_function(proto)
        _keep_version(body, model.opset_imports)
        for constant in (inner for inner in body if inner.op_type == "Constant"):
            constant.outputs[0].metadata_props[SOURCE_KEY] = ""  # the file has none of that name to write back to
        _fill_defaults(node, opset)
        node.resize_inputs(len(body.inputs))
        attributes = [a for a in node.attributes.values() if a.type is not ir.AttributeType.GRAPH]
        call = ir.Node(DOMAIN, body.name, node.inputs, attributes, num_outputs=len(kept), name=node.name)
        _replace(node, kept, call)
        model.functions[body.identifier()] = body
        calls += 1
    if calls:
        model.opset_imports[DOMAIN] = 1
        passes.InlinePass()(model)
        model.opset_imports.pop(DOMAIN, None)
        # The names of a body are the same wherever it is written out.
        passes.NameFixPass()(model)
    return calls > 0


def _keep_version(body: ir.Function, opsets: dict[str, int]) -> None:
    """Have the nodes of a body say under which opset they are read; only one of the model's own can be inlined."""
    for domain, version in body.opset_imports.items():
        if version == opsets.setdefault(domain, version):
            continue
        for inner in ir.traversal.RecursiveGraphIterator(body):
            if inner.domain == domain and inner.version is None:
                inner.version = version
        body.opset_imports[domain] = opsets[domain]


def _replace(node: ir.Node, kept: list[ir.Value], call: ir.Node) -> None:
    assert node.graph is not None
    node.graph.insert_after(node, call)
    for old, new in zip(kept, call.outputs, strict=True):
        new.type, new.shape = old.type, old.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        new.name, old.name = old.name, None
    node.graph.remove(node, safe=True)


def _body(node: ir.Node, opset: int, name: str) -> FunctionProto | None:
    """The body of a node as a function of its own; ``None`` where the specification has none for these inputs."""
    from onnx import FunctionProto, TypeProto

    found: Any = schema(node.op_type, node.domain, opset)  # its stubs know nothing of functions
    if found is None:
        return None
    proto = FunctionProto()
    if found.has_function:
        text = found.get_function_with_opset_version(max(found.function_opset_versions, default=0))
    elif found.has_context_dependent_function:
        types = []
        for value in node.inputs:
            described = TypeProto()
            if value is not None and value.type is not None:
                described.CopyFrom(ir.to_proto(value).type)
            types.append(described.SerializeToString())
        version = max(found.context_dependent_function_opset_versions, default=0)
        text = found.get_context_dependent_function_with_opset_version(version, ir.to_proto(node).SerializeToString(), types)
    else:
        return None
    if not text:
        return None
    proto.ParseFromString(text)
    proto.domain, proto.name = DOMAIN, name
    return proto if _stands_alone(proto) else None


def _stands_alone(proto: FunctionProto) -> bool:
    """Whether a body reads nothing from outside: graphs of its node that it has taken over may."""
    return _closed(proto.node, {"", *proto.input})


def _closed(nodes: Iterable[NodeProto], known: set[str]) -> bool:
    """Whether nodes read nothing but what is known and what they themselves give, their graphs included."""
    known = known.union(name for node in nodes for name in node.output)
    return all(
        all(name in known for name in node.input)
        and all(
            _closed(a.g.node, known.union(v.name for v in (*a.g.input, *a.g.initializer)))
            for a in node.attribute
            if a.HasField("g")
        )
        for node in nodes
    )


def _computed(proto: FunctionProto, node: ir.Node) -> list[ir.Value]:
    """The outputs of a node that its body computes; the body loses the others, optional ones that the node does not ask for."""
    computed = {*proto.input, *(name for inner in proto.node for name in inner.output)}
    pairs = [(name, value) for name, value in zip(proto.output, node.outputs, strict=False) if name in computed]
    del proto.output[:]
    proto.output.extend(name for name, _ in pairs)
    return [value for _, value in pairs]


def _fill_defaults(node: ir.Node, opset: int) -> None:
    """The body refers to attributes that the node leaves to their defaults."""
    for name, value in attributes_of(node, opset).items():
        if name not in node.attributes:
            node.attributes[name] = ir.convenience.convert_attribute(name, value)
