"""Constants and sizes are computed as the specification says."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from mlconverter.hub.evaluate import evaluate, evaluates, object_array
from mlconverter.hub.sizes import Free, never_negative
from tests.ops.onnx_torch.models import ints, model, node


class Size:
    """A size nobody knows, that remembers what was done to it, and nothing of its sign."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __mul__(self, other: object) -> "Size":
        return type(self)(f"{self.text}*{other}")

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> "Size":
        return type(self)(f"{self.text}//{other}")


class Length(Size):
    """One that is the length of an axis."""

    def never_negative(self) -> bool:
        return True


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Gather", [X, ints(1, -1)], {"axis": 1}),
        ("Slice", [X, ints(-1), ints(-100), ints(2), ints(-2)], {}),
        ("Slice", [X, ints(0, 1), ints(100, -1), ints(1, 2)], {}),
        ("Concat", [X, X], {"axis": -1}),
        ("Reshape", [X, ints(0, -1)], {}),
        ("Unsqueeze", [X, ints(0, -1)], {}),
        ("Transpose", [X], {}),
        ("Flatten", [X], {"axis": 2}),
        ("Expand", [X[:, :1], ints(1, 3, 1)], {}),
        ("Tile", [X, ints(1, 2, 1)], {}),
        ("Div", [ints(-7, 7, 6), ints(2, -2, 4)], {}),
        ("Div", [np.array([200, 7], np.uint8), np.array([3, 8], np.uint8)], {}),
        ("Div", [np.array([-128, 127], np.int8), np.array([3, -8], np.int8)], {}),
        ("Mod", [ints(-7, 7, 6), ints(3, -3, 4)], {}),
        ("Range", [np.array(5), np.array(0), np.array(-2)], {}),
        ("Where", [X > 5, X, -X], {}),
        ("ReduceProd", [X + 1, ints(1)], {"keepdims": 0}),
        ("ConstantOfShape", [ints(2, 3)], {}),
        ("Cast", [X - 3.5], {"to": onnx.TensorProto.INT32}),
    ],
)
def test_as_the_reference(op, inputs, attributes):
    names = [f"i{n}" for n in range(len(inputs))]
    defaults = {"Reshape": {"allowzero": 0}, "ReduceProd": {"noop_with_empty_axes": 0}}.get(op, {})
    kinds = {n: (onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in zip(names, inputs, strict=True)}
    made = model([node(op, " ".join(names), "y", **attributes)], kinds, {"y": onnx.TensorProto.FLOAT})
    want = ReferenceEvaluator(made).run(None, dict(zip(names, inputs, strict=True)))[0]
    got = evaluate(op, inputs, {**defaults, **attributes})[0]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_a_backward_slice_from_before_the_start_has_the_first_element():
    assert evaluate("Slice", [ints(1, 2, 3), ints(-9), ints(-9), ints(0), ints(-1)], {})[0].tolist() == [1]


def test_sizes_go_through_as_they_are():
    batch = Size("n")
    shape = object_array([batch, 3, 4])
    assert evaluate("Slice", [shape, ints(1), ints(3)], {})[0].tolist() == [3, 4]
    product = evaluate("Mul", [evaluate("Gather", [shape, np.array(0)], {"axis": 0})[0], np.array(12)], {})[0]
    assert product.item().text == "n*12"


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Cast", [X], {"to": onnx.TensorProto.STRING}),
        ("Expand", [X[:1, :1, :1], ints(1 << 10, 1 << 10, 1 << 10)], {}),
        ("ConstantOfShape", [ints(1 << 12, 1 << 12)], {}),
        ("Pow", [ints(2), ints(-1)], {}),
        ("Equal", [object_array([Size("n")]), object_array([Size("m")])], {}),
    ],
)
def test_what_is_left_to_the_run_time(op, inputs, attributes):
    with pytest.raises(TypeError):
        evaluate(op, inputs, attributes)


