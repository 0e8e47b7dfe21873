"""Matrix products: ``nn.Linear`` where the right operand is a weight."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.translate import Merged
from mlconverter.formats.torch.from_onnx.values import Const, Tensor, dtype_of, know
from mlconverter.hub.model import ROLE_KEY, WEIGHT_KEY
from mlconverter.hub.nodes import op_name
from mlconverter.hub.normalise import is_weight
from mlconverter.hub.weights import Reshape, Transpose


def _linear(g: Builder, x: Any, weight: Const, bias: Const | None) -> Tensor:
    """``x @ weight.T + bias`` as a layer; ``weight`` has shape (out, in)."""
    out_features, in_features = weight.value.shape
    with torch.device("meta"):
        layer = nn.Linear(in_features, out_features, bias=bias is not None)
    return g.layer(layer, x, weight=weight, bias=bias)


@translates("MatMul", 1, 9, 13)
def matmul(g: Builder, a: Tensor | Const, b: Tensor | Const) -> Any:
    """MatMul → nn.Linear with the Add behind it as bias, torch.matmul where both operands are computed."""
    if not isinstance(b, Const) or b.weight is None or b.value.ndim != 2:
        return torch.matmul(g.tensor(a), g.tensor(b))
    weight = b.seen(Transpose((1, 0)))
    if g.tied_elsewhere(weight):
        return torch.matmul(g.tensor(a), g.tensor(b))
    reader = g.sole_reader()
    bias = None if reader is None or op_name(reader) != "Add" else _bias_of(reader, weight.value.shape[0])
    y = _linear(g, g.tensor(a), weight, bias)
    return y if bias is None or reader is None else Merged(y, (reader,))


def _bias_of(add: Any, size: int) -> Const | None:
    """The other operand of an Add, if it is a weight of shape (size,)."""
    for value in add.inputs:
        if is_weight(value) and value.shape is not None and tuple(value.shape) == (size,):
            props = value.metadata_props
            return Const(value.const_value.numpy(), value.name, props[WEIGHT_KEY], (), props.get(ROLE_KEY))
    return None


@translates("Gemm", 1, 6, 7, 9, 11, 13)
def gemm(
    g: Builder,
    a: Tensor | Const,
    b: Tensor | Const,
    c: Tensor | Const | None = None,
    *,
    alpha: float,
    beta: float,
    transA: int,
    transB: int,
    broadcast: int = 1,
) -> Any:
    """Gemm → nn.Linear where B is a weight and C a bias vector, torch.addmm or products elsewhere."""
    x = g.tensor(a)
    if transA:
        x = know(x.t(), None, dtype_of(x))
    plain = alpha == 1 and beta == 1
    weight = None
    if isinstance(b, Const) and b.weight is not None:
        weight = b if transB else b.seen(Transpose((1, 0)))
    if weight is not None and not g.tied_elsewhere(weight):
        bias = _vector(c, weight.value.shape[0]) if plain else None
        y = _linear(g, x, weight, bias)
        c = None if bias is not None else c
    else:
        y = torch.matmul(x, g.tensor(b).t() if transB else g.tensor(b))
    y = y if alpha == 1 else y * alpha
    if c is not None:
        y = y + g.tensor(c) if beta == 1 else y + g.tensor(c) * beta
    return y if plain or dtype_of(x) is None or x.is_floating_point() else y.to(x.dtype)


def _vector(c: Any, size: int) -> Const | None:
    """C as the bias vector of a layer with ``size`` outputs, ``None`` where it is something else."""
    if not isinstance(c, Const) or c.weight is None or c.value.size != size or c.value.shape[-1:] != (size,):
        return None
    return c if c.value.ndim == 1 else c.seen(Reshape((size,)))


@translates("Einsum", 12, 28)
def einsum(g: Builder, *xs: Tensor, equation: str) -> Tensor:
    """Einsum → torch.einsum."""
    return torch.einsum(equation, *xs)


@translates("com.microsoft::Inverse", 1)
def inverse(g: Builder, x: Tensor) -> Any:
    """Inverse → torch.linalg.inv."""
    return torch.linalg.inv(x)
