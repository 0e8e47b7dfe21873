"""ONNX protobufs of any size: walks over them, copies that leave the weights out, digests.

A protobuf beyond 2 GB exists in memory, but cannot be serialised, and cannot even say how large it is. So nothing
here serialises one whole; what is copied is one tensor at a time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from mlconverter.hub.wire import SMALLEST

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


def messages(message: Any, wanted: Callable[[Any], bool] = lambda _: True) -> Iterator[Any]:
    """A message and all messages in it, those of nested graphs and functions too; tensors are not looked into.

    Args:
        message: any.
        wanted: which to look at; another one is left out with all that is in it.
    """
    if not wanted(message):
        return
    yield message
    if message.DESCRIPTOR.name == "TensorProto":
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if hasattr(value, "add") else (value,):
                yield from messages(inner, wanted)


def messages_of(message: Any, kind: str) -> Iterator[Any]:
    """All messages of a kind in a message, itself, and those of nested graphs and functions; none that lie in one of the kind."""
    if message.DESCRIPTOR.name == kind:
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None and _leads_to(field.message_type, frozenset({kind})):
            for inner in value if hasattr(value, "add") else (value,):
                yield from messages_of(inner, kind)


@cache
def _leads_to(descriptor: Any, kinds: frozenset[str]) -> bool:
    """Whether a message is of one of some kinds, or may hold one that is."""
    found = {descriptor.full_name: descriptor}
    for known in (pending := [descriptor]):
        inner = [f.message_type for f in known.fields if f.message_type is not None and f.message_type.full_name not in found]
        found.update((kind.full_name, kind) for kind in inner)
        pending.extend(inner)
    return not kinds.isdisjoint(kind.name for kind in found.values())


def tensors(message: Any) -> Iterator[onnx.TensorProto]:
    """All tensors in a message: initializers, attributes, parts of sparse tensors."""
    return messages_of(message, "TensorProto")


def nbytes(tensor: onnx.TensorProto) -> int:
    """Bytes that the elements of a tensor take, by its dtype and dimensions; of text the bytes that are there."""
    dtype = ir.DataType(tensor.data_type)
    if dtype is ir.DataType.STRING:
        return sum(map(len, tensor.string_data))
    return int(-(-math.prod(tensor.dims) * dtype.bitwidth // 8))


def is_plain(tensor: onnx.TensorProto) -> bool:
    """Whether numpy stores the elements as ONNX does."""
    known = tensor.data_type in set(ir.DataType) and tensor.data_type not in (ir.DataType.UNDEFINED, ir.DataType.STRING)
    return known and ir.DataType(tensor.data_type).bitwidth % 8 == 0


def serialized(proto: onnx.ModelProto) -> bytes | None:
    """The bytes of a model, ``None`` where it is too large for a protobuf or has tensors of no element type."""
    from google.protobuf.message import EncodeError

    try:
        if sum(map(nbytes, tensors(proto))) > LARGEST_PROTOBUF:  # trying takes seconds and as much memory again
            return None
        data = proto.SerializeToString()
    except (EncodeError, ValueError):
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
    leading = partial(_leads_to, kinds=frozenset(special))
    if not leading(source.DESCRIPTOR):
        target.CopyFrom(source)
        return
    for field, value in source.ListFields():
        if field.message_type is None and not hasattr(value, "extend"):
            setattr(target, field.name, value)
            continue
        place = getattr(target, field.name)
        if field.message_type is None or not leading(field.message_type):
            place.MergeFrom(value)
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


def merge(source: Any, target: Any, but: str) -> None:
    """Fill a message from another of its type with everything but one field."""
    for field, value in source.ListFields():
        if field.name == but:
            continue
        if field.message_type is not None or hasattr(value, "extend"):
            getattr(target, field.name).MergeFrom(value)
        else:
            setattr(target, field.name, value)


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
    if nbytes(source) < SMALLEST:
        target.CopyFrom(source)
        return
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
