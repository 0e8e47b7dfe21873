"""Files written safely, and intermediate models that are reused only where they are still right.

An intermediate is named after its own content, and a small manifest a key says which one belongs to it. So a
file is never changed once it is there, several processes need no lock, and nothing in the folder can be
mistaken for something that it is not.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mlconverter.errors import SaveError

Writer = Callable[[Path], object]
"""Writes one file to the path that it is given."""

MANIFESTS = ".mlconverter"
"""Sub-folder of an intermediate folder that holds the manifests."""


def content_hash(source: str | os.PathLike[str] | bytes | bytearray | memoryview) -> str:
    """SHA-256 of a file (read in pieces) or of bytes, in hexadecimal."""
    if isinstance(source, bytes | bytearray | memoryview):
        return hashlib.sha256(source).hexdigest()
    with Path(source).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def atomic_write(path: str | os.PathLike[str], content: bytes | bytearray | memoryview | Writer) -> Path:
    """Write a file so that it is there whole or not at all; a file of that name is replaced.

    Args:
        path: where the file goes; its folder must exist.
        content: the bytes, or a function that writes them to a temporary path in the same folder (with the
            same extension).

    Returns:
        The path.

    Raises:
        SaveError: the file cannot be written. Nothing is left behind, and what was there before is untouched.
    """
    target = Path(path)
    real = Path(os.path.realpath(target))  # through a link: what it points to is written, the link stays
    temporary = _temporary(real)
    try:
        _fill(temporary, content)
        temporary.replace(real)
    except OSError as error:
        raise _save_error(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)
    return target


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """The installed versions of packages by name; those that are not installed are absent."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


@dataclass(frozen=True)
class ManifestKey:
    """What an intermediate depends on: two keys are equal where the same conversion gives the same file.

    Attributes:
        stem: readable start of the file's name; by itself it tells no files apart.
        format: name of the format.
        extension: the file's extension, with its dot.
        source_hash: :func:`content_hash` of the model from which it is made.
        options: the options that matter to the conversion, as text by name.
        versions: versions of this package and of those that take part, by name.
    """

    stem: str
    format: str
    extension: str
    source_hash: str
    options: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the stem, as JSON holds it: a renamed source is the same source."""
        fields = {**asdict(self), "options": dict(self.options), "versions": dict(self.versions)}
        del fields["stem"]
        return fields

    @property
    def digest(self) -> str:
        """A hash of everything but the stem."""
        return content_hash(json.dumps(self.as_dict(), sort_keys=True).encode())


class IntermediateStore:
    """Intermediate models in one folder.

    Args:
        folder: made when the first file is stored.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    @staticmethod
    def default_folder() -> Path:
        """This package's folder in the user's cache."""
        import platformdirs

        return Path(platformdirs.user_cache_dir("mlconverter", appauthor=False))

    def path_for(self, key: ManifestKey, digest: str) -> Path:
        """Where the file of a key goes whose content has the hash ``digest``."""
        return self.folder / f"{key.stem}-{digest[:16]}{key.extension}"

    def lookup(self, key: ManifestKey) -> Path | None:
        """The file of a key, or ``None`` where there is none or it is not as it was written."""
        try:
            entry = json.loads(self._manifest(key).read_text("utf-8"))
            path = self.folder / Path(entry["file"]).name
            fresh = entry["key"] == key.as_dict() and content_hash(path) == entry["sha256"]
        except (OSError, ValueError, KeyError, TypeError):  # missing, unreadable, or not a manifest
            return None
        return path if fresh else None

    def store(self, key: ManifestKey, writer: Writer) -> Path:
        """Write the file of a key.

        Args:
            key: what the file depends on.
            writer: writes the file to the path that it is given.

        Returns:
            Where the file is.

        Raises:
            SaveError: the file cannot be written, or its name is taken by another file.
        """
        try:
            self._manifest(key).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _save_error(self.folder, error) from error
        temporary = _temporary(self.folder / f"{key.stem}{key.extension}")
        try:
            _fill(temporary, writer)
            digest = content_hash(temporary)
            path = self.path_for(key, digest)
            if not path.exists():
                temporary.replace(path)
            elif content_hash(path) != digest:
                raise SaveError(f"'{path}' is not as it was written and is not overwritten. Move it elsewhere.")
        except OSError as error:
            raise _save_error(self.folder, error) from error
        finally:
            temporary.unlink(missing_ok=True)
        # Last: a manifest never speaks of a file that is not there yet.
        entry = {"file": path.name, "sha256": digest, "key": key.as_dict()}
        atomic_write(self._manifest(key), json.dumps(entry, indent=2, sort_keys=True).encode())
        return path

    def _manifest(self, key: ManifestKey) -> Path:
        return self.folder / MANIFESTS / f"{key.digest}.json"


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.stem[:100]}.{secrets.token_hex(6)}{path.suffix}")


def _fill(path: Path, content: bytes | bytearray | memoryview | Writer) -> None:
    if callable(content):
        content(path)
    else:
        path.write_bytes(content)


def _save_error(path: Path, error: OSError) -> SaveError:
    missing = "" if path.parent.is_dir() else f" The folder '{path.parent}' does not exist."
    return SaveError(f"Cannot write '{path}': {error.strerror or error}.{missing}")
