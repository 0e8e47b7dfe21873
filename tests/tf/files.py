"""Where the files that TensorFlow's converter made are kept, so that each is made once."""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.tf.entry import Entry, Mode
from tests.zoo import cache_folder

HERE = Path(__file__).parent

BUILDING = ("entry.py", "build.py")
"""Sources on which every file depends."""


def installed() -> str | None:
    """The version of TensorFlow that is installed."""
    for name in ("tensorflow-cpu", "tensorflow"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def folder(source: Path) -> Path | None:
    """Where the files of a table are kept; ``None`` where there are none and nothing can make them."""
    sources = (source, *(HERE / name for name in BUILDING))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    place, known = f"{source.stem}-{digest}", installed()
    if known is not None:
        return cache_folder() / f"tensorflow-{known}" / place
    return max(cache_folder().glob(f"tensorflow-*/{place}"), default=None)


def file_of(place: Path, entry: Entry, mode: Mode) -> Path:
    """The path of a file, whether it is there or not."""
    return place / f"{entry.name}.{mode}.tflite"


def reason_of(path: Path) -> Path:
    """The path of a text that says why there is no file."""
    return path.with_suffix(".txt")
