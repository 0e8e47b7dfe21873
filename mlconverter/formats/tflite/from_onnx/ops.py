"""The operators of the route ONNX → TFLite, and how a translator refuses a node."""

from __future__ import annotations

from mlconverter.registry import OpRegistry

translates = OpRegistry("onnx-tflite")


class Refused(Exception):
    """A node cannot be translated; the message says why. All refusals of a model are reported together."""
