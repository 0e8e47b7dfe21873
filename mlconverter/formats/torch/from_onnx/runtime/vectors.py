"""Support vector machines."""

from __future__ import annotations

from collections.abc import Sequence

import torch

MOST_ROUNDS = 100
"""How often couplings of probabilities are improved at most."""


def kernel(x: torch.Tensor, vectors: torch.Tensor, kind: str, gamma: float, shift: float, degree: float) -> torch.Tensor:
    """How alike each row is to each of the vectors."""
    if kind == "RBF":
        return torch.exp(-gamma * (x.unsqueeze(1) - vectors).square().sum(-1))
    product = torch.matmul(x, vectors.t())
    if kind == "LINEAR":
        return product
    product = gamma * product + shift
    return torch.tanh(product) if kind == "SIGMOID" else product.pow(degree)


def duels(alike: torch.Tensor, coefficients: torch.Tensor, rho: torch.Tensor, ends: Sequence[int]) -> torch.Tensor:
    """For each pair of classes how far the first one wins.

    Args:
        alike: (rows, vectors), the vectors of one class behind those of another.
        coefficients: (classes - 1, vectors), as libsvm keeps them.
        rho: of each pair.
        ends: where the vectors of each class begin, and where the last ones end.
    """
    scores: list[torch.Tensor] = []
    for i in range(len(ends) - 1):
        for j in range(i + 1, len(ends) - 1):
            first, second = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
            won = alike[:, first] @ coefficients[j - 1, first] + alike[:, second] @ coefficients[i, second]
            scores.append(won + rho[len(scores)])
    return torch.stack(scores, 1)


def winner(scores: torch.Tensor, classes: int) -> torch.Tensor:
    """The class that wins most of its duels."""
    votes = scores.new_zeros((scores.shape[0], classes))
    first, second = torch.triu_indices(classes, classes, 1, device=scores.device)
    won = (scores > 0).to(scores.dtype)
    return votes.index_add(1, first, won).index_add(1, second, 1 - won).argmax(1)


def coupled(scores: torch.Tensor, a: torch.Tensor, b: torch.Tensor, classes: int) -> torch.Tensor:
    """Probabilities of classes from those of pairs, by the iteration of libsvm."""
    pairs = torch.sigmoid(-(scores * a + b)).clamp(1e-7, 1 - 1e-7)
    first, second = torch.triu_indices(classes, classes, 1, device=scores.device)
    rows = torch.arange(pairs.shape[0], device=pairs.device).unsqueeze(1)
    ratio = pairs.new_zeros((pairs.shape[0], classes, classes))
    ratio = ratio.index_put((rows, first, second), pairs)
    ratio = ratio.index_put((rows, second, first), 1 - pairs)
    own = torch.diag_embed(ratio.square().sum(1))
    q = own - ratio * ratio.transpose(1, 2)
    p = torch.full_like(scores[:, :1], 1 / classes).expand(-1, classes)
    going = torch.ones_like(p[:, :1], dtype=torch.bool)
    for _ in range(max(MOST_ROUNDS, classes)):
        slope = (q @ p.unsqueeze(2)).squeeze(2)
        mean = (p * slope).sum(1, keepdim=True)
        going = going & ((slope - mean).abs().amax(1, keepdim=True) >= 0.005 / classes)
        if not torch.compiler.is_compiling() and not bool(going.any()):
            break
        better = p
        for t in range(classes):
            step = (mean - slope[:, t : t + 1]) / q[:, t, t].unsqueeze(1)
            moved = torch.nn.functional.one_hot(torch.tensor(t, device=p.device), classes) * step
            mean = (mean + step * (step * q[:, t, t].unsqueeze(1) + 2 * slope[:, t : t + 1])) / (1 + step).square()
            slope = (slope + step * q[:, t]) / (1 + step)
            better = (better + moved) / (1 + step)
        p = torch.where(going, better, p)
    return p
