"""A model under a newer opset, where all its operators mean the same there."""

from __future__ import annotations

import onnx_ir as ir

from mlconverter.hub.nodes import DEFAULT_DOMAINS, schema
from mlconverter.hub.walk import graphs

_OLDEST = 7
"""The opset since which operands are broadcast as they are now."""

_SPLIT_SAYS_HOW = 18
"""The opset since which a Split says into how many parts it goes."""


def raise_opset(model: ir.Model, opset: int) -> str | None:
    """Say that a model is of a newer opset, in place.

    Returns:
        Why it is not, ``None`` where it is.
    """
    current = model.opset_imports.get("", 1)
    if current >= opset:
        return None
    if current < _OLDEST:
        return f"operands are broadcast in another way at opset {current}"
    nodes = [n for g in graphs(model) for n in g if n.domain in DEFAULT_DOMAINS]
    other = next((n for n in nodes if not _same(n, current, opset)), None)
    if other is not None:
        return f"{other.op_type} '{other.name}' is written in another way there"
    model.opset_imports[""] = opset
    for node in nodes:
        if node.version is not None and node.version <= opset:
            node.version = None
    model.ir_version = max(model.ir_version, 10)  # readers of older files know no newer opsets
    return None


def _same(node: ir.Node, current: int, opset: int) -> bool:
    """Whether all that was added to an operator is optional, with a default, and nothing else has changed but types."""
    old, new = schema(node.op_type, "", node.version or current), schema(node.op_type, "", opset)
    if old is None or new is None or new.deprecated:
        return False
    if old.since_version == new.since_version:
        return True
    if node.op_type == "Split" and current < _SPLIT_SAYS_HOW and len(node.inputs) < 2:
        return False
    names = [i.name for i in old.inputs]
    if [i.name for i in new.inputs][: len(names)] != names or (len(old.outputs) != len(new.outputs) and len(node.outputs) > 1):
        return False
    if any(i.option is not type(i.option).Optional for i in new.inputs[len(names) :]):
        return False
    for name, attribute in old.attributes.items():
        if name not in new.attributes or new.attributes[name].default_value != attribute.default_value:
            return False
    return not any(a.required for name, a in new.attributes.items() if name not in old.attributes)
