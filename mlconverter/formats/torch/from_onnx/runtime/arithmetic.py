"""Numbers: what torch computes under other names, or not for every dtype."""

from __future__ import annotations

from collections.abc import Callable

import torch

from mlconverter.formats.torch.from_onnx.runtime.shapes import IntsAtRunTime, ints, number

Reduction = Callable[[torch.Tensor, tuple[int, ...], bool], torch.Tensor]

_SIGN = -(1 << 63)


def flip_sign(x: torch.Tensor) -> torch.Tensor:
    """Unsigned 64-bit numbers as signed ones in the same order."""
    return x.view(torch.int64) ^ _SIGN


def unflip_sign(x: torch.Tensor) -> torch.Tensor:
    """The way back of :func:`flip_sign`."""
    return (x ^ _SIGN).view(torch.uint64)


def unsigned_quotient(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Quotients of unsigned 64-bit numbers whose bits are given as signed ones."""
    halved = ((a >> 1) & ~_SIGN) // b << 1  # at most one too small, where the divisor has no sign bit
    small = halved + _not_below(a - halved * b, b)
    return torch.where(b < 0, _not_below(a, b), small)


def _not_below(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return ((a ^ _SIGN) >= (b ^ _SIGN)).to(torch.int64)


def unsigned_remainder(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Remainders of unsigned 64-bit numbers whose bits are given as signed ones."""
    return a - unsigned_quotient(a, b) * b


def unsigned_power(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Powers in 64 bits; all 64 of the exponent count."""
    root = torch.pow(a, (b >> 1) & ~_SIGN)
    return root * root * torch.where((b & 1) == 1, a, 1)


def cumulative(x: torch.Tensor, axis: torch.Tensor | int, kind: str, exclusive: bool, reverse: bool) -> torch.Tensor:
    """ONNX ``CumSum`` and ``CumProd``."""
    along = number(axis)
    x = x.flip(along) if reverse else x
    if exclusive:
        first = torch.full_like(x.narrow(along, 0, 1), 1 if kind == "prod" else 0)
        x = torch.cat([first, x.narrow(along, 0, x.shape[along] - 1)], along)
    total = torch.cumprod(x, along, dtype=x.dtype) if kind == "prod" else torch.cumsum(x, along, dtype=x.dtype)
    return total.flip(along) if reverse else total


def bit_shift(x: torch.Tensor, by: torch.Tensor, bits: int, signed: bool, left: bool) -> torch.Tensor:
    """ONNX ``BitShift`` in a number of bits; shifting by all of them or more leaves nothing but the sign."""
    dtype = x.dtype
    wide = x.view(torch.int64) if dtype == torch.uint64 else x.to(torch.int64)
    amount = by.view(torch.int64) if by.dtype == torch.uint64 else by.to(torch.int64)
    inside = (amount >= 0) & (amount < bits)
    amount = torch.where(inside, amount, torch.zeros_like(amount))
    if left:
        shifted = wide << amount
    elif signed or bits < 64:
        shifted = wide >> amount
    else:  # the sign bit of the signed stand-in is a bit like any other
        shifted = torch.where(amount == 0, wide, ((wide >> 1) & ~_SIGN) >> (amount - 1).clamp(min=0))
    beyond = -(wide < 0).to(torch.int64) if signed and not left else torch.zeros_like(wide)
    return torch.where(inside, shifted, beyond).to(dtype)


def softmax_by_steps(x: torch.Tensor, axis: int) -> torch.Tensor:
    """Softmax of a half-precision tensor as the specification computes it: step by step, in that precision."""
    powers = torch.exp(x - x.amax(axis, keepdim=True))
    if x.dtype == torch.float16:
        return powers / powers.sum(axis, keepdim=True)
    # The reference rounds each addition of bfloat16, and only the last one of float16.
    total, *others = torch.split(powers, 1, axis)
    for power in others:
        total = total + power
    return powers / total


def _product(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    dtype = x.dtype
    for axis in reversed(axes):
        x = torch.prod(x, axis, keepdim=keep, dtype=dtype)
    return x


def _real(x: torch.Tensor) -> torch.Tensor:
    """Integers as real numbers, where a result is one before it is rounded."""
    return x if x.dtype.is_floating_point else x.to(torch.float64)


REDUCTIONS: dict[str, Reduction] = {
    "ReduceMean": lambda x, axes, keep: _real(x).mean(axes, keepdim=keep),
    "ReduceSum": lambda x, axes, keep: x.sum(axes, keepdim=keep, dtype=x.dtype),
    "ReduceMax": lambda x, axes, keep: torch.amax(x, axes, keepdim=keep),
    "ReduceMin": lambda x, axes, keep: torch.amin(x, axes, keepdim=keep),
    "ReduceProd": _product,
    "ReduceL1": lambda x, axes, keep: x.abs().sum(axes, keepdim=keep, dtype=x.dtype),
    "ReduceL2": lambda x, axes, keep: (_real(x) * _real(x)).sum(axes, keepdim=keep).sqrt(),
    "ReduceSumSquare": lambda x, axes, keep: (x * x).sum(axes, keepdim=keep, dtype=x.dtype),
    "ReduceLogSum": lambda x, axes, keep: _real(x).sum(axes, keepdim=keep).log(),
    "ReduceLogSumExp": lambda x, axes, keep: torch.logsumexp(_real(x), axes, keepdim=keep),
}
"""By operator: the reduction over axes, of a tensor or of what stands for one while code is recorded."""

UNREDUCED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "ReduceL1": torch.abs,
    "ReduceL2": torch.abs,
    "ReduceSumSquare": torch.square,
    "ReduceLogSum": torch.log,
}
"""What a reduction over no axis at all does to each element; nothing where it is not listed."""


def reduce(x: torch.Tensor, axes: IntsAtRunTime, op: str, keepdims: bool, noop_with_empty_axes: bool) -> torch.Tensor:
    """A reduction over axes that only the run time knows."""
    along = ints(axes)
    if not along:
        if noop_with_empty_axes:
            return UNREDUCED[op](x) if op in UNREDUCED else x
        along = list(range(x.dim()))
    over = tuple(sorted(a % x.dim() for a in along))
    if op in ("ReduceMax", "ReduceMin") and any(x.shape[a] == 0 for a in over):
        return empty_extreme(x, over, op, keepdims)
    return REDUCTIONS[op](x, over, keepdims).to(x.dtype)


def empty_extreme(x: torch.Tensor, axes: tuple[int, ...], op: str, keepdims: bool) -> torch.Tensor:
    """The largest or smallest of no elements: the lowest or highest value of the dtype."""
    shape = [1 if a in axes else s for a, s in enumerate(x.shape) if a not in axes or keepdims]
    low, high = (False, True) if x.dtype == torch.bool else (float("-inf"), float("inf"))
    if not x.dtype.is_floating_point and x.dtype != torch.bool:
        low, high = torch.iinfo(x.dtype).min, torch.iinfo(x.dtype).max
    return x.new_full(shape, low if op == "ReduceMax" else high)
