"""Models into files together with what is to be known of them, and that out of files again, in every format.

The savers are one function, told which objects it writes and how. They are called as MONAI calls its own:
``saver(model, filepath, meta_values=…, more_extra_files=…)``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from mlconverter.cache import atomic_write
from mlconverter.errors import MLConverterError, SaveError
from mlconverter.metadata import Metadata


def save(
    obj: Any,
    filepath: str | os.PathLike[str],
    meta_values: Mapping[str, Any] | None = None,
    more_extra_files: Mapping[str, bytes] | None = None,
    include_config_vals: bool = False,
    append_timestamp: bool = False,
    *,
    takes: str,
    extensions: Sequence[str],
    writer: str,
) -> Path:
    """Write a model with metadata and extra files, whole or not at all.

    Args:
        obj: the model.
        filepath: the file; without an extension it gets the first of ``extensions``.
        meta_values: whatever JSON can say, by name.
        more_extra_files: the content of files by name.
        include_config_vals: for callers that say ``False``, as MONAI does: nothing is added to the values.
        append_timestamp: for callers that say ``False``: nothing is added to the file's name.
        takes: class of the models that are written, by its name.
        extensions: of the files.
        writer: ``"module:function"`` that writes the file.

    Returns:
        The path, with its extension.

    Raises:
        SaveError: the file has another extension, the model is of another kind, or the file cannot be written.
        SignatureError: the values or files could not be read back.
    """
    path = placed(filepath, extensions)
    if include_config_vals or append_timestamp:
        raise SaveError("include_config_vals and append_timestamp are what MONAI's own saver does; here both are False.")
    if not any(cls.__name__ == takes for cls in type(obj).__mro__):
        raise SaveError(f"Files with the extension {', '.join(extensions)} hold a {takes}, not a {type(obj).__name__}.")
    about = Metadata(dict(meta_values or {}), dict(more_extra_files or {}))
    write = _function(writer)
    try:
        return atomic_write(path, lambda temporary: write(obj, temporary, about))
    except (MLConverterError, MemoryError):
        raise
    except Exception as error:  # writers of other packages raise whatever goes wrong inside them
        raise SaveError(f"Cannot write '{path}': {type(error).__name__}: {error}") from error


def placed(filepath: str | os.PathLike[str], extensions: Sequence[str]) -> Path:
    """The path of a file, with the first of some extensions where it has none.

    Raises:
        SaveError: it has another extension.
    """
    path = Path(filepath)
    if not path.name or path.is_dir():
        raise SaveError(f"'{os.fspath(filepath)}' is no name of a file: give one in that folder.")
    if not path.suffix:
        return path.with_name(path.name + extensions[0])
    if path.suffix.lower() not in extensions:
        raise SaveError(f"'{path}' has the extension '{path.suffix}'; what is saved here has {' or '.join(extensions)}.")
    return path


save_exported_program = partial(
    save, takes="ExportedProgram", extensions=(".pt2",), writer="formats.torch.attached:write_program"
)
"""Writes a ``torch.export.ExportedProgram``."""

save_torchscript = partial(save, takes="ScriptModule", extensions=(".ts", ".pt"), writer="formats.torch.attached:write_script")
"""Writes TorchScript, as MONAI's ``save_net_with_metadata`` does."""

save_onnx = partial(save, takes="ModelProto", extensions=(".onnx",), writer="formats.onnx.attached:write")
"""Writes an ONNX model, of any size."""

save_tflite = partial(save, takes="TFLiteModel", extensions=(".tflite", ".lite"), writer="formats.tflite.attached:write")
"""Writes a TFLite model."""

save_trt = partial(save, takes="TRTEngine", extensions=(".engine", ".plan"), writer="savers:_write_engine")
"""Writes a TensorRT engine, and what goes along with it into its side-car."""

save_checkpoint = partial(
    save, takes="Module", extensions=(".pt", ".pth", ".safetensors"), writer="formats.torch.attached:write_state"
)
"""Writes the weights of a torch module."""

_READERS = {
    "onnx": "formats.onnx.attached:read",
    "tflite": "formats.tflite.attached:read",
    "torch": "formats.torch.attached:read",
    "trt": "savers:_read_engine",
}


def load_metadata(path: str | os.PathLike[str]) -> Metadata:
    """What goes along with the model in a file, of whichever format; empty where nothing does.

    Raises:
        UnknownFormatError: no format owns the file.
        FileNotFoundError: there is no such file.
        CorruptModelError: the file is damaged.
        UnsafeModelError: it is a checkpoint that would run code.
    """
    from mlconverter.converter import format_of

    reader = _READERS.get(format_of(None, path).format)
    return Metadata() if reader is None else cast(Metadata, _function(reader)(Path(path)))


def _function(place: str) -> Callable[..., Any]:
    """A function by ``"module:name"``: what a format needs is imported when it is used."""
    module, _, name = place.partition(":")
    return cast(Callable[..., Any], getattr(import_module(f"mlconverter.{module}"), name))


def _write_engine(engine: Any, path: Path, about: Metadata) -> None:
    engine.with_metadata(about.values, about.extra_files).save(path)


def _read_engine(path: Path) -> Metadata:
    from mlconverter.formats.trt.sidecar import attached, path_of

    beside = path_of(path)
    return Metadata(*attached(beside.read_bytes(), path)) if beside.is_file() else Metadata()
