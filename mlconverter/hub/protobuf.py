"""ONNX protobufs of any size: walks over them, copies that leave the weights out, digests.

A protobuf beyond 2 GB exists in memory, but cannot be serialised, and cannot even say how large it is. So nothing
here serialises one whole; what is copied is one tensor at a time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

if TYPE_CHECKING:
    import onnx

LARGEST_PROTOBUF = 2**31 - 1
"""Bytes that a serialised protobuf has at most."""

PAYLOADS = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
"""Fields of a tensor that hold its elements."""

NOTHING: Mapping[str, memoryview] = {}
"""Where no tensor lies outside."""

_CHUNK = 1 << 20

Transcriber = Callable[[Any, Any], None]
"""Fills an empty message from another."""


def messages(message: Any) -> Iterator[Any]:
    """A message and all messages in it, those of nested graphs and functions too; tensors are not looked into."""
    yield message
    if message.DESCRIPTOR.name == "TensorProto":
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if hasattr(value, "add") else (value,):
                yield from messages(inner)


def tensors(message: Any) -> Iterator[onnx.TensorProto]:
    """All tensors in a message: initializers, attributes, parts of sparse tensors."""
    return (m for m in messages(message) if m.DESCRIPTOR.name == "TensorProto")


def nbytes(tensor: onnx.TensorProto) -> int:
    """Bytes that the elements of a tensor take, by its dtype and dimensions; of text the bytes that are there."""
    dtype = ir.DataType(tensor.data_type)
    if dtype is ir.DataType.STRING:
        return sum(map(len, tensor.string_data))
    return int(-(-math.prod(tensor.dims) * dtype.bitwidth // 8))


def serialized(proto: onnx.ModelProto) -> bytes | None:
    """The bytes of a model, ``None`` where it is too large for a protobuf."""
    from google.protobuf.message import EncodeError

    if sum(map(nbytes, tensors(proto))) > LARGEST_PROTOBUF:  # trying takes seconds and as much memory again
        return None
    try:
        data = proto.SerializeToString()
    except EncodeError:
        return None
    return data if len(data) <= LARGEST_PROTOBUF else None


def transcribe(source: Any, target: Any, special: Mapping[str, Transcriber]) -> None:
    """Fill an empty message from another, field by field.

    Args:
        source: it is not changed.
        target: a message of the same type.
        special: for messages of these types, by name, what fills them instead.
    """
    by = special.get(source.DESCRIPTOR.name)
    if by is not None:
        by(source, target)
        return
    for field, value in source.ListFields():
        place = getattr(target, field.name)
        if field.message_type is None and hasattr(value, "extend"):
            place.extend(value)
        elif field.message_type is None:
            setattr(target, field.name, value)
        elif hasattr(value, "add"):
            for inner in value:
                transcribe(inner, place.add(), special)
        else:
            place.SetInParent()
            transcribe(value, place, special)


def describe(source: onnx.TensorProto, target: onnx.TensorProto) -> None:
    """Fill an empty tensor with everything but the elements of another."""
    for field in source.DESCRIPTOR.fields:
        if field.name in PAYLOADS:
            continue
        value = getattr(source, field.name)
        if hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        elif source.HasField(field.name):
            getattr(target, field.name).CopyFrom(value) if field.message_type else setattr(target, field.name, value)


def digest(proto: onnx.ModelProto, held: Mapping[str, memoryview] = NOTHING) -> str:
    """SHA-256 of a model, weights included, in hexadecimal; of a model of any size, and without a copy of its weights.

    Args:
        proto: the model.
        held: the raw data of tensors that lie outside, by name.
    """
    from onnx import ModelProto

    skeleton = ModelProto()
    transcribe(proto, skeleton, {"TensorProto": partial(_describe_by_hash, held)})
    return hashlib.sha256(skeleton.SerializeToString(deterministic=True)).hexdigest()


def _describe_by_hash(held: Mapping[str, memoryview], source: onnx.TensorProto, target: onnx.TensorProto) -> None:
    describe(source, target)
    outside = source.data_location == source.EXTERNAL
    target.ClearField("data_location")
    found = hashlib.sha256()
    for name in PAYLOADS:
        elements = held[source.name] if outside and name == "raw_data" else getattr(source, name)
        found.update(f"{name} {len(elements)} ".encode())
        if isinstance(elements, (bytes, memoryview)):
            found.update(elements)
            continue
        for start in range(0, len(elements), _CHUNK):
            piece = elements[start : start + _CHUNK]
            if name == "string_data":
                found.update(b"".join(f"{len(text)} ".encode() + text for text in piece))
            else:
                found.update(np.asarray(piece).tobytes())
    target.raw_data = found.digest()
