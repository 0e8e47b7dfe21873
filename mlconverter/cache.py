"""Files written safely, and intermediate models that are reused only where they are still right.

An intermediate is named after its own content, and a small manifest a key says which one belongs to it. So a
file is never changed once it is there, several processes need no lock, and nothing in the folder can be
mistaken for something that it is not. What is damaged counts as not there, and what somebody else put in the way
is left alone: another name is taken.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any

from mlconverter.errors import SaveError

Writer = Callable[[Path], object]
"""Writes a file to the path that it is given, and those that belong to it beside it.

The folder of that path holds nothing else and all that is in it moves to its place, so that the names by which files
speak of one another stay right.
"""

_STAGING = re.compile(r"\..*\.[0-9a-f]{12}")
"""Names of folders in which files are written before they move to their places."""

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
        content: the bytes, or a function that writes them to a path of the same name, see :data:`Writer`. Files
            that belong to it come first into their places, so that the file never speaks of one that is not there.
            A function that writes one file under another name, with an extension of its own say, has chosen that name.

    Returns:
        The path, under the name that the file has.

    Raises:
        SaveError: the file cannot be written. Nothing is left behind, and what was there before is untouched.
    """
    target = Path(path)
    real = Path(os.path.realpath(target))  # through a link: what it points to is written, the link stays
    try:
        with _staging(real) as folder:
            whole = folder / real.name
            if callable(content):
                content(whole)
                whole = _chosen(whole)
                if whole.name != real.name:
                    target, real = target.with_name(whole.name), real.with_name(whole.name)
            else:
                whole.write_bytes(content)
            if real.is_dir():
                raise IsADirectoryError(f"'{real}' is a folder")  # said before anything that belongs to it has moved
            if not whole.is_file():
                raise FileNotFoundError(errno.ENOENT, "no such file was written", str(target))
            for companion in _companions(whole):
                companion.replace(real.with_name(companion.name))
            whole.replace(real)
    except OSError as error:
        raise _save_error(target, error) from error
    return target


def atomic_folder(path: str | os.PathLike[str], writer: Callable[[Path], object], mark: str) -> Path:
    """Write a folder so that it is there whole or not at all.

    Args:
        path: where it goes; the folder around it must exist. A folder of that name is replaced, if it is one of the same kind.
        writer: fills the folder that it is given.
        mark: name of a file by which folders of this kind are known.

    Returns:
        The path.

    Raises:
        SaveError: it cannot be written, or something else is there. Nothing is left behind, and what was there is untouched.
    """
    target = Path(path)
    try:
        with _staging(target) as staging:
            made = staging / "new"
            made.mkdir()
            writer(made)
            if os.path.lexists(target):
                if not (target / mark).is_file():
                    raise FileExistsError(errno.EEXIST, "something else is there", str(target))
                target.replace(staging / "old")
            made.replace(target)
    except OSError as error:
        raise _save_error(target, error) from error
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

    def lookup(self, key: ManifestKey) -> Path | None:
        """The file of a key, or ``None`` where there is none or it is not as it was written."""
        there = takewhile(os.path.lexists, _names(self._manifest(key)))
        return next((path for manifest in there if (path := self._fresh(manifest, key)) is not None), None)

    def store(self, key: ManifestKey, writer: Writer) -> Path:
        """Write the file of a key.

        Args:
            key: what the file depends on.
            writer: writes the file to the path that it is given.

        Returns:
            Where the file is.

        Raises:
            SaveError: the file cannot be written.
        """
        try:
            self._manifest(key).parent.mkdir(parents=True, exist_ok=True)
            with _staging(self.folder / key.stem) as folder:
                whole = folder / f"{key.stem}{key.extension}"
                writer(whole)
                content = _Content.of(whole)
                path = _settled(whole, content, self.folder)
        except OSError as error:
            raise _save_error(self.folder, error) from error
        # Last: a manifest never speaks of a file that is not there yet.
        entry = {"file": path.relative_to(self.folder).as_posix(), **asdict(content), "key": key.as_dict()}
        manifest = next(m for m in _names(self._manifest(key)) if not m.is_dir())
        atomic_write(manifest, json.dumps(entry, indent=2, sort_keys=True).encode())
        return path

    def held(self) -> dict[Path, int]:
        """The files that were stored and are as they were written, with their sizes in bytes; others' are not among them."""
        found: dict[Path, int] = {}
        for manifest in sorted((self.folder / MANIFESTS).glob("*.json")):
            entry = _entry(manifest, self.folder)
            for path in () if entry is None else (entry[0], *(entry[0].with_name(name) for name in entry[1].companions)):
                found[path] = path.stat().st_size
        return found

    def clear(self) -> int:
        """Remove the files that were stored, their manifests, and what processes left that were ended while they wrote.

        What was changed since is left alone.

        Returns:
            The bytes that were freed.
        """
        freed = 0
        for path, size in self.held().items():
            path.unlink(missing_ok=True)
            freed += size
            if path.parent != self.folder:
                with suppress(OSError):  # somebody else's files are in it
                    path.parent.rmdir()
        for manifest in (self.folder / MANIFESTS).glob("*.json"):
            manifest.unlink(missing_ok=True)
        for place in (self.folder, self.folder / MANIFESTS):
            for staging in (p for p in place.glob(".*") if _STAGING.fullmatch(p.name)):
                shutil.rmtree(staging, ignore_errors=True)
        return freed

    def _manifest(self, key: ManifestKey) -> Path:
        return self.folder / MANIFESTS / f"{key.digest}.json"

    def _fresh(self, manifest: Path, key: ManifestKey) -> Path | None:
        """The file of which a manifest speaks, where both are as they were written."""
        entry = _entry(manifest, self.folder)
        return entry[0] if entry is not None and entry[2] == key.as_dict() else None


