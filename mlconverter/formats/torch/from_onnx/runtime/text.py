"""Counting of short sequences in longer ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def n_grams(
    x: torch.Tensor,
    pools: Sequence[torch.Tensor],
    places: Sequence[torch.Tensor],
    size: int,
    skips: int,
    weights: torch.Tensor | None,
    once: bool,
) -> torch.Tensor:
    """ONNX ``TfIdfVectorizer`` of numbers.

    Args:
        x: one sequence, or one in each row.
        pools: n-grams, those of one length in the rows of a matrix.
        places: where in the output each of them is counted.
        size: elements of the output.
        skips: how many elements are skipped at most between two of an n-gram.
        weights: of each element of the output.
        once: whether several of an n-gram count as one.
    """
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    counts = torch.zeros((rows.shape[0], size), dtype=torch.float32, device=x.device)
    for pool, place in zip(pools, places, strict=True):
        length = pool.shape[1]
        for step in range(1, 2 if length == 1 else skips + 2):
            windows = rows.shape[1] - (length - 1) * step
            if windows <= 0:
                continue
            same = torch.ones((), dtype=torch.bool, device=x.device)
            for i in range(length):
                same = same & (rows.narrow(1, i * step, windows).unsqueeze(2) == pool[:, i])
            counts = counts.index_add(1, place, same.sum(1).to(counts.dtype))
    counts = (counts > 0).to(counts.dtype) if once else counts
    counts = counts if weights is None else counts * weights
    return counts.reshape(-1) if x.dim() < 2 else counts
