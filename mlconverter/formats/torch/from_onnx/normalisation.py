"""Normalisation layers, and dropout."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Tensor
from mlconverter.hub.nodes import Call

BATCH_NORMS: dict[int, Any] = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
INSTANCE_NORMS: dict[int, Any] = {3: nn.InstanceNorm1d, 4: nn.InstanceNorm2d, 5: nn.InstanceNorm3d}


def _check_batch_norm(call: Call) -> str | None:
    if call.attributes.get("training_mode") or (call.version < 7 and not call.attributes.get("is_test")):
        return "training_mode=1 asks for batch statistics at inference"
    return None if call.attributes.get("spatial", 1) else "spatial=0 keeps statistics for every position"


@translates("BatchNormalization", 7, 9, 14, 15, check=_check_batch_norm)
def batch_normalization(
    g: Builder,
    x: Tensor,
    scale: Const | Tensor,
    bias: Const | Tensor,
    mean: Const | Tensor,
    var: Const | Tensor,
    *,
    epsilon: float,
    momentum: float,
    spatial: int = 1,
    training_mode: int = 0,
) -> Tensor:
    """BatchNormalization → nn.BatchNorm1d, 2d or 3d; F.batch_norm where the statistics are computed."""
    if x.ndim in BATCH_NORMS and all(isinstance(c, Const) for c in (scale, bias, mean, var)):
        assert isinstance(scale, Const)
        with torch.device("meta"):
            # ONNX keeps `momentum` of the old statistics, torch takes `momentum` of the new ones.
            layer = BATCH_NORMS[x.ndim](scale.value.size, eps=epsilon, momentum=1 - momentum)
        layer.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long))
        return g.layer(layer, x, weight=scale, bias=bias, running_mean=mean, running_var=var)
    parts = [g.tensor(c) for c in (mean, var, scale, bias)]
    return F.batch_norm(x, parts[0], parts[1], parts[2], parts[3], eps=epsilon)


@translates("InstanceNormalization", 1, 6, 22)
def instance_normalization(
    g: Builder, x: Tensor, scale: Const | Tensor, bias: Const | Tensor, *, epsilon: float, consumed_inputs: Any = None
) -> Tensor:
    """InstanceNormalization → nn.InstanceNorm1d, 2d or 3d; F.instance_norm where scale or bias is computed."""
    if x.ndim in INSTANCE_NORMS and isinstance(scale, Const) and isinstance(bias, Const):
        with torch.device("meta"):
            layer = INSTANCE_NORMS[x.ndim](scale.value.size, eps=epsilon, affine=True)
        return g.layer(layer, x, weight=scale, bias=bias)
    return F.instance_norm(x, weight=g.tensor(scale), bias=g.tensor(bias), eps=epsilon)


def _check_layer_norm(call: Call) -> str | None:
    return "stash_type other than float32" if call.attributes.get("stash_type", 1) != 1 else None


@translates("LayerNormalization", 17, check=_check_layer_norm)
def layer_normalization(
    g: Builder, x: Tensor, scale: Const | Tensor, bias: Const | Tensor | None = None, *, axis: int, epsilon: float, stash_type: int
) -> Any:
    """LayerNormalization → nn.LayerNorm; F.layer_norm and its statistics where more than Y is read."""
    axis += x.ndim if axis < 0 else 0
    sizes = tuple(x.fixed(a) for a in range(axis, x.ndim))
    assert g.node is not None
    more = [o for o in g.node.outputs[1:] if o.uses() or o.is_graph_output()]
    exact = isinstance(scale, Const) and scale.value.shape == sizes and (not isinstance(bias, Tensor))
    if exact and isinstance(scale, Const) and not more and (bias is None or bias.value.shape == sizes):
        with torch.device("meta"):
            layer = nn.LayerNorm(sizes, eps=epsilon, bias=bias is not None)
        return g.layer(layer, x, weight=scale, bias=bias)
    axes = tuple(range(axis, x.ndim))
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    inverse = torch.rsqrt((centred * centred).mean(axes, keepdim=True) + epsilon)
    y = centred * inverse * g.tensor(scale)
    return (y if bias is None else y + g.tensor(bias)), mean, inverse


@translates("LRN", 1, 13)
def lrn(g: Builder, x: Tensor, *, alpha: float, beta: float, bias: float, size: int) -> Any:
    """LRN → F.local_response_norm."""
    if size % 2:
        return F.local_response_norm(x, size, alpha=alpha, beta=beta, k=bias)
    # An even window reaches one channel further up than down in ONNX, and the other way round in torch.
    squares = F.pad((x * x).unsqueeze(1), [0, 0] * (x.ndim - 2) + [(size - 1) // 2, size // 2])
    window = sum(squares.narrow(2, i, x.length(1)) for i in range(size)).squeeze(1)
    return x / (window * (alpha / size) + bias).pow(beta)


def _check_dropout(call: Call) -> str | None:
    if len(call.inputs) > 2 and call.inputs[2] is not None:
        return "training_mode as an input"
    return None


@translates("Dropout", 7, 10, 12, 13, 22, check=_check_dropout)
def dropout(g: Builder, x: Tensor, ratio: Const | None = None, training: Const | None = None, *, seed: int | None = None) -> Any:
    """Dropout → nn.Dropout, which obeys train(); the mask of inference is all true."""
    layer = nn.Dropout(0.5 if ratio is None else float(ratio.number()))
    return g.layer(layer, x), torch.ones_like(x, dtype=torch.bool)
