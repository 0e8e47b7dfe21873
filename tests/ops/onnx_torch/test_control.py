"""Branches, loops, sequences and optional values: as ONNX Runtime runs them, trainable, copied, saved and exported."""

import copy
import io

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from mlconverter import Converter
from tests.ops.onnx_torch.check import check, compare, run_torch
from tests.ops.onnx_torch.models import BOOL, FLOAT, INT64, N, model, node, weight

SIDE = 4


def info(name: str, kind: int = FLOAT, shape: list | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def graph(nodes: list, inputs: list, outputs: list, weights: dict[str, np.ndarray] | None = None) -> onnx.GraphProto:
    held = [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    return helper.make_graph(nodes, "body", inputs, outputs, held)


def branches() -> onnx.ModelProto:
    """One branch with a layer of its own, one with the weight of the graph around it."""
    then = graph([node("MatMul", "h v", "t"), node("Relu", "t", "p")], [], [info("p")], {"v": weight(SIDE, SIDE, seed=1)})
    otherwise = graph([node("MatMul", "h w", "s"), node("Tanh", "s", "q")], [], [info("q")])
    nodes = [
        node("MatMul", "x w", "h"),
        helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=otherwise, name="choice"),
    ]
    return model(nodes, {"x": [N, SIDE], "yes": (BOOL, [])}, {"y": FLOAT}, {"w": weight(SIDE, SIDE)})


def feed(batch: int, yes: bool) -> dict[str, np.ndarray]:
    x = np.random.default_rng(batch).standard_normal((batch, SIDE)).astype(np.float32)
    return {"x": x, "yes": np.array(yes)}


@pytest.mark.parametrize("yes", [True, False])
@pytest.mark.parametrize("batch", [1, 3])
def test_branches(batch, yes):
    check(branches(), feed(batch, yes))


def test_weights_of_branches_are_trained_and_tied():
    module = Converter(branches(), verify=False).to_torch()
    assert len(list(module.parameters())) == 2
    before = [p.detach().clone() for p in module.parameters()]
    for yes in (True, False):
        module(*(torch.from_numpy(a) for a in feed(3, yes).values())).square().sum().backward()
    torch.optim.SGD(module.parameters(), 0.1).step()
    assert all((a != b).any() for a, b in zip(before, module.parameters(), strict=True))


def test_trained_branches_find_their_way_back():
    converter = Converter(branches())
    module = converter.to_torch()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1)
    tuned = converter.to_origin_type(module)
    assert converter.report.verdict == "verified"
    then = next(a.g for a in tuned.graph.node[1].attribute if a.name == "then_branch")
    np.testing.assert_allclose(numpy_helper.to_array(then.initializer[0]), weight(SIDE, SIDE, seed=1) + 0.1, rtol=1e-6)
    np.testing.assert_allclose(numpy_helper.to_array(tuned.graph.initializer[0]), weight(SIDE, SIDE) + 0.1, rtol=1e-6)


def test_half_precision_weights_of_branches_are_seen_as_they_are_stored():
    then = graph(
        [helper.make_node("Cast", ["v"], ["w"], to=FLOAT), node("MatMul", "x w", "p")],
        [],
        [info("p")],
        {"v": weight(SIDE, SIDE).astype(np.float16)},
    )
    otherwise = graph([node("Neg", "x", "q")], [], [info("q")])
    made = model(
        [helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=otherwise)],
        {"x": [N, SIDE], "yes": (BOOL, [])},
        {"y": FLOAT},
    )
    converter = Converter(made)
    module = converter.to_torch()
    (parameter,) = module.parameters()
    assert parameter.dtype == torch.float32
    with torch.no_grad():
        parameter.add_(1e-5)  # less than half a step of most
    tuned = converter.to_origin_type(module)
    compare(run_torch(module, feed(3, True)), run_torch(Converter(tuned, verify=False).to_torch(), feed(3, True)))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, "saved"])
def test_copies_have_their_branches(how):
    module = Converter(branches(), verify=False).to_torch()
    if how == "saved":
        file = io.BytesIO()
        torch.save(module, file)
        file.seek(0)
        twin = torch.load(file, weights_only=False)
    else:
        twin = how(module)
    assert twin.state_dict().keys() == module.state_dict().keys()
    for yes in (True, False):
        compare(run_torch(twin, feed(2, yes)), run_torch(module, feed(2, yes)))


