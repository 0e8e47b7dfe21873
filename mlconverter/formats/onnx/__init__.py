"""ONNX: the hub's own language, as a format of its own."""

from mlconverter.formats.onnx.converter import ONNXConverter

__all__ = ["ONNXConverter"]
