"""What TensorRT's parser refuses, and ONNX lets one say in another way."""

from __future__ import annotations

from collections import Counter
from string import ascii_lowercase
from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.errors import ConversionError
from mlconverter.formats.trt.grids import write_grids
from mlconverter.formats.trt.newer import raise_opset
from mlconverter.hub.expand import expand
from mlconverter.hub.fused.writer import Writer, replace
from mlconverter.hub.io import spec_of
from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import DEFAULT_DOMAINS, attributes_of, opset_of, schema, specified, version_of
from mlconverter.hub.normalise import normalise
from mlconverter.hub.shapes import infer_shapes
from mlconverter.hub.spelled import spell_out
from mlconverter.hub.walk import drop_unused, graphs
from mlconverter.registry import OpRegistry

BORDER = frozenset(
    (
        ir.DataType.FLOAT,
        ir.DataType.FLOAT16,
        ir.DataType.BFLOAT16,
        ir.DataType.INT8,
        ir.DataType.UINT8,
        ir.DataType.INT32,
        ir.DataType.INT64,
        ir.DataType.BOOL,
    )
)
"""What inputs and outputs of an engine may be of."""

_BODIES = frozenset(
    "AffineGrid Attention CausalConvWithState CenterCropPad Celu DynamicQuantizeLinear LinearAttention NegativeLogLikelihoodLoss "
    "SoftmaxCrossEntropyLoss SwiGLU".split()
)
"""Operators that the specification writes in terms of others, and that the parser does not have, or not as they are specified.

It has an attention of its own, which is not built for single precision; the parts of one are fused as well.
"""


_ROUND_SINCE = 11
"""The first opset that rounds to even integers."""

_TYPES = ("to", "dtype", "output_dtype", "stash_type")
"""Attributes that are types."""


def parser_form(model: ir.Model) -> tuple[ir.Model, tuple[str, ...]]:
    """The model as TensorRT's parser takes it; what has no other form is left, and refused there by name.

    Args:
        model: as ``normalise`` gives it; it may be changed.

    Returns:
        The model, and notes for the report.

    Raises:
        ConversionError: an input or output is of a type that no engine takes.
    """
    _check_border(model)
    notes = [*_narrow(model)]
    model = _written_out(normalise(model) if notes else model)  # what was cast to double precision is cast to its own type now
    _lower_letters(model)
    spelled = _multiply_real(model)
    if spell_out(model) or spelled:
        model = normalise(model)
    _say_opset(model, _ROUND_SINCE if any(n.op_type == "QuantizeLinear" for graph in graphs(model) for n in graph) else 0)
    written, stored = write_grids(model)
    if written:
        notes.append(
            f"{written} quantisations are computed in single precision, and {stored} constants stored in it, because TensorRT "
            "quantises to int8 with the zero point 0 only. For the speed of integers the model has to be quantised anew."
        )
    drop_unused(model)
    infer_shapes(model)
    return model, tuple(notes)


def _say_opset(model: ir.Model, wanted: int) -> None:
    """Have the model say the opset of its newest node: a file has one for all, and the parser reads all of them by it.

    Args:
        model: it is changed.
        wanted: an opset that would be good to have, for operators which the parser knows all the same.

    Raises:
        ConversionError: others mean something else there, and a node would be misread under the opset that they need.
    """
    current = model.opset_imports.get("", 1)
    newer = [n for graph in graphs(model) for n in graph if n.domain in DEFAULT_DOMAINS and (n.version or 0) > current]
    needed = max([wanted, *(n.version or 0 for n in newer)])
    reason = raise_opset(model, needed)
    # What no older opset has is known by its name alone.
    misread = [n for n in newer if schema(n.op_type, "", current) is not None and version_of(n, {}) != _since(n, current)]
    if reason is not None and misread:
        raise ConversionError(
            f"{misread[0].op_type} '{misread[0].name}', which the conversion wrote, needs opset {needed}, to which the model "
            f"cannot be raised: {reason}. Export it anew with a newer opset."
        )


def _since(node: ir.Node, opset: int) -> int | None:
    found = schema(node.op_type, "", opset)
    return None if found is None else int(found.since_version)


