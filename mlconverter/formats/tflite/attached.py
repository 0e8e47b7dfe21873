"""Metadata and extra files in TFLite files: entries of the file's own list of metadata.

They are put in front of a file: a new root, which leads to the new entries and to all that the old one led to. References
in a flatbuffer are distances ahead, so whatever follows is right where it is, byte for byte, but for the few places that
count from the start of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flatbuffers
import numpy as np

from mlconverter.formats.tflite.metadata import about_file
from mlconverter.formats.tflite.schema import MAGIC, generated, load
from mlconverter.formats.tflite.writer import ALIGNMENT
from mlconverter.metadata import PREFIX, Metadata, prefixed, unprefixed

if TYPE_CHECKING:
    from mlconverter.formats.tflite.model import TFLiteModel

_REFERRED = {
    1: "operatorCodes",
    2: "subgraphs",
    3: "description",
    5: "metadataBuffer",
    7: "signatureDefs",
    8: "externalBufferGroups",
    9: "externalBuffers",
}
"""Fields of the root that stay as they are, by number; 0 is the version, 4 the buffers, 6 the metadata."""

_BUFFERS, _METADATA = 4, 6

_ABSOLUTE = {"Buffer": 1, "Operator": 9}
"""Which field of a table counts from the start of the file."""


def write(model: TFLiteModel, path: Path, about: Metadata) -> None:
    """Write a model with metadata in place of those that it may have from an earlier export."""
    path.write_bytes(with_entries(bytes(model), prefixed(about.files)))


def read(path: Path) -> Metadata:
    """The metadata of a file."""
    return Metadata.of_files(unprefixed(about_file(load(path.read_bytes())).entries), path)


def with_entries(data: bytes, entries: Mapping[str, bytes]) -> bytearray:
    """A file with other metadata entries behind those that are not an export's own; the bytes of those stay, unreferenced.

    Args:
        data: a file that reads without errors.
        entries: content by name.
    """
    old = generated().Model.GetRootAs(data, 0)
    said = map(old.Metadata, range(old.MetadataLength()))
    kept = [table for table in said if not (table.Name() or b"").startswith(PREFIX.encode())]
    front = _front(old, len(kept), entries)
    whole = front + data
    new = generated().Model.GetRootAs(whole, 0)
    for number in _present(old):
        _refer(whole, _place(new, number), len(front) + old._tab.Indirect(_place(old, number)))
    for number, tables in ((_BUFFERS, map(old.Buffers, range(old.BuffersLength()))), (_METADATA, kept)):
        start = new._tab.Vector(_place(new, number) - new._tab.Pos)
        for i, table in enumerate(tables):
            _refer(whole, start + 4 * i, len(front) + table._tab.Pos)
    for at in _absolute(old):
        struct.pack_into("<Q", whole, len(front) + at, struct.unpack_from("<Q", data, at)[0] + len(front))
    return whole


def _front(old: Any, kept: int, entries: Mapping[str, bytes]) -> bytearray:
    """A flatbuffer with the new entries and a place for every reference into the old one."""
    schema = generated()
    first = old.BuffersLength()
    model = schema.ModelT(
        version=old.Version(),
        buffers=[
            *([schema.BufferT()] * first),
            *(schema.BufferT(data=np.frombuffer(content, np.uint8)) for content in entries.values()),
        ],
        metadata=[
            *([schema.MetadataT()] * kept),
            *(schema.MetadataT(name=name, buffer=number) for number, name in enumerate(entries, first)),
        ],
        **{name: "" if name == "description" else [] for name in _present(old).values()},
    )
    builder = flatbuffers.Builder(sum(map(len, entries.values())) + 1024)
    builder.Finish(model.Pack(builder), MAGIC)
    made = builder.Output()
    return bytearray(made) + bytes(-len(made) % ALIGNMENT)


def _present(root: Any) -> dict[int, str]:
    return {number: name for number, name in _REFERRED.items() if root._tab.Offset(4 + 2 * number)}


def _place(table: Any, number: int) -> int:
    """Where in the file a field of a table stands."""
    return int(table._tab.Pos + table._tab.Offset(4 + 2 * number))


def _refer(whole: bytearray, place: int, target: int) -> None:
    struct.pack_into("<I", whole, place, target - place)


def _absolute(root: Any) -> Iterator[int]:
    """Where numbers stand that count from the start of the file; 0 and 1 stand for none."""
    for i in range(root.BuffersLength()):
        if (buffer := root.Buffers(i)).Offset() > 1:
            yield _place(buffer, _ABSOLUTE["Buffer"])
    for i in range(root.SubgraphsLength()):
        graph = root.Subgraphs(i)
        for k in range(graph.OperatorsLength()):
            if (operator := graph.Operators(k)).LargeCustomOptionsOffset() > 1:
                yield _place(operator, _ABSOLUTE["Operator"])
