"""Normalisation layers, and dropout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Tensor, UnknownAtConversion, fixed, length
from mlconverter.hub.nodes import Call

BATCH_NORMS: dict[int, Any] = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
INSTANCE_NORMS: dict[int, Any] = {3: nn.InstanceNorm1d, 4: nn.InstanceNorm2d, 5: nn.InstanceNorm3d}


def _check_batch_norm(call: Call) -> str | None:
    if call.version < 7 and not call.attributes.get("is_test"):
        return "is_test=0 asks for batch statistics without saying what becomes of them"
    return None if call.attributes.get("spatial", 1) else "spatial=0 keeps statistics for every position"


@translates("BatchNormalization", 1, 6, 7, 9, 14, 15, check=_check_batch_norm)
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
    is_test: int = 0,
    consumed_inputs: Any = None,
) -> Any:
    """BatchNormalization → nn.BatchNorm1d, 2d or 3d; written out where anything of it is computed."""
    given = scale, bias, mean, var
    if training_mode:
        kept = [g.tensor(replace(c, role="buffer") if isinstance(c, Const) else c) for c in (mean, var)]
        return _by_its_batch(x, g.tensor(scale), g.tensor(bias), kept, epsilon, momentum)
    assert g.node is not None
    if not is_test and any(output.name for output in g.node.outputs[1:]):
        raise UnknownAtConversion(
            "more than one output, by which opsets before 14 ask for training, with statistics of their own"
        )
    weights = [c for c in given if isinstance(c, Const)]
    if x.ndim in BATCH_NORMS and len(weights) == len(given):
        scale, bias, mean, var = weights
        with torch.device("meta"):
            # ONNX keeps `momentum` of the old statistics, torch takes `momentum` of the new ones.
            layer = BATCH_NORMS[x.ndim](scale.value.size, eps=epsilon, momentum=1 - momentum)
        layer.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long))
        return g.layer(layer, x, weight=scale, bias=bias, running_mean=mean, running_var=var)
    # Written out: F.batch_norm lets no gradient into statistics, which may be computed from weights (standardised ones are).
    shape = [1, -1] + [1] * (x.ndim - 2)
    centre, spread, factor, offset = (g.tensor(c).reshape(shape) for c in (mean, var, scale, bias))
    return (x - centre) * torch.rsqrt(spread + epsilon) * factor + offset


def _by_its_batch(x: Tensor, scale: Tensor, bias: Tensor, kept: list[Tensor], epsilon: float, momentum: float) -> Any:
    """Normalised by the batch's own mean and variance, and what is kept of these."""
    axes = (0, *range(2, x.ndim))
    channels = (1, -1, *[1] * (x.ndim - 2)) if x.ndim > 1 else (-1,)
    wide = _stashed(x)
    mean = wide.mean(axes)
    centred = wide - mean.reshape(channels)
    var = (centred * centred).mean(axes)
    y = _as(centred * torch.rsqrt(var + epsilon).reshape(channels), x)
    running = [old * momentum + new.to(old.dtype) * (1 - momentum) for old, new in zip(kept, (mean, var), strict=True)]
    return y * scale.reshape(channels) + bias.reshape(channels), *running


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
    g: Builder,
    x: Tensor,
    scale: Const | Tensor,
    bias: Const | Tensor | None = None,
    *,
    axis: int,
    epsilon: float,
    stash_type: int,
) -> Any:
    """LayerNormalization → nn.LayerNorm; F.layer_norm and its statistics where more than Y is read."""
    axis += x.ndim if axis < 0 else 0
    sizes = tuple(fixed(x, a) for a in range(axis, x.ndim))
    alone = not g.is_read(1) and not g.is_read(2)
    if alone and isinstance(scale, Const) and not isinstance(bias, Tensor) and _fits(sizes, scale, bias):
        with torch.device("meta"):
            layer = nn.LayerNorm(sizes, eps=epsilon, bias=bias is not None)
        return g.layer(layer, x, weight=scale, bias=bias)
    axes = tuple(range(axis, x.ndim))
    y = _stashed(x)
    mean = y.mean(axes, keepdim=True)
    centred = y - mean
    inverse = torch.rsqrt((centred * centred).mean(axes, keepdim=True) + epsilon)
    y = _as(centred * inverse, x) * g.tensor(scale)
    return (y if bias is None else y + g.tensor(bias)), mean, inverse


def _fits(sizes: tuple[int | None, ...], *weights: Const | None) -> bool:
    """Whether weights have exactly the shape of the axes that are normalised."""
    return all(w is None or w.value.shape == sizes for w in weights)


