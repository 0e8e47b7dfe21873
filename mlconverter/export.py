"""A network with its checkpoint, metadata and configuration as one file, in any of six formats.

One function does it, told by two others how: ``converter(model=network, …)`` makes the model that is wanted, and
``saver(model, filepath, meta_values=…, more_extra_files=…)`` writes it. Both are called as MONAI calls its own, so that
either side can take what the other has.

Example:
    >>> onnx_export(network, "net.onnx", checkpoint="best.pt", meta="metadata.json", input_shape=("batch", 3, 64, 64))
    >>> load_metadata("net.onnx").values
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlconverter.cache import atomic_write
from mlconverter.errors import SaveError, SignatureError
from mlconverter.metadata import Metadata, read_configs, read_values
from mlconverter.savers import (
    load_metadata,
    placed,
    save,
    save_checkpoint,
    save_exported_program,
    save_onnx,
    save_tflite,
    save_torchscript,
    save_trt,
)

if TYPE_CHECKING:
    from mlconverter.options import VerifyLevel
    from mlconverter.report import Report, Step

__all__ = [
    "Metadata",
    "export",
    "ckpt_export",
    "onnx_export",
    "tflite_export",
    "torch_export",
    "torchscript_export",
    "trt_export",
    "as_it_is",
    "to_exported_program",
    "to_onnx",
    "to_tflite",
    "to_torchscript",
    "to_trt",
    "load_metadata",
    "save_checkpoint",
    "save_exported_program",
    "save_onnx",
    "save_tflite",
    "save_torchscript",
    "save_trt",
]

PathLike = str | os.PathLike[str]


def export(
    model: Any,
    filepath: PathLike,
    *,
    converter: Callable[..., Any],
    saver: Callable[..., Any],
    checkpoint: PathLike | None = None,
    key_in_checkpoint: str | None = None,
    meta: Mapping[str, Any] | PathLike | None = None,
    config_files: PathLike | Iterable[PathLike] = (),
    extra_files: Mapping[str, bytes] | None = None,
    **converter_options: Any,
) -> Path:
    """Convert a network and write it together with its metadata and configuration.

    What could not be compared with the network is warned of, unless ``verify=False``; ``report=Report()`` gets all of it.
    Weights are loaded into the network that was given, as ``Converter(network, "weights.pt")`` and MONAI do, not into a copy:
    what the caller holds is then what the file holds, and large networks are not there twice. A checkpoint that
    does not fit leaves the network as it was.

    Args:
        model: the network, a ``torch.nn.Module``.
        filepath: the file; without an extension it gets the saver's own.
        converter: called with ``model=network`` and the options; gives what the saver takes.
        saver: called with the model, a path, ``meta_values`` and ``more_extra_files``; MONAI's own is one.
        checkpoint: weights to load into the network first: a checkpoint or safetensors; code in it is never run.
        key_in_checkpoint: where in the checkpoint the weights are; by default they are looked for.
        meta: values that go along, as they are or as a JSON or YAML file.
        config_files: JSON and YAML files that go along, as JSON under their stem and ``.json``.
        extra_files: the content of any other files that go along, by name.
        **converter_options: go to the converter.

    Returns:
        The path, with its extension. The file is there whole or not at all.

    Raises:
        SignatureError: the checkpoint does not fit the network, or two files that go along have one name.
        FileNotFoundError: a file that was given is not there.
        FormatError: a file that was given cannot be read as what it was taken for.
        ConversionError: the network cannot be converted.
        VerificationError: the result does not compute what the network computes.
        SaveError: the file cannot be written.
    """
    target = Path(filepath)
    # What can be known to be wrong is said before a conversion that may take minutes.
    if not target.absolute().parent.is_dir():
        raise SaveError(f"Cannot write '{target}': the folder '{target.parent}' does not exist.")
    own = saver.keywords["extensions"] if isinstance(saver, partial) and saver.func is save else ()
    if own:
        target = placed(target, own)
    configs, others = read_configs(config_files), dict(extra_files or {})
    twice = sorted(configs.keys() & others.keys())
    if twice:
        raise SignatureError(f"'{twice[0]}' is among the extra files, and what a configuration file becomes. Rename one of them.")
    about = Metadata(read_values(meta), {**configs, **others})
    if checkpoint is not None:
        _load(model, Path(checkpoint), key_in_checkpoint or "")  # MONAI says "" for none
    elif key_in_checkpoint:
        raise SignatureError("key_in_checkpoint says where in a checkpoint the weights are, and no checkpoint was given.")
    made = converter(model=model, **converter_options)
    saved = partial(saver, made, meta_values=dict(about.values), more_extra_files=dict(about.extra_files))
    if own:
        return Path(saved(target))
    return atomic_write(target, lambda temporary: saved(str(temporary)))  # nobody knows what another's leaves where it fails


def _load(model: Any, path: Path, key: str) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"There is no file '{path}'.")
    from mlconverter.formats.torch.converter import require_torch

    require_torch()
    from mlconverter.formats.torch.checkpoint import load_checkpoint
    from mlconverter.formats.torch.files import refuse_program
    from mlconverter.formats.torch.state import refuse_other

    refuse_other(model)
    refuse_program(path)
    load_checkpoint(model, path, trust=False, key=key)


def _converted(model: Any, *, format: str, report: Report | None = None, **options: Any) -> Any:
    """A network in a format of the hub, verified.

    Args:
        model: the network.
        format: name of the format.
        report: gets the steps of the conversion.
        **options: those of :class:`~mlconverter.converter.Converter`.
    """
    from mlconverter.converter import Converter

    converter = Converter(model, **options)
    try:
        made = converter.to(format)
    finally:
        if report is not None:
            report.steps.extend(converter.report.steps)  # a wrong result has a step too
    if report is None and converter.report.steps:
        _warn(converter.report.steps[-1], converter.options.verify)
    return made


def _warn(step: Step, verify: VerifyLevel) -> None:
    """Warn of a result that was to be compared and could not be, where nobody looks at a report."""
    if verify is not False and step.verification is not None and step.verdict != "verified":
        warnings.warn(f"{step.name}: {step.verification.summary()}", stacklevel=4)


to_onnx = partial(_converted, format="onnx")
"""A network as an ``onnx.ModelProto``, verified; options are those of ``Converter``, ``input_shape`` among them."""

to_tflite = partial(_converted, format="tflite")
"""A network as a ``TFLiteModel``, in the same way."""

to_trt = partial(_converted, format="trt")
"""A network as a ``TRTEngine``, in the same way."""


def to_exported_program(
    model: Any,
    *,
    input_shape: Any = None,
    verify: VerifyLevel = "fast",
    rtol: float | None = None,
    report: Report | None = None,
) -> Any:
    """A network as a ``torch.export.ExportedProgram``, verified; dimensions with a name or ``None`` are free in it.

    Args:
        model: the network.
        input_shape: shapes of its inputs, as for ``Converter``.
        verify: how the result is compared with the network.
        rtol: relative tolerance instead of the table's.
        report: gets the step of the conversion.
    """
    from mlconverter.formats.torch.programs import exported_program

    return _checked(exported_program(model, input_shape, verify, rtol), report, verify)


def to_torchscript(
    model: Any,
    *,
    input_shape: Any = None,
    use_trace: bool = True,
    verify: VerifyLevel = "fast",
    rtol: float | None = None,
    report: Report | None = None,
) -> Any:
    """A network as a ``torch.jit.ScriptModule``, verified.

    Args:
        model: the network.
        input_shape: shapes of its inputs, as for ``Converter``.
        use_trace: whether one run is recorded, or else the code compiled.
        verify: how the result is compared with the network.
        rtol: relative tolerance instead of the table's.
        report: gets the step of the conversion.
    """
    from mlconverter.formats.torch.programs import torchscript

    return _checked(torchscript(model, input_shape, use_trace, verify, rtol), report, verify)


def _checked(made: tuple[Any, Step], report: Report | None, verify: VerifyLevel) -> Any:
    from mlconverter.report import Report

    program, step = made
    (Report() if report is None else report).record(step)
    if step.verification is not None:
        step.verification.raise_if_wrong()
    if report is None:
        _warn(step, verify)
    return program


def as_it_is(model: Any, *, report: Report | None = None) -> Any:
    """The network itself, whose weights are what is written; there is nothing to report."""
    return model


torch_export = partial(export, converter=to_exported_program, saver=save_exported_program)
"""Writes a ``torch.export.ExportedProgram`` (``.pt2``)."""

torchscript_export = partial(export, converter=to_torchscript, saver=save_torchscript)
"""Writes TorchScript (``.ts``, ``.pt``)."""

onnx_export = partial(export, converter=to_onnx, saver=save_onnx)
"""Writes ONNX (``.onnx``)."""

tflite_export = partial(export, converter=to_tflite, saver=save_tflite)
"""Writes TFLite (``.tflite``)."""

trt_export = partial(export, converter=to_trt, saver=save_trt)
"""Writes a TensorRT engine (``.engine``, ``.plan``)."""

ckpt_export = partial(export, converter=as_it_is, saver=save_checkpoint)
"""Writes the weights (``.pt``, ``.pth``, ``.safetensors``)."""
