"""Graphs that converters have got wrong, each with its neighbours: other attributes, opsets, ranks and sizes."""

import itertools

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from mlconverter import Converter
from mlconverter.errors import UnsupportedOpsError
from tests.ops.onnx_torch.cases import Case
from tests.ops.onnx_torch.check import check, compare, feeds_of, run_torch
from tests.ops.onnx_torch.models import FLOAT, INT64, N, ints, model, node, weight

EVEN, EQUAL = (N, 3, 6, 8), (N, 4, 4, 4)


def checked(case: Case) -> None:
    check(case.build(), low=case.low, high=case.high)


# -- windows -----------------------------------------------------------------------------------------------------------

SAME = [
    Case(op, (x, *weights), {**given, "auto_pad": way, "strides": strides})
    for way in ("SAME_UPPER", "SAME_LOWER")
    for x in (EVEN, EQUAL)
    for strides in ([2, 2], [1, 3])
    for op, weights, given in (
        ("Conv", (weight(5, x[1], 3, 3), weight(5)), {}),
        ("Conv", (weight(5, x[1], 2, 4), weight(5)), {}),
        ("Conv", (weight(x[1], 1, 3, 2), weight(x[1])), {"group": x[1]}),
        ("MaxPool", (), {"kernel_shape": [3, 3]}),
        ("MaxPool", (), {"kernel_shape": [2, 4]}),
        ("AveragePool", (), {"kernel_shape": [3, 2]}),
    )
]
SAME += [
    Case("Conv", ((N, 2, *sizes), weight(3, 2, *kernel), weight(3)), {"auto_pad": way, "strides": [2] * len(sizes)})
    for way in ("SAME_UPPER", "SAME_LOWER")
    for sizes, kernel in (((8,), (3,)), ((8,), (4,)), ((4, 6, 5), (3, 2, 3)), ((4, 4, 4), (3, 3, 3)))
]


@pytest.mark.parametrize("case", SAME, ids=lambda case: case.id)
def test_padding_to_the_same_size(case: Case):
    """An even size needs an odd number of elements of padding, and the odd one was put at the wrong end."""
    checked(case)


def average(x: np.ndarray, kernel: list[int], strides: list[int], pads: list[int], ceil: bool, counted: bool) -> np.ndarray:
    """Averages as the specification says them: what lies beyond the padding never counts, the padding if it is to."""
    rank = len(kernel)
    begins, ends, sizes = pads[:rank], pads[rank:], x.shape[2:]
    counts = []
    for size, k, s, b, e in zip(sizes, kernel, strides, begins, ends, strict=True):
        steps = (size + b + e - k) / s
        count = int(np.ceil(steps) if ceil else np.floor(steps)) + 1
        counts.append(count - (ceil and (count - 1) * s >= size + b))
    y = np.empty((*x.shape[:2], *counts), np.float32)
    for place in itertools.product(*map(range, counts)):
        starts = [p * s - b for p, s, b in zip(place, strides, begins, strict=True)]
        inside = [slice(max(0, a), min(a + k, n)) for a, k, n in zip(starts, kernel, sizes, strict=True)]
        padded = [min(a + k, n + e) - a for a, k, n, e in zip(starts, kernel, sizes, ends, strict=True)]
        number = np.prod(padded if counted else [s.stop - s.start for s in inside])
        y[(..., *place)] = x[(..., *inside)].sum(tuple(range(2, 2 + rank))) / number
    return y


@pytest.mark.parametrize("opset", [10, 11, 19, 22])
@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize(
    ("sizes", "kernel", "strides", "pads"),
    [
        ((7, 7), [3, 3], [2, 2], [0, 0, 0, 0]),
        ((6, 8), [3, 3], [2, 2], [1, 1, 1, 1]),
        ((5, 6), [3, 2], [2, 3], [0, 1, 2, 1]),
        ((8,), [3], [2], [1, 0]),
        ((5, 6, 4), [3, 2, 3], [2, 2, 3], [1, 0, 1, 0, 1, 1]),
    ],
)
def test_averages_count_what_the_specification_counts(sizes, kernel, strides, pads, ceil, counted, opset):
    """Runtimes and references have counted too much or too little at the end, so the sums are written out here."""
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "count_include_pad": counted, "ceil_mode": ceil}
    made = Case("AveragePool", ((N, 2, *sizes),), attributes, opset).build()
    module = Converter(made, verify=False).to_torch()
    for batch in (1, 3):
        feeds = feeds_of(made, batch, 3, 7)
        compare(run_torch(module, feeds), [average(*feeds.values(), kernel, strides, pads, bool(ceil), bool(counted))])


