"""Operators that change shapes without moving an element from its neighbours."""

from __future__ import annotations

from typing import Any

import torch

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Ints, Tensor, fixed, is_length, length


@translates("Reshape", 1, 5, 13, 14, 19, 21, 23, 24, 25)
def reshape(g: Builder, x: Tensor, shape: Ints | Tensor, *, allowzero: int = 0, consumed_inputs: Any = None) -> Tensor:
    """Reshape → x.reshape."""
    if isinstance(shape, Tensor):
        return g.call(runtime.reshape, x, shape, bool(allowzero))
    sizes = [length(x, i) if isinstance(s, int) and s == 0 and not allowzero else s for i, s in enumerate(shape)]
    free = [i for i, s in enumerate(sizes) if not isinstance(s, int)]
    if len(free) == 1 and all(s > 0 for s in sizes if isinstance(s, int)):
        sizes[free[0]] = -1  # the only size that is not fixed follows from the others
    return x.reshape(tuple(sizes))


@translates("Flatten", 1, 9, 11, 13, 21, 23, 24, 25)
def flatten(g: Builder, x: Tensor, *, axis: int) -> Tensor:
    """Flatten → x.flatten(1) for axis 1, x.reshape elsewhere."""
    axis += x.ndim if axis < 0 else 0
    if axis == 0:
        return x.reshape((1, -1))
    if axis == x.ndim:
        return x.reshape((-1, 1))
    return x.flatten(axis) if axis == 1 else x.flatten(axis).flatten(0, axis - 1)


@translates("Transpose", 1, 13, 21, 23, 24, 25)
def transpose(g: Builder, x: Tensor, *, perm: list[int] | None = None) -> Tensor:
    """Transpose → x.permute."""
    return x.permute(tuple(perm) if perm is not None else tuple(reversed(range(x.ndim))))


@translates("Squeeze", 1, 11, 13, 21, 23, 24, 25)
def squeeze(g: Builder, x: Tensor, axes: Ints | Tensor | None = None) -> Tensor:
    """Squeeze → x.squeeze of the named axes, or of all that have one element."""
    if isinstance(axes, Tensor):
        return g.call(runtime.squeeze, x, axes)
    return x.squeeze() if axes is None else x.squeeze(tuple(axes.fixed("an axis")))


@translates("Unsqueeze", 1, 11, 13, 21, 23, 24, 25)
def unsqueeze(g: Builder, x: Tensor, axes: Ints | Tensor) -> Tensor:
    """Unsqueeze → x.unsqueeze for each axis."""
    if isinstance(axes, Tensor):
        return g.call(runtime.unsqueeze, x, axes)
    if len(axes) == 1:
        return x.unsqueeze(axes.fixed("an axis")[0])
    rank = x.ndim + len(axes)
    for axis in sorted(a % rank for a in axes.fixed("an axis")):
        x = x.unsqueeze(axis)
    return x


@translates("Expand", 8, 13)
def expand(g: Builder, x: Tensor, shape: Ints | Tensor) -> Any:
    """Expand → x.expand; both shapes broadcast, so a 1 in the target keeps the input's size."""
    if isinstance(shape, Tensor):
        return g.call(runtime.expand, x, shape)
    sizes = []
    for axis, size in enumerate(shape, start=x.ndim - len(shape)):
        if axis < 0:
            sizes.append(size)
        elif size == 1 if isinstance(size, int) else is_length(size, x, axis) or fixed(x, axis) not in (1, None):
            sizes.append(-1)
        elif isinstance(size, int) or fixed(x, axis) == 1:
            sizes.append(size)
        else:  # either of the two sizes may turn out to be 1
            return g.call(runtime.expand, x, list(shape))
    return x.expand((*[-1] * (x.ndim - len(shape)), *sizes))


@translates("Tile", 6, 13)
def tile(g: Builder, x: Tensor, repeats: Ints | Tensor) -> Tensor:
    """Tile → x.repeat."""
    return g.call(runtime.tile, x, repeats) if isinstance(repeats, Tensor) else x.repeat(tuple(repeats))


@translates("DepthToSpace", 1, 11, 13, 28)
def depth_to_space(g: Builder, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Any:
    """DepthToSpace → torch.pixel_shuffle for mode CRD; DCR puts the block axes first and reshapes."""
    if mode == "CRD":
        return torch.pixel_shuffle(x, blocksize)
    height, width = length(x, 2), length(x, 3)
    y = torch.unflatten(x, 1, (blocksize, blocksize, -1)).permute((0, 3, 4, 1, 5, 2))
    return y.reshape((length(x, 0), -1, height * blocksize, width * blocksize))


@translates("SpaceToDepth", 1, 13, 28)
def space_to_depth(g: Builder, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Any:
    """SpaceToDepth → torch.pixel_unshuffle for mode CRD; DCR moves the block axes before the channels."""
    if mode == "CRD":
        return torch.pixel_unshuffle(x, blocksize)
    y = torch.unflatten(torch.unflatten(x, 3, (-1, blocksize)), 2, (-1, blocksize)).permute((0, 3, 5, 1, 2, 4))
    return y.flatten(1, 3)
