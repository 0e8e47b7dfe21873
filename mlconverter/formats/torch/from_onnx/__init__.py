"""The engine ONNX → Torch: one file an operator family, each translator a short named function."""

from mlconverter.formats.torch.from_onnx import (
    activation,
    casting,
    convolution,
    creation,
    elementwise,
    indexing,
    joining,
    linear,
    normalisation,
    pooling,
    recurrent,
    reduction,
    resize,
    shaping,
    vision,
)
from mlconverter.formats.torch.from_onnx.convert import convert
from mlconverter.formats.torch.from_onnx.ops import translates

__all__ = [
    "activation",
    "casting",
    "convert",
    "convolution",
    "creation",
    "elementwise",
    "indexing",
    "joining",
    "linear",
    "normalisation",
    "pooling",
    "recurrent",
    "reduction",
    "resize",
    "shaping",
    "translates",
    "vision",
]
