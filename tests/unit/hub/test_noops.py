"""What changes nothing is taken out, what changes something stays."""

import numpy as np
import pytest

from mlconverter.hub.io import load_model
from mlconverter.hub.normalise import normalise
from tests.ops.onnx_torch.check import check
from tests.ops.onnx_torch.models import FLOAT, N, model, node

BIG = np.array([2**63 - 1])
CASES = {
    "a permutation that moves nothing": ("Transpose", {}, {"perm": [0, 1, 2]}, True),
    "a permutation": ("Transpose", {}, {"perm": [0, 2, 1]}, False),
    "a permutation that is not said": ("Transpose", {}, {}, False),
    "a slice of everything": ("Slice", {"s": np.array([0]), "e": BIG, "a": np.array([0])}, {}, True),
    "a slice up to the size": ("Slice", {"s": np.array([0]), "e": np.array([4]), "a": np.array([1])}, {}, True),
    "a slice": ("Slice", {"s": np.array([0]), "e": np.array([3]), "a": np.array([1])}, {}, False),
    "a slice of a free size": ("Slice", {"s": np.array([0]), "e": np.array([4]), "a": np.array([0])}, {}, False),
    "a slice from behind": ("Slice", {"s": np.array([-4]), "e": BIG, "a": np.array([1])}, {}, False),
    "every second": ("Slice", {"s": np.array([0]), "e": BIG, "a": np.array([1]), "t": np.array([2])}, {}, False),
    "times one": ("Mul", {"one": np.array(1, np.float32)}, {}, True),
    "times one of another rank": ("Mul", {"one": np.ones((1, 1, 1, 1), np.float32)}, {}, False),
    "times two": ("Mul", {"two": np.array(2, np.float32)}, {}, False),
    "over one": ("Div", {"one": np.array(1, np.float32)}, {}, True),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_taken_out(name: str) -> None:
    op, constants, attributes, gone = CASES[name]
    made = model(
        [node("Relu", "x", "r"), node(op, " ".join(["r", *constants]), "o", **attributes), node("Neg", "o", "y")],
        {"x": [N, 4, 4]},
        {"y": FLOAT},
        constants,
    )
    ops = [n.op_type for n in normalise(load_model(made)).graph]
    assert ops == (["Relu", "Neg"] if gone else ["Relu", op, "Neg"])
    check(made)


def test_one_over_a_value_is_no_noop() -> None:
    made = model([node("Div", "one x", "o"), node("Neg", "o", "y")], {"x": [N, 4]}, {"y": FLOAT}, {"one": np.array(1.0, "f")})
    assert [n.op_type for n in normalise(load_model(made)).graph] == ["Div", "Neg"]
    check(made, low=0.5, high=2)


def test_an_output_keeps_its_name() -> None:
    made = model([node("Relu", "x", "r"), node("Transpose", "r", "y", perm=[0, 1])], {"x": [N, 4]}, {"y": FLOAT})
    assert [o.name for o in normalise(load_model(made)).graph.outputs] == ["y"]
    check(made)
