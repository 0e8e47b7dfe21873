"""Quantisation after training: what a model in eight bits computes, its scales, and that TensorRT builds it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from mlconverter.errors import ConversionError, SignatureError
from mlconverter.formats.trt.batch_norms import fold_batch_norms
from mlconverter.formats.trt.calibrate import largest
from mlconverter.formats.trt.half import to_half
from mlconverter.formats.trt.quantise import LARGEST, quantise
from mlconverter.hub.io import load_model, to_proto
from mlconverter.hub.normalise import normalise
from tests import zoo
from tests.unit.trt.building import built, checked, distance, exported, graph, outputs, refusal

INT8, FLOAT8 = ir.DataType.INT8, ir.DataType.FLOAT8E4M3FN

CAPABILITIES = {INT8: ("SM80", "SM120"), FLOAT8: ("SM89", "SM120")}
"""Floats of eight bits are multiplied from Ada on."""


def _kinds():
    import torch
    from torch import nn

    class Kinds(nn.Module):
        """Every kind of product."""

        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.each = nn.Conv2d(8, 8, 3, groups=8, padding=1)
            self.up, self.grouped = nn.ConvTranspose2d(8, 6, 2, stride=2), nn.ConvTranspose2d(6, 6, 2, stride=2, groups=3)
            self.rows, self.last = nn.Linear(6, 16), nn.Linear(16, 5)

        def forward(self, x):
            x = torch.relu(self.norm(self.first(x)))
            x = torch.relu(x + self.each(x))
            x = torch.relu(self.grouped(torch.relu(self.up(x)))).permute(0, 2, 3, 1)
            x = self.rows(x).flatten(1, 2)
            return self.last((x @ x.transpose(1, 2)).softmax(-1) @ x).mean(1)

    torch.manual_seed(0)
    made = Kinds()
    with torch.no_grad():
        made.norm.running_mean.normal_()
        made.norm.running_var.uniform_(0.5, 2)
    return made.eval()


MODULES = {"kinds": (_kinds, 16), "resnet18": (zoo.torch_models()["resnet18"], 128)}


def _module(name: str) -> tuple[ir.Model, np.ndarray]:
    """A module in single precision, and two photographs."""
    pytest.importorskip("torch")
    make, size = MODULES[name]
    pictures = [zoo.photograph(size, size, False, n) for n in ("china.jpg", "flower.jpg")]
    return normalise(load_model(exported(make, 3, size, size))), np.concatenate(pictures)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize(("dtype", "similar"), [(INT8, 0.99), (FLOAT8, 0.98)])
def test_modules(name: str, dtype: ir.DataType, similar: float) -> None:
    source, x = _module(name)
    want = outputs(to_proto(source), x)[0]
    model = normalise(source)
    before = to_proto(source)
    quantise(model, [{model.graph.inputs[0].name or "": picture[None]} for picture in x], dtype)
    got = outputs(checked(model), x)[0]
    for a, b in zip(got, want, strict=True):
        assert similar < a @ b / np.linalg.norm(a) / np.linalg.norm(b) < 1 - 1e-8
    assert to_proto(source) == before


@built
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("dtype", [INT8, FLOAT8])
def test_modules_are_built_with_a_free_batch(name: str, dtype: ir.DataType) -> None:
    model, x = _module(name)
    quantise(model, [{model.graph.inputs[0].name or "": x[:1]}], dtype)
    assert refusal(checked(model), *CAPABILITIES[dtype]) is None
    to_half(model, ir.DataType.FLOAT16)  # what is not quantised may be in half
    assert refusal(checked(model), *CAPABILITIES[dtype]) is None


def test_what_is_quantised_and_how() -> None:
    model, x = _module("kinds")
    notes = quantise(model, [{model.graph.inputs[0].name or "": x}], INT8)
    assert "6 convolutions" in notes[0] and len(notes) == 1
    makers = [
        [i and i.producer() for i in n.inputs] for n in model.graph if n.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul")
    ]
    whole = [[m is not None and m.op_type == "DequantizeLinear" for m in pair[:2]] for pair in makers]
    assert whole.count([True, True]) == 6 and whole.count([False, False]) == 2  # those of attention
    assert not any(n.op_type == "BatchNormalization" for n in model.graph)
    add = next(n for n in model.graph if n.op_type == "Add" and all(i.const_value is None for i in n.inputs))
    assert [i.producer().op_type for i in add.inputs] == ["DequantizeLinear", "Conv"]  # what is added to a product


def _quantised(text: str, dtype: ir.DataType = INT8, opset: int = 20) -> ir.Model:
    model = graph(text, opset)
    x = np.linspace(-2, 1, 3 * 4 * 4, dtype=np.float32)
    shape = [d if isinstance(d, int) else 1 for d in model.graph.inputs[0].shape]
    quantise(model, [{"x": x[: np.prod(shape)].reshape(shape)}], dtype)
    return model


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize(
    ("text", "scales", "axis"),
    [
        ("g (float[n,2] x) => (float[n,3] y) <float[2,3] w = {1,-20,3,-4,5,0}> { y = MatMul(x, w) }", [4, 20, 3], 1),
        ("g (float[n,2] x) => (float[n,3] y) <float[2,3] w = {1,-20,3,-4,5,0}> { y = Gemm(x, w) }", [4, 20, 3], 1),
        ("g (float[n,2] x) => (float[n,3] y) <float[3,2] w = {1,-20,3,-4,0,0}> { y = Gemm<transB = 1>(x, w) }", [20, 4, 1], 0),
        ("g (float[n,2] x) => (float[n,3] y) <float[3,2] w = {1,-20,3,-4,5,0}> { t = Transpose(w) y = MatMul(x, t) }",
         [20, 4, 5], 1),
        ("g (float[3,4] x) => (float[2,4] y) <float[2,3] w = {1,-20,3,-4,5,0}> { y = MatMul(w, x) }", 20, None),
        ("g (float[n,2,1,1] x) => (float[n,3,1,1] y) <float[3,2,1,1] w = {1,-20,3,-4,5,0}> { y = Conv(x, w) }", [20, 4, 5], 0),
        ("g (float[n,2,1,1] x) => (float[n,3,1,1] y) <float[2,3,1,1] w = {1,-20,3,-4,5,0}> { y = ConvTranspose(x, w) }",
         [4, 20, 3], 1),
        ("g (float[n,2,1,1] x) => (float[n,6,1,1] y) <float[2,3,1,1] w = {1,-20,3,-4,5,0}> { y = ConvTranspose<group=2>(x, w) }",
         20, None),
    ],
)  # fmt: skip
def test_scales_of_weights(text: str, scales: float | list[float], axis: int | None, dtype: ir.DataType) -> None:
    model = _quantised(text, dtype)
    node = next(n for n in model.graph if n.op_type == "DequantizeLinear" and n.inputs[0].const_value is not None)
    whole, scale, zero = (i.const_value for i in node.inputs)
    np.testing.assert_allclose(scale.numpy() * LARGEST[dtype], scales)
    assert whole.dtype == zero.dtype == dtype and not zero.numpy().astype(np.float32).any()
    assert (node.attributes["axis"].as_int() if "axis" in node.attributes else None) == axis
    checked(model)


def test_the_scale_of_a_value_is_its_range() -> None:
    model = _quantised("g (float[n,2] x) => (float[n,2] y) <float[2,2] w = {1,2,3,4}> { y = MatMul(x, w) }")
    quantize = next(n for n in model.graph if n.op_type == "QuantizeLinear")
    np.testing.assert_allclose(quantize.inputs[1].const_value.numpy() * 127, 2, rtol=1e-3)


def test_a_few_outliers_do_not_stretch_a_range_and_ranges_grow_with_samples() -> None:
    model = graph("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    x = np.ones(100_000, np.float32)
    x[:3] = 1000
    value = model.graph[0].outputs[0]
    assert largest(model, [{"x": x}], [value]) == {value: 1}
    assert largest(model, [{"x": x}, {"x": x * 3}, {"x": x * 2}], [value]) == {value: 3}
    few = np.array([1, 2, -7], np.float32)
    assert largest(model, [{"x": few}], [value])[value] == pytest.approx(7, rel=1e-3)


def test_a_normalisation_is_taken_into_the_convolution() -> None:
    _, x = _module("kinds")
    source = normalise(load_model(exported(_kinds, 3, 16, 16)))
    model = normalise(source)
    fold_batch_norms(model)
    assert "BatchNormalization" in {n.op_type for n in source.graph} and "BatchNormalization" not in {
        n.op_type for n in model.graph
    }
    assert distance(outputs(checked(model), x)[0], outputs(to_proto(source), x)[0]) < 1e-5


_PLAIN = "g (float[n,2] x) => (float[n,2] y) <float[2,2] w = {1,2,3,4}> { y = MatMul(x, w) }"


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        ([], "no samples"),
        ([{"x": np.ones((1, 2), np.float32)}, {"z": np.ones((1, 2), np.float32)}], "Sample 2 has the inputs z"),
        ([{"x": np.ones((1, 3), np.float32)}], r"Sample 1 has float32\[1, 3\] for the input x: float32\[n, 2\]"),
        ([{"x": np.ones(2, np.float32)}], r"float32\[2\]"),
        ([{"x": np.ones((1, 2), np.complex64)}], "complex64"),
        ([{"x": np.ones((1, 2)), "more": np.ones(1)}], "Sample 1 has the inputs more, x"),
    ],
)
def test_samples_that_do_not_fit(samples: list[dict[str, np.ndarray]], says: str) -> None:
    with pytest.raises(SignatureError, match=says):
        quantise(graph(_PLAIN), iter(samples), INT8)


def test_what_was_zero_on_all_samples_is_left_and_said() -> None:
    model = graph(_PLAIN)
    notes = quantise(model, [{"x": np.zeros((1, 2), np.float32)}], INT8)
    assert "1 are not" in notes[1] and [n.op_type for n in model.graph] == ["MatMul"]


def test_older_opsets_are_raised_where_all_means_the_same() -> None:
    assert _quantised(_PLAIN, INT8, 11).opset_imports[""] == 13
    with pytest.raises(ConversionError, match="Softmax"):
        _quantised(_PLAIN.replace("y = MatMul(x, w)", "z = MatMul(x, w) y = Softmax<axis = 0>(z)"), INT8, 11)


def test_a_small_network_keeps_its_accuracy() -> None:
    torch = pytest.importorskip("torch")
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    nn = torch.nn
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1)]
    network = nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.Linear(256, 10))
    optimiser = torch.optim.Adam(network.parameters(), 1e-2)
    x, y = torch.from_numpy(images[:1200]), torch.from_numpy(labels[:1200])
    for _ in range(4):
        for part in torch.randperm(1200).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(x[part]), y[part]).backward()
            optimiser.step()
    model = normalise(load_model(exported(lambda: network.eval(), 1, 8, 8)))
    want = (outputs(to_proto(model), images[1200:])[0].argmax(1) == labels[1200:]).mean()
    name = model.graph.inputs[0].name or ""
    quantise(model, ({name: images[i : i + 1]} for i in range(64)), INT8)
    got = (outputs(checked(model), images[1200:])[0].argmax(1) == labels[1200:]).mean()
    assert want > 0.9 and got > want - 0.01
