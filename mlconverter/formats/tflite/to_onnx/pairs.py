"""Integers that are only moved, in graphs with 16-bit ones: quantised again behind what moves them.

ONNX Runtime does so itself, and from the operator set that quantises to 16 bits on it loses the zero points of 8 bits.
"""

from __future__ import annotations

import onnx_ir as ir

_MOVES = frozenset("MaxPool Reshape Slice Squeeze Transpose Unsqueeze".split())
"""Operators behind which ONNX Runtime quantises."""


def keep_pairs(model: ir.Model) -> None:
    """Quantise 8-bit values again behind operators that move them, as ONNX Runtime would."""
    for node in list(model.graph):
        if node.op_type not in _MOVES:
            continue
        source = node.inputs[0].producer() if node.inputs[0] is not None else None
        if source is None or source.op_type != "DequantizeLinear" or "axis" in source.attributes or not _is_8_bits(source):
            continue
        moved = node.outputs[0]
        readers = list(moved.uses())
        if moved.is_graph_output() or len(readers) != 1 or readers[0].node.op_type == "QuantizeLinear":
            continue
        scale, zero = source.inputs[1:3]
        whole = ir.Node("", "QuantizeLinear", [moved, scale, zero], name=f"{node.name}/QuantizeLinear")
        again = ir.Node("", "DequantizeLinear", [whole.outputs[0], scale, zero], name=f"{node.name}/DequantizeLinear")
        for added in (whole, again):
            added.outputs[0].name = f"{moved.name}/{added.op_type}"
        readers[0].node.replace_input_with(readers[0].idx, again.outputs[0])
        model.graph.insert_after(node, [whole, again])


def _is_8_bits(source: ir.Node) -> bool:
    zero = source.inputs[2] if len(source.inputs) > 2 else None
    return zero is not None and zero.dtype == ir.DataType.INT8
