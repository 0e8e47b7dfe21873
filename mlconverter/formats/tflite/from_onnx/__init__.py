"""The engine ONNX → TFLite: one file an operator family, each translator a short named function."""

from mlconverter.formats.tflite.from_onnx import (
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
    shaping,
    slicing,
    space,
)
from mlconverter.formats.tflite.from_onnx.convert import convert
from mlconverter.formats.tflite.from_onnx.ops import translates

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
    "shaping",
    "slicing",
    "space",
    "translates",
]
