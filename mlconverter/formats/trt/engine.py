"""A TensorRT engine in memory, and the files that belong to it."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mlconverter.cache import atomic_write
from mlconverter.errors import CorruptModelError, NotConvertibleError, SaveError
from mlconverter.formats.trt.sidecar import EngineInfo, path_of, read, source_path_of, written
from mlconverter.hub.io import save_proto
from mlconverter.hub.original import Original
from mlconverter.metadata import OWN_FILE, Metadata
from mlconverter.signature import IOSignature

if TYPE_CHECKING:
    import torch

    from mlconverter.formats.trt.program import TRTModule
    from mlconverter.verification.dtypes import Array

OutputFormat = Literal["engine", "exported_program"]

PROGRAMS = (".pt2", ".ep")
"""Extensions of files that hold an engine within an ExportedProgram."""


@dataclass(frozen=True)
class TRTEngine:
    """The bytes of an engine, ready to be saved or, where there is a GPU, run.

    Attributes:
        content: the serialised engine.
        info: what it takes and gives, what built it, of what and how.
        source: the graph that it was built from, where it is kept.
        meta_values: values of the person's own that are kept beside it, by name.
        extra_files: files of the person's own that are kept beside it, by name.

    Example:
        >>> engine = Converter(model_path="net.onnx").to_trt(precision="fp16")
        >>> engine.save("net.engine")
        >>> TRTEngine.load("net.engine").run({"image": image})
    """

    content: bytes = field(repr=False)
    info: EngineInfo
    source: Original | None = field(default=None, repr=False, compare=False)
    meta_values: Mapping[str, Any] = field(default_factory=dict)
    extra_files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def signature(self) -> IOSignature:
        """Inputs and outputs."""
        return self.info.signature

    def __bytes__(self) -> bytes:
        """The engine."""
        return self.content

    def __len__(self) -> int:
        """Its size in bytes."""
        return len(self.content)

    def __hash__(self) -> int:
        return hash(self.content)

    def with_metadata(self, values: Mapping[str, Any], files: Mapping[str, bytes] | None = None) -> TRTEngine:
        """The same engine with values that JSON knows, and files, kept beside it."""
        return replace(self, meta_values=dict(values), extra_files=dict(files or {}))

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], output_format: OutputFormat | None = None) -> Path:
        """Write the engine, whole or not at all.

        An engine's own file is for TensorRT's tools as it stands. Beside it go ``<name>.json``, which says what it takes and
        gives and how it was built, and ``<name>.onnx``, the graph that it was built from.

        Args:
            path: the file.
            output_format: ``"engine"``, or ``"exported_program"`` for a file that ``torch.export.load`` reads; by default the
                extension decides.

        Raises:
            SaveError: the file cannot be written.
        """
        target = Path(path)
        by_extension: OutputFormat = "exported_program" if target.suffix.lower() in PROGRAMS else "engine"
        writers = {"engine": self._write_engine, "exported_program": self._write_program}
        if output_format not in (*writers, None):
            raise SaveError(f"output_format is one of {', '.join(map(repr, writers))}, not {output_format!r}.")
        return atomic_write(target, writers[output_format or by_extension])

    def _write_engine(self, path: Path) -> None:
        path.write_bytes(self.content)
        if self.source is not None:
            if self.source.data is not None:
                source_path_of(path).write_bytes(self.source.data)
            else:
                save_proto(self.source.whole(), source_path_of(path))
        path_of(path).write_text(written(self.info, self.content, self.meta_values, self.extra_files), "utf-8")

    def _write_program(self, path: Path) -> None:
        import torch

        said = written(self.info, self.content, self.meta_values, self.extra_files)
        # A second time as any program has them, for who knows nothing of engines.
        about = Metadata(self.meta_values, self.extra_files)
        torch.export.save(self.to_exported_program(), path, extra_files={OWN_FILE: said, **about.texts})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TRTEngine:
        """Read an engine that :meth:`save` wrote, in either form.

        Raises:
            NotConvertibleError: it was not made by this package, or stands apart from its ``.json``.
            CorruptModelError: the files do not belong together.
            FileNotFoundError: there is no such file.
        """
        file = Path(path)
        if not file.is_file():
            raise FileNotFoundError(f"There is no file '{file}'.")
        if zipfile.is_zipfile(file):
            return cls._of_program(file)
        content = file.read_bytes()
        if not path_of(file).is_file():
            raise NotConvertibleError(
                f"'{file}' is an engine that was not made here, or stands without its '{path_of(file).name}': a TensorRT engine "
                "holds machine code, and nothing in it says what it was built from. Convert the model that it was built from."
            )
        info, values, files = read(path_of(file).read_bytes(), content, file)
        kept = source_path_of(file)
        if info.source_file and not kept.is_file():
            raise CorruptModelError(
                f"'{kept}', the graph that '{file}' was built from, is missing. Put it back, or build the engine anew."
            )
        source = Original.read(kept) if info.source_file else None
        if source is not None and source.digest() != info.source_hash:
            raise CorruptModelError(
                f"'{kept}' is not the graph that '{file}' was built from. Put its own back, or build the engine anew."
            )
        return cls(content, info, source, values, files)

    @classmethod
    def _of_program(cls, file: Path) -> TRTEngine:
        import torch

        from mlconverter.formats.trt.program import engines_in

        extra = {OWN_FILE: ""}
        engines = engines_in(torch.export.load(file, extra_files=extra))
        if len(engines) != 1 or not extra[OWN_FILE]:
            raise NotConvertibleError(f"'{file}' is no program that an engine was saved in.")
        content = engines[0][0]
        info, values, files = read(extra[OWN_FILE], content, file)
        return cls(content, replace(info, source_file=False), None, values, files)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, Array], *, cuda_graph: bool = False) -> dict[str, Array]:
        """Run the engine on the GPU.

        Args:
            inputs: one array an input by name.
            cuda_graph: whether launches are recorded once for each shape and replayed, which saves their cost.

        Returns:
            The outputs by name.

        Raises:
            NotRunnableError: there is no GPU, or this one cannot run the engine.
            MissingDependencyError: the engine's runtime, or torch, is not installed.
            SignatureError: the inputs do not fit.
        """
        from mlconverter.formats.trt.runner import TRTRunner

        return TRTRunner(self, cuda_graph=cuda_graph).run(inputs)

    def to_module(self, *, cuda_graph: bool = False) -> TRTModule:
        """The engine as a ``torch.nn.Module`` for tensors on a GPU.

        Args:
            cuda_graph: as :meth:`run` has it.
        """
        from mlconverter.formats.trt.program import TRTModule, spec_of

        ends = self.signature.inputs, self.signature.outputs
        return TRTModule(self.content, spec_of(self.content, self.info.runtime, *ends, cuda_graph=cuda_graph))

    def to_exported_program(self) -> torch.export.ExportedProgram:
        """The engine as a program of torch's, its free dimensions free within the engine's range."""
        from mlconverter.formats.trt.exported import exported

        return exported(self)

    def refit(self, model: Any) -> TRTEngine:
        """The engine with other weights.

        With ``refittable=True``, TensorRT and a GPU the weights are put into the engine; else it is built anew from its source
        with them, under the same options.

        Args:
            model: the trained module that was converted from this engine, from its file or from its ONNX source; its
                ``state_dict``; or the ONNX model with other weights.

        Raises:
            NotConvertibleError: the engine's source is not kept with it.
            SignatureError: the model is another one.
        """
        from mlconverter.formats.trt.refit import refitted

        return refitted(self, model)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.signature.inputs, self.signature.outputs))
        return f"<TRTEngine of {len(self):,} bytes, {self.info.precision}, {inputs} → {outputs}, {self.info.runtime_name}>"
