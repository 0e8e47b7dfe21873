"""Picking elements by index."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Ints, Tensor


@translates("Gather", 1, 11, 13)
def gather(g: Builder, x: Const | Tensor, indices: Ints | Tensor, *, axis: int) -> Any:
    """Gather → nn.Embedding where rows of a weight are picked, x.select or x.index_select elsewhere."""
    assert g.node is not None and g.node.inputs[1] is not None
    shape = g.node.inputs[1].shape
    rank = None if shape is None else len(shape)
    if isinstance(indices, Ints) and rank == 0:
        return g.tensor(x).select(axis, indices[0])
    if isinstance(indices, Ints):
        indices = g.tensor(_index_const(g))
    if isinstance(x, Const) and x.weight is not None and x.value.ndim == 2 and axis == 0:
        with torch.device("meta"):
            layer = nn.Embedding(*x.value.shape)
        return g.layer(layer, g.call(runtime.wrap_index, indices, x.value.shape[0]), weight=x)
    if rank == 1:
        data = g.tensor(x)
        return data.index_select(axis, g.call(runtime.wrap_index, indices, data.length(axis)))
    return g.call(runtime.gather, g.tensor(x), indices, axis)


def _index_const(g: Builder) -> Any:
    """The constant indices of the current node, negative ones counted from the end where that is known."""
    assert g.node is not None
    value = g.node.inputs[1]
    assert value is not None
    if value.const_value is None:
        raise TypeError("indices computed from sizes")
    return Const(value.const_value.numpy().astype("int64"), value.name or "indices")


@translates("GatherElements", 11, 13)
def gather_elements(g: Builder, x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    """GatherElements → torch.gather."""
    return torch.gather(x, axis, g.call(runtime.wrap_index, indices, x.length(axis)))


@translates("Range", 11)
def range_(g: Builder, start: Ints | Const, limit: Ints | Const, delta: Ints | Const) -> Tensor:
    """Range → torch.arange."""
    bounds = [b.number() if isinstance(b, Const) else b[0] for b in (start, limit, delta)]
    return g.call(torch.arange, *bounds)


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
    return x.length(axis) - 1 - function(torch.flip(x, [axis]), axis, keepdim=keepdim)


@translates("TopK", 1, 10, 11, 24)
def top_k(g: Builder, x: Tensor, k: Ints, *, axis: int, largest: int = 1, sorted: int = 1) -> Any:
    """TopK → torch.topk."""
    y = torch.topk(x, k[0], axis, bool(largest), True)
    return y[0], y[1]
