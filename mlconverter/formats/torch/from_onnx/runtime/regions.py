"""Boxes: picking them, and pooling what lies in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F

from mlconverter.formats.torch.from_onnx.runtime.shapes import number


def non_max_suppression(
    boxes: torch.Tensor,
    scores: torch.Tensor,
    most: torch.Tensor | int,
    overlap: torch.Tensor | float,
    least: torch.Tensor | float | None,
    centred: bool,
) -> torch.Tensor:
    """ONNX ``NonMaxSuppression``: all classes of all items at once, the next best box of each in every round.

    Args:
        boxes: (batch, boxes, 4).
        scores: (batch, classes, boxes).
        most: how many boxes are picked for each class of each item.
        overlap: a box that overlaps a picked one by more than this is dropped.
        least: boxes need a higher score.
        centred: whether boxes are centres and sizes; else two opposite corners.

    Returns:
        Item, class and box of each pick.
    """
    rounds = min(max(number(most), 0), boxes.shape[1])
    alive = torch.ones_like(scores, dtype=torch.bool) if least is None else scores > least
    kept = torch.arange(boxes.shape[1], device=boxes.device)
    if not torch.compiler.is_compiling():  # most boxes are nothing in any class
        kept = alive.any(0).any(0).nonzero().reshape(-1)
        boxes, scores, alive = boxes[:, kept], scores[..., kept], alive[..., kept]
    low, high = _corners(boxes, centred)
    area = (high - low).prod(-1)
    items = torch.arange(boxes.shape[0], device=boxes.device).unsqueeze(1)
    picks, found = [], []
    for _ in range(min(rounds, boxes.shape[1])):
        if not torch.compiler.is_compiling() and not bool(alive.any()):
            break
        best = torch.where(alive, scores, float("-inf")).argmax(-1)
        # A score of minus infinity is one like others, only the last.
        best = torch.where(alive.gather(-1, best.unsqueeze(-1)).squeeze(-1), best, alive.to(torch.uint8).argmax(-1))
        picks.append(best)
        found.append(alive.any(-1))
        inside = torch.minimum(high.unsqueeze(1), high[items, best].unsqueeze(2))
        inside = (inside - torch.maximum(low.unsqueeze(1), low[items, best].unsqueeze(2))).clamp(min=0).prod(-1)
        near, of_best = area.unsqueeze(1), area[items, best].unsqueeze(-1)
        common = near + of_best - inside
        real = (inside > 0) & (near > 0) & (of_best > 0) & (common > 0)
        alive = alive & ~(real & (inside / common > overlap))
        alive = alive.scatter(-1, best.unsqueeze(-1), False)
    if not picks:
        return kept.new_zeros((0, 3))
    where = torch.stack(found, -1).nonzero()
    return torch.cat([where[:, :2], kept[torch.stack(picks, -1)[where.unbind(-1)]].unsqueeze(1)], 1)


def _corners(boxes: torch.Tensor, centred: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The lower and the upper corner of each box."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if centred:
        return first - second / 2, first + second / 2
    return torch.minimum(first, second), torch.maximum(first, second)


def roi_align(
    x: torch.Tensor,
    rois: torch.Tensor,
    items: torch.Tensor,
    size: Sequence[int],
    sampling: int,
    scale: float,
    shift: float,
    mode: str,
) -> torch.Tensor:
    """ONNX ``RoiAlign``.

    Args:
        x: (batch, channels, height, width).
        rois: (regions, 4): left, top, right, bottom.
        items: which item of the batch each region lies in.
        size: rows and columns of the result.
        sampling: points in each direction of a cell; 0 for about one every element of the input.
        scale: elements of the input over the unit of the regions.
        shift: half an element where regions count from the corners of elements, else nothing.
        mode: ``avg`` or ``max`` of the points of a cell.
    """
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    region = rois.to(wide.dtype) * scale - shift
    lengths = region[:, 2:] - region[:, :2]
    lengths = lengths if shift else lengths.clamp(min=1.0)
    rows = _points(region[:, 1], lengths[:, 1], size[0], sampling, x.shape[2])
    columns = _points(region[:, 0], lengths[:, 0], size[1], sampling, x.shape[3])
    of = items.reshape(-1, 1, 1)
    values = [
        wide[of, :, y.unsqueeze(2), z.unsqueeze(1)].movedim(-1, 1) * (of_y.unsqueeze(2) * of_z.unsqueeze(1)).unsqueeze(1)
        for y, of_y in rows.neighbours
        for z, of_z in columns.neighbours
    ]
    # Of each cell its points, those beyond what a region has left out.
    cells = (rois.shape[0], x.shape[1], size[0], rows.most, size[1], columns.most)
    counted = (rows.counted.unsqueeze(2) & columns.counted.unsqueeze(1)).unsqueeze(1)
    if mode == "avg":
        total = torch.where(counted, torch.stack(values).sum(0), 0.0).reshape(cells).sum((3, 5))
        return (total / (rows.each * columns.each).clamp(min=1).reshape(-1, 1, 1, 1)).to(x.dtype)
    # The largest of the weighted neighbours, not of what they sum up to.
    best = torch.where(counted, torch.stack(values).amax(0), float("-inf")).reshape(cells).amax((3, 5))
    return torch.where(best == float("-inf"), 0.0, best).to(x.dtype)


class _Points(NamedTuple):
    """Where along an axis regions are sampled.

    Attributes:
        most: how many a cell of any region has.
        neighbours: the two elements beside each point, and their weights: nothing beyond the input.
        counted: which of the points there are.
        each: how many a cell of each region has.
    """

    most: int
    neighbours: tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
    counted: torch.Tensor
    each: torch.Tensor


def _points(start: torch.Tensor, length: torch.Tensor, cells: int, sampling: int, size: int) -> _Points:
    cell = (length / cells).unsqueeze(1)
    count = torch.full_like(start, sampling) if sampling > 0 else torch.ceil(cell.squeeze(1)).clamp(min=0).detach()
    # As many for all as for the region that has most; one where there are no regions.
    most = sampling if sampling > 0 else cast(int, F.pad(count, [0, 1], value=1.0).max().to(torch.int64).item())
    steps = torch.arange(most, device=start.device).repeat(cells)
    number_of_cell = torch.arange(cells, device=start.device).unsqueeze(1).expand(-1, most).reshape(-1)
    counted = steps < count.unsqueeze(1)
    at = start.unsqueeze(1) + number_of_cell * cell + (steps + 0.5) * cell / count.clamp(min=1).unsqueeze(1)
    inside = (counted & (at >= -1) & (at <= size)).to(at.dtype)
    at = at.clamp(0, size - 1)
    low = torch.floor(at.detach()).to(torch.int64)
    above = at - low
    return _Points(most, ((low, (1 - above) * inside), ((low + 1).clamp(max=size - 1), above * inside)), counted, count)


def max_roi_pool(x: torch.Tensor, rois: torch.Tensor, size: Sequence[int], scale: float) -> torch.Tensor:
    """ONNX ``MaxRoiPool``: the largest element of each cell, whose bounds are rounded outwards; 0 of an empty one."""
    best = x[rois[:, 0].to(torch.int64)]
    corners = rois[:, 1:].float() * scale
    corners = torch.sign(corners) * torch.floor(corners.abs() + 0.5)  # halves away from zero
    for axis, (start, end) in ((3, (0, 2)), (2, (1, 3))):
        first, cells = corners[:, start], size[axis - 2]
        step = (corners[:, end] - first + 1).clamp(min=1) / cells
        positions = torch.arange(x.shape[axis], device=x.device)
        bins = []
        for cell in range(cells):
            low, high = torch.floor(cell * step) + first, torch.ceil((cell + 1) * step) + first
            inside = (positions >= low.unsqueeze(1)) & (positions < high.unsqueeze(1))
            inside = inside.reshape(inside.shape[0], 1, *(-1 if a == axis else 1 for a in (2, 3)))
            bins.append(torch.where(inside, best, float("-inf")).amax(axis))
        best = torch.stack(bins, axis)
    return torch.where(best == float("-inf"), 0.0, best).to(x.dtype)
