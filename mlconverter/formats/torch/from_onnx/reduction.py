"""Reductions over axes."""

from __future__ import annotations

from typing import Any

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Ints, Tensor, fixed, rank_of


def _reduction(op: str, versions: tuple[int, ...], code: str) -> None:
    function = runtime.REDUCTIONS[op]

    def translator(
        g: Builder, x: Tensor, axes: Ints | Tensor | None = None, *, keepdims: int, noop_with_empty_axes: int = 0
    ) -> Any:
        if isinstance(axes, Tensor) or rank_of(x) is None:
            return g.call(runtime.reduce, x, [] if axes is None else axes, op, bool(keepdims), bool(noop_with_empty_axes))
        if not axes and noop_with_empty_axes:
            return runtime.UNREDUCED[op](x) if op in runtime.UNREDUCED else x
        over = tuple(sorted(a % x.ndim for a in axes.fixed("an axis"))) if axes else tuple(range(x.ndim))
        if op in ("ReduceMax", "ReduceMin") and any(fixed(x, a) == 0 for a in over):
            return g.call(runtime.empty_extreme, x, over, op, bool(keepdims))
        result = function(x, over, bool(keepdims))
        return result if x.is_floating_point() or op in ("ReduceMax", "ReduceMin") else result.to(x.dtype)

    translator.__name__ = f"reduce_{op.removeprefix('Reduce').lower()}"
    translator.__doc__ = f"{op} → {code}."
    translates(op, *versions)(translator)


_reduction("ReduceMean", (1, 11, 13, 18), "x.mean")
_reduction("ReduceSum", (1, 11, 13), "x.sum in the dtype of x")
_reduction("ReduceMax", (1, 11, 12, 13, 18, 20), "torch.amax")
_reduction("ReduceMin", (1, 11, 12, 13, 18, 20), "torch.amin")
_reduction("ReduceProd", (1, 11, 13, 18), "torch.prod axis by axis")
_reduction("ReduceL1", (1, 11, 13, 18), "sum of magnitudes")
_reduction("ReduceL2", (1, 11, 13, 18), "root of the sum of squares")
_reduction("ReduceSumSquare", (1, 11, 13, 18), "sum of squares")
_reduction("ReduceLogSum", (1, 11, 13, 18, 28), "logarithm of the sum")
_reduction("ReduceLogSumExp", (1, 11, 13, 18, 28), "torch.logsumexp")