@pytest.mark.parametrize("opset", [11, 19, 22])
@pytest.mark.parametrize(("way", "pads"), [("SAME_UPPER", [0, 0, 1, 1]), ("SAME_LOWER", [1, 1, 0, 0])])
def test_padding_to_the_same_size_is_counted_at_both_ends(way, pads, opset):
    """ONNX Runtime leaves out the padding at the end where its size is not given as a number."""
    given = {"kernel_shape": [3, 3], "strides": [2, 2], "count_include_pad": 1}
    made = Case("AveragePool", ((N, 2, 6, 8),), {**given, "auto_pad": way}, opset).build()
    module = Converter(made, verify=False).to_torch()
    for batch in (1, 3):
        feeds = feeds_of(made, batch, 3, 7)
        compare(run_torch(module, feeds), [average(*feeds.values(), [3, 3], [2, 2], pads, False, True)])


# -- weights -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 5), (1, 1)])
@pytest.mark.parametrize("opset", [7, 9, 11, 13])
@pytest.mark.parametrize("sizes", [(4, 5), (5, 5)])
def test_what_a_product_adds_is_broadcast_at_every_batch(sizes, opset, shape):
    """A bias of another rank than 1, or scaled, was taken for a row of the right length."""
    gemm = node("Gemm", "x w c", "y", alpha=0.5, beta=2.0)
    check(model([gemm], {"x": (N, sizes[0])}, {"y": FLOAT}, {"w": weight(*sizes), "c": weight(*shape) + 3}, opset))


# -- elements ----------------------------------------------------------------------------------------------------------

OLD_SLICES = [
    {"starts": [1], "ends": [3]},
    {"starts": [0, 1], "ends": [9, -1]},
    {"starts": [-3], "ends": [2**31 - 1], "axes": [2]},
    {"starts": [1, 2], "ends": [2**63 - 1, 4], "axes": [3, 1]},
    {"starts": [-9], "ends": [-1], "axes": [3]},
    {"starts": [3], "ends": [1], "axes": [1]},
]


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize("shape", [(4, 4, 4, 4), (4, 5, 6, 7)], ids=str)
@pytest.mark.parametrize("given", OLD_SLICES, ids=str)
def test_slices_that_are_attributes(given, shape, opset):
    """The oldest form of Slice converted, and failed when it ran."""
    checked(Case("Slice", (shape,), given, opset))


@pytest.mark.parametrize("sizes", [(4, 4, 4), (4, 5, 6)], ids=str)
@pytest.mark.parametrize("opset", [10, 11, 13])
def test_slices_that_are_computed(opset, sizes):
    """Begins and ends that come with the run, several axes at once, one of them backwards."""
    made = model(
        [node("Slice", "x starts ends axes steps", "y")],
        {"x": (N, *sizes), **dict.fromkeys(("starts", "ends", "axes", "steps"), (INT64, (3,)))},
        {"y": FLOAT},
        opset=opset,
    )
    numbers = {"starts": ints(1, 3, -1), "ends": ints(9, 0, -99), "axes": ints(1, 2, 3), "steps": ints(2, -1, -2)}
    check(made, *({"x": weight(batch, *sizes), **numbers} for batch in (1, 3)))


@pytest.mark.parametrize("opset", [11, 13, 16, 18])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(4, 4, 4), (3, 4, 5)], ids=str)
def test_scattered_updates_of_every_depth(sizes, depth, opset):
    """A list of index tensors and one tensor of them mean different things to torch."""
    rng = np.random.default_rng(0)
    places = np.stack(
        [rng.permutation(3)[:, None] * np.ones((3, 2), int) if a == 0 else rng.integers(-3, 3, (3, 2)) for a in range(depth)], -1
    )
    if depth == 1:
        places = places[:, :1]
    else:
        places[:, 1, 1] = (places[:, 0, 1] + 1) % 3  # no place twice
        places[:, 0, 1] %= 3
    updates = weight(*places.shape[:-1], *sizes[depth:])
    made = model(
        [node("ScatterND", "x i u", "y")],
        {"x": sizes, "i": (INT64, places.shape), "u": updates.shape},
        {"y": FLOAT},
        opset=opset,
    )
    check(made, {"x": weight(*sizes, seed=3), "i": places.astype(np.int64), "u": updates})


# -- padding -----------------------------------------------------------------------------------------------------------

PADS = {2: [1, 2, 3, 0], 3: [0, 1, 2, 1, 0, 3], 4: [0, 0, 1, 2, 0, 0, 3, 4], 5: [0, 0, 1, 2, 0, 0, 0, 3, 1, 2]}


