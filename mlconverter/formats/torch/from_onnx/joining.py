"""Operators that join tensors, cut them apart, and pad them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.convolution import torch_pads
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Ints, Tensor, UnknownAtConversion, fixed, rank_of


@translates("Concat", 1, 4, 11, 13)
def concat(g: Builder, *xs: Tensor, axis: int) -> Tensor:
    """Concat → torch.cat."""
    return torch.cat(list(xs), axis)


@translates("Split", 2, 11, 13, 18)
def split(g: Builder, x: Tensor, sizes: Ints | Tensor | None = None, *, axis: int, num_outputs: int | None = None) -> Any:
    """Split → torch.split."""
    assert g.node is not None
    count = len(g.node.outputs)
    parts: Any
    if isinstance(sizes, Tensor):
        parts = g.call(runtime.split, x, sizes, axis)
    elif sizes is not None:
        parts = torch.split(x, list(sizes), axis)
    elif (total := fixed(x, axis % x.ndim)) is None:
        parts = g.call(runtime.split_evenly, x, count, axis)
    else:
        size = -(-total // count)
        if size * (count - 1) > total:
            raise UnknownAtConversion(f"{total} elements do not make {count} parts")
        parts = torch.split(x, [size] * (count - 1) + [total - size * (count - 1)], axis)
    return [parts[i] for i in range(count)]


@translates("Slice", 1, 10, 11, 13)
def slice_(
    g: Builder,
    x: Tensor,
    starts: Ints | Tensor,
    ends: Ints | Tensor,
    axes: Ints | Tensor | None = None,
    steps: Ints | Tensor | None = None,
) -> Any:
    """Slice → x[...]; a negative step flips first."""
    if rank_of(x) is None or any(isinstance(i, Tensor) for i in (starts, ends, axes, steps)):
        return g.call(runtime.slice_, x, starts, ends, axes, steps)
    assert isinstance(starts, Ints) and isinstance(ends, Ints)
    along = axes.fixed("an axis") if isinstance(axes, Ints) else list(range(len(starts)))
    strides = steps.fixed("a step") if isinstance(steps, Ints) else [1] * len(starts)
    index: list[Any] = [slice(None)] * x.ndim
    flips = []
    for start, end, axis, step in zip(starts, ends, (a % x.ndim for a in along), strides, strict=True):
        if step > 0:
            index[axis] = _forward(start, end, step)
        elif (part := _backward(x, axis, start, end, step)) is not None:
            index[axis] = part
            flips.append(axis)
        else:
            return g.call(runtime.slice_, x, starts, ends, axes, steps)
    if flips:
        x = torch.flip(x, flips)
    return x[tuple(index)]


def _forward(start: Any, end: Any, step: int) -> slice:
    whole = isinstance(end, int) and end >= 2**31 - 1
    return slice(None if isinstance(start, int) and start == 0 else start, None if whole else end, None if step == 1 else step)


def _backward(x: Tensor, axis: int, start: Any, end: Any, step: int) -> slice | None:
    """The slice of the flipped axis that has the elements of a backward one; ``None`` where the run time has to say."""
    if not isinstance(start, int) or not isinstance(end, int):
        return None
    size = fixed(x, axis)
    if size is None:
        return slice(-1 - start, None, -step) if start == -1 and end <= -(2**31) else None
    first, count = runtime.backward(size, start, end, step)
    begin = size - 1 - first
    return slice(begin, begin - count * step, -step) if count else slice(0, 0)


@translates("Pad", 2, 11, 13, 18, 19, 21, 23, 24, 25)
def pad(
    g: Builder,
    x: Tensor,
    pads: Ints | Tensor,
    value: Const | Tensor | None = None,
    axes: Ints | Tensor | None = None,
    *,
    mode: str,
) -> Any:
    """Pad → F.pad; reflections and edges axis by axis."""
    filler: Any = value.number() if isinstance(value, Const) else value
    if filler is None:
        filler = 0.0 if x.is_floating_point() else 0
    if isinstance(pads, Tensor) or isinstance(axes, Tensor):
        return g.call(runtime.pad, x, pads, axes, mode, filler)
    along = list(range(x.ndim)) if axes is None else [a % x.ndim for a in axes.fixed("an axis")]
    begins: list[Any] = [0] * x.ndim
    ends: list[Any] = [0] * x.ndim
    for i, axis in enumerate(along):
        begins[axis], ends[axis] = pads[i], pads[i + len(along)]
    if mode == "constant":
        while len(begins) > 1 and _is_zero(begins[0]) and _is_zero(ends[0]):
            begins, ends = begins[1:], ends[1:]
        if isinstance(filler, Tensor):
            return g.call(runtime.pad_constant, x, torch_pads(begins, ends), filler)
        return F.pad(x, torch_pads(begins, ends), value=filler)
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if not (_is_zero(begin) and _is_zero(end)):
            x = g.call(runtime.pad_axis, x, axis, begin, end, mode)
    return x


def _is_zero(size: Any) -> bool:
    return isinstance(size, int) and size == 0


@translates("CenterCropPad", 18)
def center_crop_pad(g: Builder, x: Tensor, shape: Ints | Tensor, *, axes: list[int] | None = None) -> Any:
    """CenterCropPad → F.pad by half the difference on either side, negative where it crops."""
    along = list(range(x.ndim)) if axes is None else [a % x.ndim for a in axes]
    return g.call(runtime.center_crop_pad, x, shape, along)
