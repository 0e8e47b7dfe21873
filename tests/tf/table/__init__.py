"""The table: one module a family, each with its ``ENTRIES``.

What TensorFlow's converter itself refuses, for TFLite has no operator for it, has no line: pooling in three dimensions, maximum
pooling with padding of its own, dilation in three dimensions and as morphology, loops of a free batch, float64, cumulative
products, searches in sorted values, branches of more than two ways, most functions beyond exponentials, logarithms, sine and
cosine, and of images cubic and area resizing, antialiasing, hue, saturation and contrast, patches, and resized crops.
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path

from tests.tf.entry import Entry

FAMILIES = (
    "convolution",
    "pooling",
    "normalisation",
    "linear",
    "recurrent",
    "attention",
    "activation",
    "joining",
    "shaping",
    "indexing",
    "reducing",
    "arithmetic",
    "images",
    "control",
    "networks",
)


@functools.cache
def _placed() -> dict[str, tuple[Entry, Path]]:
    found: dict[str, tuple[Entry, Path]] = {}
    for family in FAMILIES:
        module = importlib.import_module(f"{__name__}.{family}")
        for entry in module.ENTRIES:
            assert entry.name not in found, f"two entries are called '{entry.name}'"
            found[entry.name] = (entry, Path(str(module.__file__)))
    return found


def entries() -> dict[str, Entry]:
    """All entries by name."""
    return {name: entry for name, (entry, _) in _placed().items()}


def source_of(name: str) -> Path:
    """The source file in which an entry stands."""
    return _placed()[name][1]
