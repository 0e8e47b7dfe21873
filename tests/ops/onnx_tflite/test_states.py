"""States: inputs that are fed with an output of the call before, as variables that the file keeps itself."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mlconverter import Converter
from mlconverter.errors import ConversionError, SignatureError
from mlconverter.formats.tflite.model import TFLiteModel
from tests.ops.onnx_tflite.check import operators
from tests.ops.onnx_torch.check import compare
from tests.ops.onnx_torch.models import BOOL, FLOAT, INT64, N, ints, model, node, said, weight
from tests.ops.stateful import Feeds, States, calls, stateful

CALLS = 6
TYPES = ["FLOAT", "FLOAT16", "DOUBLE", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "BOOL"]
REAL = {"CAST", "DIV", "ROUND", "QUANTIZE", "DEQUANTIZE"}
"""What integers are computed with where no integer kernel does it, and what kernels on different grids are joined by."""


def shaped(made: onnx.ModelProto, **shapes: tuple) -> onnx.ModelProto:
    """The model with the shapes of its outputs said."""
    for value in made.graph.output:
        if value.name in shapes:
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shapes[value.name]))
    return made


def numbers(dtype: np.dtype, shape: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.uniform(-2, 2, shape).astype(dtype) if dtype.kind == "f" else rng.integers(0, 100, shape).astype(dtype)


def feeds_of(made: onnx.ModelProto, states: States, batch: int = 1) -> list[Feeds]:
    """Inputs of several calls."""
    given = [v for v in made.graph.input if v.name not in states]
    types = {v.name: v.type.tensor_type for v in given}
    shapes = {name: tuple(batch if d.dim_param else d.dim_value for d in t.shape.dim) for name, t in types.items()}
    dtypes = {name: helper.tensor_dtype_to_np_dtype(t.elem_type) for name, t in types.items()}
    return [{n: numbers(dtypes[n], shapes[n], 10 * call + i) for i, n in enumerate(types)} for call in range(CALLS)]


def check(made: onnx.ModelProto, states: States, rtol: float = 2e-5, **options) -> TFLiteModel:
    """Convert once, compare call by call with both sets of kernels."""
    result = Converter(stateful(made, states), verify=False).to_tflite(**options)
    feeds = feeds_of(made, states)
    want = list(calls(made, states, feeds))
    for kernels in ("default", "reference"):
        with result.runner(num_threads=1, kernels=kernels) as runner:
            for _ in range(2):
                for given, expected in zip(feeds, want, strict=True):
                    got = runner.run(given)
                    assert list(got) == list(expected)
                    compare(list(got.values()), list(expected.values()), rtol)
                runner.reset()
    return result


# -- what is kept ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1, 4, 6])
@pytest.mark.parametrize("kind", TYPES)
def test_what_came_in_one_call_before(kind: str, rank: int):
    if kind == "UINT64" and rank in (0, 6):
        pytest.skip("LiteRT has no kernel that copies them")
    number, shape = getattr(TensorProto, kind), (2,) * rank
    nodes = [node("Reshape", "s shape", "y"), node("Reshape", "x shape", "next")]
    made = model(nodes, {"x": (number, shape), "s": (number, shape)}, {"y": number, "next": number}, {"shape": ints(*shape)})
    dtype = helper.tensor_dtype_to_np_dtype(number)
    result = check(shaped(made, y=shape, next=shape), {"s": ("next", numbers(dtype, shape, 1))})
    assert (result.signature.input_names, result.signature.output_names) == (("x",), ("y",))


def test_a_recurrence_from_its_first_state_on():
    nodes = [node("Concat", "x h", "both", axis=1), node("Gemm", "both w b", "g"), node("Tanh", "g", "h_next")]
    nodes.append(node("MatMul", "h_next v", "y"))
    weights = {"w": weight(8, 5), "b": weight(5), "v": weight(5, 2)}
    made = model(nodes, {"x": (1, 3), "h": (1, 5)}, {"y": FLOAT, "h_next": FLOAT}, weights)
    result = check(shaped(made, y=(1, 2), h_next=(1, 5)), {"h": ("h_next", weight(1, 5, seed=3))})
    assert operators(result)["VAR_HANDLE"] == operators(result)["READ_VARIABLE"] == operators(result)["ASSIGN_VARIABLE"] == 1
    step = Converter(model=made, verify="full")
    step.to_tflite()
    assert step.report.steps[-1].verification.verdict == "verified"


def test_states_that_change_places():
    nodes = [node("Add", "a x", "b_next"), node("Identity", "b", "a_next"), node("Sub", "a b", "y")]
    made = model(nodes, {"x": (1, 3), "a": (1, 3), "b": (1, 3)}, {"a_next": FLOAT, "y": FLOAT, "b_next": FLOAT})
    check(made, {"a": ("a_next", weight(1, 3, seed=1)), "b": ("b_next", weight(1, 3, seed=2))})


def test_a_state_that_stays_and_one_that_becomes_a_constant():
    nodes = [node("Add", "x a", "t"), node("Mul", "t b", "y"), node("Identity", "a", "a_next"), node("Identity", "c", "b_next")]
    outputs = {"y": FLOAT, "a_next": FLOAT, "b_next": FLOAT}
    made = model(nodes, {"x": (1, 3), "a": (1, 3), "b": (1, 3)}, outputs, {"c": weight(1, 3, seed=5)})
    check(made, {"a": ("a_next", weight(1, 3, seed=1)), "b": ("b_next", weight(1, 3, seed=2))})


def test_a_state_that_is_an_output_as_well():
    nodes = [node("Add", "x s", "s_next"), node("Identity", "s_next", "y"), node("Identity", "s_next", "z")]
    made = model(nodes, {"x": (1, 3), "s": (1, 3)}, {"s_next": FLOAT, "y": FLOAT, "z": FLOAT})
    check(made, {"s": ("s_next", np.zeros((1, 3), np.float32))})


def test_a_state_that_branches_and_loops_read():
    then = helper.make_graph([node("Add", "s x", "a")], "then", [], [helper.make_tensor_value_info("a", FLOAT, (1, 3))])
    other = helper.make_graph([node("Identity", "s", "c")], "else", [], [helper.make_tensor_value_info("c", FLOAT, (1, 3))])
    body = helper.make_graph(
        [node("Identity", "go", "going"), node("Add", "v s", "w")],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, ()),
            helper.make_tensor_value_info("go", BOOL, ()),
            helper.make_tensor_value_info("v", FLOAT, (1, 3)),
        ],
        [helper.make_tensor_value_info("going", BOOL, ()), helper.make_tensor_value_info("w", FLOAT, (1, 3))],
    )
    nodes = [
        node("ReduceSum", "x", "total", keepdims=0),
        node("Greater", "total zero", "sign"),
        node("If", "sign", "s_next", then_branch=then, else_branch=other),
        node("Loop", "count _ x", "y", body=body),
    ]
    weights = {"zero": np.float32(0), "count": np.array(3)}
    made = model(nodes, {"x": (1, 3), "s": (1, 3)}, {"y": FLOAT, "s_next": FLOAT}, weights)
    check(shaped(made, y=(1, 3), s_next=(1, 3)), {"s": ("s_next", weight(1, 3, seed=2))})


def test_calls_without_inputs():
    made = model([node("Add", "n one", "n_next"), node("Mul", "n n", "y")], {"n": (1,)}, {"y": FLOAT, "n_next": FLOAT})
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1, np.float32), "one"))
    result = check(shaped(made, y=(1,), n_next=(1,)), {"n": ("n_next", np.float32([3]))})
    assert result.signature.inputs == ()


def test_what_the_metadata_name_and_the_model_has_not_is_no_state():
    made = model([node("Add", "x s", "y")], {"x": (1, 3), "s": (1, 3)}, {"y": FLOAT})
    result = Converter(stateful(made, {"s": ("lost", np.zeros((1, 3), np.float32))}), verify=False).to_tflite()
    assert result.signature.input_names == ("x", "s")


# -- integers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["INT8", "UINT8", "INT16"])
def test_integers_stay_integers(kind: str):
    """A stream: what came before stands in front of what comes, and a convolution goes over both."""
    number = getattr(TensorProto, kind)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    zero = np.array({"INT8": -3, "UINT8": 120, "INT16": 0}[kind], dtype)
    filters = np.random.default_rng(0).integers(-90, 90, (6, 4, 3, 1)).astype(np.int8)
    weights = {"k": np.float32(0.02), "z": zero, "w": filters, "wk": np.float32(0.01), "wz": np.int8(0), "yk": np.float32(0.05)}
    nodes = [
        node("DequantizeLinear", "x k z", "xr"),
        node("DequantizeLinear", "s k z", "sr"),
        node("DequantizeLinear", "w wk wz", "wr"),
        node("Concat", "sr xr", "both", axis=2),
        node("Slice", "both from to axes", "last"),
        node("QuantizeLinear", "last k z", "s_next"),
        node("Conv", "both wr b", "c"),
        node("QuantizeLinear", "c yk z", "y"),
    ]
    weights |= {"b": weight(6), "from": ints(1), "to": ints(3), "axes": ints(2)}
    made = model(nodes, {"x": (number, (1, 4, 1, 1)), "s": (number, (1, 4, 2, 1))}, {"y": number, "s_next": number}, weights)
    states = {"s": ("s_next", np.full((1, 4, 2, 1), zero))}
    made = stateful(shaped(made, y=(1, 6, 1, 1), s_next=(1, 4, 2, 1)), states)
    result = Converter(made, verify=False).to_tflite()
    feeds = feeds_of(made, states)
    for kernels in ("default", "reference"):
        with result.runner(num_threads=1, kernels=kernels) as runner:
            for given, want in zip(feeds, calls(made, states, feeds), strict=True):
                assert np.abs(runner.run(given)["y"].astype(int) - want["y"]).max() <= 1
    assert not (REAL - {"QUANTIZE"}) & operators(result).keys()
    if kind == "INT8":
        assert "QUANTIZE" not in operators(result)
    graph = result.structure.subgraphs[0]
    (read,) = [graph.tensors[o.outputs[0]] for o in graph.operators if o.op == "READ_VARIABLE"]
    (assigned,) = [graph.tensors[o.inputs[1]] for o in graph.operators if o.op == "ASSIGN_VARIABLE"]
    assert read.grid == assigned.grid and read.grid is not None
    assert (read.grid.scale, read.grid.zero_point) == ((pytest.approx(0.02),), (int(zero),))


# -- the border --------------------------------------------------------------------------------------------------------


def delayed(batch=1) -> onnx.ModelProto:
    nodes = [node("Conv", "both w", "y"), node("Identity", "x", "s_next")]
    nodes.insert(0, node("Concat", "s x", "both", axis=2))
    made = model(nodes, {"x": (batch, 3, 2, 5), "s": (batch, 3, 2, 5)}, {"y": FLOAT, "s_next": FLOAT}, {"w": weight(4, 3, 3, 3)})
    return shaped(made, y=(batch, 4, 2, 3), s_next=(batch, 3, 2, 5))


def test_a_layout_is_for_what_people_see():
    made, states = delayed(), {"s": ("s_next", weight(1, 3, 2, 5, seed=4))}
    converter = Converter(stateful(made, states), verify="full")
    result = converter.to_tflite(io_layout="channels_last")
    assert result.signature.inputs[0].shape == (1, 2, 5, 3)
    assert converter.report.steps[-1].verification.verdict == "verified"
    with pytest.raises(SignatureError, match="neither input nor output"):
        Converter(made, verify=False).to_tflite(io_layout=(("s", "channels_last"),))


def test_back_and_forth():
    states = {"s": ("s_next", weight(1, 3, 2, 5, seed=4))}
    made = Converter(stateful(delayed(), states), verify=False).to_tflite()
    assert not made.structure.metadata
    onnx_again = Converter(bytes(made), verify=False).to_onnx()
    assert [v.name for v in onnx_again.graph.input] == ["x", "s"]
    assert [v.name for v in onnx_again.graph.output] == ["y", "s_next"]
    assert bytes(Converter(onnx_again, verify="full").to_tflite()) == bytes(Converter(onnx_again, verify="full").to_tflite())
    # What was read from bytes and what was just written say the same of variables.
    assert Converter(made, verify=False).to_onnx().graph.input == onnx_again.graph.input


def test_a_batch_that_states_have_is_fixed():
    states = {"s": ("s_next", weight(1, 3, 2, 5, seed=4))}
    assert check(delayed(N), states).signature.inputs[0].shape == (1, 3, 2, 5)
    converter = Converter(stateful(delayed(N), states), verify="full")
    converter.to_tflite()
    step = converter.report.steps[-1]
    assert step.verification.verdict == "verified" and any("'batch' is fixed at 1" in note for note in step.notes)


@pytest.mark.parametrize("batch", [1, N])
def test_states_cannot_be_of_any_batch(batch: int | str):
    states = {"s": ("s_next", weight(1, 3, 2, 5, seed=4))}
    with pytest.raises(ConversionError, match="of a fixed size"):
        Converter(stateful(delayed(batch), states), verify=False).to_tflite(dynamic_batch=True)


def test_half_precision_weights_leave_states_alone():
    nodes = [node("MatMul", "h w", "g"), node("Add", "g x", "h_next"), node("Neg", "h_next", "y")]
    made = said(model(nodes, {"x": (1, 5), "h": (1, 5)}, {"y": FLOAT, "h_next": FLOAT}, {"w": weight(5, 5, scale=0.3)}), 1, 5)
    result = check(shaped(made, y=(1, 5)), {"h": ("h_next", weight(1, 5, seed=3))}, rtol=2e-3, weights="float16")
    once = result.structure.subgraphs[-1]
    assert {t.dtype for t in once.tensors} == {"float32", "resource"}


def test_more_axes_than_litert_keeps_are_refused():
    shape = (1,) * 7
    made = model([node("Add", "x s", "s_next"), node("Neg", "s", "y")], {"x": shape, "s": shape}, {"y": FLOAT, "s_next": FLOAT})
    with pytest.raises(ConversionError, match="at most 6 axes"):
        Converter(stateful(made, {"s": ("s_next", np.zeros(shape, np.float32))}), verify=False).to_tflite()
