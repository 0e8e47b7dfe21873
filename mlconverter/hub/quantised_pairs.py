"""QuantizeLinear with the DequantizeLinear that undoes it, up to rounding."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir


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
