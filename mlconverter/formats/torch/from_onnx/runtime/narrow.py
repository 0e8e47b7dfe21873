"""Element types that torch does not have, or not all of: values as other dtypes carry them."""

from __future__ import annotations

import torch

_NAN = 255
_LARGEST = 254


def cut_to_bits(x: torch.Tensor, bits: int, signed: bool) -> torch.Tensor:
    """Numbers as integers of a few bits: the fraction is cut off, and then all higher bits."""
    low = x.to(torch.int64) & ((1 << bits) - 1)
    if not signed:
        return low.to(torch.uint8)
    return torch.where(low >= 1 << (bits - 1), low - (1 << bits), low).to(torch.int8)


def to_float4(x: torch.Tensor) -> torch.Tensor:
    """The nearest numbers with two bits of exponent and one of mantissa, at most 6, ties to an even mantissa; NaN is zero."""
    size = x.float().abs().nan_to_num(0).clamp(max=6)
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return torch.copysign(torch.round(size / step) * step, x.float())


def to_power_of_two(x: torch.Tensor, mode: str, saturate: bool) -> torch.Tensor:
    """Numbers as ``float8_e8m0fnu``: an exponent and nothing else.

    Args:
        x: numbers that are not negative.
        mode: ``"up"``, ``"down"`` or ``"nearest"``.
        saturate: whether what is too small or too large becomes the smallest or largest number; it is no number otherwise.
    """
    bits = x.float().view(torch.int32)
    exponent, mantissa = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    half = 1 << 22
    # Below the normal numbers the smallest power, 2 ** -127, is a mantissa of half its range.
    threshold = torch.where(exponent == 0, half, 0) if mode == "up" else half - 1
    code = exponent if mode == "down" else exponent + (mantissa > threshold).to(torch.int32)
    if saturate:
        code = code.clamp(max=_LARGEST)
    else:
        code = torch.where((bits == 0) | (code > _LARGEST), _NAN, code)
    code = torch.where(torch.isnan(x), _NAN, code)
    return code.to(torch.uint8).view(torch.float8_e8m0fnu)
