"""Shapes and arithmetic on them, which never become tensors unless something computes with them."""

from __future__ import annotations

import math

import numpy as np

from mlconverter.formats.tflite.from_onnx.values import Constant, Ints, Runtime, Size, Sizes, Value
from mlconverter.hub.evaluate import object_array
from mlconverter.hub.nodes import Call


def settled(value: Value | None) -> Value | None:
    """Sizes all of which are numbers as the constant that they are."""
    if isinstance(value, Sizes) and all(isinstance(i, (int, np.integer)) for i in value.array.reshape(-1)):
        return Constant(value.array.astype(value.dtype))
    return value


def shape_of(call: Call, of: Value | None) -> Sizes:
    """What Shape and Size give of a value."""
    assert of is not None
    known = () if isinstance(of, Runtime) else of.array.shape if isinstance(of, Sizes) else of.dims
    items: list[int | Size] = of.sizes if isinstance(of, Runtime) else list(known)
    if call.op == "Size":
        return Sizes(object_array([math.prod(items)]).reshape(()))
    return Sizes(object_array(items)[call.attributes.get("start", 0) : call.attributes.get("end")])


def ints_of(value: Value) -> Ints | None:
    """A value as integers, ``None`` where the run time computes it."""
    if isinstance(value, Constant) and value.value.dtype.kind in "iub":
        return Ints(int(v) for v in value.value.reshape(-1))
    if isinstance(value, Sizes):
        return Ints(v if isinstance(v, Size) else int(v) for v in value.array.reshape(-1))
    return None
