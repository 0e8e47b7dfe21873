"""Files of weights, into modules and out of them: torch checkpoints, those of Lightning, and safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mlconverter.errors import CorruptModelError, SignatureError, UnsafeModelError
from mlconverter.formats.torch.files import is_archive, is_safetensors, is_safetensors_name, is_undamaged
from mlconverter.formats.torch.state_dict import MOST_LISTED, load_state

NESTED = ("state_dict", "model_state_dict", "model")
"""Under which key checkpoints of a training have the weights beside other things; Lightning's is the first."""


def load_checkpoint(module: nn.Module, path: Path, trust: bool, key: str = "") -> None:
    """Load the weights of a file into a module; where that fails, nothing of the module has changed.

    Args:
        module: the module.
        path: the file.
        trust: whether code that the file carries may run.
        key: where in the file the weights are; by default they are looked for.

    Raises:
        CorruptModelError: the file cannot be read.
        UnsafeModelError: it holds more than weights, and is not trusted.
        SignatureError: it does not fit the module, or has nothing under the key.
    """
    found = _safetensors(path) if is_safetensors(path) else read_checkpoint(path, trust)
    beside = found if isinstance(found, Mapping) else {}
    if key:
        state = _under(key, beside, path)
    else:
        known = next((k for k in NESTED if isinstance(beside.get(k), (Mapping, nn.Module))), None)
        state = found if known is None else beside[known]
        key = known or ""
    if isinstance(state, nn.Module):
        state = state.state_dict()
    if not isinstance(state, Mapping):
        raise SignatureError(f"'{path}' holds a {type(state).__name__}, not tensors by name.")
    load_state(module, state, f"The weights in '{path}'", within=bool(key))


def _under(key: str, found: Mapping[Any, Any], path: Path) -> Any:
    """What a checkpoint has under a key; files that cannot nest, as safetensors, have it in front of their names."""
    if key in found:
        return found[key]
    state = {k.removeprefix(f"{key}."): v for k, v in found.items() if isinstance(k, str) and k.startswith(f"{key}.")}
    if not state:
        there = ", ".join(map(repr, list(found)[:MOST_LISTED])) or "none"
        more = f" and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
        raise SignatureError(f"'{path}' has nothing under the key '{key}'. Keys there: {there}{more}.")
    return state


def write_checkpoint(
    module: nn.Module, path: Path, *, beside: Mapping[str, Any] | None = None, header: dict[str, str] | None = None
) -> None:
    """Write the state dict of a module, as safetensors where the extension says so.

    Args:
        module: the module.
        path: the file.
        beside: what a checkpoint holds beside the state, which then stands under ``state_dict``.
        header: what the header of safetensors says.
    """
    state = module.state_dict()
    if not is_safetensors_name(path):
        torch.save(state if beside is None else {NESTED[0]: state, **beside}, path)
        return
    from safetensors.torch import save_file

    # Tensors that share memory are refused there; each gets its own.
    save_file(
        {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in state.items()}, path, header
    )


def _safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise CorruptModelError(f"'{path}' is not a readable safetensors file: {error}.") from error


def read_checkpoint(path: Path, trust: bool = False) -> Any:
    """What is in a checkpoint; nothing in it is run unless ``trust``."""
    try:
        # Elements are read when they are used, which the legacy form cannot do.
        return torch.load(path, map_location="cpu", weights_only=not trust, mmap=is_archive(path))
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged pickle ends in whatever its bytes lead to
        if not trust and is_undamaged(path):
            raise UnsafeModelError(
                f"'{path}' holds more than weights, and loading it would run code from the file. "
                "Converter(module, path, trust=True) does, if you trust it."
            ) from error
        text = str(error).strip()
        reason = f"{type(error).__name__}: {text.splitlines()[0].rstrip('.')}" if text else "it is empty"
        raise CorruptModelError(f"'{path}' is not a readable torch checkpoint: {reason}.") from error