def _narrow(model: ir.Model) -> tuple[str, ...]:
    """Make numbers of double precision those of single precision, in place; what to say of it."""
    found: Counter[str] = Counter()
    for graph in graphs(model):
        for value in (*graph.initializers.values(), *graph.inputs, *(o for node in graph for o in node.outputs)):
            if value.dtype is ir.DataType.DOUBLE:
                found["values"] += 1
                value.type = ir.TensorType(ir.DataType.FLOAT)
                if value.const_value is not None:
                    with np.errstate(over="ignore"):
                        value.const_value = ir.tensor(value.const_value.numpy().astype(np.float32), name=value.name)
        for node in graph:
            for name, attribute in list(node.attributes.items()):
                if attribute.type is ir.AttributeType.TENSOR and attribute.as_tensor().dtype is ir.DataType.DOUBLE:
                    node.attributes[name] = ir.AttrTensor(name, ir.tensor(attribute.as_tensor().numpy().astype(np.float32)))
                elif attribute.type is ir.AttributeType.INT and name in _TYPES and attribute.as_int() == ir.DataType.DOUBLE.value:
                    node.attributes[name] = ir.AttrInt64(name, ir.DataType.FLOAT.value)
    if not found:
        return ()
    return ("Values of double precision, which TensorRT does not have, are of single precision.",)


def _check_border(model: ir.Model) -> None:
    for what, values in (("takes", model.graph.inputs), ("gives", model.graph.outputs)):
        for value in values:
            if value.dtype is not None and value.dtype not in BORDER:
                known = ", ".join(sorted(d.name.lower() for d in BORDER))
                raise ConversionError(
                    f"The model {what} {spec_of(value)}. An engine takes and gives {known} only: convert the model with another "
                    "type at its border, or with dequantize=True where it is quantised."
                )


def _written_out(model: ir.Model) -> ir.Model:
    """The model with operators that the parser does not have written in terms of others, as the specification does."""
    nodes = [node for graph in graphs(model) for node in specified(model, graph)]
    lacking = _BODIES.union(node.op_type for node in nodes if node.op_type == "LayerNormalization" and _has_more_outputs(node))
    return expand(model, _AllBut(lacking)) if any(node.op_type in lacking for node in nodes) else model


def _has_more_outputs(node: ir.Node) -> bool:
    return any(output.uses() or output.is_graph_output() for output in node.outputs[1:])


class _AllBut(OpRegistry):
    """A route that has all operators but some.

    Args:
        lacks: the others.
    """

    def __init__(self, lacks: frozenset[str]) -> None:
        super().__init__("onnx-trt")
        self._lacks = lacks

    def versions(self, op: str) -> tuple[int, ...]:
        """Any, or none."""
        return () if op in self._lacks else (1,)


def _lower_letters(model: ir.Model) -> None:
    """Have equations of Einsum name axes by small letters, in place: the parser knows no others."""
    for graph in graphs(model):
        for node in specified(model, graph):
            if node.op_type == "Einsum":
                equation = node.attributes["equation"].as_string()
                letters = sorted(set(filter(str.isalpha, equation)))
                if len(letters) <= len(ascii_lowercase):
                    small = equation.translate(str.maketrans("".join(letters), ascii_lowercase[: len(letters)]))
                    node.attributes["equation"] = ir.AttrString("equation", small)


def _multiply_real(model: ir.Model) -> bool:
    """ConvInteger, MatMulInteger → Cast, Sub, Conv or MatMul, Cast, in place; whether there were any.

    Sums of products are exact to 2^24: those of 500 products of the largest numbers, and in practice of many times as many.
    """
    names, found = Names(model), False
    for graph in graphs(model):
        for node in specified(model, graph):
            if node.op_type not in ("ConvInteger", "MatMulInteger"):
                continue
            w, zeros = Writer(model, node, names), (*node.inputs[2:4], None, None)[:2]
            operands = [_distance(w, node, position, zero) for position, zero in enumerate(zeros)]
            attributes = attributes_of(node, opset_of(node, model.opset_imports))
            product = w(node.op_type.removesuffix("Integer"), *operands, **attributes)
            replace(w, node, [w("Cast", product, to=ir.DataType.INT32.value)])
            found = True
    return found


def _distance(w: Writer, node: ir.Node, position: int, zero: ir.Value | None) -> ir.Value:
    """An operand as the distance from its zero point, which may be one for each row of the first, or column of the second."""
    value, to = node.inputs[position], {"to": ir.DataType.FLOAT.value}
    real = w("Cast", value, **to)
    if zero is None:
        return real
    several = zero.shape is None or (len(zero.shape) == 1 and zero.shape != (1,))
    from_zero: Any = w("Cast", zero, **to)
    if several and node.op_type == "ConvInteger":
        assert value is not None and value.shape is not None
        from_zero = w("Reshape", from_zero, w.ints(-1, *[1] * (len(value.shape) - 1)))
    elif several and position == 0:
        from_zero = w("Reshape", from_zero, w.ints(-1, 1))
    return w("Sub", real, from_zero)
