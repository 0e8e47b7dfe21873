"""Settings that are inputs of the model: axes, bounds, sizes and numbers that are known at run time alone."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from mlconverter import Converter
from mlconverter.errors import UnsupportedOpsError
from tests.ops.onnx_torch.models import FLOAT

from .check import check

X = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
FAR = 2**63 - 1


def ints(*values):
    return np.array(values, np.int64)


def computed(op, given, shape, opset=18, outputs=1, **attributes):
    """A model of one node, all of whose inputs but the data are integers given at run time, and what it is fed."""
    names = [f"i{n}" if value is not None else "" for n, value in enumerate(given)]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(names, given, strict=True)
        if value is not None
    ]
    results = [f"y{n}" for n in range(outputs)]
    shapes = shape if isinstance(shape, list) and shape and isinstance(shape[0], tuple) else [tuple(shape)] * outputs
    kinds = [TensorProto.INT64 if op == "TopK" and n else FLOAT for n in range(outputs)]
    made = [helper.make_tensor_value_info(r, k, s) for r, k, s in zip(results, kinds, shapes, strict=True)]
    node = helper.make_node(op, names, results, **attributes)
    model = helper.make_model(
        helper.make_graph([node], "computed", infos, made), opset_imports=[helper.make_opsetid("", opset)], ir_version=9
    )
    return model, {name: value for name, value in zip(names, given, strict=True) if value is not None}


REDUCTIONS = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp".split()


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize(("axes", "keep"), [((1,), 1), ((-1, 0), 1), ((-2,), 0), ((0, 1, 2), 0)])
def test_axes_of_a_reduction(op, axes, keep):
    left = [d for n, d in enumerate(X.shape) if n not in [a % 3 for a in axes]]
    shape = [1 if n in [a % 3 for a in axes] else d for n, d in enumerate(X.shape)] if keep else left
    check(*computed(op, [X, ints(*axes)], shape, keepdims=keep))


SLICES = {
    "bounds": ([1, 0], [3, FAR], [1, 0], [1, 1], (3, 2, 4)),
    "negative": ([-4, -3], [-1, -1], [-2, -1], [1, 1], (3, 3, 2)),
    "far": ([-(2**40), 1], [2**40, 2**40], [0, 1], [1, 1], (3, 4, 4)),
    "steps": ([0, 1], [FAR, 5], [2, 1], [3, 2], (3, 2, 2)),
    "backwards": ([FAR, -1], [-FAR, 0], [1, 2], [-1, -2], (3, 5, 2)),
}


@pytest.mark.parametrize("case", SLICES)
@pytest.mark.parametrize("which", ["all", "bounds", "axes"])
def test_bounds_of_a_slice(case, which):
    starts, ends, axes, steps, shape = SLICES[case]
    model, feeds = computed("Slice", [X, ints(*starts), ints(*ends), ints(*axes), ints(*steps)], shape)
    constant = {"all": [], "bounds": ["i3", "i4"], "axes": ["i1", "i2", "i4"]}[which]
    for name in constant:
        model.graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, feeds[name].shape, feeds.pop(name)))
        model.graph.input.remove(next(i for i in model.graph.input if i.name == name))
    check(model, feeds)


def test_a_slice_without_axes_and_steps():
    check(*computed("Slice", [X, ints(1, 2), ints(3, 9)], (2, 3, 4)))


PADS = {
    "adds": ((0, 1, 2, 3, 0, 1), (6, 6, 7)),
    "takes away": ((-1, 0, 0, 0, -2, 0), (2, 3, 4)),
    "both": ((-1, 2, 0, 2, -1, 0), (4, 6, 4)),
}


@pytest.mark.parametrize("case", PADS)
@pytest.mark.parametrize("value", [None, 0.5])
def test_sizes_of_a_padding(case, value):
    pads, shape = PADS[case]
    given = [X, ints(*pads)] + ([] if value is None else [np.array(value, np.float32)])
    check(*computed("Pad", given, shape))


@pytest.mark.parametrize(("axes", "shape"), [((0,), (1, 3, 5, 4)), ((-1, 1), (3, 1, 5, 4, 1)), ((2, 0), (1, 3, 1, 5, 4))])
def test_axes_that_come_in(axes, shape):
    check(*computed("Unsqueeze", [X, ints(*axes)], shape))


@pytest.mark.parametrize(("axes", "shape"), [((1,), (3, 1, 4)), ((-2, 1), (3, 4))])
def test_axes_that_go(axes, shape):
    check(*computed("Squeeze", [X[:, None, :1], ints(*axes)], shape))


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [-2, 0, 1, 9])
def test_the_diagonal_of_a_triangle(upper, k):
    check(*computed("Trilu", [X, np.array(k)], X.shape, upper=upper))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_the_axis_of_a_sum(axis, exclusive, reverse):
    check(*computed("CumSum", [X, np.array(axis)], X.shape, exclusive=exclusive, reverse=reverse))


@pytest.mark.parametrize("largest", [0, 1])
def test_how_many_are_the_largest(largest):
    check(*computed("TopK", [X, ints(3)], [(3, 3, 4)] * 2, outputs=2, axis=1, largest=largest))


def test_lengths_of_parts():
    check(*computed("Split", [X, ints(1, 3, 1)], [(3, 1, 4), (3, 3, 4), (3, 1, 4)], outputs=3, axis=1))


@pytest.mark.parametrize(("target", "shape"), [((0, -1), (3, 20)), ((0, 4, 0), (3, 4, 5)), ((2, 0, -1, 1), (2, 5, 6, 1))])
def test_zeros_in_a_shape(target, shape):
    x = X.reshape(3, 5, 4) if len(target) == 2 else X.transpose(0, 2, 1).copy().reshape(3, 4, 5) if len(target) == 3 else X
    check(*computed("Reshape", [x, ints(*target)], shape))


@pytest.mark.parametrize(("target", "shape"), [((4, 1, 5, 1), (4, 3, 5, 4)), ((1,), (3, 5, 4)), ((3, 1, 4), (3, 5, 4))])
def test_a_shape_to_expand_to(target, shape):
    check(*computed("Expand", [X, ints(*target)], shape))


def test_how_many_classes_there_are():
    check(*computed("OneHot", [ints(1, -1, 7, 0), ints(4), np.array([0.5, 2.0], np.float32)], (4, 4)))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_where_elements_are_put(axis, reduction):
    rng = np.random.default_rng(1)
    size = X.shape[axis]
    places = np.stack([rng.permutation(size)[:3] for _ in range(3 * 5 * 4)])[:36].reshape(-1)[: 3 * 3 * 3].reshape(3, 3, 3)
    if reduction == "none":  # no place twice along the axis
        places = np.moveaxis(np.broadcast_to(np.arange(3)[:, None, None] - 1, (3, 3, 3)), 0, axis).copy()
    updates = rng.normal(size=(3, 3, 3)).astype(np.float32)
    check(*computed("ScatterElements", [X, places, updates], X.shape, axis=axis, reduction=reduction))


# -- sizes of images ---------------------------------------------------------------------------------------------------

IMAGE = np.random.default_rng(0).normal(size=(2, 3, 5, 6)).astype(np.float32)
WAYS = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [(7, 9), (3, 12), (1, 1), (1, 4), (10, 2), (5, 6)], ids=str)
@pytest.mark.parametrize("along", ["all", "the image"])
def test_sizes_of_an_image(along, size, way):
    """Those that are no input of the model are known: the batch and the channels stay what they are."""
    sizes = [None, None, ints(2, 3, *size)] if along == "all" else [None, None, ints(*size)]
    axes = {} if along == "all" else {"axes": [2, 3]}
    model, feeds = computed(
        "Resize", [IMAGE, *sizes], [2, 3, "h", "w"], 18, mode="linear", coordinate_transformation_mode=way, **axes
    )
    check(model, feeds)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [(7, 9), (1, 1), (3, 1)], ids=str)
def test_an_image_as_large_as_another(size, way):
    """The sizes of the one are those of the other, with batch, height and width free, or what is computed from them."""
    nodes = [
        helper.make_node("Shape", ["x"], ["first"], end=2),
        helper.make_node("Shape", ["y"], ["last"], start=2),
        helper.make_node("Concat", ["first", "last"], ["whole"], axis=0),
        helper.make_node("Resize", ["x", "", "", "whole"], ["z"], mode="linear", coordinate_transformation_mode=way),
        helper.make_node("Mul", ["last", "factor"], ["larger"]),
        helper.make_node("Concat", ["first", "larger"], ["more"], axis=0),
        helper.make_node("Resize", ["x", "", "", "more"], ["u"], mode="linear", coordinate_transformation_mode=way),
    ]
    shapes = {"x": ["n", "c", "h", "w"], "y": ["m", 4, "height", "width"]}
    infos = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()]
    infos.append(helper.make_tensor_value_info("factor", TensorProto.INT64, [2]))
    outputs = [helper.make_tensor_value_info(name, FLOAT, None) for name in "zu"]
    graph = helper.make_graph(nodes, "graph", infos, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    for batch in (1, 2):
        check(model, {"x": IMAGE[:batch], "y": np.zeros((3, 4, *size), np.float32), "factor": ints(1, 2)})


@pytest.mark.parametrize("mode", ["nearest", "cubic"])
def test_what_litert_takes_other_elements_for_is_refused(mode):
    model, _ = computed("Resize", [IMAGE, None, None, ints(2, 3, 7, 9)], [2, 3, "h", "w"], 18, mode=mode)
    with pytest.raises(UnsupportedOpsError, match="of a size that only the run time knows"):
        Converter(model, verify=False).to_tflite()
