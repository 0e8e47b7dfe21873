"""The engine ONNX → TFLite: one file an operator family, each translator a short named function."""

from mlconverter.formats.tflite.from_onnx import (
    activation,
    bits,
    casting,
    convolution,
    elementwise,
    functions,
    indexing,
    joining,
    linear,
    making,
    normalisation,
    pooling,
    products,
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
    "bits",
    "casting",
    "convert",
    "convolution",
    "elementwise",
    "functions",
    "indexing",
    "joining",
    "linear",
    "making",
    "normalisation",
    "pooling",
    "products",
    "reduction",
    "resize",
    "shaping",
    "slicing",
    "space",
    "translates",
]