@pytest.mark.parametrize("opset", [11, 13, 18, 19, 21])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("rank", PADS)
@pytest.mark.parametrize("at_run_time", [False, True], ids=["known", "at run time"])
def test_the_order_of_paddings(rank, mode, opset, at_run_time):
    """ONNX says all begins, then all ends, from the first axis on; torch says pairs from the last axis on."""
    pads = ints(*PADS[rank])
    for shape in ((5,) * rank, (4, 5, 6, 7, 5)[:rank]):
        inputs = {"x": shape} | ({"pads": (INT64, pads.shape)} if at_run_time else {})
        known = {} if at_run_time else {"pads": pads}
        made = model([node("Pad", "x pads", "y", mode=mode)], inputs, {"y": FLOAT}, known, opset)
        check(made, {"x": weight(*shape)} | ({"pads": pads} if at_run_time else {}))


# -- outputs -----------------------------------------------------------------------------------------------------------

PARTS = [
    ("MaxPool", (N, 2, 6, 7), {"kernel_shape": [3, 2]}, (FLOAT, INT64)),
    ("LayerNormalization", (N, 5, 4), {"axis": -1}, (FLOAT,) * 3),
    ("Unique", (7,), {}, (FLOAT, INT64, INT64, INT64)),
    ("Split", (N, 6), {"axis": 1, "num_outputs": 3}, (FLOAT,) * 3),
    ("TopK", (N, 6), {"axis": 1}, (FLOAT, INT64)),
]


@pytest.mark.parametrize(("op", "shape", "attributes", "kinds"), PARTS, ids=lambda v: v if isinstance(v, str) else "")
def test_any_of_several_outputs_in_any_order(op, shape, attributes, kinds):
    """One output of several came as the tuple of all, and two of one node as one."""
    known = {"TopK": {"k": ints(3)}, "LayerNormalization": {"scale": weight(4)}}.get(op, {})
    names = [f"o{n}" for n in range(len(kinds))]
    outputs = dict(zip(names, kinds, strict=True))
    for count in (1, 2):
        for chosen in itertools.permutations(names, count):
            made = node(op, " ".join(["x", *known]), " ".join(names), **attributes)
            check(model([made], {"x": shape}, {name: outputs[name] for name in chosen}, known, 21))


# -- images ------------------------------------------------------------------------------------------------------------

RESIZED = [
    {"mode": mode, "coordinate_transformation_mode": coordinates, **more}
    for mode, more in (
        ("nearest", {}),
        ("linear", {}),
        ("cubic", {}),
        ("cubic", {"cubic_coeff_a": -0.5}),
        ("cubic", {"exclude_outside": 1}),
    )
    for coordinates in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric")
]


@pytest.mark.parametrize("sizes", [(8, 8), (3, 4), (1, 1), (5, 9)], ids=str)
@pytest.mark.parametrize("given", RESIZED, ids=str)
def test_places_of_another_size(given, sizes):
    """Ways to round and to place that torch does not have were replaced by those that it has, with a warning."""
    opset = 19 if given["coordinate_transformation_mode"] == "half_pixel_symmetric" else 13
    made = model(
        [node("Resize", "x _ _ sizes", "y", **given)], {"x": (1, 2, 5, 5)}, {"y": FLOAT}, {"sizes": ints(1, 2, *sizes)}, opset
    )
    check(made)


# -- modes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [7, 10, 12, 13, 22])
def test_dropout_that_infers_does_nothing(opset):
    """It dropped elements with the mode of the module that it was put into, or was refused for its old form."""
    ratio = {"ratio": np.array(0.5, np.float32)} if opset >= 12 else {}
    made = node("Dropout", "x ratio" if ratio else "x", "y", **({} if ratio else {"ratio": 0.5}))
    check(model([made], {"x": (N, 50)}, {"y": FLOAT}, ratio, opset))


@pytest.mark.parametrize("opset", [12, 13, 22])
def test_dropout_that_trains_is_refused(opset):
    """``training_mode`` was not looked at; what is drawn differs from run to run."""
    known = {"ratio": np.array(0.5, np.float32), "mode": np.array(True)}
    made = model([node("Dropout", "x ratio mode", "y")], {"x": (N, 50)}, {"y": FLOAT}, known, opset)
    with pytest.raises(UnsupportedOpsError, match="training_mode=1"):
        Converter(made, verify=False).to_torch()


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("mode", [None, "DCR", "CRD"])
@pytest.mark.parametrize(("shape", "block"), [((N, 8, 2, 3), 2), ((N, 8, 8, 8), 2), ((N, 18, 2, 3), 3)])
def test_depth_to_space_in_both_orders(shape, block, mode, opset):
    """The order that torch does not have, which is the default, was missing or took the other one."""
    checked(Case("DepthToSpace", (shape,), {"blocksize": block} | ({"mode": mode} if mode else {}), opset))


