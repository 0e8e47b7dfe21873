"""Windows whose elements are moved or put back one by one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from mlconverter.formats.torch.from_onnx.runtime.shapes import IntsAtRunTime, ints


def affine_grid(theta: torch.Tensor, size: IntsAtRunTime, align_corners: bool) -> torch.Tensor:
    """ONNX ``AffineGrid``: as many grids as there are matrices.

    Raises:
        ValueError: both corners are to be those of a single element.
    """
    if align_corners and isinstance(size, torch.Tensor) and 1 in ints(size)[2:]:
        raise ValueError(f"A grid of {ints(size)} has a single element along an axis, and align_corners=1 asks for two corners.")
    whole = theta.float() if theta.dtype in (torch.float16, torch.bfloat16) else theta
    return F.affine_grid(whole, [theta.shape[0], *ints(size)[1:]], align_corners).to(theta.dtype)


def deform_conv(
    x: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    bias: torch.Tensor | None,
    mask: torch.Tensor | None,
    stride: Sequence[int],
    dilation: Sequence[int],
    begins: Sequence[int],
    group: int,
    offset_group: int,
) -> torch.Tensor:
    """ONNX ``DeformConv`` over two axes: each element of a window is moved by an offset of its own."""
    batch, channels, *sizes = x.shape
    kernel, out = weight.shape[2:], offset.shape[2:]
    moved = offset.reshape(batch, offset_group, kernel.numel(), 2, *out)
    places = torch.arange(kernel.numel(), device=x.device)
    in_window = (places // kernel[1], places % kernel[1])
    at = []
    for axis in (0, 1):
        corner = torch.arange(out[axis], device=x.device) * stride[axis] - begins[axis]
        corner = corner.reshape(-1, *[1] * (1 - axis))
        at.append(moved[:, :, :, axis] + (in_window[axis] * dilation[axis]).reshape(-1, 1, 1) + corner)
    flat = x.reshape(batch, offset_group, channels // offset_group, -1)
    columns = torch.zeros((), dtype=x.dtype, device=x.device)
    low = [torch.floor(a.detach()) for a in at]
    for y in (low[0], low[0] + 1):
        for z in (low[1], low[1] + 1):
            share = (1 - (at[0] - y).abs()) * (1 - (at[1] - z).abs())
            inside = (y >= 0) & (y < sizes[0]) & (z >= 0) & (z < sizes[1])
            index = torch.where(inside, y * sizes[1] + z, 0.0).to(torch.int64).reshape(batch, offset_group, 1, -1)
            picked = flat.gather(3, index.expand(-1, -1, flat.shape[2], -1))
            columns = columns + picked * torch.where(inside, share, 0.0).reshape(batch, offset_group, 1, -1)
    if mask is not None:
        columns = columns * mask.reshape(batch, offset_group, 1, -1)
    columns = columns.reshape(batch, group, channels // group * kernel.numel(), -1)
    y = torch.matmul(weight.reshape(group, weight.shape[0] // group, -1), columns).reshape(batch, -1, *out)
    return y if bias is None else y + bias.reshape(-1, 1, 1)


def fold(
    x: torch.Tensor,
    image: IntsAtRunTime,
    block: IntsAtRunTime,
    stride: Sequence[int],
    dilation: Sequence[int],
    begins: Sequence[int],
    ends: Sequence[int],
) -> torch.Tensor:
    """ONNX ``Col2Im`` over any number of axes: elements of blocks that meet are added up."""
    kernel, sizes = ints(block), ints(image)
    padded = [s + b + e for s, b, e in zip(sizes, begins, ends, strict=True)]
    place = torch.zeros((), dtype=torch.int64, device=x.device)
    for axis, (k, s, d, size) in enumerate(zip(kernel, stride, dilation, padded, strict=True)):
        blocks = torch.arange((size - (k - 1) * d - 1) // s + 1, device=x.device) * s
        along = blocks + (torch.arange(k, device=x.device) * d).unsqueeze(1)
        rest = len(kernel) - 1 - axis
        place = place * size + along.reshape(*[1] * axis, k, *[1] * (rest + axis), -1, *[1] * rest)
    columns = x.reshape(x.shape[0], -1, place.numel())
    image_ = columns.new_zeros((*columns.shape[:2], torch.Size(padded).numel())).index_add(2, place.reshape(-1), columns)
    image_ = image_.reshape(*columns.shape[:2], *padded)
    for axis, (begin, size) in enumerate(zip(begins, sizes, strict=True)):
        image_ = image_.narrow(axis + 2, begin, size)
    return image_


def max_unpool(
    x: torch.Tensor,
    indices: torch.Tensor,
    shape: IntsAtRunTime | None,
    kernel: Sequence[int],
    stride: Sequence[int],
    pads: Sequence[int],
) -> torch.Tensor:
    """ONNX ``MaxUnpool``: indices count the elements of the result that the windows reach, the whole batch through."""
    reached = [(n - 1) * s - p + k for n, k, s, p in zip(x.shape[2:], kernel, stride, pads, strict=True)]
    whole = x.new_zeros((x.shape[0] * x.shape[1] * torch.Size(reached).numel(),))
    y = whole.scatter(0, indices.reshape(-1), x.reshape(-1)).reshape(*x.shape[:2], *reached)
    if shape is None:
        return y
    beyond = [0] * 2 * x.dim()
    for axis, (have, want) in enumerate(zip(y.shape, ints(shape), strict=True)):
        beyond[2 * (x.dim() - 1 - axis) + 1] = want - have
    return F.pad(y, beyond)
