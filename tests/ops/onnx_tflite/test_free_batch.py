"""Whole models with a free batch, resized in LiteRT's own interpreter; and a batch that is insisted on."""

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import helper
from torch import nn

from mlconverter import Converter
from mlconverter.errors import ConversionError
from mlconverter.formats.tflite.model import TFLiteModel
from tests.ops.onnx_tflite.check import run_tflite
from tests.ops.onnx_torch.models import BOOL, FLOAT, INT64, N, ints, model, node, said, weight
from tests.ops.onnx_torch.test_control import graph, info
from tests.unit.torch.exports import seeded

RTOL = 1e-3
BATCHES = (1, 2, 5)


def same_at(made: TFLiteModel, proto: onnx.ModelProto, *feeds: dict[str, np.ndarray]) -> None:
    """One interpreter, resized from inputs to inputs, as an application does it, gives what ONNX Runtime gives."""
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    interpreter = made.interpreter(num_threads=1)
    numbers = {d["name"]: d["index"] for d in interpreter.get_input_details()}
    for given in feeds:
        for name, value in given.items():
            interpreter.resize_tensor_input(numbers[name], value.shape, strict=True)
        interpreter.allocate_tensors()
        for name, value in given.items():
            interpreter.set_tensor(numbers[name], value)
        interpreter.invoke()
        wants = session.run(None, given)
        for detail, want in zip(interpreter.get_output_details(), wants, strict=True):
            got = interpreter.get_tensor(detail["index"])
            assert got.shape == want.shape and np.ptp(want) > 0
            assert np.abs(got - want).max() <= RTOL * np.abs(want).max()


class Segmenter(nn.Module):
    """A fully convolutional network: as torchvision's end: what is small is resized to the size of what is large."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.deep = nn.Sequential(
            nn.Conv2d(8, 8, 3, 2, 1, groups=8), nn.Conv2d(8, 16, 1), nn.Hardswish(), nn.MaxPool2d(2, padding=1)
        )
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.last = nn.Conv2d(16, 5, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.first(image)
        y = self.deep(x)
        y = self.up(y * y.mean((2, 3), keepdim=True).sigmoid())
        y = nn.functional.interpolate(y, size=x.shape[2:], mode="bilinear")
        y = self.last(torch.cat([x, y], 1))
        return nn.functional.interpolate(y, size=image.shape[2:], mode="bilinear").softmax(1)


class Encoder(nn.Module):
    """A transformer over words: embeddings, places, attention with a mask, and a mean over what is not padding."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Parameter(torch.zeros(6, 16))
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu", norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 3)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.layers(self.words(ids) + self.places, src_key_padding_mask=mask == 0)
        shares = mask.unsqueeze(-1).to(x.dtype)
        pooled = (x * shares).sum(1) / shares.sum(1)
        return self.head(pooled), nn.functional.normalize(pooled, dim=-1)


def images(*shapes: tuple[int, ...]) -> list[dict[str, np.ndarray]]:
    return [{"image": np.random.default_rng(i).uniform(-1, 1, s).astype(np.float32)} for i, s in enumerate(shapes)]


def test_a_convolutional_network_at_any_batch():
    proto = Converter(seeded(Segmenter()), input_shape=(N, 3, 32, 48), verify=False).to_onnx()
    made = Converter(proto).to_tflite()
    assert made.signature.inputs[0].shape == ("batch", 3, 32, 48)
    same_at(made, proto, *images(*((batch, 3, 32, 48) for batch in BATCHES)))


def test_a_convolutional_network_over_images_of_any_size():
    proto = Converter(seeded(Segmenter()), input_shape=(N, 3, "height", "width"), verify=False).to_onnx()
    made = Converter(proto, verify=False).to_tflite()
    assert not any(isinstance(d, int) for d in (made.signature.inputs[0].shape[i] for i in (0, 2, 3)))
    sizes = [(batch, 3, *size) for size in ((32, 48), (65, 30)) for batch in BATCHES]
    same_at(made, proto, *images(*sizes))


def test_a_transformer_at_any_batch():
    module = Encoder().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    shapes = {"ids": ((N, 6), "int64"), "mask": ((N, 6), "int64")}
    proto = Converter(module, input_shape=shapes, verify=False).to_onnx()
    made = Converter(proto).to_tflite()
    feeds = []
    for batch in BATCHES:
        numbers = np.random.default_rng(batch)
        lengths = numbers.integers(1, 7, (batch, 1))
        feeds.append({"ids": numbers.integers(0, 50, (batch, 6)), "mask": (np.arange(6) < lengths).astype(np.int64)})
    same_at(made, proto, *feeds)


# -- a batch of 1 that is to be freed ----------------------------------------------------------------------------------