# -- what optimisers have broken ---------------------------------------------------------------------------------------


def normalised(c: int, shared: bool) -> onnx.ModelProto:
    known = {"w": weight(c, 3, 3, 3), "v2": weight(c, 3, 3, 3, seed=9), "m": weight(c, seed=2), "n": weight(c, seed=5)}
    known |= {"s": weight(c), "b": weight(c, seed=1), "v": np.abs(weight(c)) + 0.5, "t": weight(c, seed=7)}
    second = "w" if shared else "v2"
    nodes = [
        node("Conv", "x w", "a"),
        node("Conv", f"x {second}", "e"),
        node("BatchNormalization", "a s b m v", "y"),
        node("BatchNormalization", f"e {'s b' if shared else 't b'} n v", "z", epsilon=0.01),
    ]
    return model(nodes, {"x": (N, 3, 5, 6)}, {"y": FLOAT, "z": FLOAT}, known)


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "shared"])
@pytest.mark.parametrize("c", [3, 5])
def test_convolutions_with_normalisations_that_share_their_weights(c, shared):
    """Folding one normalisation into its convolution changed a weight that the other one reads as well."""
    module = check(normalised(c, shared))
    assert len(list(module.parameters())) == (3 if shared else 5)


@pytest.mark.parametrize(
    "steps",
    [
        ((1, 9, 2), (0, 9, 3)),
        ((0, 9, 3), (1, -1, 1)),
        ((-8, -1, 1), (1, 99, 2)),
        ((7, 1, -1), (0, 9, 2)),
        ((7, -99, -2), (-1, -99, -1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("axes", [(1, 1), (1, 2)], ids=str)
@pytest.mark.parametrize("sizes", [(9, 9), (9, 11)], ids=str)
def test_a_slice_of_a_slice(steps, axes, sizes):
    """Two slices were made one, with their begins added and their steps forgotten."""
    known = {f"{name}{n}": ints(value) for n, step in enumerate(steps) for name, value in zip("bes", step, strict=True)}
    known |= {f"a{n}": ints(axis) for n, axis in enumerate(axes)}
    nodes = [node("Slice", "x b0 e0 a0 s0", "first"), node("Slice", "first b1 e1 a1 s1", "y")]
    check(model(nodes, {"x": (N, *sizes)}, {"y": FLOAT, "first": FLOAT}, known))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_a_padding_that_two_convolutions_read(mode):
    """The padding went into the one that was looked at, and was missing in the other."""
    nodes = [node("Pad", "x pads", "p", mode=mode), node("Conv", "p w", "y", pads=[1, 0, 0, 1]), node("Conv", "p v", "z")]
    known = {"pads": ints(0, 0, 1, 2, 0, 0, 0, 3), "w": weight(4, 3, 2, 2), "v": weight(5, 3, 3, 3)}
    check(model(nodes, {"x": (N, 3, 5, 6)}, {"y": FLOAT, "z": FLOAT}, known))


@pytest.mark.parametrize("sizes", [(4, 4), (4, 6)], ids=str)
@pytest.mark.parametrize("target", ["n rest", "rest n", "n c half two", "c n rest"])
def test_sizes_that_are_joined_to_a_shape(target, sizes):
    """Numbers joined to a shape were folded with the batch of the example, or in another order."""
    known = {"zero": ints(0), "one": ints(1), "two": ints(2), "rest": ints(-1)}
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "n", axis=0),
        node("Gather", "shape one", "c", axis=0),
        node("Shape", "x", "last", start=2),
        node("Div", "last two", "half"),
        node("Concat", target, "target", axis=0),
        node("Reshape", "x target", "y"),
    ]
    check(model(nodes, {"x": (N, *sizes)}, {"y": FLOAT}, known))


def test_the_reference_agrees_on_a_normalisation_over_the_channels():
    """ONNX Runtime is one judge; the specification's own evaluator is the other where an axis was mistaken."""
    made = Case(
        "LayerNormalization", ((N, 4, 4, 4), weight(4, 4, 4), weight(4, 4, 4, seed=1)), {"axis": 1}, outputs=(FLOAT,) * 3
    ).build()
    module = check(made)
    feeds = feeds_of(made, 3)
    compare(run_torch(module, feeds), ReferenceEvaluator(made).run(None, feeds))
