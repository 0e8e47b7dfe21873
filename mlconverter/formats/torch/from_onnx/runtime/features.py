"""Features as classical models take them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F


def features(rows: Sequence[torch.Tensor], sizes: Sequence[int]) -> torch.Tensor:
    """Matrices side by side, each cut or filled up with zeros to its size."""
    return torch.cat([F.pad(x, [0, size - x.shape[1]]) for x, size in zip(rows, sizes, strict=True)], 1)


def look_up(x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """The value of the key that each element is; of ``others``, the first for what is no key, the second for a NaN."""
    if not len(keys):
        return torch.where(torch.isnan(x), others[1], others[0])
    place = torch.searchsorted(keys, x.contiguous()).clamp(max=len(keys) - 1)
    found = torch.where(keys[place] == x, values[place], others[0])
    return torch.where(torch.isnan(x), others[1], found)


def one_hot_of(x: torch.Tensor, categories: torch.Tensor, all_known: bool) -> torch.Tensor:
    """A one at the category that each element is.

    Raises:
        ValueError: one is none of them, and the model says that all are.
    """
    hot = x.to(torch.int64).unsqueeze(-1) == categories
    if all_known and not bool(hot.any(-1).all()):
        raise ValueError("An element is none of the categories, which the model takes for an error.")
    return hot.to(torch.float32)
