"""The specification's operators on integers as those on the real numbers that they stand for.

For engines that find integer kernels for these, and that have nothing else for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from mlconverter.hub.fused.quantised import Given, dequantised, product, quantised
from mlconverter.hub.fused.writer import Writer, rank_of, replace
from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import DEFAULT_DOMAINS, attributes_of
from mlconverter.hub.walk import graphs


def spell_out(model: ir.Model) -> bool:
    """Write operators on integers as those on the real numbers that they stand for, in place; whether there were any.

    These are QLinearConv and QLinearMatMul with constant filters, and what moves elements of what was quantised.
    """
    names, spelled = Names(model), False
    for graph in graphs(model):
        grids: dict[ir.Value, ir.Node] = {}  # integers, and what quantised them
        for node in graph:
            known = node.domain in DEFAULT_DOMAINS
            if known and node.op_type in _SPELLED and all(v is None or v.const_value is not None for v in node.inputs[1:]):
                writer = Writer(model, node, names)
                results = [_SPELLED[node.op_type](writer, *node.inputs, **attributes_of(node, 10))]
            elif known and node.op_type in _MOVING and _share_grid(node, grids):
                writer = Writer(model, node, names)
                results = _moved(writer, node, grids)
            else:
                results = []
                if known and node.op_type == "QuantizeLinear" and _is_constant(node):
                    grids[node.outputs[0]] = node
            if results:
                replace(writer, node, results)
                makers = [result.producer() for result in results]
                grids.update((m.outputs[0], m) for m in makers if m is not None and _is_constant(m))
                spelled = True
    return spelled


def _is_constant(quantize: ir.Node) -> bool:
    """Whether there is one scale and one zero point, known beforehand."""
    settings = quantize.inputs[1:]
    known = all(v is not None and v.const_value is not None and v.const_value.size == 1 for v in settings)
    return known and len(settings) == 2  # without a zero point an attribute may say the type


def _share_grid(node: ir.Node, grids: Mapping[ir.Value, ir.Node]) -> bool:
    """Whether a node moves elements on one grid; MaxPool may give their places, too, which are on none."""
    if len(node.outputs) > 1 and node.op_type != "Split":
        return False
    makers = [None if value is None else grids.get(value) for value in _data(node)]
    return None not in makers and len({_grid(m) for m in makers if m is not None}) == 1


def _grid(quantize: ir.Node) -> tuple[float, ...]:
    return tuple(v.const_value.numpy().item() for v in quantize.inputs[1:] if v is not None and v.const_value is not None)


def _data(node: ir.Node) -> Sequence[Given]:
    return node.inputs if node.op_type == "Concat" else node.inputs[:1]


def _moved(w: Writer, node: ir.Node, grids: Mapping[ir.Value, ir.Node]) -> list[ir.Value]:
    data = list(_data(node))
    scale, *zero = grids[data[0]].inputs[1:]  # type: ignore[index]
    reals = [w("DequantizeLinear", value, scale, *zero) for value in data]
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    moved = w.several(node.op_type, len(node.outputs), *reals, *node.inputs[len(data) :], **attributes)
    return [w("QuantizeLinear", value, scale, *zero) for value in moved]


def _conv(
    w: Writer,
    x: ir.Value,
    x_scale: ir.Value,
    x_zero: ir.Value,
    filters: ir.Value,
    filter_scale: ir.Value,
    filter_zero: ir.Value,
    scale: ir.Value,
    zero: ir.Value,
    bias: Given = None,
    **attributes: Any,
) -> ir.Value:
    terms = [dequantised(w, x, x_scale, x_zero), dequantised(w, filters, filter_scale, filter_zero, axis=0)]
    if bias is not None:
        terms.append(dequantised(w, bias, w.constant(product(x_scale, filter_scale)), None, axis=0))
    return quantised(w, w("Conv", *terms, **attributes), scale, zero, x)


def _matmul(
    w: Writer,
    x: ir.Value,
    x_scale: ir.Value,
    x_zero: ir.Value,
    y: ir.Value,
    y_scale: ir.Value,
    y_zero: ir.Value,
    scale: ir.Value,
    zero: ir.Value,
) -> ir.Value:
    columns = rank_of(y) - 1
    product = w("MatMul", dequantised(w, x, x_scale, x_zero), dequantised(w, y, y_scale, y_zero, axis=columns))
    return quantised(w, product, scale, zero, x)


_MOVING = frozenset("Concat Flatten MaxPool Reshape Slice Split Squeeze Transpose Unsqueeze".split())
"""Operators that move the elements of their first input, of all for Concat, or pick the largest."""

_SPELLED: dict[str, Callable[..., ir.Value]] = {"QLinearConv": _conv, "QLinearMatMul": _matmul}
