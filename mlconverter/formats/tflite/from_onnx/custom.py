"""ONNX operators that the caller has kernels for: written as custom operators of TFLite, as they stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import flatbuffers.flexbuffers
import onnx_ir as ir

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.kernels import STORED
from mlconverter.formats.tflite.from_onnx.values import Constant, Operand, Stored, Wire
from mlconverter.hub.io import dim_of, numpy_name
from mlconverter.hub.model import CUSTOM_DOMAIN
from mlconverter.hub.nodes import attributes_of, op_name, opset_of, version_of
from mlconverter.hub.refusing import Refusals
from mlconverter.hub.shapes import infer_shapes

_HELD = (
    ir.AttributeType.INT,
    ir.AttributeType.FLOAT,
    ir.AttributeType.STRING,
    ir.AttributeType.INTS,
    ir.AttributeType.FLOATS,
    ir.AttributeType.STRINGS,
)
"""Kinds of attributes that a map of options holds."""


def set_apart(model: ir.Model, names: Iterable[str], route: str) -> tuple[ir.Model, tuple[str, ...]]:
    """A copy of the model whose nodes of some operators belong to a domain in which nothing is folded, inlined or written out.

    Args:
        model: as it was read.
        names: of operators, with their domains outside the default one.
        route: for the refusals.

    Returns:
        The copy, and notes for the report.

    Raises:
        UnsupportedOpsError: with every such node that no custom operator can say.
    """
    copy, wanted = model.clone(), list(dict.fromkeys(names))
    graphs: list[ir.Graph | ir.Function] = [copy.graph, *copy.functions.values()]
    found = [n for graph in graphs for n in ir.traversal.RecursiveGraphIterator(graph) if op_name(n) in wanted]
    infer_shapes(copy)
    refusals, counts = Refusals(route), dict.fromkeys(wanted, 0)
    for node in found:
        reason = _refusal(node)
        if reason is not None:
            refusals.add(node, version_of(node, copy.opset_imports), f"as a custom operator: {reason}")
        counts[op_name(node)] += 1
    refusals.raise_if_any()
    for node in found:
        for name, value in attributes_of(node, opset_of(node, copy.opset_imports)).items():
            if name not in node.attributes:
                node.attributes[name] = ir.convenience.convert_attribute(name, value)
        node.domain = CUSTOM_DOMAIN
    copy.opset_imports[CUSTOM_DOMAIN] = 1
    return copy, tuple(
        f"Custom operator, which the runtime needs a kernel for: {op} ({n}x)."
        if n
        else f"No node is a {op}, which allow_custom names."
        for op, n in counts.items()
    )


def _refusal(node: ir.Node) -> str | None:
    """Why a node cannot be a custom operator, ``None`` where it can."""
    for attribute in node.attributes.values():
        if attribute.is_ref() or attribute.type not in _HELD:
            return f"its attribute '{attribute.name}' is no number, no text and no list of such"
    outputs = _outputs(node)
    if not all(value.name for value in outputs):
        return "it leaves out an output before one that it has"
    for value in outputs:
        if value.shape is None or not isinstance(value.type, ir.TensorType):
            return f"the model does not say the element type and the shape of its output '{value.name}'"
    for value in (*filter(None, node.inputs), *outputs):
        if value.dtype is not None and numpy_name(value.dtype) not in STORED:
            return f"'{value.name}' holds {numpy_name(value.dtype)}, which TFLite does not compute with"
    return None


def _outputs(node: ir.Node) -> Sequence[ir.Value]:
    """The outputs, without those at the end that are left out."""
    count = max((i for i, value in enumerate(node.outputs, 1) if value.name), default=0)
    return node.outputs[:count]


def custom(b: Builder, node: ir.Node, inputs: Sequence[Operand | None], attributes: dict[str, Any]) -> list[Stored]:
    """A custom operator of the node's type, on tensors in the model's own axis order."""
    outputs = []
    for value in _outputs(node):
        dims = tuple(d if isinstance(d := dim_of(dim), int) else None for dim in value.shape or ())
        outputs.append(Wire(value.name or "", dims, numpy_name(value.dtype)))
    wires = [None if i is None else _plain(b, i) for i in inputs]
    b.emit_custom(node.op_type, wires, outputs, flexible(attributes))
    return [Stored(wire, layout.logical(wire.rank)) for wire in outputs]


def _plain(b: Builder, operand: Operand) -> Wire:
    """The operand; a constant stays in its own precision, for nobody knows what the kernel takes."""
    return b.constant(operand.value, operand.name) if isinstance(operand, Constant) else b.ask(operand)


def flexible(attributes: dict[str, Any]) -> bytes:
    """Attributes as a flexbuffer: a map by name, in which numbers make typed vectors."""
    builder = flatbuffers.flexbuffers.Builder()
    with builder.Map():
        for name, value in attributes.items():
            builder.Key(name)
            if not isinstance(value, list):
                builder.Add(value)
            elif value and isinstance(value[0], str):
                builder.VectorFromElements(value)
            else:
                builder.TypedVectorFromElements(value)
    return bytes(builder.Finish())
