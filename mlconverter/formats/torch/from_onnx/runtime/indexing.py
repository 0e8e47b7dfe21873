"""Picking and writing elements by index."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mlconverter.formats.torch.from_onnx.runtime.shapes import number

_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def wrap_index(indices: torch.Tensor, size: int) -> torch.Tensor:
    """Negative indices count from the end."""
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + size, indices)


def gather(x: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor:
    """ONNX ``Gather``: the axis is replaced by all axes of ``indices``."""
    axis %= x.dim()
    picked = x.index_select(axis, wrap_index(indices, x.shape[axis]).reshape(-1))
    return picked.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _outer(x: torch.Tensor, indices: torch.Tensor, batch: int) -> tuple[torch.Tensor, ...]:
    """What ``x[…]`` takes to pick by the last axis of ``indices``, all batch axes flattened into the first."""
    depth = indices.shape[-1]
    picks = [wrap_index(indices[..., i], x.shape[i + 1 if batch else i]) for i in range(depth)]
    if not batch:
        return tuple(picks)
    rows = torch.arange(x.shape[0], device=x.device).reshape(-1, *[1] * (indices.dim() - 2))
    return (rows, *picks)


def gather_nd(x: torch.Tensor, indices: torch.Tensor, batch_dims: int) -> torch.Tensor:
    """ONNX ``GatherND``."""
    if batch_dims == 0:
        return x[_outer(x, indices, 0)]
    batch = x.shape[:batch_dims]
    picked = x.flatten(0, batch_dims - 1), indices.flatten(0, batch_dims - 1)
    result = picked[0][_outer(*picked, batch_dims)]
    return result.reshape(*batch, *result.shape[1:])


def scatter_elements(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, axis: int, reduction: str) -> torch.Tensor:
    """ONNX ``ScatterElements``."""
    index = wrap_index(indices, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, index, updates)
    return x.scatter_reduce(axis, index, updates, _REDUCE[reduction], include_self=True)


def scatter_nd(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, reduction: str) -> torch.Tensor:
    """ONNX ``ScatterND``: rows of all axes that ``indices`` does not reach are written."""
    index = _outer(x, indices, 0)
    if reduction in ("none", "add"):
        return x.index_put(index, updates, accumulate=reduction == "add")
    depth = indices.shape[-1]
    flat = torch.zeros((), dtype=torch.int64, device=x.device)
    for axis, positions in enumerate(index):
        flat = flat * x.shape[axis] + positions
    rows = x.reshape(-1, *x.shape[depth:]).flatten(1) if x.dim() > depth else x.reshape(-1, 1)
    source = updates.reshape(flat.numel(), -1)
    where = flat.reshape(-1, 1).expand_as(source)
    return rows.scatter_reduce(0, where, source, _REDUCE[reduction], include_self=True).reshape(x.shape)


def top_k(x: torch.Tensor, k: torch.Tensor | int, axis: int, largest: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The first ``k`` along an axis; equal elements in the order of their indices, which ``torch.topk`` leaves open."""
    values, indices = torch.sort(x, dim=axis, descending=largest, stable=True)
    count = number(k)
    return values.narrow(axis, 0, count), indices.narrow(axis, 0, count)


def one_hot(indices: torch.Tensor, depth: torch.Tensor | int, values: torch.Tensor, axis: int) -> torch.Tensor:
    """ONNX ``OneHot``: indices beyond the depth give no hot element."""
    count = number(depth)
    axis %= indices.dim() + 1
    places = torch.arange(count, device=indices.device).reshape([-1] + [1] * (indices.dim() - axis))
    return torch.where(wrap_index(indices, count).unsqueeze(axis) == places, values[1], values[0])


def compress(x: torch.Tensor, condition: torch.Tensor, axis: int | None) -> torch.Tensor:
    """Slices at which the condition holds; it may be shorter than the axis."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    return x.index_select(axis, condition.nonzero().reshape(-1))


def reverse_sequence(x: torch.Tensor, lengths: torch.Tensor, batch_axis: int, time_axis: int) -> torch.Tensor:
    """The first ``lengths[i]`` elements of each sequence backwards, the others as they are."""
    y = x.movedim((batch_axis, time_axis), (0, 1))
    steps, ends = torch.arange(y.shape[1], device=x.device), lengths.to(torch.int64).unsqueeze(1)
    index = torch.where(steps < ends, ends - 1 - steps, steps)
    rows = torch.arange(y.shape[0], device=x.device).unsqueeze(1)
    return y[rows, index].movedim((0, 1), (batch_axis, time_axis))


def unique(x: torch.Tensor, axis: int | None, in_order: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Unique elements or slices, where each stands first, which each element is, and how often each is there."""
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis % x.dim())
    values, inverse, counts = torch.unique(x, sorted=True, return_inverse=True, return_counts=True, dim=axis)
    first = torch.full((values.shape[axis],), x.shape[axis], device=x.device)
    first = first.scatter_reduce(0, inverse, torch.arange(x.shape[axis], device=x.device), "amin")
    if not in_order:
        return values, first, inverse, counts
    order = first.argsort()
    return values.index_select(axis, order), first[order], order.argsort()[inverse], counts[order]


def trilu(x: torch.Tensor, k: torch.Tensor | int, upper: bool) -> torch.Tensor:
    """The upper or lower triangle of the last two axes from diagonal ``k`` on."""
    return torch.triu(x, number(k)) if upper else torch.tril(x, number(k))


def eye_like(x: torch.Tensor, k: int, dtype: torch.dtype) -> torch.Tensor:
    """Ones on diagonal ``k`` of a matrix of the shape of ``x``."""
    rows, columns = torch.arange(x.shape[0], device=x.device), torch.arange(x.shape[1], device=x.device)
    return (columns == rows.unsqueeze(1) + k).to(dtype)


def arange(
    start: torch.Tensor | float,
    limit: torch.Tensor | float,
    delta: torch.Tensor | float,
    dtype: torch.dtype,
    device: torch.device | None,
) -> torch.Tensor:
    """ONNX ``Range``: ``start + i * delta`` as long as it is short of ``limit``."""
    bounds: Sequence[float] = [v.reshape(()).item() if isinstance(v, torch.Tensor) else v for v in (start, limit, delta)]
    return torch.arange(*bounds, dtype=dtype, device=device)
