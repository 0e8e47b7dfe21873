"""Regions of images: picking boxes, and pooling what lies in them."""

from __future__ import annotations

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Ints, Tensor
from mlconverter.hub.nodes import Call


@translates("NonMaxSuppression", 10, 11)
def non_max_suppression(
    g: Builder,
    boxes: Tensor,
    scores: Tensor,
    most: Ints | Tensor | None = None,
    overlap: Const | Tensor | None = None,
    least: Const | Tensor | None = None,
    *,
    center_point_box: int,
) -> Tensor:
    """NonMaxSuppression → the best box of each class in turn, without those that overlap it."""
    count = 0 if most is None else most if isinstance(most, Tensor) else most[0]
    limits = 0.0 if overlap is None else _number(overlap), None if least is None else _number(least)
    return g.call(runtime.non_max_suppression, boxes, scores, count, *limits, bool(center_point_box))


def _number(value: Const | Tensor) -> Tensor | float:
    return value.number() if isinstance(value, Const) else value


@translates("RoiAlign", 10, 16, 22)
def roi_align(
    g: Builder,
    x: Tensor,
    rois: Tensor,
    items: Tensor,
    *,
    mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
    coordinate_transformation_mode: str = "output_half_pixel",
) -> Tensor:
    """RoiAlign → bilinear samples of each cell, averaged; the largest weighted neighbour with mode="max"."""
    shift = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    size = (output_height, output_width)
    return g.call(runtime.roi_align, x, rois, items, size, sampling_ratio, spatial_scale, shift, mode)


def _check_max_roi_pool(call: Call) -> str | None:
    pooled = call.attributes["pooled_shape"]
    return None if len(pooled) == 2 else f"pooling over {len(pooled)} axes, where a region has two"


@translates("MaxRoiPool", 1, 22, check=_check_max_roi_pool)
def max_roi_pool(g: Builder, x: Tensor, rois: Tensor, *, pooled_shape: list[int], spatial_scale: float) -> Tensor:
    """MaxRoiPool → the maximum of each cell of a region, first along rows, then along columns."""
    return g.call(runtime.max_roi_pool, x, rois, tuple(pooled_shape), spatial_scale)
