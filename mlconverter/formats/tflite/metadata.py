"""What a TFLite file says of itself beside its graph, and the same as the metadata of an ONNX model, which hold text alone.

An entry stands in the ONNX model under its name; one that is no text stands there in base64, under its name and
``;base64``. Files that are attached to a TFLite file, as lists of labels are, stand there under ``associated_files/``.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from mlconverter.formats.tflite.structure import Model
from mlconverter.hub.states import STATES_KEY
from mlconverter.metadata import bytes_of, text_of

NAME = "mlconverter"
"""What a file is described by that nothing else is known of."""

_FILE = "associated_files/"

_DESCRIBES_FILES = "TFLITE_METADATA"
"""The entry that says what attached files are; without it there are none."""


@dataclass(frozen=True)
class About:
    """What a file says of itself.

    Attributes:
        description: of the model, or what wrote it.
        entries: its metadata by name.
        files: what is attached to it, by name.
    """

    description: str = NAME
    entries: Mapping[str, bytes] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


def about_file(model: Model) -> About:
    """What a TFLite file says of itself."""
    extents = {name: model.buffers[number] for name, number in model.metadata.items()}
    entries = {name: bytes(model.data[e.offset : e.offset + e.length]) for name, e in extents.items()}
    return About(model.description, entries, _attached(model.data) if _DESCRIBES_FILES in entries else {})


def _attached(data: bytes) -> dict[str, bytes]:
    """The files in the archive that stands behind a TFLite file; as its readers do, those that are not compressed."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            plain = [i for i in archive.infolist() if i.compress_type == zipfile.ZIP_STORED]
            # Entries of a hostile archive may lie over one another.
            return {i.filename: archive.read(i) for i in plain} if sum(i.file_size for i in plain) < len(data) else {}
    except (zipfile.BadZipFile, EOFError, RuntimeError, ValueError):
        return {}  # there is none, or one that nobody can read


def attach(file: io.BytesIO, files: Mapping[str, bytes]) -> None:
    """Put an archive behind what has been written so far."""
    with zipfile.ZipFile(file, "a", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # whose time is a fixed one: the same model is the same file


def about_onnx(model: ir.Model) -> About:
    """What an ONNX model says of itself, for a TFLite file, whose variables say themselves what is kept."""
    said = {key: text for key, text in model.metadata_props.items() if key != STATES_KEY}
    found: dict[str, bytes] = dict(bytes_of(key, text) for key, text in said.items())
    files = {name.removeprefix(_FILE): found.pop(name) for name in list(found) if name.startswith(_FILE)}
    origin = " ".join(filter(None, (model.producer_name, model.producer_version)))
    made_by = NAME if model.producer_name in (None, "", NAME) else f"{NAME}, from a model by {origin}"
    return About(model.doc_string or made_by, found, files)


def say(about: About, model: ir.Model) -> None:
    """Let an ONNX model say what a TFLite file said."""
    if about.description != NAME:
        model.doc_string = about.description
    named = {**about.entries, **{_FILE + name: content for name, content in about.files.items()}}
    model.metadata_props.update(text_of(name, content) for name, content in named.items())
