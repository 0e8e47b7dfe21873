"""What becomes of the scores of classical models."""

from __future__ import annotations

import math

import torch


def post_transform(scores: torch.Tensor, name: str) -> torch.Tensor:
    """The transformation of that name, over the last axis."""
    match name:
        case "LOGISTIC":
            return torch.sigmoid(scores)
        case "SOFTMAX":
            return torch.softmax(scores, -1)
        case "SOFTMAX_ZERO":
            return _softmax_zero(scores)
        case "PROBIT":
            return _probit(scores)
        case _:
            return scores


def _softmax_zero(scores: torch.Tensor) -> torch.Tensor:
    """A softmax in which zeros stay zeros."""
    highest = scores.amax(-1, keepdim=True)
    powers = torch.where(scores.abs() > 1e-7, torch.exp(scores - highest), scores * torch.exp(-highest))
    total = powers.sum(-1, keepdim=True)
    return torch.where(total == 0, 0.5, powers / total)


def _probit(scores: torch.Tensor) -> torch.Tensor:
    """The quantile of the normal distribution, by the approximation that implementations agree on."""
    y = 2 * scores - 1
    log = torch.log((1 - y) * (1 + y))
    half = 2 / (math.pi * 0.147) + 0.5 * log
    root = torch.sqrt(torch.sqrt(half * half - log / 0.147) - half)
    return math.sqrt(2) * torch.where(y < 0, -root, root)
