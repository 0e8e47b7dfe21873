"""QuantizeLinear and DequantizeLinear: which undoes which, and what the integers between them stand for."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mlconverter.hub.nodes import DEFAULT_DOMAINS
from mlconverter.signature import Quantization

_QUANTIZED = frozenset((ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16))


def undoes(dequantize: ir.Node, quantize: ir.Node) -> bool:
    """Whether a node dequantises what another quantised, with the same scale and zero point."""
    return dequantize.inputs[0] is quantize.outputs[0] and share_grid(dequantize, quantize)


def share_grid(dequantize: ir.Node, quantize: ir.Node) -> bool:
    """Whether a node dequantises by the scale and zero point by which another quantises."""
    if (quantize.op_type, dequantize.op_type) != (
        "QuantizeLinear",
        "DequantizeLinear",
    ) or "output_dtype" in dequantize.attributes:
        return False
    given = [(*node.inputs[1:], None)[:2] for node in (dequantize, quantize)]
    settings = [[node.attributes.get(name) for name in ("axis", "block_size")] for node in (dequantize, quantize)]
    values = [[None if a is None else a.as_int() for a in attributes] for attributes in settings]
    return all(map(_same, *given)) and values[0] == values[1]


def _same(a: ir.Value | None, b: ir.Value | None) -> bool:
    if a is b or a is None or b is None or a.const_value is None or b.const_value is None:
        return a is b
    return a.dtype == b.dtype and np.array_equal(a.const_value.numpy(), b.const_value.numpy())


def how_it_is_read(value: ir.Value) -> Quantization | None:
    """How the integers of an input stand for real numbers, where all that reads it says the same."""
    grids = {grid_of(use.node, value) for use in value.uses()}
    return grids.pop() if len(grids) == 1 else None


def grid_of(node: ir.Node | None, value: ir.Value) -> Quantization | None:
    """How the integers of a value stand for real numbers by what quantises or dequantises it, with one scale for all."""
    if node is None or node.domain not in DEFAULT_DOMAINS or value.dtype not in _QUANTIZED:
        return None
    whole = {"QuantizeLinear": node.outputs, "DequantizeLinear": node.inputs}.get(node.op_type, ())
    if len(node.inputs) < 2 or not whole or whole[0] is not value:
        return None
    settings = [None if v is None else ir.convenience.get_const_tensor(v) for v in node.inputs[1:3]]
    scale, zero = settings[0], settings[1] if len(settings) > 1 else None
    absent = len(node.inputs) < 3 or node.inputs[2] is None
    if scale is None or scale.size != 1 or (not absent and (zero is None or zero.size != 1)):
        return None
    return Quantization((float(scale.numpy().item()),), (0 if zero is None else int(zero.numpy().item()),))
