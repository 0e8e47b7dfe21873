"""Conversions kept on disk, and taken from there where they are still right."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlconverter.cache import IntermediateStore, ManifestKey, versions_of
from mlconverter.conversion import Conversion
from mlconverter.errors import NotConvertibleError
from mlconverter.options import ConvertOptions
from mlconverter.registry import formats

if TYPE_CHECKING:
    from mlconverter.base import BaseConverter

TAKE_PART = ("mlconverter", "onnx", "onnx-ir", "onnxscript", "torch", "ai-edge-litert", "tensorrt", "tensorrt-rtx")
"""Packages whose version decides on what a conversion gives."""


@dataclass(frozen=True)
class Intermediates:
    """Where conversions are kept.

    Attributes:
        store: the folder, ``None`` where nothing is kept.
        reuse: whether what is there is taken.
    """

    store: IntermediateStore | None
    reuse: bool

    @classmethod
    def of(cls, output_dir: str | os.PathLike[str] | None, reuse: bool) -> Intermediates:
        """Those in a folder; without one, in the user's cache folder where they are to be reused."""
        folder = output_dir or (IntermediateStore.default_folder() if reuse else None)
        return cls(None if folder is None else IntermediateStore(folder), reuse)

    def get(self, source: BaseConverter, format: str, options: ConvertOptions) -> Conversion | None:
        """A conversion that is there, ``None`` where it is not or may be wrong."""
        if not self.reuse or self.store is None or format == source.format:
            return None
        if options.verify is False and not source.digest_is_whole:
            return None  # only a comparison can tell whether the file is still right
        path = self.store.lookup(_key(source, format, options))
        if path is None:
            return None
        try:
            found: Conversion = formats[format]._read(path)
        except NotConvertibleError:
            return None  # this format's files do not hold the whole model; it is made anew
        return replace(found, notes=(f"read from '{path}'",))

    def put(self, source: BaseConverter, format: str, options: ConvertOptions, result: Conversion) -> None:
        """Keep a conversion, where its format has files that hold one."""
        if self.store is None or not formats[format].extensions:
            return
        try:
            self.store.store(_key(source, format, options), lambda path: formats[format]._write(result.model, path))
        except NotConvertibleError:
            return


def _key(source: BaseConverter, format: str, options: ConvertOptions) -> ManifestKey:
    stem = source.model_path.stem if source.model_path is not None else f"{source.format}-model"
    extension = formats[format].extensions[0]
    return ManifestKey(stem, format, extension, source._source_hash(), options.as_text(), versions_of(TAKE_PART))
