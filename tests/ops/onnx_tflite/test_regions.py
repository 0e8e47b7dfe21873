"""Boxes that are picked, and what is pooled in them."""

import itertools

import numpy as np
import pytest
from onnx import helper

from tests.ops.onnx_tflite.check import check
from tests.ops.onnx_torch.models import FLOAT, INT64, ints, model, node


def boxes(items: int, count: int, *, centred: bool = False) -> np.ndarray:
    """Boxes of which many overlap, some touch, some are the same, and some have no area."""
    numbers = np.random.default_rng(count)
    corner, size = numbers.integers(0, 12, (items, count, 2)), numbers.integers(0, 8, (items, count, 2))
    made = np.concatenate([corner + 8, size] if centred else [corner, corner + size], -1)
    return made.astype(np.float32)


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize(("items", "classes", "count"), [(1, 1, 1), (1, 3, 20), (2, 2, 33)])
@pytest.mark.parametrize("limits", [(None, None), (0.5, None), (0.25, 0.3), (0.0, 0.5), (1 / 3, 0.9), (1.0, None)])
@pytest.mark.parametrize("computed", [False, True])
def test_boxes_are_picked_as_by_onnx_runtime(limits, items, classes, count, centred, computed):
    scores = np.random.default_rng(0).integers(0, 11, (items, classes, count)).astype(np.float32) / 10
    for most in (3, 100):
        given = {"most": ints(most)}
        given |= {name: np.array([v], np.float32) for name, v in zip(("overlap", "least"), limits, strict=True) if v is not None}
        nodes = [node("NonMaxSuppression", " ".join(["b s", *given]), "y", center_point_box=centred)]
        inputs = {"b": (items, count, 4), "s": (items, classes, count)}
        limits_ = {name: (helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for name, v in given.items()}
        made = model(nodes, inputs | (limits_ if computed else {}), {"y": INT64}, {} if computed else given, 11)
        if limits[0] is None:  # one box at least is left
            scores[0, 0, 0] = 1.0
        feeds = {"b": boxes(items, count, centred=bool(centred)), "s": scores}
        check(made, feeds | (given if computed else {}))


def test_corners_may_be_flipped():
    turned = boxes(1, 20)[..., [2, 3, 0, 1]]
    nodes = [node("NonMaxSuppression", "b s most overlap", "y")]
    given = {"most": ints(9), "overlap": np.array([0.4], np.float32)}
    made = model(nodes, {"b": (1, 20, 4), "s": (1, 1, 20)}, {"y": INT64}, given, 11)
    check(made, {"b": turned, "s": np.random.default_rng(1).random((1, 1, 20), np.float32)})


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("opset", [10, 16])
def test_regions_are_pooled(mode, opset):
    corners = np.random.default_rng(0).uniform(-3, 20, (7, 4)).astype(np.float32)
    rois = np.concatenate([corners[:, :2], corners[:, :2] + np.abs(corners[:, 2:])], 1)
    ways = ("half_pixel", "output_half_pixel") if opset == 16 else (None,)
    for way, size, scale, points in itertools.product(ways, ((3, 2), (1, 4)), (0.5, 1.0), (1, 2, 3)):
        given = {"coordinate_transformation_mode": way} if way else {}
        given |= {"mode": mode, "output_height": size[0], "output_width": size[1]}
        nodes = [node("RoiAlign", "x r i", "y", sampling_ratio=points, spatial_scale=scale, **given)]
        inputs = {"x": ("n", 3, 9, 11), "r": ("regions", 4), "i": (INT64, ("regions",))}
        feeds = {
            "x": np.random.default_rng(1).normal(size=(2, 3, 9, 11)).astype(np.float32),
            "r": rois,
            "i": ints(0, 1, 1, 0, 0, 1, 0),
        }
        check(model(nodes, inputs, {"y": FLOAT}, opset=opset), feeds)
