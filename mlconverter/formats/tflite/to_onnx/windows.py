"""Windows that slide over an image: how TFLite's padding is said in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlconverter.formats.tflite.to_onnx.operands import Op

SAME = 0
"""``Padding.SAME`` in the schema; the other value is VALID."""


def padding(
    same: bool, sizes: Sequence[int | None], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int] | None = None
) -> dict[str, Any]:
    """The padding attribute of an ONNX convolution or pooling.

    SAME keeps ``ceil(size / stride)`` positions and pads the odd element at the end. The pads are written out where
    the sizes are known; where they are free, ONNX's SAME_UPPER means the same.
    """
    if not same:
        return {}
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations or [1] * len(kernel), strict=True)]
    if any(size is None and stride != 1 for size, stride in zip(sizes, strides, strict=True)):
        return {"auto_pad": "SAME_UPPER"}
    totals = [
        extent - 1 if stride == 1 else same_total(size or 0, extent, stride)
        for size, extent, stride in zip(sizes, extents, strides, strict=True)
    ]
    before = [total // 2 for total in totals]
    after = [total - b for total, b in zip(totals, before, strict=True)]
    return {"pads": [*before, *after]} if any(totals) else {}


def same_total(size: int, extent: int, stride: int) -> int:
    """How many elements SAME adds along an axis, both ends together."""
    return max((-(-size // stride) - 1) * stride + extent - size, 0)


def needs_strides(op: Op) -> str | None:
    """A check that refuses windows that do not move."""
    if op.options.strideH < 1 or op.options.strideW < 1:
        return f"strides {op.options.strideH} x {op.options.strideW}"
    return None
