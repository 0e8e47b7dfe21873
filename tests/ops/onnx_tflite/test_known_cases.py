"""Graphs that converters to TFLite have got wrong, each with its neighbours: other attributes, ranks, sizes and positions."""

import itertools

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch

from mlconverter import Converter
from mlconverter.errors import UnsupportedOpsError
from tests.ops.onnx_tflite.check import check, operators, run_tflite
from tests.ops.onnx_torch.cases import Case
from tests.ops.onnx_torch.check import compare, feeds_of
from tests.ops.onnx_torch.models import FLOAT, N, ints, model, node, weight

EQUAL, UNEQUAL = (N, 5, 5, 5), (N, 4, 6, 7)
IMAGES = pytest.mark.parametrize("shape", [EQUAL, UNEQUAL], ids=["equal", "unequal"])


def checked(case: Case) -> None:
    check(case.build(), low=case.low, high=case.high)


def behind_a_convolution(shape: tuple, nodes: list, outputs: dict[str, int], weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """A graph that reads ``a``, an image of this shape that a convolution gives, whose channels therefore stand last."""
    channels = shape[1]
    conv = node("Conv", "x kernel", "a", pads=[1, 0, 1, 0])
    return model([conv, *nodes], {"x": shape}, outputs, {"kernel": weight(channels, channels, 3, 1), **weights})


# -- parts and shapes --------------------------------------------------------------------------------------------------

PARTS = {1: [(1, 4), (3, 1, 1), (1, 2, 1, 1)], 2: [(1, 5), (1, 3, 2), (2, 1, 2, 1)], 3: [(4, 2), (1, 3, 2), (2, 1, 1, 2)]}


@pytest.mark.parametrize("reverse", [False, True], ids=["in order", "in reverse"])
@pytest.mark.parametrize(("axis", "number"), list(itertools.product(PARTS, range(3))))
def test_a_split_into_uneven_parts(axis, number, reverse):
    """The parts came in another order than the node lists them."""
    parts = PARTS[axis][number]
    shape = [N, 5, 6, 6]
    shape[axis] = sum(parts)
    names = [f"p{i}" for i in range(len(parts))]
    nodes = [node("Split", "a parts", " ".join(names), axis=axis - 4 * reverse)]
    outputs = dict.fromkeys(reversed(names) if reverse else names, FLOAT)
    check(behind_a_convolution(tuple(shape), nodes, outputs, {"parts": ints(*parts)}))


@pytest.mark.parametrize(("opset", "parts"), [(11, 3), (13, 3), (18, 4)])
def test_a_split_into_as_many_parts_as_there_are_outputs(opset, parts):
    names = [f"p{i}" for i in range(parts)]
    given = {"num_outputs": parts} if opset >= 18 else {}
    size = 6 if opset < 18 else 7  # the last part may be shorter
    nodes = [node("Split", "a", " ".join(names), axis=1, **given)]
    made = behind_a_convolution((N, size, 6, 6), nodes, dict.fromkeys(names, FLOAT), {})
    made.opset_import[0].version = opset
    check(made)


def targets(shape: tuple) -> list[tuple[int, ...]]:
    _, c, h, w = shape
    return [
        (-1, c * h * w),
        (-1, c * h, w),
        (-1, c, h * w),
        (-1, h, w, c),
        (-1, c * h * w // 2, 2),
        (-1, 2, c // 2, h, w),
        (-1, c, h, w // 2, 2),
        (0, c, -1, 2, w),
        (-1, w, c, h),
        (2, -1, c, 2),
    ]


@pytest.mark.parametrize("last", ["Softmax", "Transpose"])
@pytest.mark.parametrize(("shape", "number"), list(itertools.product([(N, 4, 4, 4), (N, 4, 6, 8)], range(10))))
def test_a_reshape_behind_a_convolution(shape, number, last):
    """With equal sizes the axes were taken for one another, since any order of them has the shape that is asked for."""
    target = targets(shape)[number]
    given = {"perm": [0, *range(len(target) - 1, 0, -1)]} if last == "Transpose" else {"axis": -1}
    nodes = [node("Reshape", "a target", "b"), node(last, "b", "y", **given)]
    check(behind_a_convolution(shape, nodes, {"y": FLOAT}, {"target": ints(*target)}))


@IMAGES
def test_a_reshape_between_convolutions(shape):
    _, c, h, w = shape
    nodes = [node("Reshape", "a flat", "b"), node("Relu", "b", "r"), node("Reshape", "r image", "d"), node("Conv", "d k", "y")]
    known = {"flat": ints(-1, h * w, c), "image": ints(-1, c, w, h), "k": weight(3, c, 2, 1)}
    check(behind_a_convolution(shape, nodes, {"y": FLOAT}, known))


# -- operands ----------------------------------------------------------------------------------------------------------


BINARY = [(op, first) for op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Less", "Mod") for first in (True, False)]


@pytest.mark.parametrize(("op", "first"), [*BINARY, ("PRelu", True)])
@IMAGES
def test_a_constant_along_the_last_axis(shape, first, op):
    """It was moved with the channels, which no shape betrays where there are as many channels as columns."""
    given = {"fmod": 1} if op == "Mod" else {}
    kind = onnx.TensorProto.BOOL if op == "Less" else FLOAT
    nodes = [node("MaxPool", "x", "a", kernel_shape=[1, 1]), node(op, "a c" if first else "c a", "y", **given)]
    made = model(nodes, {"x": shape}, {"y": kind}, {"c": np.abs(weight(shape[3])) + 0.5})
    check(made, low=0.25, high=2)


@pytest.mark.parametrize("op", ["Sub", "Div", "Pow", "Mod", "Less", "Where"])
@pytest.mark.parametrize("pooled", ["MaxPool", "AveragePool", "GlobalAveragePool"])
@IMAGES
def test_the_order_of_operands_behind_a_pooling(shape, pooled, op):
    """What was pooled came first, wherever it stood."""
    given = {} if pooled.startswith("Global") else {"kernel_shape": [2, 2]}
    kind = onnx.TensorProto.BOOL if op == "Less" else FLOAT
    operands = "m p c" if op == "Where" else "c p"
    nodes = [node(pooled, "x", "p", **given), node("Less", "p c", "m")]
    nodes += [node(op, operands, "y", **({"fmod": 1} if op == "Mod" else {})), node("Add", "p d", "z")]
    known = {"c": np.array(1.5, np.float32), "d": weight(shape[1], 1, 1)}
    check(model(nodes, {"x": shape}, {"y": kind, "z": FLOAT}, known), low=0.25, high=2)


@pytest.mark.parametrize("axis", [1, 2, 3, -2])
@pytest.mark.parametrize("rank", [0, 1, 2])
@IMAGES
def test_what_was_gathered_is_multiplied(shape, rank, axis):
    """The axis was not moved with the others, nor was what takes its place."""
    places = np.array([[0, -1], [2, 1]])[(0,) * (2 - rank)] if rank else np.array(-1)
    nodes = [
        node("Gather", "a places", "g", axis=axis),
        node("Mul", "g c", "m"),
        node("Mul", "g g", "s"),
        node("Add", "m s", "y"),
    ]
    last = (*shape[1 : axis % 4], *places.shape, *shape[axis % 4 + 1 :])[-1]
    check(behind_a_convolution(shape, nodes, {"y": FLOAT}, {"places": places, "c": weight(last)}))


@IMAGES
def test_queries_of_a_detector(shape):
    """A row of each of several layers, times positions that are broadcast."""
    _, c, h, w = shape
    nodes = [
        node("Reshape", "a rows", "r"),
        node("Transpose", "r", "t", perm=[0, 2, 1]),
        node("Gather", "t one", "g", axis=1),
        node("Unsqueeze", "g axis", "u"),
        node("Mul", "u positions", "m"),
        node("MatMul", "m r", "y"),
    ]
    known = {"rows": ints(-1, c, h * w), "one": np.array(1), "axis": ints(1), "positions": weight(1, 3, c)}
    check(behind_a_convolution(shape, nodes, {"y": FLOAT}, known))


# -- windows -----------------------------------------------------------------------------------------------------------

POOLS = [
    {"kernel_shape": [3, 3], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [0, 1, 2, 0]},
    {"kernel_shape": [2, 2], "strides": [3, 3]},
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
]


@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("sizes", [(7, 7), (8, 9)], ids=str)
@pytest.mark.parametrize("given", POOLS, ids=str)
@pytest.mark.parametrize("counted", [None, 0, 1])
def test_poolings_at_the_border(given, sizes, ceil, counted):
    """Rounding up added windows that hold nothing, or left some out; averages counted the padding, or did not."""
    more = {} if counted is None else {"count_include_pad": counted}
    op = "MaxPool" if counted is None else "AveragePool"
    opset = 12 if counted is None else 19  # ONNX Runtime counts what the specification does from there on
    case = Case(op, ((N, 7, *sizes),), {**given, **more, "ceil_mode": ceil}, opset)
    check(case.build(), low=1, high=3)


@pytest.mark.parametrize("sizes", [(5, 5), (4, 7)], ids=str)
@pytest.mark.parametrize("group", [1, 5])
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize(
    "given",
    [
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"strides": [3, 2], "pads": [1, 0, 0, 2], "output_padding": [2, 0]},
        {"strides": [4, 4], "pads": [0, 0, 0, 0]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 3], "auto_pad": "SAME_LOWER"},
    ],
    ids=str,
)
def test_transposed_convolutions_with_strides_and_padding(given, bias, group, sizes):
    """The padding was cut off at one end, and the output's own padding forgotten."""
    constants = (weight(5, 10 // group, 4, 4), *((weight(10),) if bias else ()))
    checked(Case("ConvTranspose", ((N, 5, *sizes), *constants), {**given, "group": group}))


@pytest.mark.parametrize("length", [8, 9])
def test_a_chain_of_convolutions_along_a_line(length):
    nodes = [
        node("Conv", "x w0 b0", "a", pads=[2, 0]),
        node("Relu", "a", "r"),
        node("Conv", "r w1", "c", pads=[0, 3], strides=[2]),
        node("Conv", "c w2", "d", pads=[1, 2], dilations=[2], group=4),
        node("Add", "d s", "y"),
    ]
    known = {"w0": weight(4, 3, 4), "b0": weight(4), "w1": weight(4, 4, 3), "w2": weight(8, 1, 3), "s": weight(8, 1)}
    check(model(nodes, {"x": (N, 3, length)}, {"y": FLOAT}, known))


@pytest.mark.parametrize("sizes", [(6, 6), (7, 9)], ids=str)
def test_a_chain_of_unevenly_padded_convolutions(sizes):
    nodes = [
        node("Conv", "x w0 b0", "a", pads=[0, 1, 2, 0]),
        node("Conv", "a w1", "c", pads=[1, 0, 0, 3], strides=[2, 1]),
        node("Conv", "c w2", "y", pads=[2, 1, 1, 2], dilations=[2, 1], group=6),
    ]
    known = {"w0": weight(6, 6, 3, 2), "b0": weight(6), "w1": weight(6, 6, 3, 3), "w2": weight(6, 1, 2, 3)}
    check(model(nodes, {"x": (N, 6, *sizes)}, {"y": FLOAT}, known))


STRIDES = [([10, 10], [3, 3]), ([5, 4], [3, 2]), ([3, 10], [3, 3]), ([2, 7], [1, 3])]


@pytest.mark.parametrize(("strides", "kernel"), STRIDES, ids=str)
@pytest.mark.parametrize("sizes", [(17, 18), (20, 20), (13, 22)], ids=str)
@pytest.mark.parametrize("group", [1, 4])
def test_strides_longer_than_the_window(strides, kernel, sizes, group):
    """LiteRT's kernel for SAME answers zeros there; without padding SAME and VALID are one, and VALID it can."""
    case = Case("Conv", ((N, 4, *sizes), weight(8, 4 // group, *kernel), weight(8)), {"strides": strides, "group": group})
    made = check(case.build())
    convolutions = [o for o in made.structure.subgraphs[0].operators if "CONV" in o.op]
    assert [o.options.padding for o in convolutions] == [1]


@pytest.mark.parametrize("way", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("strides", "kernel"), STRIDES, ids=str)
@pytest.mark.parametrize("sizes", [(17, 18), (20, 20), (21, 21), (13, 22)], ids=str)
@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool"])
def test_padding_to_the_same_size_with_strides_longer_than_the_window(op, sizes, strides, kernel, way):
    """Right, or refused where windows stop before the end: the padding would be negative, of which the text says nothing."""
    known = (weight(6, 4, *kernel),) if op == "Conv" else ()
    given = {"strides": strides, "auto_pad": way} | ({} if known else {"kernel_shape": kernel})
    made = Case(op, ((N, 4, *sizes), *known), given).build()
    if all((-(-n // s) - 1) * s + k >= n for n, s, k in zip(sizes, strides, kernel, strict=True)):
        check(made)
    else:
        with pytest.raises(UnsupportedOpsError, match="do not reach the ends"):
            Converter(made, verify=False).to_tflite()


# -- functions and normalisations --------------------------------------------------------------------------------------

FUNCTIONS = [
    *(("Celu", {"alpha": alpha}) for alpha in (0.5, 1.0, 2.0, -1.5)),
    ("Celu", {}),
    *(("Elu", {"alpha": alpha}) for alpha in (0.5, 1.0, 2.0, -1.5)),
    ("Selu", {}),
    ("Selu", {"alpha": 2.0, "gamma": 0.5}),
    ("Selu", {"alpha": -2.0, "gamma": -0.5}),
    ("ThresholdedRelu", {"alpha": 1.5}),
    ("LeakyRelu", {"alpha": 0.3}),
    ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
    ("HardSwish", {}),
    ("Shrink", {"lambd": 0.7, "bias": 0.2}),
]


@pytest.mark.parametrize(("op", "given"), FUNCTIONS, ids=str)
def test_functions_with_a_parameter(op, given):
    """The parameter was not looked at, or only outside of the exponential."""
    checked(Case(op, (UNEQUAL,), given, low=-5, high=5))


@pytest.mark.parametrize("op", ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceMean", "ReduceMax"])
@pytest.mark.parametrize("axes", [(1, 2), (2, 3), (1,), (-1,), (0, 2)], ids=str)
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
def test_a_response_normalisation_over_an_image(axes, keep, op, last):
    """The norm was taken over other axes than the ones behind the change of layout."""
    if 0 in axes and not keep:
        axes = tuple(a for a in axes if a)
    nodes = [node("Transpose", "a", "t", perm=[0, 2, 3, 1] if last else [0, 1, 2, 3]), node(op, "t axes", "n", keepdims=keep)]
    for shape in (EQUAL, UNEQUAL):
        check(behind_a_convolution(shape, nodes, {"n": FLOAT}, {"axes": ints(*axes)}), low=1, high=2)


@IMAGES
@pytest.mark.parametrize("opset", [13, 18])
def test_a_global_response_normalisation(shape, opset):
    """As ConvNeXt V2 has it: the norm over the image, over its mean along the channels."""
    nodes = [node("Transpose", "a", "t", perm=[0, 2, 3, 1])]
    if opset >= 18:
        nodes += [node("ReduceL2", "t hw", "n", keepdims=1), node("ReduceMean", "n last", "m", keepdims=1)]
    else:
        nodes += [node("ReduceL2", "t", "n", axes=[1, 2], keepdims=1), node("ReduceMean", "n", "m", axes=[-1], keepdims=1)]
    nodes += [node("Add", "m tiny", "e"), node("Div", "n e", "d"), node("Mul", "t d", "p"), node("Mul", "p gamma", "g")]
    nodes += [node("Add", "g beta", "s"), node("Add", "s t", "u"), node("Transpose", "u", "y", perm=[0, 3, 1, 2])]
    known = {"hw": ints(1, 2), "last": ints(-1), "tiny": np.array(1e-6, np.float32)}
    known |= {"gamma": weight(shape[1], seed=1), "beta": weight(shape[1], seed=2)}
    made = behind_a_convolution(shape, nodes, {"y": FLOAT}, known)
    made.opset_import[0].version = opset
    check(made)


@pytest.mark.parametrize("axis", [1, 2, 3, -1])
@IMAGES
def test_a_layer_normalisation_behind_a_convolution(shape, axis):
    """Its axis counted the axes of another order."""
    inner = shape[axis:]
    nodes = [node("LayerNormalization", "a scale bias", "y", axis=axis, epsilon=1e-3)]
    known = {"scale": weight(*inner, seed=1), "bias": weight(*inner, seed=2)}
    check(behind_a_convolution(shape, nodes, {"y": FLOAT}, known), rtol=1e-4)


@pytest.mark.parametrize("axis", [1, 2, 3])
@IMAGES
def test_a_layer_normalisation_that_is_written_out(shape, axis):
    """Over the channels of an image, as ConvNeXt has it, or over any other axis."""
    per_axis = [1, 1, 1]
    per_axis[axis - 1] = shape[axis]
    nodes = [
        node("ReduceMean", "a axes", "m", keepdims=1),
        node("Sub", "a m", "d"),
        node("Pow", "d two", "s"),
        node("ReduceMean", "s axes", "v", keepdims=1),
        node("Add", "v tiny", "e"),
        node("Sqrt", "e", "q"),
        node("Div", "d q", "n"),
        node("Mul", "n scale", "o"),
        node("Add", "o bias", "y"),
    ]
    known = {"axes": ints(axis), "two": np.array(2, np.float32), "tiny": np.array(1e-3, np.float32)}
    known |= {"scale": weight(*per_axis, seed=1), "bias": weight(*per_axis, seed=2)}
    check(behind_a_convolution(shape, nodes, {"y": FLOAT}, known), rtol=1e-4)


# -- names -------------------------------------------------------------------------------------------------------------

INPUTS, OUTPUTS = ("b", "a", "x/y:0"), ("z", "m/n:1", "c")


def named() -> onnx.ModelProto:
    """Nothing here is in alphabetical order, nor in that in which it is used or computed."""
    nodes = [node("Sub", "a b", "c"), node("Mul", "x/y:0 b", "m/n:1"), node("Sub", "x/y:0 a", "z")]
    return model(nodes, dict.fromkeys(INPUTS, (N, 3)), dict.fromkeys(OUTPUTS, FLOAT))


def test_names_and_their_order():
    """Inputs and outputs were sorted, renamed, or numbered in the order in which operators use them."""
    made = check(named())
    assert made.signature.input_names == INPUTS and made.signature.output_names == OUTPUTS
    again = Converter(made, verify=False)
    assert tuple(v.name for v in again.to_onnx().graph.input) == INPUTS
    assert tuple(v.name for v in again.to_onnx().graph.output) == OUTPUTS


def test_outputs_are_read_by_their_names_and_by_their_numbers():
    """Runtimes reorder what a signature lists; a name means one output, and so does a position among the graph's outputs."""
    proto = named()
    made = Converter(proto, verify=False).to_tflite()
    feeds = feeds_of(proto, 1)
    want = dict(zip(OUTPUTS, ort.InferenceSession(proto.SerializeToString()).run(None, feeds), strict=True))
    interpreter = made.interpreter()
    assert interpreter.get_signature_list() == {"serving_default": {"inputs": sorted(INPUTS), "outputs": sorted(OUTPUTS)}}
    got = interpreter.get_signature_runner("serving_default")(**feeds)
    compare([got[name] for name in OUTPUTS], [want[name] for name in OUTPUTS])
    interpreter = made.interpreter()
    interpreter.allocate_tensors()
    assert tuple(d["name"] for d in interpreter.get_input_details()) == INPUTS
    for detail, name in zip(interpreter.get_input_details(), INPUTS, strict=True):
        interpreter.set_tensor(detail["index"], feeds[name])
    interpreter.invoke()
    compare([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()], [want[name] for name in OUTPUTS])


@pytest.mark.parametrize("names", [("s0", "s1", "s2"), ("s2", "s0", "s1"), ("s1", "s1_", "s0")], ids=str)
def test_outputs_of_one_node_in_any_order(names):
    """Graphs whose outputs are those of one node were written in the node's order."""
    nodes = [node("Split", "x parts", "s0 s1 s2", axis=1)]
    nodes += [node("Identity", "s1", "s1_")] if "s1_" in names else []
    check(model(nodes, {"x": (N, 6, 4)}, dict.fromkeys(names, FLOAT), {"parts": ints(1, 3, 2)}))


# -- training, size, quantisation --------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [1, 3])
def test_a_converted_layer_with_a_normalisation_can_be_trained(group):
    """What came out had no weights that anything could train, and no way back into the file."""
    known = {"w": weight(6, 3 // group, 3, 3), "s": weight(6), "b": weight(6), "m": weight(6), "v": np.abs(weight(6)) + 0.5}
    nodes = [node("Conv", "x w", "a", group=group), node("BatchNormalization", "a s b m v", "n"), node("Relu", "n", "y")]
    made = check(model(nodes, {"x": (1, 3, 5, 6)}, {"y": FLOAT}, known, 15))
    converter = Converter(made)
    module = converter.to_torch()
    x = torch.randn(1, 3, 5, 6)
    before = module(x).detach()
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    module(x).square().sum().backward()
    assert {tuple(p.shape) for p in module.parameters() if p.grad is not None and p.grad.any()} == {(6, 3 // group, 3, 3), (6,)}
    optimiser.step()
    after = module(x).detach()
    assert (after - before).abs().max() > 0.1
    tuned = converter.to_origin_type(module)
    assert len(tuned) == len(made)
    compare(list(run_tflite(tuned, {"x": x.numpy()}).values()), [after.numpy()], 1e-4)


@pytest.mark.parametrize("size", [16, 64])
def test_samples_of_a_grid_are_a_few_operators(size):
    """A loop over places, or a table for each, made models fifty times slower and larger."""
    case = Case("GridSample", ((N, 3, size, size + 2), (N, size, size + 1, 2)), {"padding_mode": "zeros"}, 16, low=-1, high=1)
    made = check(case.build())
    assert sum(operators(made).values()) < 100
    assert len(made) < 16_000


def test_scales_of_each_channel_belong_to_the_axis_of_the_channels():
    """A depthwise filter has its channels last in TFLite and first in ONNX, and its scales stayed where they were."""
    for shape, group in (((N, 4, 4, 4), 4), ((N, 4, 6, 7), 4), ((N, 4, 6, 7), 1)):
        filters, scales = np.random.default_rng(0).integers(-127, 128, (4, 4 // group, 4, 4)), weight(4) ** 2 + 0.01
        known = {"q": filters.astype(np.int8), "s": scales, "z": np.zeros(4, np.int8), "b": weight(4)}
        nodes = [node("DequantizeLinear", "q s z", "w", axis=0), node("Conv", "x w b", "y", pads=[1] * 4, group=group)]
        check(model(nodes, {"x": shape}, {"y": FLOAT}, known))


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_scales_along_any_axis_of_a_filter(axis):
    filters, scales = np.random.default_rng(0).integers(-127, 128, (4, 4, 4, 4)), weight(4) ** 2 + 0.01
    known = {"q": filters.astype(np.int8), "s": scales, "z": np.arange(4, dtype=np.int8)}
    nodes = [node("DequantizeLinear", "q s z", "w", axis=axis), node("Conv", "x w", "y")]
    check(model(nodes, {"x": (N, 4, 6, 7)}, {"y": FLOAT}, known))


@pytest.mark.parametrize(("group", "axis"), [(4, 3), (1, 0)], ids=["depthwise", "plain"])
@pytest.mark.parametrize("sizes", [(4, 4), (6, 7)], ids=str)
def test_the_file_says_along_which_axis_its_integers_have_scales(sizes, group, axis):
    """The file named an axis of another layout, which a runtime follows or refuses; equal sizes hide it."""
    filters, scales = np.random.default_rng(0).integers(-127, 128, (4, 4 // group, 4, 4)), weight(4) ** 2 * 0.01 + 0.001
    known = {"q": filters.astype(np.int8), "s": scales, "z": np.zeros(4, np.int8)}
    known |= {"step": np.array(0.02, np.float32), "wide": np.array(0.1, np.float32), "zero": np.array(3, np.int8)}
    nodes = [
        node("QuantizeLinear", "x step zero", "a"),
        node("DequantizeLinear", "a step zero", "b"),
        node("DequantizeLinear", "q s z", "w", axis=0),
        node("Conv", "b w", "c", pads=[1] * 4, group=group),
        node("QuantizeLinear", "c wide zero", "d"),
        node("DequantizeLinear", "d wide zero", "y"),
    ]
    proto = model(nodes, {"x": (1, 4, *sizes)}, {"y": FLOAT}, known)
    made, feeds = Converter(proto, verify=False).to_tflite(), feeds_of(proto, 1)
    (want,) = ort.InferenceSession(proto.SerializeToString()).run(None, feeds)
    np.testing.assert_allclose(run_tflite(made, feeds)["y"], want, atol=0.1001)  # one step
    graph = made.structure.subgraphs[0]
    (conv,) = (o for o in graph.operators if "CONV_2D" in o.op)
    stored = graph.tensors[conv.inputs[1]]
    assert (stored.dtype, stored.quantization.axis, stored.shape[axis]) == ("int8", axis, 4)
    np.testing.assert_array_equal(np.float32(stored.quantization.scale), scales)