def line(op: str, *shape: Any) -> onnx.ModelProto:
    """A recurrent layer; with the batch in front it is turned round before and behind."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    known = {"w": weight(1, gates * 4, 3), "r": weight(1, gates * 4, 4), "one": ints(1)}
    if shape[0] != 1:
        nodes = [node(op, "x w r", "l", hidden_size=4), node("Squeeze", "l one", "y")]
        return said(model(nodes, {"x": shape}, {"y": FLOAT}, known), shape[0], 1, 4)
    nodes = [node("Transpose", "x", "t", perm=[1, 0, 2]), node(op, "t w r", "l", hidden_size=4)]
    nodes += [node("Squeeze", "l one", "s"), node("Transpose", "s", "y", perm=[1, 0, 2])]
    return said(model(nodes, {"x": shape}, {"y": FLOAT}, known), 1, shape[1], 4)


def branching(inputs: dict[str, Any], *before: onnx.NodeProto) -> onnx.ModelProto:
    then, other = graph([node("Neg", "x", "a")], [], [info("a")]), graph([node("Abs", "x", "b")], [], [info("b")])
    nodes = [*before, helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=other)]
    return said(model(nodes, inputs, {"y": FLOAT}, {"zero": np.array(0, np.float32), "all": ints(0, 1)}), 1, 3)


def repeating() -> onnx.ModelProto:
    given, states = [info("i", INT64, []), info("c", BOOL, []), info("s")], [info("d", BOOL, []), info("t")]
    body = graph([node("Add", "s s", "t"), node("Identity", "c", "d")], given, states)
    return model([helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], {"x": (1, 3)}, {"y": FLOAT}, {"n": np.array(3)})


def scanning() -> onnx.ModelProto:
    nodes = [node("Add", "s e", "t"), node("Identity", "t", "o")]
    along = {"num_scan_inputs": 1, "scan_input_axes": [1], "scan_output_axes": [1]}
    scan = helper.make_node(
        "Scan", ["s0", "x"], ["f", "y"], body=graph(nodes, [info("s"), info("e")], [info("t"), info("o")]), **along
    )
    return model([scan], {"s0": (1, 3), "x": (1, 5, 3)}, {"f": FLOAT, "y": FLOAT})


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_batch_is_freed(op):
    proto = line(op, 1, 5, 3)
    made = Converter(proto, dynamic_batch=True).to_tflite()
    x = weight(4, 5, 3)
    (alone,) = zip(*(run_tflite(made, {"x": x[i : i + 1]}).values() for i in range(4)), strict=True)
    np.testing.assert_allclose(run_tflite(made, {"x": x})["y"], np.concatenate(alone), atol=1e-6)


@pytest.mark.parametrize("target", ["tflite", "torch"])
def test_a_batch_is_freed_where_the_model_does_not_say_what_shape_comes_out(target):
    proto = model([node("Relu", "x", "y")], {"x": (1, 3)}, {"y": FLOAT})
    converter = Converter(proto, dynamic_batch=True)
    converter.to(target)
    assert converter.report.notes == ("The batch of 1 is freed: a batch of 3 gives what 3 single runs give.",)


INSISTED = {
    "a sequence in front": (line("LSTM", 5, 1, 3), r"first axis of the input x: float32\[5, 1, 3\]"),
    "a free sequence in front": (line("LSTM", "time", 1, 3), r"first axis of the input x: float32\[time, 1, 3\]"),
    "a choice": (branching({"x": (1, 3), "yes": (BOOL, [])}), r"first axis of the input yes: bool\[\]"),
    "a choice by what is there": (
        branching({"x": (1, 3)}, node("ReduceMax", "x all", "m", keepdims=0), node("Greater", "m zero", "yes")),
        "reduces the batch",
    ),
    "a choice by a constant input": (branching({"x": (1, 3), "yes": (BOOL, [1])}), "graphs of its own"),
    "a loop": (repeating(), "graphs of its own"),
    "a scan": (scanning(), "graphs of its own"),
    "an output without a batch": (
        said(model([node("ReduceMean", "x all", "y", keepdims=0)], {"x": (1, 3)}, {"y": FLOAT}, {"all": ints(0, 1)})),
        r"first axis of the output y: float32\[\]",
    ),
    "a batch of two": (said(model([node("Relu", "x", "y")], {"x": (2, 3)}, {"y": FLOAT}), 2, 3), r"input x: float32\[2, 3\]"),
    "no input": (said(model([node("Neg", "c", "y")], {}, {"y": FLOAT}, {"c": weight(1, 3)}), 1, 3), "no input"),
}


@pytest.mark.parametrize("name", INSISTED)
def test_a_batch_that_cannot_be_freed_is_no_silence(name):
    """The batch stayed 1 without a word where an input or output had no batch of 1 in front, or no shape."""
    proto, reason = INSISTED[name]
    with pytest.raises(ConversionError, match=f"cannot be freed.*{reason}"):
        Converter(proto, verify=False).to_tflite(dynamic_batch=True)
    Converter(proto, verify=False).to_tflite()


def test_a_batch_that_is_free_already_needs_nothing():
    proto = said(model([node("Mul", "x scale", "y")], {"x": (N, 3), "scale": (1,)}, {"y": FLOAT}), N, 3)
    made = Converter(proto, dynamic_batch=True).to_tflite()
    assert run_tflite(made, {"x": weight(4, 3), "scale": weight(1)})["y"].shape == (4, 3)
