"""Tells an ONNX file by protobuf's wire format, without reading its weights."""

from __future__ import annotations

import mmap
from pathlib import Path

from mlconverter.hub.wire import GRAPH, fields

_MODEL_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, GRAPH: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
"""Wire type (0: a varint, 2: a length and so many bytes) of the fields of ``onnx.ModelProto``, by number."""


def is_onnx_file(path: Path) -> bool:
    """Whether a file consists of the fields of an ``onnx.ModelProto``, a graph among them.

    Only the tags and lengths at the top level are read, so a file of any size costs the same.
    """
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        graph = False
        try:
            for field in fields(data, 0, len(data)):
                if _MODEL_FIELDS.get(field.number) != field.wire_type:
                    return False
                graph |= field.number == GRAPH
        except (ValueError, IndexError):
            return False
    return graph
