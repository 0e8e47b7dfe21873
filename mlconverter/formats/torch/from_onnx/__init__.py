"""The engine ONNX → Torch: one file an operator family, each translator a short named function."""

from mlconverter.formats.torch.from_onnx import (
    activation,
    convolution,
    elementwise,
    indexing,
    linear,
    normalisation,
    pooling,
    reduction,
    resize,
    shaping,
)
from mlconverter.formats.torch.from_onnx.convert import convert
from mlconverter.formats.torch.from_onnx.ops import translates

__all__ = [
    "activation",
    "convert",
    "convolution",
    "elementwise",
    "indexing",
    "linear",
    "normalisation",
    "pooling",
    "reduction",
    "resize",
    "shaping",
    "translates",
]
