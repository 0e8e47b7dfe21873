"""Weights of recurrent layers: parts of an initializer, or of several, in another order; all of them find their way back."""

import copy
import io
import pickle
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from mlconverter import ConversionError, Converter
from mlconverter.formats.torch.storage import Storage
from mlconverter.hub.weights import Parts
from tests.ops.onnx_torch.check import compare, feeds_of, run_torch
from tests.ops.onnx_torch.models import FLOAT, N, model, node, weight

LAYERS = (nn.LSTM, nn.GRU, nn.RNN)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(op: str, dtype: type = np.float32, clip: float = 0.0) -> onnx.ModelProto:
    """A recurrence in both directions in front of a matrix product."""
    gates = GATES[op] * 4
    weights = {
        "W": weight(2, gates, 3, seed=1),
        "R": weight(2, gates, 4, seed=2),
        "B": weight(2, 2 * gates, seed=3),
        "head": weight(4, 2, seed=4),
    }
    attributes = {"linear_before_reset": 1} if op == "GRU" else {}
    attributes |= {"clip": clip} if clip else {}
    casts = []
    if dtype is not np.float32:
        casts = [node("Cast", f"{n}_stored", n, to=1) for n in "WRB"]
        weights |= {f"{n}_stored": weights.pop(n).astype(dtype) for n in "WRB"}
    body = node(op, "x W R B", "y last", direction="bidirectional", hidden_size=4, **attributes)
    return model([*casts, body, node("MatMul", "last head", "z")], {"x": (5, N, 3)}, {"z": FLOAT}, weights, 17)


def train(module: nn.Module, *inputs: torch.Tensor, rate: float = 0.05) -> None:
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], rate)
    for _ in range(2):
        optimizer.zero_grad()
        module(*inputs).pow(2).sum().backward()
        optimizer.step()


