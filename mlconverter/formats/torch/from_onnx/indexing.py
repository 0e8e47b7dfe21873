"""Picking and writing elements by index."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Ints, Tensor, length, rank_of
from mlconverter.hub.model import PADDING_KEY


@translates("Gather", 1, 11, 13)
def gather(g: Builder, x: Const | Tensor, indices: Const | Tensor, *, axis: int) -> Any:
    """Gather → nn.Embedding where rows of a weight are picked, x.select or x.index_select elsewhere."""
    rank = indices.value.ndim if isinstance(indices, Const) else rank_of(indices)
    if isinstance(indices, Const) and rank == 0:
        return g.tensor(x).select(axis, int(indices.number()))
    if isinstance(x, Const) and x.weight is not None and x.value.ndim == 2 and axis in (0, -2):
        rows = _wrapped(g, indices, x.value.shape[0])
        padding = _padding(g, x.value.shape[0])
        if g.tied_elsewhere(x):
            return F.embedding(rows, g.tensor(x), padding)
        with torch.device("meta"):
            layer = nn.Embedding(x.value.shape[0], x.value.shape[1], padding)
        return g.layer(layer, rows, weight=x)
    data = g.tensor(x)
    if rank == 1:
        return data.index_select(axis, _wrapped(g, indices, length(data, axis)))
    return g.call(runtime.gather, data, g.tensor(indices), axis)


def _padding(g: Builder, rows: int) -> int | None:
    """The row that is padding, where the source of the graph says that there is one."""
    said = "" if g.node is None else g.node.metadata_props.get(PADDING_KEY, "")
    return int(said) if said.isdecimal() and int(said) < rows else None


def _wrapped(g: Builder, indices: Const | Tensor, size: Any) -> Tensor:
    """Indices from the start of an axis: constant ones that are so already stay as they are."""
    if isinstance(indices, Const) and bool((indices.value >= 0).all()) and indices.value.dtype == "int64":
        return g.constant(indices)
    return g.call(runtime.wrap_index, g.tensor(indices), size)


@translates("GatherElements", 11, 13)
def gather_elements(g: Builder, x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    """GatherElements → torch.gather."""
    return torch.gather(x, axis, g.call(runtime.wrap_index, indices, length(x, axis)))


@translates("GatherND", 11, 12, 13)
def gather_nd(g: Builder, x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """GatherND → x[i, j, …]."""
    return g.call(runtime.gather_nd, x, indices, batch_dims)


@translates("ScatterElements", 11, 13, 16, 18)
def scatter_elements(g: Builder, x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: str = "none") -> Tensor:
    """ScatterElements → x.scatter, x.scatter_reduce with a reduction."""
    return g.call(runtime.scatter_elements, x, indices, updates, axis, reduction)


@translates("Scatter", 9, 11)
def scatter(g: Builder, x: Tensor, indices: Tensor, updates: Tensor, *, axis: int) -> Tensor:
    """Scatter → x.scatter, as ScatterElements."""
    return g.call(runtime.scatter_elements, x, indices, updates, axis, "none")


@translates("ScatterND", 11, 13, 16, 18)
def scatter_nd(g: Builder, x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """ScatterND → x.index_put, x.scatter_reduce over rows for mul, max and min."""
    return g.call(runtime.scatter_nd, x, indices, updates, reduction)


@translates("ArgMax", 1, 11, 12, 13)
def arg_max(g: Builder, x: Tensor, *, axis: int, keepdims: int, select_last_index: int = 0) -> Any:
    """ArgMax → torch.argmax; the last of equal maxima by flipping."""
    return _arg(x, torch.argmax, axis, bool(keepdims), bool(select_last_index))


@translates("ArgMin", 1, 11, 12, 13)
def arg_min(g: Builder, x: Tensor, *, axis: int, keepdims: int, select_last_index: int = 0) -> Any:
    """ArgMin → torch.argmin; the last of equal minima by flipping."""
    return _arg(x, torch.argmin, axis, bool(keepdims), bool(select_last_index))


def _arg(x: Tensor, function: Any, axis: int, keepdim: bool, last: bool) -> Any:
    if not last:
        return function(x, axis, keepdim=keepdim)
    return length(x, axis) - 1 - function(torch.flip(x, [axis]), axis, keepdim=keepdim)


@translates("TopK", 1, 10, 11, 24)
def top_k(g: Builder, x: Tensor, k: Ints | Tensor, *, axis: int, largest: int = 1, sorted: int = 1) -> Any:
    """TopK → a stable torch.sort, which torch.topk is not."""
    y = g.call(runtime.top_k, x, k if isinstance(k, Tensor) else k[0], axis, bool(largest))
    return y[0], y[1]


@translates("OneHot", 9, 11, 28)
def one_hot(g: Builder, indices: Tensor, depth: Ints | Tensor, values: Tensor, *, axis: int) -> Tensor:
    """OneHot → torch.where over a comparison with torch.arange."""
    return g.call(runtime.one_hot, indices, depth if isinstance(depth, Tensor) else depth[0], values, axis)


@translates("NonZero", 9, 13)
def non_zero(g: Builder, x: Tensor) -> Any:
    """NonZero → torch.nonzero, transposed."""
    return torch.nonzero(x).t()


@translates("Compress", 9, 11, 28)
def compress(g: Builder, x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """Compress → x.index_select of the true positions."""
    return g.call(runtime.compress, x, condition, axis)


@translates("Unique", 11, 28)
def unique(g: Builder, x: Tensor, *, axis: int | None = None, sorted: int) -> Any:
    """Unique → torch.unique, and where each value stands first."""
    y: Any = g.call(runtime.unique, x, axis, not sorted)
    return y[0], y[1], y[2], y[3]


@translates("ReverseSequence", 10, 28)
def reverse_sequence(g: Builder, x: Tensor, lengths: Tensor, *, batch_axis: int, time_axis: int) -> Tensor:
    """ReverseSequence → x[row, index] with the index running backwards as far as each length says."""
    return g.call(runtime.reverse_sequence, x, lengths, batch_axis, time_axis)
