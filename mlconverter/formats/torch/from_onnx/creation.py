"""Tensors made from sizes, and triangles of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import DTYPES, Array, Const, Ints, Tensor, UnknownAtConversion
from mlconverter.hub.io import numpy_name


@translates("Constant", 1, 9, 11, 12, 13, 19, 21, 23, 24, 25)
def constant(g: Builder, *, value: Array | None = None, **others: Any) -> Const:
    """Constant → a buffer; only one that is an output is left of them."""
    ((kind, given),) = (others or {"value": value}).items()
    if kind not in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        raise UnknownAtConversion(f"a constant given as {kind}")
    dtype = np.float32 if "float" in kind else None if kind == "value" else np.int64
    assert g.node is not None
    return Const(np.asarray(given, dtype), g.node.outputs[0].name or "")


@translates("ConstantOfShape", 9, 20, 21, 23, 24, 25)
def constant_of_shape(g: Builder, shape: Ints | Tensor, *, value: Array | None = None) -> Any:
    """ConstantOfShape → torch.full."""
    filler, name = (0.0, "float32") if value is None else (value.reshape(-1)[0].item(), value.dtype.name)
    if name not in DTYPES:
        raise UnknownAtConversion(f"torch has no {name}")
    if isinstance(shape, Tensor):
        return g.call(runtime.full, shape, filler, DTYPES[name])
    return g.call(torch.full, tuple(shape), filler, dtype=DTYPES[name], device=g.device)


def _bound(value: Ints | Const | Tensor) -> Any:
    return value.number() if isinstance(value, Const) else value if isinstance(value, Tensor) else value[0]


@translates("Range", 11, 27)
def range_(
    g: Builder, start: Const | Ints | Tensor, limit: Const | Ints | Tensor, delta: Const | Ints | Tensor, *, stash_type: int = 1
) -> Tensor:
    """Range → torch.arange."""
    bounds = [_bound(b) for b in (start, limit, delta)]
    dtype = g.output_dtype() or torch.int64
    if any(isinstance(b, Tensor) for b, v in zip(bounds, (start, limit, delta), strict=True) if not isinstance(v, Ints)):
        return g.call(runtime.arange, *bounds, dtype, g.device)
    return g.call(torch.arange, *bounds, dtype=dtype, device=g.device)


@translates("EyeLike", 9, 22)
def eye_like(g: Builder, x: Tensor, *, k: int, dtype: int | None = None) -> Tensor:
    """EyeLike → a comparison of row and column numbers."""
    wanted = x.dtype if dtype is None else DTYPES[numpy_name(ir.DataType(dtype))]
    return g.call(runtime.eye_like, x, k, wanted)


@translates("Trilu", 14)
def trilu(g: Builder, x: Tensor, k: Ints | Tensor | None = None, *, upper: int) -> Tensor:
    """Trilu → torch.triu or torch.tril."""
    if isinstance(k, Tensor):
        return g.call(runtime.trilu, x, k, bool(upper))
    return (torch.triu if upper else torch.tril)(x, k[0] if k else 0)


@translates("CumSum", 11, 14)
def cum_sum(g: Builder, x: Tensor, axis: Ints | Tensor, *, exclusive: int, reverse: int) -> Any:
    """CumSum → torch.cumsum; exclusive and reverse ones shift and flip."""
    if isinstance(axis, Ints) and not exclusive and not reverse:
        return torch.cumsum(x, axis[0], dtype=x.dtype)
    return g.call(runtime.cumulative, x, axis if isinstance(axis, Tensor) else axis[0], "sum", bool(exclusive), bool(reverse))


@translates("CumProd", 26)
def cum_prod(g: Builder, x: Tensor, axis: Ints | Tensor, *, exclusive: int, reverse: int) -> Any:
    """CumProd → torch.cumprod; exclusive and reverse ones shift and flip."""
    return g.call(runtime.cumulative, x, axis if isinstance(axis, Tensor) else axis[0], "prod", bool(exclusive), bool(reverse))