def values(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {i.name: numpy_helper.to_array(i) for i in proto.graph.initializer}


def run_onnx(proto: onnx.ModelProto, x: torch.Tensor) -> list[np.ndarray]:
    return ort.InferenceSession(proto.SerializeToString()).run(None, {proto.graph.input[0].name: x.numpy()})


@pytest.mark.parametrize("clip", [0.0, 0.5], ids=["a layer", "step by step"])
@pytest.mark.parametrize("op", GATES)
def test_trained_weights_stand_in_the_initializers(op, clip):
    origin = recurrent(op, clip=clip)
    converter = Converter(origin)
    module = converter.to_torch()
    assert sum(p.numel() for p in module.parameters()) == sum(v.size for v in values(origin).values())
    train(module, torch.randn(5, 3, 3, generator=torch.Generator().manual_seed(0)))
    back = converter.to_origin_type(module)
    x = torch.randn(5, 2, 3)
    compare(run_torch(module, {"x": x.numpy()}), run_onnx(back, x))
    before, after = values(origin), values(back)
    assert all(not np.array_equal(before[n], after[n]) for n in before)
    assert [n.op_type for n in back.graph.node] == [op, "MatMul"]
    assert "written back" in str(converter.report)


@pytest.mark.parametrize("op", GATES)
def test_an_untouched_model_comes_back_as_it_was(op):
    origin = recurrent(op)
    converter = Converter(origin)
    assert converter.to_origin_type(converter.to_torch()).SerializeToString() == origin.SerializeToString()


def test_what_is_frozen_keeps_its_bits():
    origin = recurrent("LSTM")
    converter = Converter(origin)
    module = converter.to_torch()
    layer = next(m for m in module.modules() if isinstance(m, nn.LSTM))
    layer.weight_ih_l0.requires_grad_(False)
    layer.bias_hh_l0_reverse.requires_grad_(False)
    train(module, torch.randn(5, 3, 3))
    before, after = values(origin), values(converter.to_origin_type(module))
    assert np.array_equal(before["W"][0], after["W"][0])
    assert not np.array_equal(before["W"][1], after["W"][1])
    assert np.array_equal(before["B"][1, 16:], after["B"][1, 16:])
    assert (before["B"][1, :16] != after["B"][1, :16]).any() and (before["B"][0] != after["B"][0]).any()


def test_each_gate_goes_to_its_place():
    origin = recurrent("LSTM")
    converter = Converter(origin)
    module = converter.to_torch()
    layer = next(m for m in module.modules() if isinstance(m, nn.LSTM))
    with torch.no_grad():
        layer.weight_ih_l0_reverse[4:8] += 1  # the forget gate
    before, after = values(origin)["W"], values(converter.to_origin_type(module))["W"]
    changed = np.zeros_like(before)
    changed[1, 8:12] = 1  # is the third one in ONNX
    np.testing.assert_allclose(after - before, changed, atol=1e-6)


def shared() -> onnx.ModelProto:
    """Two layers with the same weights, another one with the same recurrence weights only."""
    weights = {n: weight(1, 16, 4, seed=s) for s, n in enumerate(("W", "V", "R"))}
    nodes = [
        node("LSTM", "x W R", "a", hidden_size=4),
        node("Squeeze", "a one", "b"),
        node("LSTM", "b W R", "c", hidden_size=4),
        node("Squeeze", "c one", "d"),
        node("LSTM", "d V R", "_ e", hidden_size=4),
    ]
    nodes[-1].output[:] = ["", "e"]
    return model(nodes, {"x": (5, N, 4)}, {"e": FLOAT}, {**weights, "one": np.array([1], np.int64)}, 17)


def test_shared_weights_stay_shared():
    converter = Converter(shared())
    module = converter.to_torch()
    assert sum(p.numel() for p in module.parameters()) == 3 * 64
    train(module, torch.randn(5, 3, 4), rate=0.01)
    x = torch.randn(5, 2, 4)
    compare(run_torch(module, {"x": x.numpy()}), run_onnx(converter.to_origin_type(module), x))


def test_a_weight_that_two_layers_see_differently_and_that_is_trained_apart_is_refused():
    origin = shared()
    origin.graph.node[2].attribute.append(onnx.helper.make_attribute("clip", 0.5))
    converter = Converter(origin)
    module = converter.to_torch()
    train(module, torch.randn(5, 3, 4), rate=0.01)
    with pytest.raises(ConversionError, match="trained apart"):
        converter.to_origin_type(module)


def test_weights_in_half_precision_are_seen_rounded():
    origin = recurrent("LSTM", np.float16)
    converter = Converter(origin)
    module = converter.to_torch()
    assert sum(isinstance(m, Storage) for m in module.modules()) == 8
    train(module, torch.randn(5, 3, 3), rate=1e-3)
    twin = copy.deepcopy(module)
    x = torch.randn(5, 2, 3)
    back = converter.to_origin_type(module)
    assert values(back)["W_stored"].dtype == np.float16
    compare(run_torch(module, {"x": x.numpy()}), run_onnx(back, x))
    module.round_to_storage = False
    assert (module(x) - twin(x)).abs().max() > 1e-6


@pytest.mark.parametrize("op", GATES)
def test_a_trained_module_is_copied_and_saved(op):
    module = Converter(recurrent(op)).to_torch()
    x = torch.randn(5, 2, 3)
    train(module, x)
    want = module(x)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin(x), want)
        train(twin, x)
        assert not torch.equal(twin(x), want)
    assert torch.equal(module(x), want)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says of its own layers that they keep a list of their weights
        exported = torch.export.export(module, (x,)).module()
    torch.testing.assert_close(exported(x), want)


# -- what torch's exporter writes --------------------------------------------------------------------------------------


class Tagger(nn.Module):
    def __init__(self, kind: str, **choices) -> None:
        super().__init__()
        self.core = getattr(nn, kind)(5, 6, **choices)
        self.head = nn.Linear(12 if choices.get("bidirectional") else 6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.core(x)[0])


CHOICES = [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"num_layers": 2, "bias": False}]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_module_of_torch_comes_back(kind, choices):
    torch.manual_seed(0)
    original = Tagger(kind, **choices).eval()
    proto = Converter(original, input_shape=(3, 7, 5), dynamic_batch=False).to_onnx()
    converter = Converter(proto)
    module = converter.to_torch()
    x = torch.randn(3, 7, 5)
    torch.testing.assert_close(module(x), original(x), rtol=1e-5, atol=1e-6)
    assert sum(p.numel() for p in module.parameters()) == sum(p.numel() for p in original.parameters())
    if kind != "RNN":  # which the exporter writes step by step
        layers = [m for m in module.modules() if isinstance(m, LAYERS)]
        assert len(layers) == choices.get("num_layers", 1)
        names = dict(original.named_parameters())
        assert {o.source for origins in module.weight_origins.values() for o in origins} == set(names)
        assert all(not any(isinstance(s, Parts) for s in o.steps) for os in module.weight_origins.values() for o in os)
    train(module, x)
    compare(run_torch(module, {"x": x.numpy()}), run_onnx(converter.to_origin_type(module), x))


