"""Branches and loops become graphs of the file: LiteRT gives what ONNX Runtime gives, whatever is decided at run time."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mlconverter import Converter
from mlconverter.errors import UnsupportedOpsError
from mlconverter.formats.tflite.model import TFLiteModel
from tests.ops.onnx_tflite.check import check, operators
from tests.ops.onnx_torch.models import BOOL, FLOAT, INT64, N, model, node, weight
from tests.ops.onnx_torch.test_control import SIDE, branches, feed, graph, info, looping, steps


def checked(made: onnx.ModelProto, *feeds: dict[str, np.ndarray]) -> TFLiteModel:
    for given in feeds:
        converted = check(made, given)
    return converted


def both_ways(*batches: int) -> list[dict[str, np.ndarray]]:
    return [feed(batch, yes) for batch in batches for yes in (True, False)]


# -- branches ----------------------------------------------------------------------------------------------------------


def test_branches():
    made = checked(branches(), *both_ways(1, 3))
    assert operators(made)["IF"] == 1 and len(made.structure.subgraphs) == 3


@pytest.mark.parametrize("opset", [11, 13, 16, 19, 21, 23, 24])
def test_opsets(opset):
    made = branches()
    made.opset_import[0].version = opset
    checked(made, *both_ways(3))


def test_a_decided_branch_is_no_branch():
    made = branches()
    made.graph.input.pop()
    made.graph.initializer.append(numpy_helper.from_array(np.array(False), "yes"))
    assert "IF" not in operators(check(made))


def test_a_branch_that_gives_constants_and_values_from_outside():
    ones = numpy_helper.from_array(np.ones((1, SIDE), np.float32))
    then = graph([helper.make_node("Constant", [], ["c"], value=ones)], [], [info("c")])
    otherwise = graph([node("Identity", "h", "i")], [], [info("i")])
    nodes = [node("Neg", "x", "h"), helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=otherwise)]
    checked(model(nodes, {"x": [1, SIDE], "yes": (BOOL, [])}, {"y": FLOAT}), *both_ways(1))


def test_a_branch_that_gives_one_value_twice():
    then = graph([node("Neg", "x", "a"), node("Identity", "a", "d")], [], [info("a"), info("d")])
    otherwise = graph([node("Abs", "x", "b"), node("Relu", "x", "c")], [], [info("b"), info("c")])
    nodes = [helper.make_node("If", ["yes"], ["y", "z"], then_branch=then, else_branch=otherwise)]
    checked(model(nodes, {"x": [N, SIDE], "yes": (BOOL, [])}, {"y": FLOAT, "z": FLOAT}), *both_ways(1, 3))


def test_branches_of_different_sizes():
    then = graph([node("Concat", "x x", "a", axis=1)], [], [info("a")])
    otherwise = graph([node("Neg", "x", "b")], [], [info("b")])
    nodes = [helper.make_node("If", ["yes"], ["h"], then_branch=then, else_branch=otherwise), node("Relu", "h", "y")]
    checked(model(nodes, {"x": [N, SIDE], "yes": (BOOL, [])}, {"y": FLOAT}), *both_ways(1, 3))


def test_branches_of_different_ranks_are_refused():
    then = graph([node("Squeeze", "x", "a")], [], [info("a")])
    otherwise = graph([node("Neg", "x", "b")], [], [info("b")])
    nodes = [helper.make_node("If", ["yes"], ["h"], then_branch=then, else_branch=otherwise), node("Relu", "h", "y")]
    made = model(nodes, {"x": [1, SIDE], "yes": (BOOL, [])}, {"y": FLOAT})
    with pytest.raises(UnsupportedOpsError, match="branches that give tensors of different ranks, which TFLite cannot say"):
        Converter(made, verify=False).to_tflite()


def test_what_only_a_branch_refuses_is_said():
    then = graph([node("Det", "x", "a")], [], [info("a")])
    otherwise = graph([node("ReduceSum", "x", "b")], [], [info("b")])
    nodes = [helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=otherwise)]
    with pytest.raises(UnsupportedOpsError, match="Det"):
        Converter(model(nodes, {"x": [SIDE, SIDE], "yes": (BOOL, [])}, {"y": FLOAT}), verify=False).to_tflite()


def test_images_are_brought_into_order_outside_of_branches():
    then = graph([node("Conv", "h w", "a", pads=[1] * 4)], [], [info("a")])
    otherwise = graph([node("Conv", "h v", "b"), node("Relu", "b", "c")], [], [info("c")])
    nodes = [node("Relu", "x", "h"), helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=otherwise)]
    weights = {"w": weight(4, 3, 3, 3), "v": weight(4, 3, 1, 1)}
    made = model(nodes, {"x": [N, 3, 5, 6], "yes": (BOOL, [])}, {"y": FLOAT}, weights)
    rng = np.random.default_rng(0)
    for batch in (1, 3):
        x = rng.normal(size=(batch, 3, 5, 6)).astype(np.float32)
        converted = checked(made, *({"x": x, "yes": np.array(yes)} for yes in (True, False)))
    assert operators(converted)["TRANSPOSE"] == 1


def test_a_value_that_only_a_branch_reads_stays_as_it_is():
    """What gives it is outside; the activation within the branch is not fused into it."""
    then = graph([node("Relu", "h", "a")], [], [info("a")])
    otherwise = graph([node("Tanh", "x", "b"), node("MatMul", "b w", "c")], [], [info("c")])
    nodes = [node("MatMul", "x w", "h"), helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=otherwise)]
    made = model(nodes, {"x": [N, SIDE], "yes": (BOOL, [])}, {"y": FLOAT}, {"w": weight(SIDE, SIDE)})
    checked(made, *both_ways(1, 3))


def test_branches_in_branches_reach_all_the_way_out():
    inner_then = graph([node("Add", "x h", "a")], [], [info("a")])
    inner_else = graph([node("MatMul", "h w", "b")], [], [info("b")])
    then = graph([helper.make_node("If", ["no"], ["c"], then_branch=inner_then, else_branch=inner_else)], [], [info("c")])
    otherwise = graph([node("Shape", "x", "s"), node("ConstantOfShape", "s", "d")], [], [info("d")])
    nodes = [
        node("Relu", "x", "h"),
        node("And", "yes other", "no"),
        helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=otherwise),
    ]
    inputs = {"x": [N, SIDE], "yes": (BOOL, []), "other": (BOOL, [])}
    made = model(nodes, inputs, {"y": FLOAT}, {"w": weight(SIDE, SIDE)})
    checked(made, *({**given, "other": np.array(other)} for given in both_ways(1, 3) for other in (True, False)))


# -- loops -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("count", "first"), [(5, True), (1, True), (0, True), (5, False)])
def test_loops(count, first, batch):
    made = check(looping(collects=False), steps(batch, count, first))
    assert operators(made)["WHILE"] == 1


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("count", [1, 5, 64, 130])
def test_loops_that_collect(count, batch):
    """At least one step: LiteRT hands out no empty tensor whose size it has computed."""
    given = steps(batch, count)
    given["x"] /= 1000
    assert operators(check(looping(), given))["WHILE"] == 1


@pytest.mark.parametrize("limit", [3.0, 8.0, 1e6])
def test_loops_that_end_by_their_condition(limit):
    check(looping(limit=limit), steps(2, 7))
    if limit < 10:
        check(looping(limit=limit, count=False, collects=False), steps(2, None))


@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize("collects", [True, False])
def test_loops_of_a_known_number_of_steps(count, collects):
    made = looping(collects=collects)
    del made.graph.input[1:]
    made.graph.initializer.extend(numpy_helper.from_array(np.array(v), n) for n, v in (("count", count), ("first", True)))
    for batch in (1, 3):
        rng = np.random.default_rng(batch)
        converted = check(made, {"x": rng.uniform(0, 0.01, (batch, SIDE)).astype(np.float32)})
    assert operators(converted)["WHILE"] == (count == 40)


def loop_over(nodes: list, outputs: list, carried: list, results: dict[str, int], count: int | None, **given) -> onnx.ModelProto:
    body = graph([*nodes, node("Identity", "go_in", "go")], [info("step", INT64, []), info("go_in", BOOL, []), *carried], outputs)
    held = {} if count is None else {"count": np.array(count)}
    inputs = {"x": [N, SIDE], **given, **({"count": (INT64, [])} if count is None else {})}
    loop = helper.make_node("Loop", ["count", "", *(["x"] if carried else [])], list(results), body=body)
    return model([loop], inputs, results, held)


@pytest.mark.parametrize("count", [None, 3, 40])
def test_values_that_grow_from_step_to_step(count):
    made = loop_over(
        [node("Concat", "h h", "hh", axis=1), node("Slice", "hh start end axis", "next")]
        if count == 40
        else [node("Concat", "h x", "next", axis=1)],
        [info("go", BOOL, []), info("next", FLOAT, [N, None])],
        [info("h", FLOAT, [N, None])],
        {"y": FLOAT},
        count,
    )
    for name, number in (("start", 1), ("end", 6), ("axis", 1)):
        made.graph.initializer.append(numpy_helper.from_array(np.array([number]), name))
    for batch in (1, 3):
        given = steps(batch, 4)
        checked(made, {k: given[k] for k in (("x", "count") if count is None else ("x",))})


@pytest.mark.parametrize("count", [None, 3, 40])
def test_the_number_of_the_step_and_integers_are_collected(count):
    made = loop_over(
        [helper.make_node("Cast", ["step"], ["each"], to=TensorProto.INT32), node("Mul", "step step", "square")],
        [info("go", BOOL, []), info("each", TensorProto.INT32, []), info("square", INT64, [])],
        [],
        {"y": TensorProto.INT32, "z": INT64},
        count,
    )
    del made.graph.input[0]
    if count is None:
        checked(made, {"count": np.array(1)}, {"count": np.array(5)})
    else:
        made.graph.node.append(node("Neg", "x", "n"))
        made.graph.input.append(info("x", FLOAT, [SIDE]))
        made.graph.output.append(info("n", FLOAT, [SIDE]))
        check(made)


def test_values_that_change_places():
    made = loop_over(
        [node("Identity", "h", "b"), node("Add", "h g", "a")],
        [info("go", BOOL, []), info("a", FLOAT, [N, SIDE]), info("b", FLOAT, [N, SIDE])],
        [info("h", FLOAT, [N, SIDE]), info("g", FLOAT, [N, SIDE])],
        {"y": FLOAT, "z": FLOAT},
        None,
    )
    made.graph.node[0].input.append("x")
    for batch in (1, 3):
        given = steps(batch, 4)
        checked(made, {k: given[k] for k in ("x", "count")})


def test_a_sole_reader_within_a_loop_is_not_the_only_one():
    """What stands before the loop is read in every step."""
    made = loop_over(
        [node("Relu", "outside", "r"), node("Sub", "h r", "next")],
        [info("go", BOOL, []), info("next", FLOAT, [N, SIDE])],
        [info("h", FLOAT, [N, SIDE])],
        {"y": FLOAT},
        3,
    )
    made.graph.node.insert(0, node("MatMul", "x w", "outside"))
    made.graph.initializer.append(numpy_helper.from_array(weight(SIDE, SIDE), "w"))
    check(made)


def test_loops_in_loops():
    inner = graph(
        [node("Add", "a x", "a_next"), node("Identity", "g_in", "g")],
        [info("i", INT64, []), info("g_in", BOOL, []), info("a", FLOAT, [N, SIDE])],
        [info("g", BOOL, []), info("a_next", FLOAT, [N, SIDE])],
    )
    outer = [helper.make_node("Loop", ["step", "", "h"], ["b"], body=inner), node("Mul", "b half", "next")]
    made = loop_over(
        outer, [info("go", BOOL, []), info("next", FLOAT, [N, SIDE])], [info("h", FLOAT, [N, SIDE])], {"y": FLOAT}, None
    )
    made.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "half"))
    for batch in (1, 3):
        given = steps(batch, 4)
        checked(made, {k: given[k] for k in ("x", "count")})


KINDS = "FLOAT FLOAT16 DOUBLE INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UINT64 BOOL".split()


@pytest.mark.parametrize("count", [None, 3, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_element_types_that_loops_carry_and_collect(kind, count):
    number = TensorProto.DataType.Value(kind)
    body = graph(
        [node("Transpose", "h", "next", perm=[1, 0]), node("Identity", "go_in", "go"), node("Identity", "next", "each")],
        [info("step", INT64, []), info("go_in", BOOL, []), info("h", number, [SIDE, SIDE])],
        [info("go", BOOL, []), info("next", number, [SIDE, SIDE]), info("each", number, [SIDE, SIDE])],
    )
    loop = helper.make_node("Loop", ["count", "", "x"], ["y", "z"], body=body)
    inputs = {"x": (number, [SIDE, SIDE]), **({"count": (INT64, [])} if count is None else {})}
    made = model([loop], inputs, {"y": number, "z": number}, {} if count is None else {"count": np.array(count)})
    x = np.random.default_rng(0).integers(0, 2, (SIDE, SIDE)).astype(helper.tensor_dtype_to_np_dtype(number))
    if count == 3 and kind == "DOUBLE":  # written out step by step
        with pytest.raises(UnsupportedOpsError, match="CONCATENATION does not take"):
            Converter(made, verify=False).to_tflite()
        return
    checked(made, {"x": x, **({"count": np.array(70)} if count is None else {})})


@pytest.mark.parametrize("kind", KINDS)
def test_element_types_of_branches(kind):
    number = TensorProto.DataType.Value(kind)
    then = graph([node("Transpose", "x", "a", perm=[1, 0])], [], [info("a", number)])
    otherwise = graph([node("Identity", "x", "b")], [], [info("b", number)])
    nodes = [helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=otherwise)]
    made = model(nodes, {"x": (number, [SIDE, SIDE]), "yes": (BOOL, [])}, {"y": number})
    x = np.random.default_rng(0).integers(0, 2, (SIDE, SIDE)).astype(helper.tensor_dtype_to_np_dtype(number))
    checked(made, *({"x": x, "yes": np.array(yes)} for yes in (True, False)))


@pytest.mark.parametrize("count", [None, 3, 40])
def test_what_a_loop_refuses_is_said_once(count):
    body = graph(
        [node("Exp", "n", "next"), node("Identity", "go_in", "go")],
        [info("step", INT64, []), info("go_in", BOOL, []), info("n", TensorProto.DOUBLE, [SIDE])],
        [info("go", BOOL, []), info("next", TensorProto.DOUBLE, [SIDE])],
    )
    loop = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    inputs = {"x": (TensorProto.DOUBLE, [SIDE]), **({"count": (INT64, [])} if count is None else {})}
    made = model([loop], inputs, {"y": TensorProto.DOUBLE}, {} if count is None else {"count": np.array(count)})
    with pytest.raises(UnsupportedOpsError) as caught:
        Converter(made, verify=False).to_tflite()
    assert [(op.op, op.count, op.reason) for op in caught.value.ops] == [("Exp", 1, "LiteRT's EXP does not take float64")]


def test_a_loop_without_an_end_is_refused():
    body = graph(
        [node("Neg", "h", "next"), node("Identity", "go_in", "go")],
        [info("step", INT64, []), info("go_in", BOOL, []), info("h", FLOAT, [SIDE])],
        [info("go", BOOL, []), info("next", FLOAT, [SIDE])],
    )
    made = model([helper.make_node("Loop", ["", "", "x"], ["y"], body=body)], {"x": [SIDE]}, {"y": FLOAT})
    with pytest.raises(UnsupportedOpsError, match="a loop that never ends"):
        Converter(made, verify=False).to_tflite()


def test_a_value_that_changes_its_rank_is_refused():
    made = loop_over(
        [node("Unsqueeze", "h zero", "next")],
        [info("go", BOOL, []), info("next", FLOAT)],
        [info("h", FLOAT)],
        {"y": FLOAT},
        None,
    )
    made.graph.initializer.append(numpy_helper.from_array(np.array([0]), "zero"))
    with pytest.raises(UnsupportedOpsError, match="changes its rank from step to step, which TFLite cannot say"):
        Converter(made, verify=False).to_tflite()


@pytest.mark.parametrize("count", [None, 3, 40])
def test_a_branch_within_a_loop(count):
    """Nothing says the shapes of what is carried and collected."""
    then = graph([node("Add", "h x", "a")], [], [info("a")])
    otherwise = graph([node("MatMul", "h w", "m"), node("Tanh", "m", "c")], [], [info("c")])
    nodes = [
        node("Mod", "step two", "rest"),
        helper.make_node("Cast", ["rest"], ["odd"], to=BOOL),
        helper.make_node("If", ["odd"], ["next"], then_branch=then, else_branch=otherwise),
        node("Relu", "next", "each"),
    ]
    made = loop_over(nodes, [info("go", BOOL, []), info("next"), info("each")], [info("h")], {"y": FLOAT, "z": FLOAT}, count)
    for name, value in (("w", weight(SIDE, SIDE, scale=0.3)), ("two", np.array(2))):
        made.graph.initializer.append(numpy_helper.from_array(value, name))
    for batch in (1, 3):
        given = steps(batch, 4)
        checked(made, {k: given[k] for k in (("x", "count") if count is None else ("x",))})


@pytest.mark.parametrize("length", [6, "length"])
def test_recurrence_within_branches(length):
    then = graph([node("LSTM", "x w r", "_ a", hidden_size=4)], [], [info("a")])
    otherwise = graph([node("GRU", "x v q", "_ b", hidden_size=4, direction="reverse")], [], [info("b")])
    for part in (then, otherwise):
        part.node[0].output[0] = ""
    weights = {"w": weight(1, 16, 3), "r": weight(1, 16, 4), "v": weight(1, 12, 3), "q": weight(1, 12, 4)}
    nodes = [helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=otherwise)]
    made = model(nodes, {"x": [length, N, 3], "yes": (BOOL, [])}, {"y": FLOAT}, weights)
    for batch in (1, 3):
        x = np.random.default_rng(batch).normal(size=(6, batch, 3)).astype(np.float32)
        checked(made, *({"x": x, "yes": np.array(yes)} for yes in (True, False)))


def test_images_within_a_loop():
    made = loop_over(
        [node("Conv", "h w", "m", pads=[1] * 4), node("Add", "m x", "s"), node("Relu", "s", "next")],
        [info("go", BOOL, []), info("next", FLOAT, [N, 3, 5, 6])],
        [info("h", FLOAT, [N, 3, 5, 6])],
        {"y": FLOAT},
        None,
        x=[N, 3, 5, 6],
    )
    made.graph.initializer.append(numpy_helper.from_array(weight(3, 3, 3, 3, scale=0.1), "w"))
    for batch in (1, 3):
        x = np.random.default_rng(batch).normal(size=(batch, 3, 5, 6)).astype(np.float32)
        checked(made, {"x": x, "count": np.array(4)})


def test_verification_runs_graphs_within_the_graph():
    for made in (branches(), looping(collects=False)):
        converter = Converter(made, verify="full")
        converter.to_tflite()
        assert converter.report.verdict == "verified"


# -- scans -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [N, 1, 3, 50, 128, 130])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scan_input_axes": [1]},
        {"scan_input_directions": [1]},
        {"scan_output_axes": [1]},
        {"scan_output_axes": [-1], "scan_output_directions": [1]},
    ],
    ids=str,
)
def test_scans(attributes, length):
    body = graph(
        [node("MatMul", "h w", "m"), node("Add", "m e", "next"), node("Relu", "next", "each")],
        [info("h", FLOAT, [SIDE]), info("e", FLOAT, [SIDE])],
        [info("next", FLOAT, [SIDE]), info("each", FLOAT, [SIDE])],
    )
    shape = [SIDE, length] if "scan_input_axes" in attributes else [length, SIDE]
    scan = helper.make_node("Scan", ["first", "x"], ["last", "all"], body=body, num_scan_inputs=1, **attributes)
    made = model([scan], {"first": [SIDE], "x": shape}, {"last": FLOAT, "all": FLOAT}, {"w": weight(SIDE, SIDE, scale=0.3)})
    made.graph.output[1].CopyFrom(info("all", FLOAT, [None, None]))
    assert operators(check(made))["WHILE"] == (length not in (1, 3))


@pytest.mark.parametrize("length", [2, 50])
def test_scans_over_batches(length):
    body = graph(
        [node("Add", "h e", "next"), node("Mul", "next f", "each")],
        [info("h", FLOAT, [2]), info("e", FLOAT, [2]), info("f", FLOAT, [2])],
        [info("next", FLOAT, [2]), info("each", FLOAT, [2])],
    )
    scan = helper.make_node("Scan", ["", "s", "x", "z"], ["l", "a"], body=body, num_scan_inputs=2, directions=[0, 1])
    inputs = {"s": [3, 2], "x": [3, length, 2], "z": [3, length, 2]}
    check(model([scan], inputs, {"l": FLOAT, "a": FLOAT}, opset=8))


# -- bounds that are computed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(0, 5), (1, 3), (-2, 5), (-9, 2), (2, 2**62), (-(2**62), 3), (2, -1)], ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_slices_between_bounds_that_are_computed(bounds, axis):
    nodes = [node("Relu", "x", "h"), helper.make_node("Slice", ["h", "start", "end", "axis"], ["y"])]
    inputs = {"x": [4, 5, 6], "start": (INT64, [1]), "end": (INT64, [1])}
    made = model(nodes, inputs, {"y": FLOAT}, {"axis": np.array([axis])})
    x = np.random.default_rng(0).normal(size=(4, 5, 6)).astype(np.float32)
    check(made, {"x": x, "start": np.array(bounds[:1]), "end": np.array(bounds[1:])})
