"""What kind of torch file a file is, told by its bytes. Nothing in it is run, and torch is not needed."""

from __future__ import annotations

import os
import pickletools
import re
import zipfile
from pathlib import Path
from typing import IO

from mlconverter.errors import NotConvertibleError

_EXPORTED = ("serialized_exported_program.json", "models/model.json")
"""Files inside an archive that ``torch.export.save`` has written."""

_EXTRA = re.compile(r"[^/]+/extra/")
"""Where an archive has files of the person's own, whatever they are called."""

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
"""What torch's files began with before they were archives."""

_LEGACY_PICKLES = 4
"""Behind the magic number: version, system, the object itself, and the keys of its storages."""


def is_archive(path: Path) -> bool:
    """Whether a file is an archive with torch's records in it."""
    return any(name.endswith(("data.pkl", *_EXPORTED)) for name in _members(path))


def is_safetensors(path: Path) -> bool:
    """Whether a file begins as safetensors do: with the length of a JSON object, and that object."""
    with path.open("rb") as file:
        start = file.read(9)
    begins = start[8:] == b"{" and int.from_bytes(start[:8], "little") < path.stat().st_size
    return begins or is_safetensors_name(path)


def is_safetensors_name(path: Path) -> bool:
    """Whether a file that is to be written is one of safetensors."""
    return path.suffix.lower() == ".safetensors"


def holds_program(path: Path) -> bool:
    """Whether a file was written by ``torch.export.save``."""
    return any(name.endswith(_EXPORTED) for name in _members(path))


def holds_code(path: Path) -> bool:
    """Whether a file was written by ``torch.jit.save``."""
    return any(name.endswith("constants.pkl") for name in _members(path))


def refuse_program(path: Path) -> None:
    """Raise for a file that holds a program and not weights.

    Raises:
        NotConvertibleError: it was written by ``torch.export.save``.
    """
    if holds_program(path):
        raise NotConvertibleError(f"'{path}' holds an exported program: give torch.export.load('{path}').module() as the model.")


def is_undamaged(path: Path) -> bool:
    """Whether the pickles of a checkpoint make sense to their end, so that what is in them is what keeps it from loading."""
    try:
        members = _members(path)
        if members:
            pickles = [name for name in members if name.endswith("data.pkl")]
            with zipfile.ZipFile(path) as archive:
                for name in pickles:
                    _read_through(archive.open(name))
            return bool(pickles)
        with path.open("rb") as file:
            legacy = _LEGACY_MAGIC in {argument for _, argument, _ in pickletools.genops(file)}
            for _ in range(_LEGACY_PICKLES if legacy else 0):
                _read_through(file)
            return legacy
    except (ValueError, zipfile.BadZipFile):
        return False


def _members(path: Path) -> list[str]:
    """The files in an archive but those of the person's own; none where it is no archive, or one that cannot be read."""
    if not zipfile.is_zipfile(path):
        return []
    try:
        with zipfile.ZipFile(path) as archive:
            return [name for name in archive.namelist() if _EXTRA.match(name) is None]
    except zipfile.BadZipFile:
        return []


def _read_through(file: IO[bytes]) -> None:
    """Read a pickle to its end, without doing what it says.

    Raises:
        ValueError: it is none, or it takes what it has not put there.
    """
    with open(os.devnull, "w") as nowhere:
        pickletools.dis(file, out=nowhere)
