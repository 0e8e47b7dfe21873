"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Ints, Tensor

Reduce = Callable[[Any, tuple[int, ...], bool], Any]


def _reduction(op: str, versions: tuple[int, ...], code: str, function: Reduce) -> None:
    def translator(g: Builder, x: Tensor, axes: Ints | None = None, *, keepdims: int, noop_with_empty_axes: int = 0) -> Any:
        if not axes:
            if noop_with_empty_axes:
                return _noop(op, x)
            axes = Ints(range(x.ndim))
        return function(x, tuple(sorted(a % x.ndim for a in axes.fixed("an axis"))), bool(keepdims))

    translator.__name__ = f"reduce_{op.removeprefix('Reduce').lower()}"
    translator.__doc__ = f"{op} → {code}."
    translates(op, *versions)(translator)


def _noop(op: str, x: Any) -> Any:
    """Reduced over no axis at all: what the function does to one element remains."""
    match op:
        case "ReduceL1" | "ReduceL2":
            return x.abs()
        case "ReduceSumSquare":
            return x * x
        case "ReduceLogSum":
            return x.log()
        case _:
            return x


def _prod(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    dtype = x.dtype
    for axis in reversed(axes):
        x = torch.prod(x, axis, keepdim=keep, dtype=dtype)
    return x


_UP_TO_20 = (1, 11, 13, 18)
_reduction("ReduceMean", _UP_TO_20, "x.mean", lambda x, axes, keep: x.mean(axes, keepdim=keep))
_reduction("ReduceSum", (1, 11, 13), "x.sum in the dtype of x", lambda x, axes, keep: x.sum(axes, keepdim=keep, dtype=x.dtype))
_reduction("ReduceMax", (1, 11, 12, 13, 18, 20), "torch.amax", lambda x, axes, keep: torch.amax(x, axes, keepdim=keep))
_reduction("ReduceMin", (1, 11, 12, 13, 18, 20), "torch.amin", lambda x, axes, keep: torch.amin(x, axes, keepdim=keep))
_reduction("ReduceProd", _UP_TO_20, "torch.prod axis by axis", _prod)
_reduction("ReduceL1", _UP_TO_20, "sum of magnitudes", lambda x, axes, keep: x.abs().sum(axes, keepdim=keep, dtype=x.dtype))
_reduction("ReduceL2", _UP_TO_20, "root of the sum of squares", lambda x, axes, keep: (x * x).sum(axes, keepdim=keep).sqrt())
_reduction("ReduceSumSquare", _UP_TO_20, "sum of squares", lambda x, axes, keep: (x * x).sum(axes, keepdim=keep, dtype=x.dtype))
_reduction("ReduceLogSum", _UP_TO_20, "logarithm of the sum", lambda x, axes, keep: x.sum(axes, keepdim=keep).log())
_reduction("ReduceLogSumExp", _UP_TO_20, "torch.logsumexp", lambda x, axes, keep: torch.logsumexp(x, axes, keepdim=keep))
