"""What graphs write in parts and torch has as one call becomes that call, and computes the same."""

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch import nn

from mlconverter import Converter
from tests.ops.onnx_torch.check import check
from tests.ops.onnx_torch.models import FLOAT, N, model, node, weight

HEADS, LENGTH, WIDTH = 3, 5, 4
ONE = "scaled_dot_product_attention"


def number(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def attention(
    *,
    scaled: str = "both",
    mask: bool = False,
    axis: int = -1,
    front: tuple = (N, HEADS),
    other: tuple | None = None,
    nan: bool = False,
) -> onnx.ModelProto:
    """softmax(q kᵀ) v with its scale before the product or behind it."""
    rank = len(front) + 2
    perm = [*range(rank - 2), rank - 1, rank - 2]
    nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=perm)]
    q, kt = "q", "kt"
    if scaled == "both":
        nodes += [node("Mul", "q root", "qs"), node("Mul", "kt root", "kts")]
        q, kt = "qs", "kts"
    nodes.append(node("MatMul", f"{q} {kt}", "scores"))
    last = "scores"
    if scaled in ("Mul", "Div"):
        nodes.append(node(scaled, "scores root", "scaled"))
        last = "scaled"
    if mask:
        nodes.append(node("Add", f"{last} m", "masked"))
        last = "masked"
    nodes.append(node("Softmax", last, "p", axis=axis))
    if nan:
        nodes += [node("IsNaN", "p", "isnan"), node("Where", "isnan zero p", "kept")]
    nodes.append(node("MatMul", f"{'kept' if nan else 'p'} v", "y"))
    shapes = {"q": [*front, LENGTH, WIDTH], "k": [*(other or front), 6, WIDTH], "v": [*(other or front), 6, WIDTH]}
    if axis != -1:
        shapes["k"][-2] = shapes["v"][-2] = LENGTH
    if mask:
        shapes["m"] = [LENGTH, 6]
    constants = {"root": number(0.6), **({"zero": number(0)} if nan else {})}
    return model(nodes, shapes, {"y": FLOAT}, {} if scaled == "none" and not nan else constants, 18)


@pytest.mark.parametrize("scaled", ["both", "Mul", "Div", "none"])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("front", [(N, HEADS), (N,)])
def test_attention(scaled, mask, front):
    module = check(attention(scaled=scaled, mask=mask, front=front, nan=mask))
    assert "attention(" in module.code and "softmax" not in module.code


@pytest.mark.parametrize("hidden", [False, True])
def test_a_mask_that_may_hide_a_row_whole(hidden):
    """Such a row is NaN in ONNX, and zero in torch's own attention, as it is in a graph that says so."""
    rng = np.random.default_rng(0)
    shapes = {"q": (2, HEADS, LENGTH, WIDTH), "k": (2, HEADS, 6, WIDTH), "v": (2, HEADS, 6, WIDTH), "m": (LENGTH, 6)}
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    if hidden:
        feeds["m"][1] = -np.inf
    assert "softmax" in check(attention(mask=True), feeds).code
    assert "softmax" not in check(attention(mask=True, nan=True), feeds).code


@pytest.mark.parametrize("hidden", [False, True])
def test_a_mask_that_is_constant(hidden):
    made = attention(mask=True)
    mask = np.where(np.tril(np.ones((LENGTH, 6))), 0, -np.inf).astype(np.float32)
    if hidden:
        mask[1] = -np.inf
    del made.graph.input[-1]
    made.graph.initializer.append(onnx.numpy_helper.from_array(mask, "m"))
    assert ("softmax" in check(made).code) is hidden


def test_a_mask_for_more_items_than_there_are_scores():
    made = attention(mask=True, nan=True, front=(1, HEADS))
    made.graph.input[-1].CopyFrom(helper.make_tensor_value_info("m", FLOAT, [N, 1, LENGTH, 6]))
    check(made)


