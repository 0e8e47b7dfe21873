"""Selection of boxes that do not overlap."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_constant, translates
from mlconverter.formats.tflite.to_onnx.shapes import as_dtype


def _threshold(op: Op) -> str | None:
    limit = float(op.parameter(3).reshape(-1)[0])
    # ONNX takes a limit between 0 and 1 and suppresses what is above it; LiteRT also what is exactly there.
    return None if 0 < limit <= 1 else f"boxes that overlap by {limit:g} or more are suppressed; supported: more than 0, up to 1"


def _hard(op: Op) -> str | None:
    sigma = op.constant(5)
    if sigma is None:
        return "its sigma is only known at run time"
    return None if float(sigma.reshape(-1)[0]) == 0 else "scores that decay where boxes overlap (a sigma that is not 0)"


_limits = all_of(needs_constant(overlap=3), _threshold)


@translates("NON_MAX_SUPPRESSION_V4", 1, check=_limits)
def non_max_suppression_v4(b: Builder, op: Op, boxes: Operand, scores: Operand, *limits: Operand) -> list[Stored]:
    """NON_MAX_SUPPRESSION_V4 → NonMaxSuppression, its result filled up with zeros, and how many there are.

    Boxes of equal scores come in their own order; LiteRT has them in that of its queue, which TensorFlow leaves open.
    """
    chosen, most, count = _selected(b, op, boxes, scores, *limits)
    dtypes = [t.dtype for t in op.outputs]
    return [Stored(as_dtype(b, _filled(b, chosen, most, "int64"), dtypes[0]), (0,)), Stored(as_dtype(b, count, dtypes[1]), ())]


@translates("NON_MAX_SUPPRESSION_V5", 1, check=all_of(_limits, _hard))
def non_max_suppression_v5(
    b: Builder, op: Op, boxes: Operand, scores: Operand, size: Operand, overlap: Operand, least: Operand, sigma: Operand
) -> list[Stored]:
    """NON_MAX_SUPPRESSION_V5 → NonMaxSuppression, its result and the scores filled up with zeros, and how many there are."""
    chosen, most, count = _selected(b, op, boxes, scores, size, overlap, least)
    dtypes = [t.dtype for t in op.outputs]
    kept = _filled(b, b.emit("Gather", b.ask(scores), chosen, axis=0), most, scores.dtype)
    places = as_dtype(b, _filled(b, chosen, most, "int64"), dtypes[0])
    return [Stored(places, (0,)), Stored(kept, (0,)), Stored(as_dtype(b, count, dtypes[2]), ())]


def _selected(
    b: Builder, op: Op, boxes: Operand, scores: Operand, size: Operand, overlap: Operand, least: Operand
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The numbers of the boxes that are selected, how many they may be, and how many they are."""
    most = b.emit("Reshape", b.cast(b.ask(size), "int64"), b.ints([1]))
    limit = np.nextafter(np.float32(op.parameter(3).reshape(-1)[0]), np.float32(0))
    rows = b.emit(
        "NonMaxSuppression",
        b.emit("Unsqueeze", b.ask(boxes), b.ints([0])),
        b.emit("Unsqueeze", b.ask(scores), b.ints([0, 1])),
        most,
        b.array(limit.reshape(1)),
        b.emit("Reshape", b.ask(least), b.ints([1])),
    )
    chosen = b.emit("Gather", rows, b.scalar(2, "int64"), axis=1)
    return chosen, most, b.emit("Size", chosen)


def _filled(b: Builder, values: ir.Value, size: ir.Value, dtype: str) -> ir.Value:
    """Values with zeros behind them, as many together as are wanted."""
    zeros = b.emit("Expand", b.scalar(0, dtype), size)
    return b.emit("Slice", b.emit("Concat", values, zeros, axis=0), b.ints([0]), size)