@contextmanager
def _staging(path: Path) -> Iterator[Path]:
    """A folder beside ``path`` in which files are written before they move to their places."""
    folder = path.with_name(f".{path.stem[:100]}.{secrets.token_hex(6)}")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _chosen(whole: Path) -> Path:
    """The file that was written instead of one, where it is the only one."""
    written = list(whole.parent.iterdir())
    return written[0] if len(written) == 1 else whole


def _companions(whole: Path) -> list[Path]:
    """What was written beside a file, in an order of its own."""
    return sorted(p for p in whole.parent.iterdir() if p.name != whole.name)


@dataclass(frozen=True)
class _Content:
    """What a file contains, and those that belong to it, by name."""

    sha256: str
    companions: dict[str, str]

    @classmethod
    def of(cls, whole: Path) -> _Content:
        return cls(content_hash(whole), {p.name: content_hash(p) for p in _companions(whole)})

    def is_at(self, path: Path) -> bool:
        """Whether a file and those that belong to it are there as they were written; what cannot be read is not."""
        files = {path: self.sha256} | {path.with_name(name): digest for name, digest in self.companions.items()}
        try:
            return all(content_hash(file) == digest for file, digest in files.items())
        except OSError:
            return False

    @property
    def mark(self) -> str:
        """A few characters that stand for it in a name."""
        return (
            content_hash("".join([self.sha256, *self.companions.values()]).encode())[:16] if self.companions else self.sha256[:16]
        )


def _entry(manifest: Path, folder: Path) -> tuple[Path, _Content, Any] | None:
    """The file of which a manifest speaks, its content and its key; ``None`` where either is not as it was written."""
    try:
        entry = json.loads(manifest.read_text("utf-8"))
        path, content = folder / entry["file"], _Content(entry["sha256"], entry["companions"])
        fresh = path.resolve().is_relative_to(folder.resolve()) and content.is_at(path)
        return (path, content, entry["key"]) if fresh else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # missing, unreadable, or not a manifest


def _settled(whole: Path, content: _Content, folder: Path) -> Path:
    """Move a file under a name made of its content, or find it there; a file with companions keeps a folder of its own."""
    alone = not content.companions
    for place in _names(folder / f"{whole.stem}-{content.mark}{whole.suffix if alone else ''}"):
        path = place if alone else place / whole.name
        if content.is_at(path):
            return path
        if os.path.lexists(place) and not (alone and _is_start_of(place, whole)):
            continue  # somebody else's, or no longer what was written
        try:
            (whole if alone else whole.parent).replace(place)
        except OSError:
            if not content.is_at(path):  # another process may have been first
                raise
        return path
    raise AssertionError("names never run out")


def _names(path: Path) -> Iterator[Path]:
    """A path, and others for where it is taken."""
    return chain([path], (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(1)))


def _is_start_of(path: Path, whole: Path) -> bool:
    """Whether a file holds the beginning of another: what is left of it where the machine went down too early."""
    try:
        with path.open("rb") as file, whole.open("rb") as other:
            while piece := file.read(1 << 20):
                if other.read(len(piece)) != piece:
                    return False
    except OSError:
        return False
    return True


def _save_error(path: Path, error: OSError) -> SaveError:
    missing = "" if path.parent.is_dir() else f" The folder '{path.parent}' does not exist."
    return SaveError(f"Cannot write '{path}': {error.strerror or error}.{missing}")
