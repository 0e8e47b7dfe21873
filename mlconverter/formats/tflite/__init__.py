"""TFLite (LiteRT): reading its files, running them, and the way to ONNX and back."""

from mlconverter.formats.tflite.converter import TFLiteConverter

__all__ = ["TFLiteConverter"]
