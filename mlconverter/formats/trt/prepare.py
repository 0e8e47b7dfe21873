"""The graph that TensorRT's parser gets: in a form that it takes, and in the precision that was asked for."""

from __future__ import annotations

import onnx_ir as ir

from mlconverter.errors import ConversionError
from mlconverter.hub.model import HubModel
from mlconverter.hub.normalise import normalise
from mlconverter.options import ConvertOptions

_HALVES = {"fp16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}


def prepared(hub: HubModel, options: ConvertOptions) -> tuple[ir.Model, tuple[str, ...]]:
    """A copy of a graph for TensorRT, and notes for the report.

    Raises:
        SignatureError: ``int8`` or ``fp8`` without inputs to calibrate on, or such that do not fit.
        ConversionError: the graph cannot be put into that precision.
    """
    model = normalise(hub.model)
    if options.precision in _HALVES:
        from mlconverter.formats.trt.half import to_half

        return model, to_half(model, _HALVES[options.precision])
    if options.precision != "fp32":
        raise ConversionError(f"Engines in {options.precision} are not built yet.")
    return model, ()
