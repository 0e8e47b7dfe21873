"""Conversions between element types."""

from __future__ import annotations

import onnx_ir as ir

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.kernels import STORED
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.values import Runtime, Stored
from mlconverter.hub.io import numpy_name


@translates("Cast", 6, 9, 13, 19, 21, 23, 24, 25, 28)
def cast(b: Builder, x: Runtime, *, to: int, saturate: int = 1, round_mode: str = "up") -> Stored:
    """Cast → CAST."""
    wire, order = x.first
    wanted = numpy_name(ir.DataType(to))
    if wanted == "float16":
        # Half precision is computed in single precision, but what is cast is rounded.
        rounded = b.emit("CAST", wire, dims=wire.dims, dtype="float16")
        return Stored(b.emit("CAST", rounded, dims=wire.dims, dtype="float32"), order)
    if wanted not in STORED:
        raise Refused(f"TFLite does not compute with {wanted}")
    return Stored(b.cast(wire, wanted), order)
