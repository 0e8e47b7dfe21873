"""Sampling and moving of image-like tensors."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Tensor
from mlconverter.hub.nodes import Call

SAMPLING = {"linear": "bilinear", "bilinear": "bilinear", "cubic": "bicubic", "bicubic": "bicubic", "nearest": "nearest"}


def _check_grid_sample(call: Call) -> str | None:
    return None if call.attributes["mode"] in SAMPLING else f"mode={call.attributes['mode']}"


@translates("GridSample", 16, 20, 22, check=_check_grid_sample)
def grid_sample(g: Builder, x: Tensor, grid: Tensor, *, mode: str, padding_mode: str, align_corners: int) -> Any:
    """GridSample → F.grid_sample."""
    return F.grid_sample(x, grid.to(x.dtype), SAMPLING[mode], padding_mode, bool(align_corners))
