"""Element types under numpy's names."""

from __future__ import annotations

import torch

_NAMES = "float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128".split()

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in _NAMES}
"""Torch's dtype by numpy's name."""

CARRIED: dict[str, torch.dtype] = {
    "int2": torch.int8,
    "int4": torch.int8,
    "uint2": torch.uint8,
    "uint4": torch.uint8,
    "float4_e2m1fn": torch.float32,
}
"""By numpy's name of an element type that torch does not have: the dtype whose tensors hold its values, one an element."""


def name_of(dtype: torch.dtype) -> str:
    """Numpy's name of a torch dtype."""
    return str(dtype).removeprefix("torch.")