def test_a_changed_branch_is_noticed():
    converter = Converter(branches())
    module = converter.to_torch()
    part = module.get_submodule("choice_then")
    relu = next(n for n in part.graph.nodes if "relu" in str(n.target))
    relu.target, relu.kwargs = torch.sigmoid, {}
    part.recompile()
    tuned = converter.to_origin_type(module)
    assert any("choice_then" in note for step in converter.report.steps for note in step.notes), converter.report
    assert "Sigmoid" in str(tuned)


def test_branches_are_exported():
    module = Converter(branches(), verify=False).to_torch()
    inputs = tuple(torch.from_numpy(a) for a in feed(3, True).values())
    program = torch.export.export(module, inputs, dynamic_shapes=({0: torch.export.Dim.DYNAMIC}, None))
    for yes in (True, False):
        for batch in (2, 5):
            given = tuple(torch.from_numpy(a) for a in feed(batch, yes).values())
            torch.testing.assert_close(program.module()(*given), module(*given))


def test_a_decided_branch_is_no_branch():
    made = branches()
    made.graph.input.pop()
    made.graph.initializer.append(numpy_helper.from_array(np.array(False), "yes"))
    module = check(made)
    assert "branch" not in module.code and "tanh" in module.code


def test_a_branch_that_gives_constants_and_values_from_outside():
    ones = numpy_helper.from_array(np.ones((1, SIDE), np.float32))
    then = graph([helper.make_node("Constant", [], ["c"], value=ones)], [], [info("c")])
    otherwise = graph([node("Identity", "h", "i")], [], [info("i")])
    made = model(
        [node("Neg", "x", "h"), helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=otherwise)],
        {"x": [1, SIDE], "yes": (BOOL, [])},
        {"y": FLOAT},
    )
    for yes in (True, False):
        check(made, feed(1, yes))


def test_a_branch_reads_a_weight_whose_elements_are_moved_outside_of_it():
    then = graph([node("MatMul", "x part", "p")], [], [info("p")])
    otherwise = graph([node("Add", "x x", "q")], [], [info("q")])
    nodes = [
        node("Slice", "w starts ends axes", "part"),
        helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=otherwise),
    ]
    weights = {"w": weight(SIDE, 2 * SIDE), "starts": np.array([1]), "ends": np.array([1 + SIDE]), "axes": np.array([1])}
    made = model(nodes, {"x": [N, SIDE], "yes": (BOOL, [])}, {"y": FLOAT}, weights)
    for yes in (True, False):
        module = check(made, feed(3, yes))
    assert [tuple(p.shape) for p in module.parameters()] == [(SIDE, 2 * SIDE)]


def test_branches_in_branches_reach_all_the_way_out():
    inner_then = graph([node("Add", "x h", "a")], [], [info("a")])
    inner_else = graph([node("MatMul", "h w", "b")], [], [info("b")])
    then = graph([helper.make_node("If", ["no"], ["c"], then_branch=inner_then, else_branch=inner_else)], [], [info("c")])
    otherwise = graph([node("Shape", "x", "s"), node("ConstantOfShape", "s", "d")], [], [info("d")])
    nodes = [
        node("Relu", "x", "h"),
        node("Not", "yes", "no"),
        helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=otherwise),
    ]
    made = model(nodes, {"x": [N, SIDE], "yes": (BOOL, [])}, {"y": FLOAT}, {"w": weight(SIDE, SIDE)})
    for batch in (1, 3):
        for yes in (True, False):
            check(made, feed(batch, yes))


def looping(*, collects: bool = True, limit: float | None = None, count: bool = True) -> onnx.ModelProto:
    """h ← h + tanh(h w)² + x for positive x, as long as its sum is below a limit; each step's value collected."""
    nodes = [node("MatMul", "h w", "m"), node("Tanh", "m", "t"), node("Mul", "t t", "tt")]
    nodes += [node("Add", "h tt", "more"), node("Add", "more x", "next")]
    if limit is None:
        nodes.append(node("Identity", "go_in", "go"))
    else:
        nodes += [helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0), node("Less", "sum limit", "go")]
    outputs = [info("go", BOOL, []), info("next", FLOAT, [N, SIDE])]
    if collects:
        nodes.append(node("Neg", "next", "each"))
        outputs.append(info("each", FLOAT, [N, SIDE]))
    body = graph(nodes, [info("step", INT64, []), info("go_in", BOOL, []), info("h", FLOAT, [N, SIDE])], outputs)
    given = {"x": [N, SIDE], **({"count": (INT64, [])} if count else {}), "first": (BOOL, [])}
    results = ["y", "all"] if collects else ["y"]
    loop = helper.make_node("Loop", ["count" if count else "", "first", "x"], results, body=body, name="steps")
    weights = {"w": weight(SIDE, SIDE), **({} if limit is None else {"limit": np.array(limit, np.float32)})}
    made = model([loop], given, dict.fromkeys(results, FLOAT), weights)
    if collects:
        made.graph.output[1].CopyFrom(info("all", FLOAT, ["steps", N, SIDE]))
    return made


