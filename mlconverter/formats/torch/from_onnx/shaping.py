"""Operators that move elements without changing them: shapes, axes, joining and cutting."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.convolution import torch_pads
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Ints, Tensor, UnknownAtConversion


@translates("Reshape", 1, 5, 13, 14, 19, 21, 23, 24, 25)
def reshape(g: Builder, x: Tensor, shape: Ints, *, allowzero: int = 0, consumed_inputs: Any = None) -> Tensor:
    """Reshape → x.reshape."""
    sizes = [x.length(i) if isinstance(s, int) and s == 0 and not allowzero else s for i, s in enumerate(shape)]
    free = [i for i, s in enumerate(sizes) if not isinstance(s, int)]
    if len(free) == 1 and all(s > 0 for s in sizes if isinstance(s, int)):
        sizes[free[0]] = -1  # the only size that is not fixed follows from the others
    return x.reshape(tuple(sizes))


@translates("Flatten", 1, 9, 11, 13, 21, 23, 24, 25)
def flatten(g: Builder, x: Tensor, *, axis: int) -> Tensor:
    """Flatten → x.flatten(1) for axis 1, x.reshape elsewhere."""
    if axis == 1 and x.ndim > 1:
        return x.flatten(1)
    axis += x.ndim if axis < 0 else 0
    if axis == 0:
        return x.reshape((1, -1))
    return x.flatten(axis).flatten(0, axis - 1) if axis < x.ndim else x.reshape((-1, 1))


@translates("Transpose", 1, 13, 21, 23, 24, 25)
def transpose(g: Builder, x: Tensor, *, perm: list[int] | None = None) -> Tensor:
    """Transpose → x.permute."""
    return x.permute(tuple(perm) if perm is not None else tuple(reversed(range(x.ndim))))


@translates("Squeeze", 1, 11, 13, 21, 23, 24, 25)
def squeeze(g: Builder, x: Tensor, axes: Ints | None = None) -> Tensor:
    """Squeeze → x.squeeze of the named axes."""
    if axes is None:
        if any(x.fixed(i) is None for i in range(x.ndim)):
            raise UnknownAtConversion("Squeeze without axes of an input with free sizes")
        axes = Ints(i for i in range(x.ndim) if x.fixed(i) == 1)
    return x.squeeze(tuple(axes.fixed("an axis")))


@translates("Unsqueeze", 1, 11, 13, 21, 23, 24, 25)
def unsqueeze(g: Builder, x: Tensor, axes: Ints) -> Tensor:
    """Unsqueeze → x.unsqueeze for each axis."""
    rank = x.ndim + len(axes)
    for axis in sorted(a % rank for a in axes.fixed("an axis")):
        x = x.unsqueeze(axis)
    return x


@translates("Concat", 4, 11, 13)
def concat(g: Builder, *xs: Tensor, axis: int) -> Tensor:
    """Concat → torch.cat."""
    return torch.cat(list(xs), axis)


@translates("Split", 2, 11, 13, 18)
def split(g: Builder, x: Tensor, sizes: Ints | None = None, *, axis: int, num_outputs: int | None = None) -> Any:
    """Split → torch.split."""
    assert g.node is not None
    count = len(g.node.outputs)
    if sizes is None:
        total = x.fixed(axis % x.ndim)
        if total is None:
            parts = torch.tensor_split(x, count, axis)  # equal parts, whatever the size turns out to be
        else:
            parts = torch.split(x, -(-total // count), axis)
    else:
        parts = torch.split(x, list(sizes), axis)
    return [parts[i] for i in range(count)]


@translates("Slice", 1, 10, 11, 13)
def slice_(g: Builder, x: Tensor, starts: Ints, ends: Ints, axes: Ints | None = None, steps: Ints | None = None) -> Any:
    """Slice → x[...]; a negative step flips first."""
    index: list[Any] = [slice(None)] * x.ndim
    flips = []
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = i if axes is None else axes.fixed("an axis")[i] % x.ndim
        step = 1 if steps is None else steps.fixed("a step")[i]
        if step > 0:
            index[axis] = _forward(start, end, step)
        else:
            index[axis] = _backward(x, axis, start, end, step)
            flips.append(axis)
    if flips:
        x = torch.flip(x, flips)
    return x[tuple(index)]


def _forward(start: Any, end: Any, step: int) -> slice:
    whole = isinstance(end, int) and end >= 2**31 - 1
    return slice(None if isinstance(start, int) and start == 0 else start, None if whole else end, None if step == 1 else step)


def _backward(x: Tensor, axis: int, start: Any, end: Any, step: int) -> slice:
    """The forward slice of the flipped axis that has the elements of a backward one."""
    size = x.fixed(axis)
    if size is None:
        if isinstance(start, int) and start < 0 and isinstance(end, int) and end <= -(2**31):
            return slice(-1 - start, None, -step)
        raise UnknownAtConversion("a backward slice of an axis with a free size")
    indices = range(size)[slice(start, None if isinstance(end, int) and end < -size else end, step)]
    if not len(indices):
        return slice(0, 0)
    return slice(size - 1 - indices[0], size - indices[-1], -step)


@translates("Expand", 8, 13)
def expand(g: Builder, x: Tensor, shape: Ints) -> Any:
    """Expand → x.expand; both shapes broadcast, so a 1 in the target keeps the input's size."""
    lead = max(0, len(shape) - x.ndim)
    sizes = []
    for axis, size in enumerate(shape, start=x.ndim - len(shape)):
        kept = axis >= 0 and (size == 1 if isinstance(size, int) else x.fixed(axis) != 1)
        sizes.append(-1 if kept else size)
    return x.expand((*[-1] * (x.ndim + lead - len(shape)), *sizes))


