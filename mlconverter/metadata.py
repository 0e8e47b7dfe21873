"""What goes along with a model in its file: values that say what it is, and whole files such as the configuration it came from.

In every format the values are one more file, ``metadata.json``, as MONAI has it in TorchScript files. Formats that hold
text alone have a file that is none in base64, under its name and ``;base64``.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlconverter.errors import CorruptModelError, FormatError, MissingDependencyError, SignatureError

VALUES_FILE = "metadata.json"
"""Name of the file that the values are."""

OWN_FILE = "mlconverter.json"
"""Name of the file in which this package says things of its own."""

PREFIX = "extra_files/"
"""What stands before the names of files where a format keeps other entries beside them."""

_BINARY = ";base64"


@dataclass(frozen=True)
class Metadata:
    """What goes along with a model.

    Attributes:
        values: by name, whatever JSON can say.
        extra_files: the content of files by name.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    extra_files: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what could not be read back."""
        if VALUES_FILE in self.extra_files:
            raise SignatureError(f"'{VALUES_FILE}' is the name under which the values are kept: give that file as the values.")
        if OWN_FILE in self.extra_files:
            raise SignatureError(f"'{OWN_FILE}' is a name that this package keeps for itself: give that file another one.")
        given: Mapping[Any, Any] = self.extra_files
        odd = [name for name in given if not _is_name(name)]
        if odd:
            raise SignatureError(
                f"Extra files have names of text that a file can have, which {', '.join(map(repr, odd))} is not."
            )
        wrong = [name for name, content in given.items() if not isinstance(content, (bytes, bytearray, memoryview))]
        if wrong:
            raise SignatureError(f"The content of extra files is bytes, which that of {', '.join(map(repr, wrong))} is not.")
        as_json(self.values, "The metadata")

    @property
    def files(self) -> dict[str, bytes]:
        """Everything as files by name."""
        return {VALUES_FILE: as_json(self.values, "The metadata"), **{n: bytes(c) for n, c in self.extra_files.items()}}

    @property
    def texts(self) -> dict[str, str]:
        """Everything as text by name."""
        return dict(text_of(name, content) for name, content in self.files.items())

    @classmethod
    def of_files(cls, files: Mapping[str, bytes], path: Path) -> Metadata:
        """What :attr:`files` gave and a file at ``path`` held.

        Raises:
            CorruptModelError: the values are no JSON.
        """
        extra = {name: content for name, content in files.items() if name != OWN_FILE}
        try:
            values = json.loads(extra.pop(VALUES_FILE, b"{}") or b"{}")
        except (ValueError, RecursionError) as error:
            raise CorruptModelError(f"The '{VALUES_FILE}' in '{path}' is no JSON: {error}.") from error
        if not isinstance(values, dict):
            raise CorruptModelError(f"The '{VALUES_FILE}' in '{path}' holds a {type(values).__name__}, not values by name.")
        return cls(values, extra)

    @classmethod
    def of_texts(cls, texts: Mapping[str, str | bytes], path: Path) -> Metadata:
        """What :attr:`texts` gave and a file at ``path`` held; errors are those of :meth:`of_files`."""
        return cls.of_files(dict(bytes_of(name, text) for name, text in texts.items()), path)


def prefixed(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Entries under names that are told from those of others."""
    return {PREFIX + name: entry for name, entry in entries.items()}


def unprefixed(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Those of entries that :func:`prefixed` gave."""
    return {name.removeprefix(PREFIX): entry for name, entry in entries.items() if name.startswith(PREFIX)}


def text_of(name: str, content: bytes) -> tuple[str, str]:
    """A file as text, and the name under which it stands."""
    if not name.endswith(_BINARY):
        try:
            return name, content.decode()
        except UnicodeDecodeError:
            pass
    return name + _BINARY, base64.b64encode(content).decode()


def bytes_of(name: str, text: str | bytes) -> tuple[str, bytes]:
    """The file, and its name, that :func:`text_of` made text of."""
    if name.endswith(_BINARY):
        try:
            return name.removesuffix(_BINARY), base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            pass  # somebody else's, who means something else by it
    return name, text.encode() if isinstance(text, str) else text


def _is_name(name: Any) -> bool:
    if not isinstance(name, str) or not name or name.endswith("/") or "\0" in name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_json(content: Any, what: str) -> bytes:
    """Something as JSON.

    Raises:
        SignatureError: JSON has no word for it, or another one.
    """
    try:
        _refuse_changed(content, "")
        return json.dumps(content, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SignatureError(f"{what} cannot be said in JSON: {error}.") from error


def _refuse_changed(content: Any, place: str) -> None:
    """Raise where something would come back from JSON as something else, or not at all.

    Raises:
        TypeError: it would; the message says where.
        ValueError: it is a number that JSON does not have.
    """
    if isinstance(content, Mapping):
        for key, value in content.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r}{place and f' in {place}'} is no text; JSON has no others: write it as '{key}'")
            _refuse_changed(value, f"{place}.{key}" if place else key)
    elif isinstance(content, (list, tuple)):
        for position, value in enumerate(content):
            _refuse_changed(value, f"{place}[{position}]")
    elif isinstance(content, float) and not math.isfinite(content):
        raise ValueError(f"{place or 'it'} is {content}, which JSON does not have: write it as text")
    elif content is not None and not isinstance(content, (str, int, float)):
        raise TypeError(f"{place or 'it'} is a {type(content).__name__}: make it a number or text")


def read_values(source: Mapping[str, Any] | str | os.PathLike[str] | None) -> dict[str, Any]:
    """Values that were given as they are or as a JSON or YAML file.

    Raises:
        FormatError: the file is neither, or holds no values by name.
        FileNotFoundError: there is no such file.
    """
    if source is None or isinstance(source, Mapping):
        return dict(source or {})
    values = read_config(Path(source))
    if not isinstance(values, dict):
        raise FormatError(f"'{os.fspath(source)}' holds a {type(values).__name__}, not values by name.")
    return values


def read_configs(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> dict[str, bytes]:
    """The content of JSON and YAML files as JSON, each under its stem and ``.json``.

    Raises:
        SignatureError: two files have the same stem, or one holds what JSON has no word for.
        FormatError: a file is neither JSON nor YAML.
        FileNotFoundError: there is no such file.
    """
    found: dict[str, bytes] = {}
    for path in [Path(paths)] if isinstance(paths, (str, os.PathLike)) else map(Path, paths):
        name = f"{path.stem}.json"
        if name in found:
            raise SignatureError(f"Two configuration files would be '{name}'; the second is '{path}'. Rename one of them.")
        found[name] = as_json(read_config(path), f"What is in '{path}'")
    return found


def read_config(path: Path) -> Any:
    """What is in a JSON or YAML file.

    Raises:
        FormatError: the file is neither, by its extension or by what is in it.
        FileNotFoundError: there is no such file.
        MissingDependencyError: the package that reads YAML is missing.
    """
    suffix = path.suffix.lower()
    if suffix not in (".json", ".yaml", ".yml"):
        raise FormatError(f"'{path}' is taken for neither JSON nor YAML: its extension is '{path.suffix}'.")
    if not path.is_file():
        raise FileNotFoundError(f"There is no file '{path}'.")
    try:
        text = path.read_text("utf-8-sig")
        return json.loads(text) if suffix == ".json" else _yaml(text, path)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if suffix == ".json" else "YAML"
        raise FormatError(f"'{path}' is no readable {kind}: {' '.join(str(error).split())}.") from error


def _yaml(text: str, path: Path) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise MissingDependencyError("yaml", "yaml", f"Reading '{path}'") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(error) from error
