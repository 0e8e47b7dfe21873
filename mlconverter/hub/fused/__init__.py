"""Operators that ONNX Runtime's optimiser makes of several, written out again as those, which every engine knows."""

from mlconverter.hub.fused import attention, layers
from mlconverter.hub.fused.writer import known_as, refusal, write_out, writes_out

__all__ = ["attention", "known_as", "layers", "refusal", "write_out", "writes_out"]
