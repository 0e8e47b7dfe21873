"""Which float constants are parameters and which are buffers, where the source does not say."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from mlconverter.hub.model import PARAMETERS, ROLE_KEY, WEIGHT_KEY, WEIGHTED
from mlconverter.hub.normalise import is_weight
from mlconverter.hub.walk import graphs

ELEMENTWISE = frozenset("Add Sub Mul Div Pow Max Min Sum Mean Where Mod Clip".split())
MOVING = frozenset("Reshape Transpose Squeeze Unsqueeze Flatten Expand Identity Cast Concat Slice Split Pad".split())
VIEWS = MOVING - frozenset("Concat Slice Split Pad".split())

_TORCH_KEY = "pkg.torch.export.graph_signature.InputSpec.kind"
_TORCH_ROLES = {"PARAMETER": "parameter", "BUFFER": "buffer", "CONSTANT_TENSOR": "buffer"}
"""What torch's exporter writes beside the tensors of an export signature."""


@dataclass(frozen=True)
class Role:
    """What a weight is, and why.

    Attributes:
        kind: ``parameter``, ``frozen`` (one that needs no gradient) or ``buffer``.
        reason: for the report, empty where it is an ordinary parameter.
    """

    kind: str
    reason: str = ""


def decide(model: ir.Model) -> dict[str, Role]:
    """The role of every weight of a model, by the name under which its links know it.

    The source decides where it says so (a torch export does). Elsewhere a weight is a parameter unless only
    element-wise operators use it *and* it looks like a fixed number rather than something that was learned:

    * nothing with weights comes before it, nor is the weight of a layer made of it: the mean and deviation that an input is
      normalised by, or
    * nothing with weights comes after it and it is no vector along one axis of a layer's output: the anchors
      and strides by which a detector decodes its boxes.
    """
    return {weight: role for graph in graphs(model) for weight, role in _decide(graph).items()}


def _decide(graph: ir.Graph) -> dict[str, Role]:
    layers = _Layers(graph)
    roles = {}
    for value in graph.initializers.values():
        if not is_weight(value):
            continue
        said = value.metadata_props.get(ROLE_KEY) or _TORCH_ROLES.get(value.metadata_props.get(_TORCH_KEY, ""))
        if said is not None:
            role = Role(said, "" if said in PARAMETERS else "the source says so")
        else:
            reason = layers.reason_for_buffer(value)
            role = Role("buffer", reason) if reason else Role("parameter")
        roles[value.metadata_props[WEIGHT_KEY]] = role
    return roles


class _Layers:
    """Which values have operators with weights before and behind them."""

    def __init__(self, graph: ir.Graph) -> None:
        self.after: set[ir.Value] = set()  # some layer computes it, by whatever way
        self.directly_after: set[ir.Value] = set()  # with nothing but moved elements in between
        self.before: set[ir.Value] = set()  # some layer reads it, by whatever way
        self.within: set[ir.Value] = set()  # the weight of some layer is made of it, and of no input
        given = {i for i in graph.inputs if i.const_value is None}
        for node in graph:
            inputs = [i for i in node.inputs if i is not None]
            layer = _has_weights(node)
            if layer or any(i in self.after for i in inputs):
                self.after.update(node.outputs)
            if layer or (node.op_type in MOVING and any(i in self.directly_after for i in inputs)):
                self.directly_after.update(node.outputs)
            if any(i in given for i in inputs) or any(a.type is ir.AttributeType.GRAPH for a in node.attributes.values()):
                given.update(node.outputs)
        for node in reversed(graph):
            if node.op_type in WEIGHTED or any(o in self.within for o in node.outputs):
                self.within.update(i for i in node.inputs if i is not None and i not in given)
            if _has_weights(node) or any(o in self.before for o in node.outputs):
                self.before.update(i for i in node.inputs if i is not None)

    def reason_for_buffer(self, value: ir.Value) -> str:
        """Why a weight is no parameter; empty where it is one."""
        uses = [use for seen in _views(value) for use in seen.uses() if use.node.op_type not in VIEWS]
        if not uses or any(use.node.op_type not in ELEMENTWISE for use in uses):
            return ""
        others = [i for use in uses for n, i in enumerate(use.node.inputs) if i is not None and n != use.idx]
        if any(output in self.within for use in uses for output in use.node.outputs):
            return ""
        if not any(other in self.after for other in others):
            return "a constant of element-wise operators with no layer before it"
        if any(output in self.before for use in uses for output in use.node.outputs):
            return ""
        shape = [] if value.shape is None else [d for d in value.shape if d != 1]
        vector = len(shape) == 1
        if vector and (any(other in self.directly_after for other in others) or len(value.shape or ()) == 1):
            return ""
        return "a constant of element-wise operators with no layer behind it"


def _has_weights(node: ir.Node) -> bool:
    return node.op_type in WEIGHTED and any(is_weight(i) or _moved_weight(i) for i in node.inputs if i is not None)


def _moved_weight(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.op_type in VIEWS and bool(node.inputs) and is_weight(node.inputs[0])


def _views(value: ir.Value) -> list[ir.Value]:
    """The value itself and what moving its axes makes of it."""
    seen = [value]
    for known in seen:
        seen.extend(o for use in known.uses() if use.node.op_type in VIEWS and use.idx == 0 for o in use.node.outputs)
    return seen
