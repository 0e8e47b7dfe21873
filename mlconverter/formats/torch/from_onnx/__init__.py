"""The engine ONNX → Torch: one file an operator family, each translator a short named function."""

from mlconverter.formats.torch.from_onnx import (
    activation,
    attention,
    casting,
    convolution,
    creation,
    elementwise,
    indexing,
    joining,
    linear,
    normalisation,
    pooling,
    reduction,
    regions,
    resize,
    shaping,
    spectra,
    text,
    trees,
    vision,
)
from mlconverter.formats.torch.from_onnx.convert import convert
from mlconverter.formats.torch.from_onnx.ops import translates

__all__ = [
    "activation",
    "attention",
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
    "reduction",
    "regions",
    "resize",
    "shaping",
    "spectra",
    "text",
    "translates",
    "trees",
    "vision",
]
