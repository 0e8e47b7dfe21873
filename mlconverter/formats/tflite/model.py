"""A TFLite model in memory."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mlconverter.cache import atomic_write
from mlconverter.formats.tflite.runner import Kernels, LiteRTRunner
from mlconverter.formats.tflite.schema import load
from mlconverter.formats.tflite.signature import border_of
from mlconverter.formats.tflite.structure import Array, Model
from mlconverter.signature import IOSignature


class TFLiteModel:
    """The bytes of a TFLite file, ready to be saved or called.

    Args:
        content: the file, or what reading it gave.

    Raises:
        CorruptModelError: the bytes are no TFLite file, or a damaged one.

    Example:
        >>> model = TFLiteModel.load("model.tflite")
        >>> outputs = model(image)
    """

    def __init__(self, content: bytes | Model) -> None:
        self.structure: Model = content if isinstance(content, Model) else load(content)
        self._content: bytes = self.structure.data

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TFLiteModel:
        """Read a file."""
        return cls(Path(path).read_bytes())

    def __bytes__(self) -> bytes:
        """The file."""
        return self._content

    def __len__(self) -> int:
        """The file's size in bytes."""
        return len(self._content)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same file, byte for byte."""
        return isinstance(other, TFLiteModel) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @cached_property
    def signature(self) -> IOSignature:
        """Inputs and outputs."""
        return border_of(self.structure).signature

    def signature_of(self, key: str | None) -> IOSignature:
        """Inputs and outputs of one of the file's signatures.

        Raises:
            SignatureError: there is none of that name.
        """
        return border_of(self.structure, key).signature

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the file, whole or not at all.

        Raises:
            SaveError: the file cannot be written.
        """
        return atomic_write(path, self._content)

    def runner(self, *, kernels: Kernels = "default", num_threads: int | None = None) -> LiteRTRunner:
        """Run by LiteRT, inputs and outputs by name."""
        return LiteRTRunner(self._content, kernels=kernels, num_threads=num_threads)

    def interpreter(self, *, num_threads: int | None = None) -> Any:
        """LiteRT's own interpreter, tensors not yet allocated."""
        from ai_edge_litert.interpreter import Interpreter

        return Interpreter(model_content=self._content, num_threads=num_threads)

    def __call__(self, *inputs: Array) -> Array | tuple[Array, ...]:
        """The outputs for inputs in the order of the signature: one array, or a tuple of several."""
        named = dict(zip(self.signature.input_names, map(np.asarray, inputs), strict=True))
        outputs = self._called.run(named)
        values = tuple(outputs[name] for name in self.signature.output_names)
        return values[0] if len(values) == 1 else values

    @cached_property
    def _called(self) -> LiteRTRunner:
        """The runner behind calls, kept: to allocate its tensors takes longer than many a model."""
        return self.runner()

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.signature.inputs, self.signature.outputs))
        return f"<TFLiteModel of {len(self):,} bytes, {inputs} → {outputs}>"
