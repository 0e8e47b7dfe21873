"""The engine ONNX → Torch: one file an operator family, each translator a short named function."""

from mlconverter.formats.torch.from_onnx import (
    activation,
    casting,
    control,
    convolution,
    creation,
    elementwise,
    indexing,
    joining,
    linear,
    normalisation,
    pooling,
    quantisation,
    recurrent,
    reduction,
    resize,
    sequences,
    shaping,
    vision,
)
from mlconverter.formats.torch.from_onnx.convert import convert
from mlconverter.formats.torch.from_onnx.ops import translates

__all__ = [
    "activation",
    "casting",
    "control",
    "convert",
    "convolution",
    "creation",
    "elementwise",
    "indexing",
    "joining",
    "linear",
    "normalisation",
    "pooling",
    "quantisation",
    "recurrent",
    "reduction",
    "resize",
    "sequences",
    "shaping",
    "translates",
    "vision",
]