class Tempered(nn.Module):
    """Attention whose temperature is trained, and a gain that is one before it is."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature, self.gain = nn.Parameter(torch.tensor(0.6)), nn.Parameter(torch.tensor(1.0))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.mT * self.temperature, -1) @ v * self.gain


def test_numbers_that_are_trained_are_no_constants():
    module = Converter(Converter(Tempered(), input_shape=[(N, HEADS, LENGTH, WIDTH)] * 3).to_onnx()).to_torch()
    assert [p.numel() for p in module.parameters()] == [1, 1]
    module(*torch.rand(3, 2, HEADS, LENGTH, WIDTH)).square().sum().backward()
    assert all(bool(p.grad.abs() > 0) for p in module.parameters())


def test_attention_whose_keys_are_the_same_for_all_items():
    assert "runtime.attention" in check(attention(other=(1, HEADS))).code


def test_rows_of_nothing_but_nan_are_zero():
    assert ONE in check(attention(nan=True)).code


def test_a_softmax_over_other_axes_is_none():
    assert ONE not in check(attention(axis=-2)).code


def test_attention_of_torch_comes_back_as_one_call():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    converter = Converter(Converter(layer, input_shape=(N, 10, 32)).to_onnx())
    module = converter.to_torch()
    assert converter.report.verdict == "verified"
    assert "attention(" in module.code and "softmax" not in module.code
    assert sum(p.numel() for p in module.parameters()) == sum(p.numel() for p in layer.parameters())


def test_gradients_go_through():
    module = check(attention(mask=True))
    inputs = [
        torch.rand(2, HEADS, LENGTH, WIDTH),
        torch.rand(2, HEADS, 6, WIDTH),
        torch.rand(2, HEADS, 6, WIDTH),
        torch.rand(LENGTH, 6),
    ]
    for tensor in inputs:
        tensor.requires_grad_()
    module(*inputs).square().sum().backward()
    assert all(bool(t.grad.abs().sum() > 0) for t in inputs)


def root_mean_square(*, inverse: bool = True, power: bool = True, axes: tuple = (-1,), turned: bool = False) -> list:
    """Nodes from ``c`` to ``n``: divided by the root of the mean of squares."""
    return [
        node("Pow", "c two", "sq") if power else node("Mul", "c c", "sq"),
        helper.make_node("ReduceMean", ["sq"], ["mean"], axes=list(axes)),
        node("Add", "mean eps" if turned else "eps mean", "plus"),
        node("Sqrt", "plus", "root"),
        *([node("Reciprocal", "root", "inv"), node("Mul", "c inv", "n")] if inverse else [node("Div", "c root", "n")]),
    ]


CONSTANTS = {"v": weight(WIDTH, WIDTH, seed=5), "two": number(2), "eps": number(1e-3), "w": weight(WIDTH) + 1}


@pytest.mark.parametrize("inverse", [True, False])
@pytest.mark.parametrize("power", [True, False])
def test_root_mean_square_normalisation(inverse, power):
    nodes = [node("MatMul", "x v", "c"), *root_mean_square(inverse=inverse, power=power, turned=inverse), node("Mul", "w n", "y")]
    module = check(model(nodes, {"x": [N, 3, WIDTH]}, {"y": FLOAT}, CONSTANTS, 17))
    assert [type(part) for part in module.children()] == [nn.Linear, nn.RMSNorm]
    assert len(list(module.parameters())) == 2


@pytest.mark.parametrize("inverse", [True, False])
def test_layer_normalisation(inverse):
    nodes = [
        node("MatMul", "x v", "h"),
        helper.make_node("ReduceMean", ["h"], ["mu"], axes=[-1]),
        node("Sub", "h mu", "c"),
        *root_mean_square(inverse=inverse),
        node("Mul", "n w", "s"),
        node("Add", "s b", "y"),
    ]
    module = check(model(nodes, {"x": [N, 3, WIDTH]}, {"y": FLOAT}, {**CONSTANTS, "b": weight(WIDTH, seed=3)}, 17))
    assert [type(part) for part in module.children()] == [nn.Linear, nn.LayerNorm]
    assert len(list(module.parameters())) == 3


@pytest.mark.parametrize("axes", [(1,), (1, 2)])
def test_normalisation_over_other_axes_stays_as_it_is(axes):
    nodes = [node("MatMul", "x v", "c"), *root_mean_square(axes=axes), node("Mul", "n w", "y")]
    module = check(model(nodes, {"x": [N, WIDTH, WIDTH]}, {"y": FLOAT}, CONSTANTS, 17))
    assert not any(isinstance(part, nn.RMSNorm) for part in module.children())


def test_trained_normalisations_find_their_way_back():
    nodes = [node("MatMul", "x v", "c"), *root_mean_square(), node("Mul", "n w", "y")]
    converter = Converter(model(nodes, {"x": [N, 3, WIDTH]}, {"y": FLOAT}, CONSTANTS, 17))
    module = converter.to_torch()
    with torch.no_grad():
        next(p for p in module.parameters() if p.shape == (WIDTH,)).add_(0.5)
    tuned = converter.to_origin_type(module)
    found = {i.name: onnx.numpy_helper.to_array(i) for i in tuned.graph.initializer}
    np.testing.assert_allclose(found["w"], CONSTANTS["w"] + 0.5, rtol=1e-6)