@pytest.mark.parametrize("op", "Add Sub Mul Div Mod Pow Equal Less And Max Min".split())
def test_what_grows_by_broadcasting_is_left_to_the_run_time(op):
    column, row = np.ones((1 << 12, 1), np.int64), np.ones((1, 1 << 11), np.int64)
    with pytest.raises(TypeError, match="too large"):
        evaluate(op, [column, row], {})


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Where", [np.ones((1 << 12, 1), bool), ints(1), np.ones((1, 1 << 11), np.int64)], {}),
        ("Gather", [np.ones((1 << 12, 2), np.int64), np.zeros(1 << 11, np.int64)], {"axis": 1}),
        ("Concat", [np.ones(1 << 21), np.ones(1 << 21), np.ones(1 << 21)], {"axis": 0}),
        ("Tile", [np.ones(1 << 12), ints(1 << 11)], {}),
    ],
)
def test_what_grows_otherwise_is_left_to_the_run_time(op, inputs, attributes):
    with pytest.raises(TypeError, match="too large"):
        evaluate(op, inputs, attributes)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Gather", [X, ints(7)], {"axis": 1}),
        ("Gather", [X, ints(0)], {"axis": 5}),
        ("Gather", [X, None], {"axis": 0}),
        ("Concat", [X, ints(1)], {"axis": 0}),
        ("Reshape", [X, ints(5, 5)], {}),
        ("Reshape", [ints(1), ints(1, 0)], {}),
        ("Transpose", [X], {"perm": [0, 0, 1]}),
        ("Flatten", [X], {"axis": 7}),
        ("Slice", [X, ints(0), ints(1), ints(9)], {}),
        ("Slice", [X, ints(0, 1), ints(1)], {}),
        ("Slice", [X, ints(0), ints(1), ints(0), ints(0)], {}),
        ("Split", [X, ints(1, 9)], {"axis": 1}),
        ("Split", [X, ints(-1, 4)], {"axis": 1}),
        ("Squeeze", [X, ints(0)], {}),
        ("Unsqueeze", [X, ints(1, 1)], {}),
        ("Expand", [X, ints(5, 5, 5)], {}),
        ("Tile", [X, ints(2)], {}),
        ("ConstantOfShape", [ints(-2)], {}),
        ("Range", [np.array(0), np.array(5), np.array(0)], {}),
        ("Add", [X, ints(1, 2, 3, 4, 5)], {}),
        ("Add", [np.array(["a"]), ints(1)], {}),
        ("Div", [ints(1), ints(0)], {}),
        ("Mod", [ints(1), ints(0)], {}),
        ("Div", [object_array([Length("n")]), ints()], {"no": 1}),
        ("Cast", [X], {"to": 99}),
        ("Cast", [np.array([b"x"])], {"to": onnx.TensorProto.FLOAT}),
        ("ReduceProd", [X, ints(9)], {}),
        ("Where", [ints(1, 0), X], {}),
    ],
)
def test_a_node_that_makes_no_sense_is_left_alone(op, inputs, attributes):
    with np.errstate(all="ignore"), pytest.raises(TypeError):
        evaluate(op, inputs, attributes)


class TestSizesBelowZero:
    """What holds of the length of an axis does not hold of a difference."""

    def test_lengths_are_divided(self):
        assert evaluate("Div", [object_array([Length("n"), 7, -7]), ints(2)], {})[0].tolist()[1:] == [3, -3]
        assert evaluate("Div", [object_array([Length("n")]).reshape(()), np.array(2)], {})[0].item().text == "n//2"

    @pytest.mark.parametrize(("a", "b"), [(Size("n"), 2), (Length("n"), -2), (7, Size("n")), (-7, Length("n"))])
    def test_where_the_sign_is_open_the_run_time_divides(self, a, b):
        with pytest.raises(TypeError):
            evaluate("Div", [object_array([a]), object_array([b])], {})

    def test_only_a_length_is_never_minus_one(self):
        assert evaluate("Equal", [object_array([Length("n"), 3, -1]), ints(-1)], {})[0].tolist() == [False, False, True]
        with pytest.raises(TypeError):
            evaluate("Equal", [object_array([Size("n")]), ints(-1)], {})

    def test_the_sign_of_what_is_computed(self):
        n = Free()
        for size in (n, n + 1, 2 * n, n * n, n // 2, n % 3, sum([n, 1])):
            assert never_negative(size)
        for size in (n - 1, 1 - n, -1 * n, n + -1, (n - 1) * 2, (n - 1) // 2):
            assert not never_negative(size)
        assert not evaluates("Neg", symbolic=True)


def test_only_what_moves_or_counts_works_on_sizes():
    assert evaluates("Concat", symbolic=True) and evaluates("Exp") and not evaluates("Exp", symbolic=True)
    assert not evaluates("Conv")
