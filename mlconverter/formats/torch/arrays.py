"""Tensors as arrays and back, those types included that numpy knows by name only."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mlconverter.formats.torch.dtypes import CARRIED, name_of


def to_numpy(tensor: torch.Tensor, dtype: str | None = None) -> np.ndarray[Any, Any]:
    """A tensor's values as an array of the same dtype, or of the one that it carries.

    Args:
        tensor: on any device.
        dtype: numpy's name of the element type that is meant; only one that torch does not have matters.
    """
    import ml_dtypes

    tensor, name = tensor.detach().cpu(), name_of(tensor.dtype)
    if name.startswith(("bfloat16", "float8")):
        return tensor.view(torch.int16 if tensor.itemsize == 2 else torch.uint8).numpy().view(getattr(ml_dtypes, name))
    array = np.asarray(tensor.numpy())
    return array.astype(getattr(ml_dtypes, dtype)) if dtype in CARRIED else array


def to_tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """An array's values as a tensor of the same dtype, or of the one that carries it, in memory of its own.

    Raises:
        TypeError: torch has no such dtype.
    """
    carried = CARRIED.get(np.asarray(array).dtype.name)
    own = np.array(array, None if carried is None else name_of(carried), order="C")
    if own.dtype.name.startswith(("bfloat16", "float8")):
        return torch.from_numpy(own.view(np.int16 if own.dtype.itemsize == 2 else np.int8)).view(getattr(torch, own.dtype.name))
    return torch.from_numpy(own)