@pytest.mark.parametrize("free", [{}, {"x": {0: "batch", 1: "steps"}}], ids=["fixed", "free"])
def test_a_module_that_the_older_exporter_writes_comes_back(free):
    torch.manual_seed(0)
    original = Tagger("LSTM", num_layers=2, bidirectional=True, batch_first=True).eval()
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            original, (torch.randn(1, 7, 5),), file, dynamo=False, opset_version=14, input_names=["x"], dynamic_axes=free
        )
    module = Converter(onnx.load_from_string(file.getvalue())).to_torch()
    x = torch.randn(3, 7, 5)  # of a batch that was 1, and nothing keeps it so
    torch.testing.assert_close(module(x), original(x), rtol=1e-5, atol=1e-6)
    assert sum(p.numel() for p in module.parameters()) == sum(p.numel() for p in original.parameters())


def test_a_module_with_a_new_head_is_converted_anew():
    converter = Converter(recurrent("GRU"))
    module = nn.Sequential(converter.to_torch(), nn.Tanh())
    x = torch.randn(5, 2, 3)
    proto = Converter(module, input_shape=(5, 2, 3)).to_onnx()
    compare(run_torch(module, {"x": x.numpy()}), run_onnx(proto, x))


def test_weights_that_are_turned_after_they_are_joined():
    """As other frameworks keep them: one matrix, inputs first, the gates side by side in an order of their own."""
    kernel, size = weight(3, 12, seed=1), 3
    weights = {
        "kernel": kernel,
        "R": weight(1, 12, 3, seed=2),
        "axis": np.array([0], np.int64),
        "sizes": np.full(4, size, np.int64),
    }
    nodes = [
        node("Split", "kernel sizes", "i f c o", axis=1),
        node("Concat", "i o f c", "joined", axis=1),
        node("Transpose", "joined", "turned", perm=[1, 0]),
        node("Unsqueeze", "turned axis", "W"),
        node("LSTM", "x W R", "y", hidden_size=size),
    ]
    origin = model(nodes, {"x": (5, N, 3)}, {"y": FLOAT}, weights, 17)
    converter = Converter(origin)
    module = converter.to_torch()
    layer = next(m for m in module.modules() if isinstance(m, nn.LSTM))
    assert np.array_equal(layer.weight_ih_l0.detach().numpy(), kernel.T)
    train(module, torch.randn(5, 3, 3))
    x = torch.randn(5, 2, 3)
    compare(run_torch(module, {"x": x.numpy()}), run_onnx(converter.to_origin_type(module), x))


def test_a_weight_that_is_there_twice_is_computed_with():
    """Both directions and two gates of each have the same elements: one parameter, run step by step."""
    weights = {"part": weight(1, 6, 3, seed=1), "r": weight(2, 12, 3, seed=2)}
    nodes = [
        node("Concat", "part part", "way", axis=1),
        node("Concat", "way way", "w", axis=0),
        node("LSTM", "x w r", "y", hidden_size=3, direction="bidirectional"),
    ]
    origin = model(nodes, {"x": (5, N, 3)}, {"y": FLOAT}, weights, 17)
    converter = Converter(origin)
    module = converter.to_torch()
    assert sorted(p.numel() for p in module.parameters()) == [18, 72]
    train(module, torch.randn(5, 3, 3))
    x = torch.randn(5, 2, 3)
    compare(run_torch(module, {"x": x.numpy()}), run_onnx(converter.to_origin_type(module), x))


def test_parts_of_a_weight_that_are_read_elsewhere_too():
    """A slice that something computes with stays a slice of the one parameter."""
    weights = {"w": weight(6, 3)}
    nodes = [
        node("Slice", "w start end", "part"),
        node("Concat", "part w", "both", axis=0),
        node("Transpose", "both", "turned", perm=[1, 0]),
        node("MatMul", "x turned", "y"),
    ]
    ends = {"start": np.array([2], np.int64), "end": np.array([5], np.int64)}
    origin = model(nodes, {"x": (N, 3)}, {"y": FLOAT}, {**weights, **ends})
    converter = Converter(origin)
    module = converter.to_torch()
    assert [p.numel() for p in module.parameters()] == [18]
    feeds = feeds_of(origin, 3)
    compare(run_torch(module, feeds), ort.InferenceSession(origin.SerializeToString()).run(None, feeds))
    train(module, torch.randn(2, 3), rate=0.01)
    compare(run_torch(module, feeds), run_onnx(converter.to_origin_type(module), torch.from_numpy(feeds["x"])))
