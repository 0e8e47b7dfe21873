"""Other element types."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from mlconverter.formats.torch.dtypes import CARRIED
from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import DTYPES, INTEGERS, Tensor, UnknownAtConversion
from mlconverter.hub.io import numpy_name
from mlconverter.hub.nodes import Call

EIGHT_BITS = {torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz}


def _check_cast(call: Call) -> str | None:
    name = numpy_name(ir.DataType(call.attributes["to"]))
    source = call.inputs[0].dtype if isinstance(call.inputs[0], ir.Value) else None
    for kind in (name, numpy_name(source) if source is not None else name):
        if kind not in DTYPES:
            return f"torch has no {'strings' if kind == 'object' else kind}"
    return None


@translates("Cast", 6, 9, 13, 19, 21, 23, 24, 25, 28, check=_check_cast)
def cast(g: Builder, x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """Cast → x.to(dtype); floats become integers by cutting the fraction off."""
    return _to(g, x, numpy_name(ir.DataType(to)), bool(saturate), round_mode)


@translates("CastLike", 15, 19, 21, 23, 24, 25)
def cast_like(g: Builder, x: Tensor, like: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """CastLike → x.to(dtype of the other)."""
    assert g.node is not None and g.node.inputs[1] is not None
    return _to(g, x, numpy_name(g.node.inputs[1].dtype), bool(saturate), round_mode)


def _to(g: Builder, x: Tensor, name: str, saturate: bool, round_mode: str) -> Tensor:
    dtype = DTYPES[name]
    if dtype in EIGHT_BITS and saturate:
        limit = torch.finfo(dtype).max
        return torch.clamp(x, -limit, limit).to(dtype)
    if dtype is torch.float8_e4m3fn:  # torch saturates; half a step beyond the largest number nothing rounds to it
        x = torch.where(torch.abs(x) > 464, float("nan"), x)
    if name in INTEGERS and name in CARRIED:
        return g.call(runtime.cut_to_bits, x, INTEGERS[name].bits, INTEGERS[name].low < 0)
    if name == "float4_e2m1fn":
        return g.call(runtime.to_float4, x)
    if name == "float8_e8m0fnu":
        return g.call(runtime.to_power_of_two, x, round_mode, saturate)
    return x.to(dtype)


@translates("BitCast", 26)
def bit_cast(g: Builder, x: Tensor, *, to: int) -> Any:
    """BitCast → x.view(dtype)."""
    name = numpy_name(ir.DataType(to))
    if name not in DTYPES:
        raise UnknownAtConversion(f"torch has no {name}")
    return x.view(DTYPES[name])
