"""Metadata and extra files in ONNX models: entries of the model's own ``metadata_props``."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING

from mlconverter.errors import CorruptModelError
from mlconverter.hub.io import save_proto
from mlconverter.hub.protobuf import merge
from mlconverter.hub.wire import fields
from mlconverter.metadata import PREFIX, Metadata, prefixed, unprefixed

if TYPE_CHECKING:
    import onnx


def write(proto: onnx.ModelProto, path: Path, about: Metadata) -> None:
    """Write a model, which is not changed, with metadata in place of those that it may have from an earlier export."""
    from onnx import ModelProto

    others = [entry for entry in proto.metadata_props if not entry.key.startswith(PREFIX)]
    if len(others) < len(proto.metadata_props):
        without = ModelProto()
        merge(proto, without, "metadata_props")
        without.metadata_props.extend(others)
        proto = without
    entries = ModelProto()
    for key, value in prefixed(about.texts).items():
        entries.metadata_props.add(key=key, value=value)
    save_proto(proto, path, entries.SerializeToString())


def read(path: Path) -> Metadata:
    """The metadata of a file; its graph and weights are not read, so one of any size costs the same."""
    from google.protobuf.message import DecodeError
    from onnx import ModelProto, StringStringEntryProto

    number = ModelProto.METADATA_PROPS_FIELD_NUMBER
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = [data[f.content : f.end] for f in fields(data, 0, len(data)) if f.number == number]
        entries = [StringStringEntryProto.FromString(content) for content in found]
    except (ValueError, IndexError, DecodeError) as error:
        raise CorruptModelError(f"'{path}' is not a readable ONNX model: {error}.") from error
    return Metadata.of_texts(unprefixed({entry.key: entry.value for entry in entries}), path)
