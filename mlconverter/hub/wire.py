"""Protobuf's wire format, as far as it takes to leave the weights of a serialized ONNX model where they are."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import NamedTuple

SMALLEST = 1024
"""Bytes from which on the elements of a tensor are kept, written or hashed apart from the graph."""

_VARINT, _LENGTH = 0, 2
_FIXED = {1: 8, 5: 4}
GRAPH = 7
"""Number of the field of a model that is its graph."""

_INITIALIZER, _RAW_DATA = 5, 9
_PLAIN = frozenset({1, 2, 8, 12, 16})
"""Fields of a tensor that may stand beside its elements: dimensions, dtype, name, text, metadata."""


class Field(NamedTuple):
    """One field of a message: where its tag, its content and the next field begin."""

    number: int
    wire_type: int
    start: int
    content: int
    end: int


class Light(NamedTuple):
    """A model without the elements of large initializers.

    Attributes:
        data: the serialized rest.
        extents: for initializers by position, where in the original their elements start, and how many bytes they are.
    """

    data: bytes
    extents: dict[int, tuple[int, int]]


def lightened(data: bytes) -> Light | None:
    """Leave out what large initializers hold as raw data; ``None`` where the bytes are not laid out as writers do it."""
    try:
        graphs = [f for f in fields(data, 0, len(data)) if f.number == GRAPH]
        if len(graphs) != 1 or graphs[0].wire_type != _LENGTH:
            return None
        (graph,) = graphs
        parts, extents = _graph(data, graph)
    except (IndexError, ValueError):
        return None
    inner = b"".join(parts)
    tag = _encoded(GRAPH << 3 | _LENGTH)
    return Light(b"".join((data[: graph.start], tag, _encoded(len(inner)), inner, data[graph.end :])), extents)


def _graph(data: bytes, graph: Field) -> tuple[list[bytes], dict[int, tuple[int, int]]]:
    """The pieces of a graph without the elements of initializers, and where those are."""
    parts: list[bytes] = []
    extents: dict[int, tuple[int, int]] = {}
    kept, index = graph.content, 0  # everything from there on is still to be kept
    for field in fields(data, graph.content, graph.end):
        if field.number != _INITIALIZER:
            continue
        raw = _elements(data, field)
        if raw is not None:
            rest = data[field.content : raw.start] + data[raw.end : field.end]
            parts += (data[kept : field.start], _encoded(_INITIALIZER << 3 | _LENGTH), _encoded(len(rest)), rest)
            extents[index] = (raw.content, raw.end - raw.content)
            kept = field.end
        index += 1
    return [*parts, data[kept : graph.end]], extents


def _elements(data: bytes, tensor: Field) -> Field | None:
    """The raw data of a tensor, where they are large and all that it says of its elements."""
    if tensor.wire_type != _LENGTH or tensor.end - tensor.content < SMALLEST:
        return None
    found = None
    for field in fields(data, tensor.content, tensor.end):
        if field.number == _RAW_DATA and field.wire_type == _LENGTH and found is None:
            found = field
        elif field.number not in _PLAIN:
            return None
    return found if found is not None and found.end - found.content >= SMALLEST else None


def fields(data: bytes | mmap, at: int, end: int) -> Iterator[Field]:
    """The fields of a message.

    Raises:
        ValueError: the bytes are none, or of a kind that ONNX does not use.
        IndexError: they end too early.
    """
    while at < end:
        start = at
        tag, at = _decoded(data, at)
        wire_type = tag & 7
        if wire_type == _LENGTH:
            length, at = _decoded(data, at)
            after = at + length
        elif wire_type == _VARINT:
            _, after = _decoded(data, at)
        else:
            after = at + _FIXED.get(wire_type, end)
        if after > end:
            raise ValueError(f"field {tag >> 3} at byte {start} ends at byte {after} of {end}")
        yield Field(tag >> 3, wire_type, start, at, after)
        at = after


def _decoded(data: bytes | mmap, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while shift < 70:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
    raise ValueError(f"no number at byte {at}")


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