def _stashed(x: Tensor) -> Tensor:
    """Statistics of half-precision tensors are computed in single precision."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _as(y: Tensor, x: Tensor) -> Tensor:
    return y.to(x.dtype) if x.dtype in (torch.float16, torch.bfloat16) else y


@translates("RMSNormalization", 23, check=_check_layer_norm)
def rms_normalization(g: Builder, x: Tensor, scale: Const | Tensor, *, axis: int, epsilon: float, stash_type: int) -> Any:
    """RMSNormalization → nn.RMSNorm; x * torch.rsqrt(mean of squares) where the scale is computed or broadcast."""
    axis += x.ndim if axis < 0 else 0
    sizes = tuple(fixed(x, a) for a in range(axis, x.ndim))
    if isinstance(scale, Const) and _fits(sizes, scale):
        with torch.device("meta"):
            layer = nn.RMSNorm(scale.value.shape, eps=epsilon)
        return g.layer(layer, x, weight=scale)
    y = _stashed(x)
    y = y * torch.rsqrt((y * y).mean(tuple(range(axis, x.ndim)), keepdim=True) + epsilon)
    return _as(y, x) * g.tensor(scale)


def _check_group_norm(call: Call) -> str | None:
    if call.version < 21:
        return "version 18 has a scale for each group, which its successor calls a mistake"
    return _check_layer_norm(call)


@translates("GroupNormalization", 18, 21, check=_check_group_norm)
def group_normalization(
    g: Builder, x: Tensor, scale: Const | Tensor, bias: Const | Tensor, *, num_groups: int, epsilon: float, stash_type: int = 1
) -> Tensor:
    """GroupNormalization → nn.GroupNorm; F.group_norm where scale or bias is computed."""
    if isinstance(scale, Const) and isinstance(bias, Const):
        with torch.device("meta"):
            layer = nn.GroupNorm(num_groups, scale.value.size, eps=epsilon)
        return g.layer(layer, x, weight=scale, bias=bias)
    return F.group_norm(x, num_groups, g.tensor(scale), g.tensor(bias), epsilon)


@translates("LpNormalization", 1, 22)
def lp_normalization(g: Builder, x: Tensor, *, axis: int, p: int) -> Any:
    """LpNormalization → x / torch.linalg.vector_norm along an axis; zeros stay zeros."""
    norm = torch.linalg.vector_norm(x, p, axis, keepdim=True)
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


@translates("MeanVarianceNormalization", 9, 13)
def mean_variance_normalization(g: Builder, x: Tensor, *, axes: list[int]) -> Any:
    """MeanVarianceNormalization → (x - mean) / (deviation + 1e-9)."""
    centred = x - x.mean(tuple(axes), keepdim=True)
    return centred / ((centred * centred).mean(tuple(axes), keepdim=True).sqrt() + 1e-9)


@translates("LRN", 1, 13)
def lrn(g: Builder, x: Tensor, *, alpha: float, beta: float, bias: float, size: int) -> Any:
    """LRN → F.local_response_norm."""
    if size % 2 and x.ndim > 2:
        return F.local_response_norm(x, size, alpha=alpha, beta=beta, k=bias)
    # An even window reaches one channel further up than down in ONNX, and the other way round in torch.
    squares = F.pad((x * x).unsqueeze(1), [0, 0] * (x.ndim - 2) + [(size - 1) // 2, size // 2])
    window: Any = sum(squares.narrow(2, i, length(x, 1)) for i in range(size))
    window = window.squeeze(1)
    return x / (window * (alpha / size) + bias).pow(beta)


def _check_dropout(call: Call) -> str | None:
    if call.version < 7 and not call.attributes.get("is_test"):
        return "is_test=0 asks for random numbers at inference"
    mode = call.inputs[2] if len(call.inputs) > 2 else None
    if mode is None:
        return None
    known = mode if isinstance(mode, np.ndarray) else mode.const_value.numpy() if mode.const_value is not None else None
    if known is None:
        return "whether it trains is computed while the model runs"
    return "training_mode=1 asks for random numbers at inference" if bool(known) else None


@translates("Dropout", 1, 6, 7, 10, 12, 13, 22, check=_check_dropout)
def dropout(
    g: Builder,
    x: Tensor,
    ratio: Const | Tensor | None = None,
    training: Const | None = None,
    *,
    seed: int | None = None,
    is_test: int = 1,
    consumed_inputs: Any = None,
) -> Any:
    """Dropout → nn.Dropout, which obeys train(); the mask of inference is all true."""
    if isinstance(ratio, Tensor):
        y = g.layer(runtime.DropoutBy(), x, ratio)
    else:
        y = g.layer(nn.Dropout(0.5 if ratio is None else float(ratio.number())), x)
    return (y, torch.ones_like(x, dtype=g.output_dtype(1) or torch.bool)) if g.is_read(1) else y
