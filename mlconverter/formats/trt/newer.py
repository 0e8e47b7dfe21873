"""A model under a newer opset, where all its operators mean the same there, or are written otherwise by an attribute."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mlconverter.formats.trt.constants import constant
from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import BECAME_INPUTS, DEFAULT_DOMAINS, call_of, opset_of, schema, version_of
from mlconverter.hub.walk import graphs

_OLDEST = 7
"""The opset since which operands are broadcast as they are now."""

_SPLIT_SAYS_HOW = 18
"""The opset since which a Split says into how many parts it goes."""

_ONE_AXIS = 13
"""The opset since which a Softmax is over one axis, not over all from one on."""

_OVER_AN_AXIS = frozenset(("Softmax", "LogSoftmax", "Hardmax"))


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
        return f"{other.op_type} '{other.name}' means something else there, or is written in another way"
    names = Names(model)
    for node in nodes:
        version = node.version or current
        if node.op_type in _OVER_AN_AXIS and version < _ONE_AXIS <= opset:
            node.attributes["axis"] = ir.AttrInt64("axis", -1)
        if _moves(node, version, opset):
            _move(model, node, names)
    model.opset_imports[""] = opset
    for node in nodes:
        if node.version is not None and node.version <= opset:
            node.version = None
    model.ir_version = max(model.ir_version, 10)  # readers of older files know no newer opsets
    return None


def _moves(node: ir.Node, current: int, opset: int) -> bool:
    """Whether attributes of a node are inputs at the newer opset."""
    return node.op_type in BECAME_INPUTS and current < BECAME_INPUTS[node.op_type][0] <= opset


def _move(model: ir.Model, node: ir.Node, names: Names) -> None:
    """Give a node as inputs what it has as attributes."""
    call = call_of(node, opset_of(node, model.opset_imports), version_of(node, model.opset_imports) or 0)
    data = node.inputs[0]
    for name in BECAME_INPUTS[node.op_type][1]:
        node.attributes.pop(name, None)
    node.resize_inputs(len(call.inputs))
    for position, given in enumerate(call.inputs):
        if isinstance(given, np.ndarray):
            if given.dtype == np.float32 and data is not None and data.dtype is not None:
                given = given.astype(data.dtype.numpy())
            node.replace_input_with(position, constant(model, names, f"{node.name or node.op_type}/input_{position}", given))


def _same(node: ir.Node, current: int, opset: int) -> bool:
    """Whether all that was added to an operator is optional, with a default, and nothing else has changed but types."""
    current = node.version or current
    old, new = schema(node.op_type, "", current), schema(node.op_type, "", opset)
    if old is None or new is None or new.deprecated:
        return False
    if old.since_version == new.since_version:
        return True
    if node.op_type == "Split" and current < _SPLIT_SAYS_HOW <= opset and len(node.inputs) < 2 and "split" not in node.attributes:
        return False
    changed: tuple[str, ...] = BECAME_INPUTS[node.op_type][1] if _moves(node, current, opset) else ()
    if node.op_type in _OVER_AN_AXIS and current < _ONE_AXIS <= opset:
        if not _is_over_the_last(node):
            return False
        changed = ("axis",)
    names, newer = ([i.name.removeprefix("input_") for i in s.inputs] for s in (old, new))
    if newer[: len(names)] != names or (len(old.outputs) != len(new.outputs) and len(node.outputs) > 1):
        return False
    added = new.inputs[len(names) + len(changed) :] if _moves(node, current, opset) else new.inputs[len(names) :]
    if any(i.option is not type(i.option).Optional for i in added):
        return False
    for name, attribute in old.attributes.items():
        kept = new.attributes.get(name)
        if name not in changed and (kept is None or kept.default_value != attribute.default_value):
            return False
    return not any(a.required for name, a in new.attributes.items() if name not in old.attributes)


def _is_over_the_last(node: ir.Node) -> bool:
    """Whether a Softmax over all axes from one on is over the last one alone."""
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 1
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    return axis == -1 or (shape is not None and axis == len(shape) - 1)
