"""Whether a node of a protobuf is as the specification has its operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import onnx_ir as ir

from mlconverter.hub import sparse

if TYPE_CHECKING:
    import onnx

ELEMENT_TYPES = frozenset(d.value for d in ir.DataType) - {0}

_NAME_ELEMENT_TYPES = frozenset("to dtype output_dtype output_datatype stash_type precision softmax_precision".split())
"""Integer attributes that stand for an element type."""

_MESSAGES = {
    ir.AttributeType.TENSOR.value: "t",
    ir.AttributeType.GRAPH.value: "g",
    ir.AttributeType.SPARSE_TENSOR.value: "sparse_tensor",
    ir.AttributeType.TYPE_PROTO.value: "tp",
}
"""Types of attributes that have no value where this field is absent; of others an absent field is a zero."""


def attributes_problem(node: onnx.NodeProto, *, in_function: bool) -> str | None:
    """What no operator's attributes can be.

    Args:
        node: of any operator.
        in_function: whether attributes can refer to those of a function.
    """
    twice = [name for name, count in Counter(a.name for a in node.attribute).items() if count > 1]
    if twice:
        return f"has the attribute '{twice[0]}' more than once"
    for attribute in node.attribute:
        field = _MESSAGES.get(attribute.type)
        if attribute.ref_attr_name and not in_function:
            return "refers to an attribute of a function outside of any function"
        if field is not None and not attribute.ref_attr_name and not attribute.HasField(field):
            return f"has an attribute '{attribute.name}' without a value"
    return None


def schema_problem(node: onnx.NodeProto, found: onnx.defs.OpSchema) -> str | None:
    """How a node differs from the schema of its operator."""
    for attribute in node.attribute:
        problem = _attribute_problem(attribute, found)
        if problem is not None:
            return problem
    for name, wanted in found.attributes.items():
        if wanted.required and all(attribute.name != name for attribute in node.attribute):
            return f"has no attribute '{name}'"
    if found.domain == "" and found.name == "Constant" and len(node.attribute) != 1:
        return f"has {len(node.attribute)} values"
    for what, everything, least, most in (
        ("inputs", node.input, found.min_input, found.max_input),
        ("outputs", node.output, found.min_output, found.max_output),
    ):
        there = _given(everything)
        if len(everything) < least or len(there) > most:  # Loop needs two inputs, and both may be left out
            return f"has {len(there)} {what}, and the specification {least} to {most}"
    needed = [i.name for i, name in zip(found.inputs, node.input, strict=False) if not name and i.option == i.option.Single]
    return f"lacks its input '{needed[0]}'" if needed else None


def _given(names: Iterable[str]) -> list[str]:
    """Names up to the last one that is not left out."""
    given = list(names)
    while given and not given[-1]:
        given.pop()
    return given


def _attribute_problem(attribute: onnx.AttributeProto, found: onnx.defs.OpSchema) -> str | None:
    wanted = found.attributes.get(attribute.name)
    if wanted is None:
        # The specification leaves names with two underscores to tools.
        return None if attribute.name.startswith("__") else f"has an attribute '{attribute.name}' that it cannot have"
    given, kind = ir.AttributeType(attribute.type), ir.AttributeType(int(cast(Any, wanted.type)))
    if given is not kind:
        return f"has an attribute '{attribute.name}' of type {given.name.lower()} instead of {kind.name.lower()}"
    if attribute.ref_attr_name:
        return None
    try:
        _ = [text.decode() for text in (attribute.s, *attribute.strings)]
    except UnicodeDecodeError:
        return f"has an attribute '{attribute.name}' that is no text in UTF-8"
    if kind is ir.AttributeType.SPARSE_TENSOR and (problem := sparse.problem(attribute.sparse_tensor)) is not None:
        return f"has an attribute '{attribute.name}', and {problem}"
    if attribute.name in _NAME_ELEMENT_TYPES and kind is ir.AttributeType.INT:
        unset = attribute.i == 0 and wanted.default_value.name and wanted.default_value.i == 0
        if attribute.i not in ELEMENT_TYPES and not unset:
            return f"has an attribute '{attribute.name}' of {attribute.i}, which is no element type"
    return None
