"""Pools and images of other sizes, whose exports were wrong elsewhere."""

import pytest
import torch.nn.functional as F
from torch import nn

from tests.unit.torch.exports import Does, normal, there_and_back

AVERAGES = [
    *((3, 1, 2, ceil, counted) for ceil in (True, False) for counted in (True, False)),
    *((2, 1, 3, True, counted) for counted in (True, False)),
    (3, 0, 2, True, True),
]


@pytest.mark.parametrize("sizes", [(6, 6), (7, 8)], ids=str)
@pytest.mark.parametrize(("size", "padding", "stride", "ceil", "counted"), AVERAGES)
def test_averages_at_the_border(sizes, size, padding, stride, ceil, counted) -> None:
    """What a window reaches beyond the padding was counted, or the padding was not."""
    pool = nn.AvgPool2d(size, stride, padding, ceil_mode=ceil, count_include_pad=counted)
    there_and_back(Does(pool), lambda b: tuple(x + 5 for x in normal(2, *sizes)(b)))


OWN_DIVISORS = [
    nn.AvgPool2d(3, 2, 1, count_include_pad=False, divisor_override=5),
    nn.AvgPool2d((3, 2), 1, (1, 0), divisor_override=5),
    nn.AvgPool2d(3, divisor_override=2),
    nn.AvgPool3d(3, 2, 1, divisor_override=5),
    nn.AvgPool3d((1, 2, 3), divisor_override=7),
]


@pytest.mark.parametrize("pool", OWN_DIVISORS, ids=str)
def test_averages_with_a_divisor_of_their_own(pool: nn.Module) -> None:
    """The divisor was not written at all."""
    sizes = (2, 6, 7, 8) if isinstance(pool, nn.AvgPool3d) else (2, 7, 8)
    there_and_back(Does(pool), lambda b: tuple(x + 5 for x in normal(*sizes)(b)))


@pytest.mark.parametrize(
    ("pool", "sizes"),
    [
        (nn.AvgPool1d(3, 2, 1, ceil_mode=True), (2, 8)),
        (nn.AvgPool1d(3, 2, 1, ceil_mode=True, count_include_pad=False), (2, 8)),
        (nn.AvgPool3d(3, 2, 1, ceil_mode=True), (2, 6, 7, 8)),
        (nn.AvgPool3d(2, 3, 1, ceil_mode=True, count_include_pad=False), (2, 6, 7, 8)),
        (nn.MaxPool1d(3, 2, 1, ceil_mode=True), (2, 8)),
        (nn.MaxPool2d(3, 2, 1, ceil_mode=True), (2, 8, 7)),
        (nn.MaxPool2d(2, 3, 1, dilation=2, ceil_mode=True), (2, 8, 7)),
        (nn.MaxPool3d(3, 2, 1, ceil_mode=True), (2, 6, 7, 8)),
        (nn.LPPool2d(2, 3, 2, ceil_mode=True), (2, 8, 8)),
        (nn.AdaptiveAvgPool2d((3, 2)), (2, 6, 8)),
        (nn.AdaptiveAvgPool2d((3, 5)), (2, 7, 8)),
        (nn.AdaptiveAvgPool2d((None, 1)), (2, 7, 8)),
        (nn.AdaptiveMaxPool2d((3, 2)), (2, 6, 8)),
    ],
    ids=str,
)
def test_other_pools_at_the_border(pool: nn.Module, sizes: tuple[int, ...]) -> None:
    """The neighbours: every rank, the largest in place of the average, and pools that choose their windows themselves."""
    there_and_back(Does(pool), lambda b: tuple(x - 5 for x in normal(*sizes)(b)))


INTERPOLATED = [
    *({"size": (8, 9), "mode": mode} for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")),
    *({"size": (3, 4), "mode": mode} for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")),
    *({"size": (8, 3), "mode": mode, "align_corners": True} for mode in ("bilinear", "bicubic")),
    *({"scale_factor": 1.7, "mode": mode} for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")),
    *({"scale_factor": (0.6, 2.3), "mode": mode} for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")),
    *({"scale_factor": 1.7, "mode": mode, "recompute_scale_factor": True} for mode in ("nearest", "bilinear", "bicubic")),
    *({"scale_factor": 2, "mode": mode, "align_corners": True} for mode in ("bilinear", "bicubic")),
    *({"size": (3, 4), "mode": mode, "antialias": True} for mode in ("bilinear", "bicubic")),
]


@pytest.mark.parametrize("sizes", [(5, 5), (5, 7)], ids=str)
@pytest.mark.parametrize("how", INTERPOLATED, ids=str)
def test_images_of_another_size(how: dict, sizes: tuple[int, ...]) -> None:
    """The scale that was given and the one that the sizes have differ, and so do the ways to round a place."""
    there_and_back(Does(lambda x: F.interpolate(x, **how)), normal(2, *sizes))


@pytest.mark.parametrize(
    ("how", "sizes"),
    [
        ({"scale_factor": 1.7, "mode": "linear"}, (2, 5)),
        ({"scale_factor": 2, "mode": "nearest"}, (2, 5)),
        ({"size": 7, "mode": "linear", "align_corners": True}, (2, 5)),
        ({"scale_factor": 1.7, "mode": "trilinear"}, (2, 3, 4, 5)),
        ({"size": (5, 2, 7), "mode": "nearest"}, (2, 3, 4, 5)),
        ({"size": (5, 2, 7), "mode": "trilinear", "align_corners": True}, (2, 3, 4, 5)),
    ],
    ids=str,
)
def test_lines_and_cubes_of_another_size(how: dict, sizes: tuple[int, ...]) -> None:
    """The same along one axis and along three."""
    there_and_back(Does(lambda x: F.interpolate(x, **how)), normal(*sizes))
