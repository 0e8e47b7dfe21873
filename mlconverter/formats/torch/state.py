"""The state of a module: its mode, its values, and a digest of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from mlconverter.hub.weights import Array

Module = TypeVar("Module", bound=nn.Module)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module and all in it into ``eval()`` mode, and each back into its own mode afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def state_hash(module: nn.Module) -> str:
    """A digest of the values of all parameters and buffers; version counters of tensors miss writes to ``.data``."""
    digest = hashlib.blake2b(digest_size=20)
    for name, tensor in (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)):
        digest.update(f"{name}:{tuple(tensor.shape)}:{tensor.dtype}".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    return digest.hexdigest()


def state_of(trained: nn.Module | Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """All parameters and buffers of a module by name, those that are not saved with it included."""
    if isinstance(trained, Mapping):
        return dict(trained)
    return dict((*trained.named_parameters(remove_duplicate=False), *trained.named_buffers(remove_duplicate=False)))


def put_values(module: Module, values: Mapping[str, Array]) -> Module:
    """Write values into parameters and buffers by name; the module itself is returned."""
    state = state_of(module)
    with torch.no_grad():
        for name, value in values.items():
            state[name].copy_(torch.from_numpy(np.array(value)))
    return module
