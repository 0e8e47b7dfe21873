"""Operators that give what they take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import onnx_ir as ir

from mlconverter.hub.io import dim_of
from mlconverter.hub.model import is_weight
from mlconverter.hub.nodes import Call, call_of, opset_of, specified, version_of
from mlconverter.hub.walk import graphs

_TO_THE_END = 2**31 - 1
"""What exporters write for the end of an axis, or more."""


def drop_noops(model: ir.Model) -> bool:
    """Take out what changes nothing, but for outputs of graphs; whether there was anything."""
    dropped = False
    for graph in graphs(model):
        for node in specified(model, graph):
            dropped |= node.op_type == "Concat" and _without_nothing(node)
            check = _CHECKS.get(node.op_type)
            if check is None or node.inputs[0] is None or node.outputs[0].is_graph_output():
                continue
            kept = check(node, partial(_call, node, model.opset_imports))
            if kept is not None and kept.dtype is not None and kept.dtype == (node.outputs[0].dtype or kept.dtype):
                node.outputs[0].replace_all_uses_with(kept)
                graph.remove(node, safe=True)
                dropped = True
    return dropped


def _call(node: ir.Node, opsets: dict[str, int]) -> Call:
    return call_of(node, opset_of(node, opsets), version_of(node, opsets) or 0)


def _without_nothing(node: ir.Node) -> bool:
    """Leave out of a Concat what has no elements and the rank of the others; whether there was anything."""
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 1  # which was the default once
    kept = [v for v in node.inputs if v is None or v.shape is None or not _has_none(v.shape, axis)]
    if not kept or len(kept) == len(node.inputs):
        return False
    for position, value in enumerate(kept):
        node.replace_input_with(position, value)
    node.resize_inputs(len(kept))
    return True


def _has_none(shape: ir.Shape, axis: int) -> bool:
    return -len(shape) <= axis < len(shape) and shape[axis] == 0


def _transpose(node: ir.Node, call: Callable[[], Call]) -> ir.Value | None:
    source, perm = node.inputs[0], node.attributes.get("perm")
    if source is None or source.shape is None or perm is None or perm.is_ref():
        return None
    return source if list(perm.as_ints()) == list(range(len(source.shape))) else None


def _slice(node: ir.Node, call: Callable[[], Call]) -> ir.Value | None:
    """A slice of everything."""
    source = node.inputs[0]
    settings = [_ints(i) for i in call().inputs[1:]]
    if source is None or source.shape is None or len(settings) < 2 or settings[0] is None or settings[1] is None:
        return None
    starts, ends = settings[0], settings[1]
    axes = settings[2] if len(settings) > 2 else list(range(len(starts)))
    steps = settings[3] if len(settings) > 3 else [1] * len(starts)
    if axes is None or steps is None or any(s != 1 for s in steps) or any(s != 0 for s in starts):
        return None
    if len({len(starts), len(ends), len(axes)}) != 1 or any(not -len(source.shape) <= a < len(source.shape) for a in axes):
        return None  # no slice at all; whoever translates it says so
    sizes = [dim_of(source.shape[a]) for a in axes]
    whole = all(e >= _TO_THE_END or (isinstance(d, int) and e >= d) for e, d in zip(ends, sizes, strict=True))
    return source if whole else None


def _product(node: ir.Node, call: Callable[[], Call]) -> ir.Value | None:
    """A product or quotient with one, of the same shape."""
    for kept, one in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
        if node.op_type == "Div" and one is node.inputs[0]:
            continue
        if kept is None or kept.shape is None or one is None or is_weight(one):  # a weight may be one before it is trained
            continue
        if one.const_value is None or one.const_value.size != 1:
            continue
        rank = len(one.const_value.shape)
        if rank <= len(kept.shape) and float(one.const_value.numpy().reshape(-1)[0]) == 1:
            return kept
    return None


def _same_shape(node: ir.Node, call: Callable[[], Call]) -> ir.Value | None:
    """A value that is shaped as it was before."""
    before, after = (
        [None] if v is None or v.shape is None else [dim_of(d) for d in v.shape] for v in (node.inputs[0], node.outputs[0])
    )
    return node.inputs[0] if before == after and None not in before else None


def _ints(value: object) -> list[int] | None:
    if isinstance(value, ir.Value):
        value = None if value.const_value is None else value.const_value.numpy()
    return None if value is None else [int(v) for v in value.reshape(-1)]  # type: ignore[attr-defined]


_CHECKS = {
    "Transpose": _transpose,
    "Slice": _slice,
    "Mul": _product,
    "Div": _product,
    "Reshape": _same_shape,
    "Expand": _same_shape,
}
