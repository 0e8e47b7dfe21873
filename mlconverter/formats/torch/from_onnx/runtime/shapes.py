"""Moving elements where sizes, axes or pads are known at run time only."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from mlconverter.errors import SignatureError

IntsAtRunTime = Sequence[int] | torch.Tensor
"""Integers: some of them sizes, or all of them elements of a tensor."""


def ints(values: IntsAtRunTime) -> list[int]:
    """The elements of a one-dimensional tensor as integers."""
    return [int(v) for v in values.reshape(-1).tolist()] if isinstance(values, torch.Tensor) else list(values)


def number(value: torch.Tensor | float) -> int:
    """The only element of a tensor as an integer."""
    return int(value.reshape(()).item()) if isinstance(value, torch.Tensor) else int(value)


def fixed_batch(x: torch.Tensor, name: str, size: int) -> torch.Tensor:
    """An input whose first axis the model fixes.

    Raises:
        SignatureError: it has another size: nothing has proved that items of such a batch are not mixed.
    """
    got = x.shape[0] if x.dim() else None
    if got != size:
        raise SignatureError(f"Input '{name}' has a first axis of {got}; the model fixes it to {size}.")
    return x


def sizes_tensor(sizes: Sequence[int], shape: Sequence[int], dtype: torch.dtype, device: torch.device | None) -> torch.Tensor:
    """Sizes as the tensor of this shape that ``Shape`` gives."""
    return torch.tensor(sizes, dtype=dtype, device=device).reshape(tuple(shape))


def reshape(x: torch.Tensor, shape: IntsAtRunTime, allowzero: bool) -> torch.Tensor:
    """ONNX ``Reshape``: a size of 0 is that of the input unless ``allowzero``."""
    return x.reshape([x.shape[i] if s == 0 and not allowzero else s for i, s in enumerate(ints(shape))])


def squeeze(x: torch.Tensor, axes: IntsAtRunTime) -> torch.Tensor:
    """Drop axes of one element."""
    return x.squeeze(tuple(ints(axes)))


def unsqueeze(x: torch.Tensor, axes: IntsAtRunTime) -> torch.Tensor:
    """Add axes of one element; they are counted in the result."""
    found = ints(axes)
    for axis in sorted(a % (x.dim() + len(found)) for a in found):
        x = x.unsqueeze(axis)
    return x


def expand(x: torch.Tensor, shape: IntsAtRunTime) -> torch.Tensor:
    """ONNX ``Expand``: both shapes broadcast, so a 1 in the target keeps the input's size."""
    return x.expand(tuple(torch.broadcast_shapes(x.shape, tuple(ints(shape)))))  # type: ignore[no-untyped-call]


def tile(x: torch.Tensor, repeats: IntsAtRunTime) -> torch.Tensor:
    """Repeat along every axis."""
    return x.repeat(tuple(ints(repeats)))


def shape(x: torch.Tensor, start: int, end: int | None) -> torch.Tensor:
    """ONNX ``Shape`` of a tensor whose rank only the run time knows."""
    return torch.tensor(list(x.shape)[start:end], dtype=torch.int64, device=x.device)


def size(x: torch.Tensor, start: int, end: int | None) -> torch.Tensor:
    """ONNX ``Size`` of such a tensor."""
    return torch.tensor(x.numel(), device=x.device)


def full(shape: torch.Tensor, value: float, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of one value."""
    return torch.full(tuple(ints(shape)), value, dtype=dtype, device=shape.device)


def split(x: torch.Tensor, sizes: IntsAtRunTime, axis: int) -> list[torch.Tensor]:
    """Split into parts of these sizes."""
    return list(torch.split(x, ints(sizes), axis))


def split_evenly(x: torch.Tensor, count: int, axis: int) -> list[torch.Tensor]:
    """Split into ``count`` parts of one size, of which the last may be smaller."""
    size = -(-x.shape[axis] // count)
    return list(torch.split(x, [size] * (count - 1) + [x.shape[axis] - size * (count - 1)], axis))


def slice_(
    x: torch.Tensor, starts: IntsAtRunTime, ends: IntsAtRunTime, axes: IntsAtRunTime | None, steps: IntsAtRunTime | None
) -> torch.Tensor:
    """ONNX ``Slice``."""
    begin, end = ints(starts), ints(ends)
    along = list(range(len(begin))) if axes is None else ints(axes)
    stride = [1] * len(begin) if steps is None else ints(steps)
    for i, axis in enumerate(along):
        index = [slice(None)] * (axis % x.dim())
        if stride[i] > 0:
            x = x[(*index, slice(begin[i], end[i], stride[i]))]
        else:
            start, count = backward(x.shape[axis], begin[i], end[i], stride[i])
            x = x.index_select(axis, start + stride[i] * torch.arange(count, device=x.device))
    return x


def backward(size: int, start: int, end: int, step: int) -> tuple[int, int]:
    """First position and number of elements of a slice with a negative step; bounds outside the axis are clamped to it."""
    start = min(max(start + size if start < 0 else start, 0), size - 1)
    end = min(max(end + size if end < 0 else end, -1), size - 1)
    return start, max(0, -((start - end) // step))


def pad(x: torch.Tensor, pads: IntsAtRunTime, axes: IntsAtRunTime | None, mode: str, value: torch.Tensor | float) -> torch.Tensor:
    """ONNX ``Pad``."""
    along, amounts = list(range(x.dim())) if axes is None else ints(axes), ints(pads)
    begins, ends = amounts[: len(along)], amounts[len(along) :]
    if mode != "constant":
        for axis, begin, end in zip(along, begins, ends, strict=True):
            x = pad_axis(x, axis, begin, end, mode)
        return x
    flat = [0] * (2 * x.dim())
    for axis, begin, end in zip(along, begins, ends, strict=True):
        last = x.dim() - 1 - axis % x.dim()
        flat[2 * last], flat[2 * last + 1] = begin, end
    return pad_constant(x, flat, value)


def center_crop_pad(x: torch.Tensor, shape: IntsAtRunTime, axes: Sequence[int]) -> torch.Tensor:
    """ONNX ``CenterCropPad``: half the difference on either side, the odd element at the end, negative where it crops."""
    flat = [0] * (2 * x.dim())
    for axis, target in zip(axes, ints(shape), strict=True):
        more, last = target - x.shape[axis], x.dim() - 1 - axis
        begin = more // 2 if more > 0 else -(-more // 2)
        flat[2 * last], flat[2 * last + 1] = begin, more - begin
    return F.pad(x, flat)


def pad_constant(x: torch.Tensor, pads: Sequence[int], value: torch.Tensor | float) -> torch.Tensor:
    """``F.pad`` with a value that may be a tensor of one element."""
    if not isinstance(value, torch.Tensor):
        return F.pad(x, list(pads), value=value)
    inside = F.pad(torch.ones_like(x, dtype=torch.bool), list(pads), value=False)
    return torch.where(inside, F.pad(x, list(pads)), value.reshape(()))


def pad_axis(x: torch.Tensor, axis: int, begin: int, end: int, mode: str) -> torch.Tensor:
    """Pad one axis by the rule of ONNX ``Pad``: ``reflect``, ``edge`` or ``wrap``; negative pads cut off."""
    size = x.shape[axis]
    positions = torch.arange(-begin, size + end, device=x.device)
    if mode == "edge":
        positions = positions.clamp(0, size - 1)
    elif mode == "wrap":
        positions = positions % size
    else:
        period = max(1, 2 * (size - 1))
        positions = positions % period
        positions = torch.where(positions < size, positions, period - positions)
    return x.index_select(axis, positions)