def steps(batch: int, count: int | None = 5, first: bool = True) -> dict[str, np.ndarray]:
    x = np.abs(np.random.default_rng(batch).standard_normal((batch, SIDE))).astype(np.float32)
    return {"x": x, **({} if count is None else {"count": np.array(count)}), "first": np.array(first)}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("count", "first"), [(5, True), (1, True), (0, True), (5, False)])
@pytest.mark.parametrize("collects", [True, False])
def test_loops(collects, count, first, batch):
    check(looping(collects=collects), steps(batch, count, first))


@pytest.mark.parametrize("limit", [3.0, 8.0, 1e6])
def test_loops_that_end_by_their_condition(limit):
    check(looping(limit=limit), steps(2, 7))
    if limit < 10:
        check(looping(limit=limit, count=False, collects=False), steps(2, None))


def test_loops_are_trained():
    module = Converter(looping(), verify=False).to_torch()
    y, _ = module(*(torch.from_numpy(a) for a in steps(3).values()))
    y.square().sum().backward()
    assert [p.grad is not None and bool(p.grad.abs().sum() > 0) for p in module.parameters()] == [True]


def test_a_loop_of_a_known_number_of_steps_is_exported():
    made = looping()
    del made.graph.input[1:]
    made.graph.initializer.extend(numpy_helper.from_array(np.array(v), n) for n, v in (("count", 3), ("first", True)))
    module = check(made)
    x = torch.rand(3, SIDE)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    x = torch.rand(5, SIDE)
    torch.testing.assert_close(program.module()(x), module(x))


def test_a_loop_of_an_unknown_number_of_steps_is_exported():
    module = Converter(looping(limit=8.0, collects=False), verify=False).to_torch()
    inputs = tuple(torch.from_numpy(a) for a in steps(3).values())
    program = torch.export.export(module, inputs)
    for count in (0, 2, 9):
        given = tuple(torch.from_numpy(a) for a in steps(3, count).values())
        torch.testing.assert_close(program.module()(*given), module(*given))


def test_loops_in_loops():
    inner = graph(
        [node("Add", "a x", "a_next"), node("Identity", "g_in", "g")],
        [info("i", INT64, []), info("g_in", BOOL, []), info("a", FLOAT, [N, SIDE])],
        [info("g", BOOL, []), info("a_next", FLOAT, [N, SIDE])],
    )
    outer = graph(
        [
            helper.make_node("Loop", ["step", "", "h"], ["b"], body=inner),
            node("Mul", "b half", "next"),
            node("Identity", "go_in", "go"),
        ],
        [info("step", INT64, []), info("go_in", BOOL, []), info("h", FLOAT, [N, SIDE])],
        [info("go", BOOL, []), info("next", FLOAT, [N, SIDE])],
    )
    made = model(
        [helper.make_node("Loop", ["count", "", "x"], ["y"], body=outer)],
        {"x": [N, SIDE], "count": (INT64, [])},
        {"y": FLOAT},
        {"half": np.array(0.5, np.float32)},
    )
    for batch in (1, 3):
        given = steps(batch, 4)
        check(made, {k: given[k] for k in ("x", "count")})


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
def test_scans(attributes):
    body = graph(
        [node("MatMul", "h w", "m"), node("Add", "m e", "next"), node("Relu", "next", "each")],
        [info("h", FLOAT, [SIDE]), info("e", FLOAT, [SIDE])],
        [info("next", FLOAT, [SIDE]), info("each", FLOAT, [SIDE])],
    )
    shape = [SIDE, N] if "scan_input_axes" in attributes else [N, SIDE]
    scan = helper.make_node("Scan", ["first", "x"], ["last", "all"], body=body, num_scan_inputs=1, **attributes)
    made = model([scan], {"first": [SIDE], "x": shape}, {"last": FLOAT, "all": FLOAT}, {"w": weight(SIDE, SIDE, scale=0.5)})
    made.graph.output[1].CopyFrom(info("all", FLOAT, [None, None]))
    module = check(made)
    assert len(list(module.parameters())) == 1


