"""Attention with a state: what is kept of earlier steps."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F


def tensor_scatter(
    past: torch.Tensor, update: torch.Tensor, starts: torch.Tensor | None, axis: int, circular: bool
) -> torch.Tensor:
    """ONNX ``TensorScatter``: each item is written from a place of its own on."""
    steps = torch.arange(update.shape[axis], device=past.device)
    place = steps.unsqueeze(0) if starts is None else starts.reshape(-1, 1) + steps
    place = place % past.shape[axis] if circular else place
    along = axis % past.dim()
    place = place.reshape(place.shape[0], *(-1 if a == along else 1 for a in range(1, past.dim())))
    return past.scatter(axis, place.expand_as(update), update)


def linear_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    past: torch.Tensor | None,
    decay: torch.Tensor | None,
    beta: torch.Tensor | None,
    heads: int,
    kept_heads: int,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """ONNX ``LinearAttention``: step by step, in single precision.

    Args:
        query: (batch, steps, heads · features).
        key: (batch, steps, kept heads · features).
        value: (batch, steps, kept heads · values).
        past: the state before the first step; zeros where there is none.
        decay: logarithm of what is kept of the state, for each kept head or each of its features.
        beta: how much of what the state is off a value it is corrected by; without it values are added.
        heads: heads of the query.
        kept_heads: heads of key, value and state; each serves as many heads of the query.
        scale: of the output; 0 for one over the root of the features.

    Returns:
        The output, and the state behind the last step.
    """
    batch, steps, _ = query.shape
    q, k, v = (
        x.float().reshape(batch, steps, count, -1) for x, count in ((query, heads), (key, kept_heads), (value, kept_heads))
    )
    q = q.reshape(batch, steps, kept_heads, heads // kept_heads, -1) * (scale or q.shape[-1] ** -0.5)
    kept = None if decay is None else decay.float().reshape(batch, steps, kept_heads, -1).exp().unsqueeze(-1)
    part = None if beta is None else beta.float().unsqueeze(-1)
    state = k.new_zeros((batch, kept_heads, k.shape[-1], v.shape[-1])) if past is None else past.float()
    outputs = []
    for t in range(steps):
        state = state if kept is None else state * kept[:, t]
        new = v[:, t]
        if part is not None:
            new = part[:, t] * (new - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + k[:, t].unsqueeze(-1) * new.unsqueeze(-2)
        outputs.append(torch.einsum("bhgk,bhkv->bhgv", q[:, t], state).flatten(1))
    return torch.stack(outputs, 1).to(query.dtype), state.to(query.dtype if past is None else past.dtype)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: torch.Tensor | None = None, scale: float = 1.0
) -> torch.Tensor:
    """Attention whose axes may broadcast, which torch's own does not do everywhere."""
    broadcast: Any = torch.broadcast_shapes
    front = broadcast(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    scores = (*front, q.shape[-2], k.shape[-2])
    if attn_mask is not None and broadcast(attn_mask.shape, scores) != scores:  # more than there are scores
        return torch.softmax(q @ k.mT * scale + attn_mask, -1).nan_to_num(0) @ v
    q, k, v = (x.expand(*front, *x.shape[-2:]) for x in (q, k, v))
    attended: torch.Tensor = F.scaled_dot_product_attention(q, k, v, attn_mask, scale=scale)
    return attended
