"""Tensors as arrays and back, those types included that numpy knows by name only."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """A tensor's values as an array of the same dtype."""
    tensor = tensor.detach().cpu()
    if tensor.dtype is torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return np.asarray(tensor.numpy())


def to_tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """An array's values as a tensor of the same dtype, in memory of its own.

    Raises:
        TypeError: torch has no such dtype.
    """
    own = np.array(array, order="C")
    if own.dtype.name.startswith(("bfloat16", "float8")):
        return torch.from_numpy(own.view(np.int16 if own.dtype.itemsize == 2 else np.int8)).view(getattr(torch, own.dtype.name))
    return torch.from_numpy(own)
