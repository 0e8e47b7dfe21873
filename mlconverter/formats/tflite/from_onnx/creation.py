"""Operators that make a tensor of nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.values import Array, Constant


@translates("Constant", 1, 9, 11, 12, 13, 19, 21, 23, 24, 25)
def constant(b: Builder, *, value: Array | None = None, **others: Any) -> Constant:
    """Constant → a constant tensor; only one that is an output is left of them."""
    ((kind, given),) = (others or {"value": value}).items()
    if kind not in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        raise Refused(f"a constant given as {kind}")
    dtype = np.float32 if "float" in kind else None if kind == "value" else np.int64
    return Constant(np.asarray(given, dtype))
