"""A TensorRT engine in memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mlconverter.cache import atomic_write
from mlconverter.signature import IOSignature


@dataclass(frozen=True)
class TRTEngine:
    """The bytes of an engine, ready to be saved.

    Attributes:
        content: the serialised engine.
        signature: inputs and outputs.
        runtime: name and version of the runtime that built it, and that loads it.
        batches: smallest and largest batch that it takes, ``None`` where its sizes are fixed.
    """

    content: bytes
    signature: IOSignature
    runtime: str
    batches: tuple[int, int] | None = None

    def __bytes__(self) -> bytes:
        """The engine."""
        return self.content

    def __len__(self) -> int:
        """Its size in bytes."""
        return len(self.content)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the engine, whole or not at all.

        Raises:
            SaveError: the file cannot be written.
        """
        return atomic_write(path, self.content)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.signature.inputs, self.signature.outputs))
        return f"<TRTEngine of {len(self):,} bytes, {inputs} → {outputs}, {self.runtime}>"
