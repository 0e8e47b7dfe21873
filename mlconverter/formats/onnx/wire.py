"""Tells an ONNX file by protobuf's wire format, without reading its weights."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

GRAPH = 7
_MODEL_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, GRAPH: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
"""Wire type (0: a varint, 2: a length and so many bytes) of the fields of ``onnx.ModelProto``, by number."""


def is_onnx_file(path: Path) -> bool:
    """Whether a file consists of the fields of an ``onnx.ModelProto``, a graph among them.

    Only the tags and lengths at the top level are read, so a file of any size costs the same.
    """
    size = path.stat().st_size
    graph = False
    with path.open("rb") as file:
        while file.tell() < size:
            tag = _varint(file)
            if tag is None or _MODEL_FIELDS.get(tag >> 3) != tag & 7:
                return False
            value = _varint(file)
            if value is None:
                return False
            if tag & 7 == 2:
                if file.tell() + value > size:
                    return False
                file.seek(value, 1)
            graph |= tag >> 3 == GRAPH
    return graph


def _varint(file: BinaryIO) -> int | None:
    """The next number, or ``None`` where there is none."""
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    return None
