"""Files of weights, into modules and out of them: torch checkpoints, those of Lightning, and safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mlconverter.errors import CorruptModelError, SignatureError, UnsafeModelError
from mlconverter.formats.torch.files import is_safetensors, is_undamaged
from mlconverter.formats.torch.state_dict import load_state

NESTED = ("state_dict", "model_state_dict", "model")
"""Under which key checkpoints of a training have the weights beside other things; Lightning's is the first."""


def load_checkpoint(module: nn.Module, path: Path, trust: bool) -> None:
    """Load the weights of a file into a module; where that fails, nothing of the module has changed.

    Raises:
        CorruptModelError: the file cannot be read.
        UnsafeModelError: it holds more than weights, and is not trusted.
        SignatureError: it does not fit the module.
    """
    found = _safetensors(path) if is_safetensors(path) else _pickled(path, trust)
    beside = found if isinstance(found, Mapping) else {}
    key = next((k for k in NESTED if isinstance(beside.get(k), (Mapping, nn.Module))), None)
    state = found if key is None else beside[key]
    if isinstance(state, nn.Module):
        state = state.state_dict()
    if not isinstance(state, Mapping):
        raise SignatureError(f"'{path}' holds a {type(state).__name__}, not tensors by name.")
    load_state(module, state, f"The weights in '{path}'", within=key is not None)


def write_checkpoint(module: nn.Module, path: Path) -> None:
    """Write the state dict of a module, as safetensors where the extension says so."""
    state = module.state_dict()
    if path.suffix.lower() != ".safetensors":
        torch.save(state, path)
        return
    from safetensors.torch import save_file

    # Tensors that share memory are refused there; each gets its own.
    save_file({name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in state.items()}, path)


def _safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise CorruptModelError(f"'{path}' is not a readable safetensors file: {error}.") from error


def _pickled(path: Path, trust: bool) -> Any:
    """What is in a checkpoint; nothing in it is run unless ``trust``."""
    try:
        return torch.load(path, map_location="cpu", weights_only=not trust)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged pickle ends in whatever its bytes lead to
        if not trust and is_undamaged(path):
            raise UnsafeModelError(
                f"'{path}' holds more than weights, and loading it would run code from the file. Pass trust=True if you trust it."
            ) from error
        text = str(error).strip()
        reason = f"{type(error).__name__}: {text.splitlines()[0].rstrip('.')}" if text else "it is empty"
        raise CorruptModelError(f"'{path}' is not a readable torch checkpoint: {reason}.") from error