def test_sequences():
    nodes = [
        node("SequenceEmpty", "", "empty"),
        node("SequenceInsert", "empty x", "one"),
        node("Neg", "x", "minus"),
        node("SequenceInsert", "one minus zero", "two"),
        node("SplitToSequence", "x", "rows", axis=1, keepdims=1),
        node("SequenceLength", "rows", "count"),
        node("SequenceErase", "rows zero", "fewer"),
        node("ConcatFromSequence", "fewer", "joined", axis=1),
        node("SequenceAt", "two last", "picked"),
        node("ConcatFromSequence", "two", "stacked", axis=0, new_axis=1),
    ]
    outputs = {"count": INT64, "joined": FLOAT, "picked": FLOAT, "stacked": FLOAT}
    made = model(nodes, {"x": [N, SIDE], "last": (INT64, [])}, outputs, {"zero": np.array(0)})
    for batch in (1, 3):
        for last in (0, 1, -1):
            check(made, {"x": feed(batch, True)["x"], "last": np.array(last)})


def test_a_sequence_that_a_loop_fills():
    sequence = helper.make_tensor_sequence_value_info("rows_in", FLOAT, None)
    body = graph(
        [node("Mul", "x two", "more"), node("SequenceInsert", "rows_in more", "rows_out"), node("Identity", "go_in", "go")],
        [info("step", INT64, []), info("go_in", BOOL, []), sequence],
        [info("go", BOOL, []), helper.make_tensor_sequence_value_info("rows_out", FLOAT, None)],
    )
    nodes = [
        node("SequenceConstruct", "x", "start"),
        helper.make_node("Loop", ["count", "", "start"], ["rows"], body=body),
        node("ConcatFromSequence", "rows", "y", axis=0),
    ]
    made = model(nodes, {"x": [N, SIDE], "count": (INT64, [])}, {"y": FLOAT}, {"two": np.array(2, np.float32)})
    for count in (0, 3):
        check(made, {"x": feed(2, True)["x"], "count": np.array(count)})


def test_a_position_outside_of_a_sequence_is_an_error():
    nodes = [node("SequenceConstruct", "x x", "two"), node("SequenceAt", "two i", "y")]
    module = Converter(model(nodes, {"x": [N, SIDE], "i": (INT64, [])}, {"y": FLOAT}), verify=False).to_torch()
    with pytest.raises(IndexError, match="position 2 of a sequence of 2 tensors"):
        module(torch.zeros(1, SIDE), torch.tensor(2))


def test_mapped_sequences():
    body = graph([node("MatMul", "e w", "m"), node("Add", "m b", "f")], [info("e"), info("b")], [info("f")])
    nodes = [
        node("SplitToSequence", "x", "rows", axis=0, keepdims=1),
        helper.make_node("SequenceMap", ["rows", "bias"], ["mapped"], body=body),
        node("ConcatFromSequence", "mapped", "y", axis=0),
    ]
    made = model(nodes, {"x": [N, SIDE], "bias": [SIDE]}, {"y": FLOAT}, {"w": weight(SIDE, SIDE)})
    module = Converter(made, verify=False).to_torch()
    x, b = torch.rand(3, SIDE), torch.rand(SIDE)
    torch.testing.assert_close(module(x, b), x @ torch.from_numpy(weight(SIDE, SIDE)) + b)


def test_optional_values():
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [SIDE]))
    made = model([node("OptionalHasElement", "x", "there")], {}, {"there": BOOL}, opset=18)
    made.graph.input.append(helper.make_value_info("x", optional))
    module = Converter(made, verify=False).to_torch()
    assert module(None).item() is False and module(torch.zeros(SIDE)).item() is True


def test_types_of_collected_values_that_were_never_computed():
    body = graph(
        [node("Cast", "step", "each", to=TensorProto.INT32), node("Identity", "go_in", "go")],
        [info("step", INT64, []), info("go_in", BOOL, [])],
        [info("go", BOOL, []), info("each", TensorProto.INT32, [])],
    )
    made = model([helper.make_node("Loop", ["count", ""], ["y"], body=body)], {"count": (INT64, [])}, {"y": TensorProto.INT32})
    for count in (0, 3):
        check(made, {"count": np.array(count)})
