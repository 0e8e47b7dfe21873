"""Constants and sizes are computed as the specification says."""

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from mlconverter.hub.evaluate import evaluate, evaluates, object_array
from tests.ops.onnx_torch.models import ints, model, node


class Size:
    """A size nobody knows, that remembers what was done to it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __mul__(self, other: object) -> "Size":
        return Size(f"{self.text}*{other}")

    __rmul__ = __mul__


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


def test_only_what_moves_or_counts_works_on_sizes():
    assert evaluates("Concat", symbolic=True) and evaluates("Exp") and not evaluates("Exp", symbolic=True)
    assert not evaluates("Conv")
