"""The operators of the route ONNX → Torch."""

from __future__ import annotations

from mlconverter.registry import OpRegistry

translates = OpRegistry("onnx-torch")
