"""What a module gives: containers are taken apart, what is no tensor is refused with what and where."""

import dataclasses
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch
from torch import nn

from mlconverter import Converter, SignatureError

Pair = namedtuple("Pair", "boxes scores")


@dataclasses.dataclass
class Found:
    """A result as a person writes it."""

    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...] | None = None
    loss: torch.Tensor | None = None


@dataclasses.dataclass
class ModelOutput(OrderedDict):
    """A result as transformers have it: a dict and a dataclass, in which ``None`` is left out."""

    logits: torch.Tensor | None = None
    past: tuple[tuple[torch.Tensor, torch.Tensor], ...] | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)


class Giving(nn.Module):
    """A module whose result is made by a function of two tensors."""

    def __init__(self, make) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(4, 2)
        self.make = make

    def forward(self, x: torch.Tensor):
        return self.make(self.first(x), self.second(x))


CONTAINERS = {
    "tensor": (lambda a, b: a + b.sum(), ["output"]),
    "tuple": (lambda a, b: (a, b), ["output_0", "output_1"]),
    "list": (lambda a, b: [a, b], ["output_0", "output_1"]),
    "one in a tuple": (lambda a, b: (a + b.sum(),), ["output"]),
    "nested": (lambda a, b: (a, [b, (a * 2,)]), ["output_0", "output_1", "output_2"]),
    "none inside": (lambda a, b: (None, a, (None, b)), ["output_0", "output_1"]),
    "dict": (lambda a, b: {"zeta": a, "alpha": b}, ["zeta", "alpha"]),
    "dict of lists": (lambda a, b: {"maps": [a, a * 2], "last": b}, ["maps.0", "maps.1", "last"]),
    "numbers as keys": (lambda a, b: {3: a, 1: b}, ["3", "1"]),
    "dict in a tuple": (lambda a, b: (a, {"x": b}), ["output_0", "output_1.x"]),
    "named tuple": (lambda a, b: Pair(a, b), ["boxes", "scores"]),
    "dataclass": (lambda a, b: Found(a, (b, b * 2)), ["logits", "hidden.0", "hidden.1"]),
    "dataclass with nothing": (lambda a, b: Found(a + b.sum()), ["logits"]),
    "transformers": (lambda a, b: ModelOutput(a, ((b, b * 2),)), ["logits", "past.0.0", "past.0.1"]),
    "torch's own": (lambda a, b: torch.sort(a + b.sum(), 1), ["output_0", "output_1"]),
    "the input's name": (lambda a, b: {"x": a, "y": b}, ["x_out", "y"]),
    "twice": (lambda a, b: {"a": a, "again": a, "b": b}, ["a", "again", "b"]),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers_are_taken_apart(kind: str) -> None:
    make, names = CONTAINERS[kind]
    converter = Converter(Giving(make), input_shape=(1, 4))
    proto = converter.to_onnx()
    assert converter.report.verdict == "verified", converter.report
    assert [o.name for o in proto.graph.output] == names
    weights = [i.name for i in proto.graph.initializer if "." in i.name]
    assert sorted(weights) == ["first.bias", "first.weight", "second.bias", "second.weight"]


OTHERS = {
    "None": (lambda a, b: None, "returns None"),
    "a number": (lambda a, b: 3, r"a int \(3\)"),
    "a text": (lambda a, b: "text", r"a str \('text'\)"),
    "an empty tuple": (lambda a, b: (), "no tensor"),
    "an empty dict": (lambda a, b: {}, "no tensor"),
    "nothing but None": (lambda a, b: (None, [None]), "no tensor"),
    "a number inside": (lambda a, b: (a, 0.5), r"a float \(0.5\) at 1"),
    "a size inside": (lambda a, b: {"x": [a, a.shape[0]]}, r"a int .* at x\.1"),
    "a truth value": (lambda a, b: (a, True), "a bool"),
    "a text inside": (lambda a, b: {"x": a, "name": "cat"}, r"a str \('cat'\) at name"),
    "an array": (lambda a, b: (a, np.zeros(2)), "a ndarray at 1"),
    "a set": (lambda a, b: {a, b}, "a set"),
    "a generator": (lambda a, b: (t for t in (a, b)), "a generator"),
    "an object": (lambda a, b: (a, torch.distributions.Normal(0, 1)), "a Normal at 1"),
    "a class": (lambda a, b: Found, "a type"),
    "a sparse tensor": (lambda a, b: (a, b.to_sparse()), "sparse"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_others_are_refused(kind: str) -> None:
    make, said = OTHERS[kind]
    with pytest.raises(SignatureError, match=said):
        Converter(Giving(make), input_shape=(1, 4)).to_onnx()


def test_names_that_were_asked_for_go_first() -> None:
    converter = Converter(Giving(CONTAINERS["dict"][0]), input_shape=(1, 4), output_names=("a", "b"))
    assert [o.name for o in converter.to_onnx().graph.output] == ["a", "b"]
    for names in ("a", ("a", "b", "c")):
        with pytest.raises(SignatureError, match="output_names"):
            Converter(Giving(CONTAINERS["dict"][0]), input_shape=(1, 4), output_names=names).to_onnx()


class TestUnready:
    """Modules without values are refused before anything is tried."""

    @pytest.mark.parametrize(
        ("make", "said"),
        [
            (lambda: nn.LazyLinear(3), "'weight' is not initialised"),
            (lambda: nn.Sequential(nn.Linear(4, 4), nn.LazyBatchNorm1d()), "'1.weight' is not initialised"),
            (lambda: nn.Linear(4, 3, device="meta"), "'weight' is on the meta device"),
            (lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, device="meta")), "'1.weight' is on the meta device"),
        ],
    )
    def test_when_they_are_given(self, make, said: str) -> None:
        with pytest.raises(SignatureError, match=said):
            Converter(make(), input_shape=(1, 4))

    def test_when_they_became_so(self) -> None:
        net = nn.Linear(4, 3)
        converter = Converter(net, input_shape=(1, 4))
        net.to("meta")
        with pytest.raises(SignatureError, match="meta device"):
            converter.to_onnx()

    def test_a_sparse_parameter(self) -> None:
        net = nn.Linear(4, 3)
        net.weight = nn.Parameter(net.weight.detach().to_sparse())
        with pytest.raises(SignatureError, match="sparse"):
            Converter(net, input_shape=(1, 4))

    def test_no_longer_so(self) -> None:
        net = nn.LazyLinear(3)
        net(torch.zeros(1, 4))
        converter = Converter(net, input_shape=(1, 4))
        converter.to_onnx()
        assert converter.report.verdict == "verified"
