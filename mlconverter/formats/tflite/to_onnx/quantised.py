"""Where LiteRT's kernels for quantised tensors do something else than the operators on the real numbers that those stand for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlconverter.formats.tflite.to_onnx.operands import Op

_MIXING = frozenset("DEQUANTIZE QUANTIZE CAST IF WHILE CALL STABLEHLO_COMPOSITE EMBEDDING_LOOKUP".split())
"""Operators that take integers and give real numbers, or the other way round, because that is what they are for."""

_LARGEST_STEP = 5.0
"""Of what SOFTMAX of 16 bits takes: beyond, LiteRT's kernel overflows (its table spans 10 in 65,535 steps)."""


def refusal(op: Op) -> str | None:
    """Why an operator on quantised tensors cannot be translated, ``None`` where it can or has none."""
    computed = [t for t in op.inputs if t is not None and not op.model.is_constant(t) and not t.is_variable]
    takes = any(t.grid is not None for t in computed)
    if not takes and not op.quantized:
        return None
    if op.key not in _MIXING and computed:
        if takes and not op.quantized and any(t.dtype.startswith("float") for t in op.outputs):
            return "it takes quantised numbers and gives real ones, which LiteRT's kernel does not convert"
        if op.quantized and not takes and any(t.dtype.startswith("float") for t in computed):
            return "it takes real numbers and gives quantised ones, which LiteRT's kernel does not convert"
    check = _CHECKS.get(op.key)
    return check(op) if check is not None else None


def _filters(op: Op) -> str | None:
    filters = op.input(1)
    if filters is not None and filters.dtype == "int16":
        return "filters of 16 bits, which LiteRT's kernel takes for 8 bits"
    return None


def _sizes_at_run_time(op: Op) -> str | None:
    if op.tensor(0).dtype == "int16" and (op.constant(1) is None or None in op.dims(op.tensor(0))[1:3]):
        return "16-bit numbers, between which LiteRT interpolates at places that depend on sizes known at run time only"
    return None


def _overflows(op: Op) -> str | None:
    tensor = op.tensor(0)
    if tensor.dtype == "int16" and tensor.grid is not None and tensor.grid.scale[0] * op.options.beta >= _LARGEST_STEP:
        return f"16-bit numbers in steps of {np.float32(tensor.grid.scale[0]):g}, on which LiteRT's kernel overflows"
    return None


_CHECKS: dict[str, Callable[[Op], str | None]] = {
    "CONV_2D": _filters,
    "DEPTHWISE_CONV_2D": _filters,
    "DIV": lambda op: "a quotient of quantised numbers, whose sign LiteRT's kernel loses where it is small",
    "REDUCE_PROD": lambda op: "a product of quantised numbers, which LiteRT rounds after each factor",
    "RESIZE_BILINEAR": _sizes_at_run_time,
    "SOFTMAX": _overflows,
}