@translates("Tile", 6, 13)
def tile(g: Builder, x: Tensor, repeats: Ints) -> Tensor:
    """Tile → x.repeat."""
    return x.repeat(tuple(repeats))


@translates("Pad", 2, 11, 13, 18, 19, 21, 23, 24, 25)
def pad(g: Builder, x: Tensor, pads: Ints, value: Const | Tensor | None = None, axes: Ints | None = None, *, mode: str) -> Any:
    """Pad → F.pad; reflections and edges axis by axis."""
    along = list(range(x.ndim)) if axes is None else [a % x.ndim for a in axes.fixed("an axis")]
    begins, ends = [0] * x.ndim, [0] * x.ndim
    for i, axis in enumerate(along):
        begins[axis], ends[axis] = pads[i], pads[i + len(along)]
    if mode == "constant":
        if value is not None and not isinstance(value, Const):
            raise UnknownAtConversion("a padding value that is computed")
        while len(begins) > 1 and begins[0] == ends[0] == 0 and isinstance(begins[0], int):
            begins, ends = begins[1:], ends[1:]
        return F.pad(x, torch_pads(begins, ends), value=0.0 if value is None else value.number())
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if not (isinstance(begin, int) and isinstance(end, int) and begin == end == 0):
            x = g.call(runtime.pad_axis, x, axis, begin, end, mode)
    return x


@translates("DepthToSpace", 1, 11, 13)
def depth_to_space(g: Builder, x: Tensor, *, blocksize: int, mode: str = "DCR") -> Any:
    """DepthToSpace → F.pixel_shuffle for mode CRD; DCR puts the block axes first and reshapes."""
    if mode == "CRD":
        return F.pixel_shuffle(x, blocksize)
    height, width = x.length(2), x.length(3)
    y = x.unflatten(1, (blocksize, blocksize, -1)).permute((0, 3, 4, 1, 5, 2))
    return y.reshape((x.length(0), -1, height * blocksize, width * blocksize))


@translates("SpaceToDepth", 1, 13)
def space_to_depth(g: Builder, x: Tensor, *, blocksize: int) -> Any:
    """SpaceToDepth → block axes moved before the channels."""
    y = x.unflatten(3, (-1, blocksize)).unflatten(2, (-1, blocksize)).permute((0, 3, 5, 1, 2, 4))
    return y.flatten(1, 3)
