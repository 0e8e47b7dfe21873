"""Sampling and moving of image-like tensors."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.convolution import spatial_pads
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Ints, Tensor, UnknownAtConversion, fixed
from mlconverter.hub.nodes import Call

SAMPLING = {"linear": "bilinear", "bilinear": "bilinear", "cubic": "bicubic", "bicubic": "bicubic", "nearest": "nearest"}


def _check_grid_sample(call: Call) -> str | None:
    return None if call.attributes["mode"] in SAMPLING else f"mode={call.attributes['mode']}"


@translates("GridSample", 16, 20, 22, check=_check_grid_sample)
def grid_sample(g: Builder, x: Tensor, grid: Tensor, *, mode: str, padding_mode: str, align_corners: int) -> Any:
    """GridSample → F.grid_sample."""
    return F.grid_sample(x, grid.to(x.dtype), SAMPLING[mode], padding_mode, bool(align_corners))


@translates("AffineGrid", 20)
def affine_grid(g: Builder, theta: Tensor, size: Ints | Tensor, *, align_corners: int) -> Tensor:
    """AffineGrid → F.affine_grid."""
    if align_corners and isinstance(size, Ints) and 1 in [s for s in size[2:] if isinstance(s, int)]:
        raise UnknownAtConversion("align_corners=1 of a single element, which is both corners")
    return g.call(runtime.affine_grid, theta, size, bool(align_corners))


@translates("DeformConv", 19, 22)
def deform_conv(
    g: Builder,
    x: Tensor,
    weight: Const | Tensor,
    offset: Tensor,
    bias: Const | Tensor | None = None,
    mask: Tensor | None = None,
    *,
    group: int,
    offset_group: int,
    kernel_shape: list[int] | None = None,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
) -> Tensor:
    """DeformConv → x.gather at the four neighbours of each moved element, and a matrix product."""
    if x.ndim != 4:
        raise UnknownAtConversion(f"a deformable convolution over {x.ndim - 2} axes; for two alone is said how masks look")
    begins, _ = spatial_pads(pads, 2)
    stride, dilation = tuple(strides or [1, 1]), tuple(dilations or [1, 1])
    added = None if bias is None else g.tensor(bias)
    return g.call(runtime.deform_conv, x, g.tensor(weight), offset, added, mask, stride, dilation, begins, group, offset_group)


@translates("Col2Im", 18)
def col2im(
    g: Builder,
    x: Tensor,
    image: Ints | Tensor,
    block: Ints | Tensor,
    *,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
) -> Any:
    """Col2Im → F.fold over two axes padded alike at both ends; x.index_add elsewhere."""
    rank = _count(image) or _count(block)
    if rank is None:
        raise UnknownAtConversion("over how many axes the image extends is computed while the model runs")
    stride, dilation = tuple(strides or [1] * rank), tuple(dilations or [1] * rank)
    begins, ends = spatial_pads(pads, rank)
    if rank == 2 and begins == ends and x.is_floating_point() and isinstance(image, Ints) and isinstance(block, Ints):
        return F.fold(x, tuple(image), tuple(block), dilation, tuple(begins), stride)
    return g.call(runtime.fold, x, image, block, stride, dilation, begins, ends)


def _count(sizes: Ints | Tensor) -> int | None:
    """How many sizes there are, as far as it is known."""
    return fixed(sizes, 0) if isinstance(sizes, Tensor) else len(sizes)
