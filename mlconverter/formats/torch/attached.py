"""Metadata and extra files in torch's files: exported programs, TorchScript, and checkpoints."""

from __future__ import annotations

import json
import re
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlconverter.errors import CorruptModelError, SaveError
from mlconverter.formats.torch.converter import require_torch
from mlconverter.formats.torch.files import holds_code, holds_program, is_safetensors, is_safetensors_name
from mlconverter.metadata import VALUES_FILE, Metadata, prefixed, unprefixed

if TYPE_CHECKING:
    import torch
    from torch import nn

VALUES, FILES = "metadata", "extra_files"
"""Under which keys a checkpoint has them, beside its state."""

_EXTRA, _FIRST_EXTRA = re.compile(r"[^/]+/extra/(.+)"), re.compile(r"extra_files/(.+)")
"""Where an archive has extra files: behind its own name, or as the first versions of ``torch.export.save`` had them."""

_FIRST_FORM = "serialized_exported_program.json"
"""What those versions had at the root of an archive."""


def write_program(program: torch.export.ExportedProgram, path: Path, about: Metadata) -> None:
    """Write an exported program; what it holds beside is text."""
    import torch

    torch.export.save(program, path, extra_files=about.texts)


def write_script(script: torch.jit.ScriptModule, path: Path, about: Metadata) -> None:
    """Write TorchScript."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that TorchScript is old is known to who asks for it
        torch.jit.save(script, path, _extra_files=about.files)


def write_state(module: nn.Module, path: Path, about: Metadata) -> None:
    """Write the weights of a module: safetensors, or a checkpoint that has them under ``state_dict``, beside plain values."""
    from mlconverter.formats.torch.checkpoint import write_checkpoint
    from mlconverter.formats.torch.state import refuse_unready

    refuse_unready(module)
    texts = about.texts
    if is_safetensors_name(path):
        odd = [name for name, value in module.state_dict().items() if not hasattr(value, "detach")]
        if odd:
            raise SaveError(f"safetensors hold tensors alone, which {odd[0]!r} of the state is not: write a .pt file.")
        write_checkpoint(module, path, header=prefixed(texts))
    else:
        values = json.loads(texts.pop(VALUES_FILE))
        write_checkpoint(module, path, beside={VALUES: values, FILES: texts})


def read(path: Path) -> Metadata:
    """The metadata of any of torch's files; nothing in it is run.

    Raises:
        UnsafeModelError: a checkpoint holds more than tensors and plain values.
        CorruptModelError: the file cannot be read.
    """
    if is_safetensors(path):
        return Metadata.of_texts(unprefixed(_header(path)), path)
    if holds_code(path):
        return Metadata.of_files(_archived(path), path)
    if holds_program(path):
        return Metadata.of_texts(_archived(path), path)
    require_torch()
    from mlconverter.formats.torch.checkpoint import read_checkpoint

    found = read_checkpoint(path)
    values, texts = (found.get(VALUES), found.get(FILES)) if isinstance(found, Mapping) else (None, None)
    if not isinstance(values, Mapping) or not isinstance(texts, Mapping):
        return Metadata()  # a checkpoint as anybody writes them
    return replace(Metadata.of_texts(texts, path), values=values)


def _header(path: Path) -> dict[str, str]:
    """What the header of a file of safetensors says beside its tensors."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            return dict(file.metadata() or {})
    except SafetensorError as error:
        raise CorruptModelError(f"'{path}' is not a readable safetensors file: {error}.") from error


def _archived(path: Path) -> dict[str, Any]:
    """The extra files in an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            place = _FIRST_EXTRA if _FIRST_FORM in names else _EXTRA
            named = {match[1]: name for name in names if (match := place.fullmatch(name))}
            return {name: archive.read(member) for name, member in named.items()}
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise CorruptModelError(f"'{path}' is not a readable archive: {error}.") from error
