"""Torch programs of which TensorRT computes what it can take, and torch the rest, by torch_tensorrt."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlconverter.cache import atomic_write
from mlconverter.errors import ConversionError, MissingDependencyError, SaveError, SignatureError
from mlconverter.formats.trt.profiles import Range, profile_of
from mlconverter.metadata import Metadata
from mlconverter.options import ConvertOptions
from mlconverter.signature import IOSignature

if TYPE_CHECKING:
    import torch

PACKAGE, EXTRA = "torch_tensorrt", "torch-tensorrt"

_IDLE = ("calibration", "runtime", "compute_capability", "refittable")
"""Options of engines that mean nothing here."""


@dataclass(frozen=True)
class PartialEngine:
    """A torch program with TensorRT engines in it; a process that loads its file imports torch_tensorrt first.

    Attributes:
        module: the program, for tensors on a GPU.
        signature: inputs and outputs.
        examples: what it was compiled for.
        meta_values: values of the person's own, by name.
        extra_files: files of the person's own, by name.
    """

    module: torch.fx.GraphModule
    signature: IOSignature
    examples: Sequence[Any] = field(repr=False)
    meta_values: Mapping[str, Any] = field(default_factory=dict)
    extra_files: Mapping[str, bytes] = field(default_factory=dict)

    def save(self, path: str | os.PathLike[str], output_format: str = "exported_program") -> Path:
        """Write it as an ExportedProgram, whole or not at all.

        Raises:
            SaveError: the file cannot be written, or another form is asked for.
        """
        if output_format != "exported_program":
            raise SaveError(f"A program with engines in it is written as an exported_program, not as {output_format!r}.")
        texts = Metadata(self.meta_values, self.extra_files).texts

        def write(file: Path) -> None:
            _package().save(
                self.module, str(file), output_format=output_format, arg_inputs=list(self.examples), extra_files=texts
            )

        return atomic_write(path, write)


def compiled(program: torch.export.ExportedProgram, signature: IOSignature, options: ConvertOptions) -> PartialEngine:
    """A program with what TensorRT can take compiled, under the options that it shares with engines.

    Args:
        program: of the module.
        signature: its inputs and outputs.
        options: those of engines.

    Raises:
        MissingDependencyError: torch_tensorrt is not installed.
        NotRunnableError: there is no GPU, without which it compiles nothing.
        ConversionError: it fails.
        SignatureError: an option means nothing here.
    """
    from mlconverter.formats.trt.execution import require_gpu

    defaults = ConvertOptions()
    idle = [name for name in _IDLE if getattr(options, name) != getattr(defaults, name)]
    if idle or options.precision in ("int8", "fp8"):
        raise SignatureError(f"With partial=True {', '.join(idle) or f'the precision {options.precision}'} means nothing.")
    if importlib.util.find_spec(PACKAGE) is None:
        raise MissingDependencyError(PACKAGE, EXTRA, "partial=True")
    require_gpu()
    profile = profile_of(signature, options.dynamic_shapes)
    examples = [_input(spec.name, spec.dtype, profile.get(spec.name, (spec.concrete(),) * 3)) for spec in signature.inputs]
    try:
        module = _package().dynamo.compile(program, arg_inputs=examples, **_settings(options))
    except Exception as error:  # of whichever kind: it is a compiler behind another one
        raise ConversionError(f"torch_tensorrt does not compile the program: {type(error).__name__}: {error}") from error
    return PartialEngine(module, signature, examples)


def _package() -> Any:
    return importlib.import_module(PACKAGE)


def _input(name: str, dtype: str, shapes: Range) -> Any:
    import torch

    low, usual, high = shapes
    sizes = {"shape": low} if low == high else {"min_shape": low, "opt_shape": usual, "max_shape": high}
    return _package().Input(name=name, dtype=getattr(torch, dtype), **sizes)


def _settings(options: ConvertOptions) -> dict[str, Any]:
    import torch

    halves = {"fp16": torch.float16, "bf16": torch.bfloat16}
    return {
        "require_full_compilation": False,
        "hardware_compatible": options.hardware_compatibility is not None,
        **({"workspace_size": options.workspace} if options.workspace is not None else {}),
        **({"optimization_level": options.builder_optimization_level} if options.builder_optimization_level is not None else {}),
        **({"timing_cache_path": options.timing_cache} if options.timing_cache is not None else {}),
        **(
            {"enable_autocast": True, "autocast_low_precision_type": halves[options.precision]}
            if options.precision in halves
            else {}
        ),
    }
