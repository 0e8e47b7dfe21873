"""Tree ensembles: every tree of every row goes down one level at a time."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

_COMPARE: tuple[Callable[[Any, Any], torch.Tensor], ...] = (
    operator.le,
    operator.lt,
    operator.ge,
    operator.gt,
    operator.eq,
    operator.ne,
)
"""What a branch asks, by its mode."""


def tree_leaves(
    x: torch.Tensor,
    roots: torch.Tensor,
    features: torch.Tensor,
    splits: torch.Tensor,
    children: torch.Tensor,
    missing: torch.Tensor | None,
    modes: torch.Tensor | None,
    kinds: Sequence[int],
    depth: int,
) -> torch.Tensor:
    """The node at which each tree ends for each row.

    Args:
        x: (rows, features).
        roots: the root of each tree.
        features: by node, the feature that it looks at.
        splits: by node, what it compares that with.
        children: by node, where to go if that is false, and if it is true; leaves are their own children.
        missing: by node, whether a NaN counts as true; ``None`` where none does.
        modes: by node, how it compares; ``None`` where all do it in one way.
        kinds: the ways that there are.
        depth: how often to go down.
    """
    node = roots.expand(x.shape[0], -1)
    for _ in range(depth):
        value, split = x.gather(1, features[node]), splits[node]
        true = _COMPARE[kinds[0]](value, split)
        if modes is not None:
            mode = modes[node]
            for kind in kinds[1:]:
                true = torch.where(mode == kind, _COMPARE[kind](value, split), true)
        unknown = torch.isnan(value)
        true = true & ~unknown if missing is None else torch.where(unknown, missing[node], true)
        node = children[node, true.to(torch.int64)]
    return node


def tree_votes(leaves: torch.Tensor, votes: torch.Tensor, aggregate: str, base: torch.Tensor | None) -> torch.Tensor:
    """What the leaves of each row give to each target together; 0 where none gives anything.

    Args:
        leaves: (rows, trees), counted from the first leaf.
        votes: (leaves, targets); nothing is what the aggregate takes no notice of.
        aggregate: ``SUM``, ``AVERAGE``, ``MIN`` or ``MAX``.
        base: added afterwards.
    """
    if aggregate in ("SUM", "AVERAGE"):
        total = F.embedding_bag(leaves, votes, mode="sum")
        total = total / leaves.shape[1] if aggregate == "AVERAGE" else total
    else:
        given = F.embedding(leaves, votes)
        total = given.amin(1) if aggregate == "MIN" else given.amax(1)
        total = torch.where(torch.isinf(total), 0.0, total)
    return total if base is None else total + base
