"""Operators that ONNX Runtime's optimiser makes of several, written out again as those, which every engine knows."""

from mlconverter.hub.fused import attention, layers, quantised
from mlconverter.hub.fused.writer import known_as, refusal, write_out, writes_out

__all__ = ["attention", "known_as", "layers", "quantised", "refusal", "write_out", "writes_out"]
