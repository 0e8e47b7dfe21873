"""Activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Tensor, UnknownAtConversion, dtype_of, fixed
from mlconverter.hub.weights import Reshape

LONGEST = 64
"""From this length on a softmax in half precision is torch's: more precise and much faster than the specification's steps."""


@translates("Relu", 1, 6, 13, 14)
def relu(g: Builder, x: Tensor, *, consumed_inputs: Any = None) -> Tensor:
    """Relu → F.relu."""
    return F.relu(x)


@translates("LeakyRelu", 1, 6, 16)
def leaky_relu(g: Builder, x: Tensor, *, alpha: float, consumed_inputs: Any = None) -> Tensor:
    """LeakyRelu → F.leaky_relu."""
    return F.leaky_relu(x, alpha)


@translates("PRelu", 7, 9, 16)
def prelu(g: Builder, x: Tensor, slope: Const | Tensor) -> Tensor:
    """PRelu → nn.PReLU where the slope is one number a channel, torch.where elsewhere."""
    if isinstance(slope, Const) and slope.weight is not None and _one_a_channel(slope.value.shape, x):
        with torch.device("meta"):
            layer = nn.PReLU(slope.value.size)
        return g.layer(layer, x, weight=slope.seen(Reshape((slope.value.size,))))
    return torch.where(x < 0, x * g.tensor(slope), x)


@translates("PRelu", 1, 6)
def prelu_by_channel(g: Builder, x: Tensor, slope: Const, *, consumed_inputs: Any = None) -> Tensor:
    """PRelu up to opset 6 → as later ones; its slopes belong to the channels, not to the last axis."""
    return prelu(g, x, slope.seen(Reshape((slope.value.size, *[1] * (x.ndim - 2)))))


def _one_a_channel(shape: tuple[int, ...], x: Tensor) -> bool:
    if x.ndim < 2:
        return False
    full = (1,) * (x.ndim - len(shape)) + tuple(shape)
    return all(s == 1 for axis, s in enumerate(full) if axis != 1) and full[1] in (1, fixed(x, 1))


@translates("Sigmoid", 1, 6, 13)
def sigmoid(g: Builder, x: Tensor, *, consumed_inputs: Any = None) -> Tensor:
    """Sigmoid → torch.sigmoid."""
    return torch.sigmoid(x)


@translates("Tanh", 1, 6, 13)
def tanh(g: Builder, x: Tensor, *, consumed_inputs: Any = None) -> Tensor:
    """Tanh → torch.tanh."""
    return torch.tanh(x)


@translates("HardSigmoid", 1, 6, 22)
def hard_sigmoid(g: Builder, x: Tensor, *, alpha: float, beta: float, consumed_inputs: Any = None) -> Tensor:
    """HardSigmoid → F.hardsigmoid for a slope of 1/6 and an offset of 1/2, clamp elsewhere."""
    if abs(alpha - 1 / 6) < 1e-7 and beta == 0.5:
        return F.hardsigmoid(x)
    return torch.clamp(x * alpha + beta, 0, 1)


@translates("HardSwish", 14, 22)
def hard_swish(g: Builder, x: Tensor) -> Tensor:
    """HardSwish → F.hardswish."""
    return F.hardswish(x)


@translates("Elu", 1, 6, 22)
def elu(g: Builder, x: Tensor, *, alpha: float, consumed_inputs: Any = None) -> Tensor:
    """Elu → F.elu."""
    return F.elu(x, alpha)


@translates("Celu", 12, 28)
def celu(g: Builder, x: Tensor, *, alpha: float) -> Tensor:
    """Celu → F.celu."""
    return F.celu(x, alpha)


@translates("Selu", 1, 6, 22)
def selu(g: Builder, x: Tensor, *, alpha: float, gamma: float, consumed_inputs: Any = None) -> Any:
    """Selu → gamma * F.elu."""
    return gamma * F.elu(x, alpha)


@translates("ThresholdedRelu", 10, 22)
def thresholded_relu(g: Builder, x: Tensor, *, alpha: float) -> Tensor:
    """ThresholdedRelu → F.threshold."""
    return F.threshold(x, alpha, 0.0)


@translates("Softplus", 1, 22)
def softplus(g: Builder, x: Tensor) -> Tensor:
    """Softplus → F.softplus, linear from 40 on, where no dtype tells it from log(1 + exp(x))."""
    return F.softplus(x, threshold=40)


@translates("Softsign", 1, 22)
def softsign(g: Builder, x: Tensor) -> Tensor:
    """Softsign → F.softsign."""
    return F.softsign(x)


@translates("Mish", 18, 22)
def mish(g: Builder, x: Tensor) -> Tensor:
    """Mish → F.mish."""
    return F.mish(x)


@translates("Gelu", 20)
def gelu(g: Builder, x: Tensor, *, approximate: str) -> Tensor:
    """Gelu → F.gelu."""
    return F.gelu(x, approximate=approximate)


@translates("Softmax", 13)
def softmax(g: Builder, x: Tensor, *, axis: int) -> Tensor:
    """Softmax → torch.softmax."""
    return _softmax(g, x, axis)


@translates("LogSoftmax", 13)
def log_softmax(g: Builder, x: Tensor, *, axis: int) -> Tensor:
    """LogSoftmax → torch.log_softmax."""
    return torch.log_softmax(x, axis)


@translates("Softmax", 1, 11)
def softmax_flat(g: Builder, x: Tensor, *, axis: int) -> Tensor:
    """Softmax up to opset 12 → torch.softmax over all axes from ``axis`` on."""
    return _over_all_from(x, axis, lambda y, along: _softmax(g, y, along))


@translates("LogSoftmax", 1, 11)
def log_softmax_flat(g: Builder, x: Tensor, *, axis: int) -> Tensor:
    """LogSoftmax up to opset 12 → torch.log_softmax over all axes from ``axis`` on."""
    return _over_all_from(x, axis, torch.log_softmax)


def _softmax(g: Builder, x: Tensor, axis: int) -> Tensor:
    if dtype_of(x) in (torch.float16, torch.bfloat16) and (fixed(x, axis) or LONGEST) < LONGEST:
        return g.call(runtime.softmax_by_steps, x, axis)
    return torch.softmax(x, axis)


def _over_all_from(x: Tensor, axis: int, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    axis += x.ndim if axis < 0 else 0
    if axis == x.ndim - 1:
        return function(x, axis)
    if axis == x.ndim:
        raise UnknownAtConversion(f"axis {axis} of a tensor of rank {axis} leaves nothing to compare")
    return function(x.flatten(axis), axis).reshape(x.shape)


@translates("Hardmax", 13)
def hardmax(g: Builder, x: Tensor, *, axis: int) -> Tensor:
    """Hardmax → one-hot of torch.argmax."""
    return _hardmax(x, axis)


@translates("Hardmax", 1, 11)
def hardmax_flat(g: Builder, x: Tensor, *, axis: int) -> Tensor:
    """Hardmax up to opset 12 → one-hot of torch.argmax over all axes from ``axis`` on."""
    return _over_all_from(x, axis, _hardmax)


def _hardmax(x: Tensor, axis: int) -> Tensor:
    return torch.zeros_like(x).scatter(axis, torch.argmax(x, axis, keepdim=True), 1.0)


@translates("Swish", 24)
def swish(g: Builder, x: Tensor, *, alpha: float) -> Tensor:
    """Swish → F.silu, x * torch.sigmoid(alpha * x) for another alpha."""
    return F.silu(x) if alpha == 1 else x * torch.sigmoid(x * alpha)


@translates("SwiGLU", 28)
def swiglu(g: Builder, gate: Tensor, x: Tensor, *, alpha: float) -> Tensor:
    """SwiGLU → F.silu(gate) * x."""
    return swish(g, gate, alpha=alpha) * x


@translates("Shrink", 9)
def shrink(g: Builder, x: Tensor, *, bias: float, lambd: float) -> Tensor:
    """Shrink → F.softshrink's form with its own bias: zero between -lambd and lambd, nearer to zero by bias elsewhere."""
    # Scalars of real numbers would turn integers into real numbers.
    shrunk = torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, torch.zeros_like(x)))
    return shrunk if x.is_floating_point() else shrunk.to(x.dtype)
