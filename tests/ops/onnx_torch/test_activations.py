"""Activations that graphs write out in parts become the one call of torch, in the main graph and in branches."""

import numpy as np
import pytest
from onnx import helper

from mlconverter import Converter
from tests.ops.onnx_torch.check import check
from tests.ops.onnx_torch.models import FLOAT, N, model, node

NUMBERS = {
    "three": 3,
    "zero": 0,
    "six": 6,
    "one": 1,
    "half": 0.5,
    "two": 2,
    "root": 2**0.5,
    "inverse": 0.5**0.5,
    "slope": (2 / np.pi) ** 0.5,
    "cubic": 0.044715,
    "sloped_cubic": 0.044715 * (2 / np.pi) ** 0.5,
    "almost": 1.1,
}

ERF = [node("Div", "x root", "i"), node("Erf", "i", "e"), node("Add", "e one", "p")]
TANH = [node("Mul", "slope sum", "i"), node("Tanh", "i", "e"), node("Add", "one e", "p")]
HALVED = [node("Mul", "x half", "h"), node("Mul", "h p", "y")]

WRITTEN = {
    "gelu": [*ERF, *HALVED],
    "gelu of a quotient": [*ERF, node("Div", "p two", "h"), node("Mul", "h x", "y")],
    "gelu by a product": [node("Mul", "inverse x", "i"), *ERF[1:], node("Mul", "x p", "m"), node("Mul", "half m", "y")],
    "tanh gelu": [node("Pow", "x three", "q"), node("Mul", "q cubic", "c"), node("Add", "x c", "sum"), *TANH, *HALVED],
    "tanh gelu, products": [
        node("Mul", "x x", "s"),
        node("Mul", "s x", "q"),
        node("Mul", "cubic q", "c"),
        node("Add", "c x", "sum"),
        *TANH,
        node("Mul", "p x", "m"),
        node("Div", "m two", "y"),
    ],
    "tanh gelu, factored": [
        node("Mul", "x cubic", "c"),
        node("Mul", "c x", "cc"),
        node("Add", "cc one", "f"),
        node("Mul", "x slope", "xs"),
        node("Mul", "xs f", "i"),
        *TANH[1:],
        *HALVED,
    ],
    "hard swish": [
        node("Add", "three x", "a"),
        node("Clip", "a zero six", "c"),
        node("Div", "c six", "m"),
        node("Mul", "m x", "y"),
    ],
    "hard swish by a sigmoid": [node("HardSigmoid", "x", "a", alpha=1 / 6, beta=0.5), node("Mul", "a x", "y")],
    "swish": [node("Sigmoid", "x", "a"), node("Mul", "x a", "y")],
}

CALLS = {"gelu": "gelu(", "tanh": "gelu(", "hard": "hardswish(", "swish": "silu("}


def build(nodes, numbers=None, opset=18):
    used = {name for n in nodes for name in n.input}
    made = {k: np.array(v, np.float32) for k, v in (NUMBERS | (numbers or {})).items() if k in used}
    return model(nodes, {"x": (N, 7)}, {"y": FLOAT}, made, opset)


def code(made):
    return Converter(made, verify=False).to_torch().code


@pytest.mark.parametrize("form", WRITTEN)
def test_parts_become_one_call(form):
    made = build(WRITTEN[form])
    check(made, low=-5, high=5)
    call = CALLS[form.replace(",", "").split()[0]]
    assert call in code(made)
    assert ("approximate='tanh'" in code(made)) == form.startswith("tanh")
    assert not any(op in code(made) for op in (" * ", " / ", " + ")), code(made)


@pytest.mark.parametrize(
    ("form", "changed"),
    [
        ("gelu", {"half": 0.6}),
        ("gelu", {"root": 1.5}),
        ("gelu", {"one": 1.1}),
        ("tanh gelu", {"cubic": 0.05}),
        ("tanh gelu", {"three": 2}),
        ("tanh gelu", {"slope": 0.9}),
        ("hard swish", {"six": 5}),
        ("hard swish", {"three": 2.5}),
    ],
)
def test_other_numbers_are_other_functions(form, changed):
    made = build(WRITTEN[form], changed)
    check(made, low=-5, high=5)
    assert not any(call in code(made) for call in CALLS.values())


def test_parts_of_another_value_are_none():
    """A gate is no activation."""
    nodes = [node("Sigmoid", "z", "a"), node("Mul", "x a", "y")]
    made = model(nodes, {"x": (N, 7), "z": (N, 7)}, {"y": FLOAT}, {}, 18)
    check(made)
    assert "silu" not in code(made)


def test_parts_that_something_else_reads_stay():
    nodes = [*WRITTEN["gelu"], node("Neg", "e", "z")]
    made = model(
        nodes, {"x": (N, 7)}, {"y": FLOAT, "z": FLOAT}, {k: np.array(NUMBERS[k], np.float32) for k in ("root", "one", "half")}, 18
    )
    check(made)
    assert "gelu" not in code(made)


def test_a_number_that_adds_an_axis_keeps_it():
    nodes = [*WRITTEN["swish"][:1], node("Mul", "x a", "m"), node("Mul", "m ones", "y")]
    made = model(nodes, {"x": (7,)}, {"y": FLOAT}, {"ones": np.ones((1, 1), np.float32)}, 18)
    check(made)


def test_in_a_branch():
    then = helper.make_graph(
        [node("Sigmoid", "x", "t_a"), node("Mul", "x t_a", "t_y")],
        "then",
        [],
        [helper.make_tensor_value_info("t_y", FLOAT, None)],
    )
    other = helper.make_graph([node("Neg", "x", "o_y")], "other", [], [helper.make_tensor_value_info("o_y", FLOAT, None)])
    nodes = [node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "c")]
    nodes.append(helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other))
    made = build(nodes)
    check(made, low=-1, high=1)
