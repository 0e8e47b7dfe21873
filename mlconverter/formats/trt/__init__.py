"""TensorRT: engines are built from the hub, and nothing is read from them."""

from mlconverter.formats.trt.converter import TRTConverter

__all__ = ["TRTConverter"]
