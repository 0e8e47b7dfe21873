"""A model under a newer opset, where all its operators mean the same there."""

from __future__ import annotations

import onnx_ir as ir

from mlconverter.hub.nodes import DEFAULT_DOMAINS, schema
from mlconverter.hub.walk import graphs

_OLDEST = 13
"""The opset from which on operators gained types and attributes, and hardly any changed its meaning."""

_SPLIT_SAYS_HOW = 18
"""The opset since which a Split says into how many parts it goes."""


def raise_opset(model: ir.Model, opset: int) -> bool:
    """Say that a model is of a newer opset, in place; whether it is, which needs every operator to mean the same there."""
    current = model.opset_imports.get("", 1)
    if current >= opset:
        return True
    if current < _OLDEST or not all(_same(n, current, opset) for g in graphs(model) for n in g if n.domain in DEFAULT_DOMAINS):
        return False
    model.opset_imports[""] = opset
    for node in (n for graph in graphs(model) for n in graph):
        if node.domain in DEFAULT_DOMAINS and node.version is not None and node.version <= opset:
            node.version = None
    # What reads the file has to know an opset that is newer than its format.
    model.ir_version = max(model.ir_version, 10)
    return True


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
    if [i.name for i in new.inputs][: len(names)] != names or len(old.outputs) != len(new.outputs):
        return False
    if any(i.option is not type(i.option).Optional for i in new.inputs[len(names) :]):
        return False
    for name, attribute in old.attributes.items():
        if name not in new.attributes or new.attributes[name].default_value != attribute.default_value:
            return False
    return not any(a.required for name, a in new.attributes.items() if name not in old.attributes)
