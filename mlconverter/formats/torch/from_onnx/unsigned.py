"""Unsigned integers of 16 to 64 bits, which torch stores and moves and does not compute with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.values import DTYPES, Array, Const, Tensor, UnknownAtConversion, dtype_of, know, shape_of

UNSIGNED = frozenset({torch.uint16, torch.uint32, torch.uint64})

_RINGS = frozenset("Add Sub Mul Sum Equal ReduceSum CumSum CumProd ReduceProd MatMul Gemm Einsum".split())
"""What two's complement computes alike for signed and unsigned numbers."""

_ORDERS = frozenset("Less LessOrEqual Greater GreaterOrEqual Max Min ReduceMax ReduceMin TopK ArgMax ArgMin Clip Unique".split())
"""What looks at nothing but the order of its operands."""

_WIDE = {"Div": runtime.unsigned_quotient, "Mod": runtime.unsigned_remainder, "Pow": runtime.unsigned_power}
"""What 64 signed bits compute for 64 unsigned ones in another way."""

_DIVIDES = frozenset("Div Mod Mean ReduceMean Pow Relu PRelu Abs Sign ReduceL1 ReduceSumSquare BitwiseNot".split())
"""What 64 signed bits compute for up to 32 unsigned ones."""


def through_signed(g: Builder, op: str, function: Callable[..., Any], inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """Run a translator; where torch has no kernel for its unsigned operands, on ``int64`` in their place.

    Raises:
        UnknownAtConversion: 64 signed bits cannot do what 64 unsigned ones mean.
    """
    dtype = next((d for d in map(_dtype, inputs) if d in UNSIGNED), None)
    if dtype is None or op not in _RINGS | _ORDERS | _DIVIDES:
        return function(g, *inputs, **attributes)
    if dtype is torch.uint64 and op in _WIDE:
        return _wide(g, op, function, inputs, attributes)
    ordered = dtype is torch.uint64 and op in _ORDERS
    if dtype is torch.uint64 and op in _DIVIDES:
        raise UnknownAtConversion(f"torch has no {op} of uint64")
    results = function(g, *(_signed(g, i, ordered) if _dtype(i) in UNSIGNED else i for i in inputs), **attributes)
    many = isinstance(results, (list, tuple))
    back = [_unsigned(g, r, g.output_dtype(n), ordered) for n, r in enumerate(results if many else [results])]
    return back if many else back[0]


def _wide(g: Builder, op: str, function: Callable[..., Any], inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """A division or power in which an operand has 64 unsigned bits."""
    dtypes = [_dtype(i) or torch.uint64 for i in inputs]
    a, b = (g.tensor(i) for i in inputs)
    if dtypes[0].is_floating_point:
        return function(g, a, know(b.to(dtypes[0]), shape_of(b), dtypes[0]), **attributes)
    if dtypes[1].is_floating_point:
        raise UnknownAtConversion(f"torch has no {op} of uint64 and a real number")
    return g.call(_WIDE[op], a.to(torch.int64), b.to(torch.int64)).to(dtypes[0])


def _dtype(value: Any) -> torch.dtype | None:
    if isinstance(value, Const):
        return DTYPES.get(value.value.dtype.name)
    return dtype_of(value) if isinstance(value, Tensor) else None


def _signed(g: Builder, value: Any, ordered: bool) -> Any:
    if isinstance(value, Const):
        return Const(_signed_array(value.value, ordered), "")
    signed = g.call(runtime.flip_sign, value) if ordered else value.to(torch.int64)
    return know(signed, shape_of(value), torch.int64)


def _signed_array(array: Array, ordered: bool) -> Array:
    with np.errstate(over="ignore"):
        return (array ^ np.uint64(1 << 63) if ordered else array).astype(np.int64)


def _unsigned(g: Builder, result: Any, dtype: torch.dtype | None, ordered: bool) -> Any:
    if dtype not in UNSIGNED or not isinstance(result, Tensor):
        return result
    return g.call(runtime.unflip_sign, result) if ordered else result.to(dtype)
