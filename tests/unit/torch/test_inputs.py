"""What people give as ``input_shape``: taken where it makes sense, refused by name where it does not."""

import collections

import numpy as np
import pytest
import torch
from torch import nn

from mlconverter import Converter, SignatureError
from mlconverter.formats.torch.inputs import example_inputs
from mlconverter.signature import TensorSpec


class Two(nn.Module):
    """Two inputs that are needed, and one that is not."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
        return a * 2 + b * 3 + (0 if c is None else c)


class Any(nn.Module):
    """Any number of inputs."""

    def forward(self, first: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return first + sum(others)


class Keyword(nn.Module):
    """An input that cannot be given by position."""

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> torch.Tensor:
        return x * mask


class Nothing(nn.Module):
    """No input at all."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.arange(3.0))

    def forward(self) -> torch.Tensor:
        return self.value * 2


LINE = nn.Linear(4, 3)

RIGHT = {
    "tuple": (LINE, (1, 4), [(1, 4)]),
    "list": (LINE, [1, 4], [(1, 4)]),
    "size": (LINE, torch.Size((1, 4)), [(1, 4)]),
    "numpy integers": (LINE, (np.int64(1), np.int32(4)), [(1, 4)]),
    "numpy shape": (LINE, np.zeros((1, 4), np.float32).shape, [(1, 4)]),
    "named": (LINE, ("n", 4), [("n", 4)]),
    "free": (LINE, (None, 4), [(None, 4)]),
    "dtype": (LINE, ((1, 4), "float32"), [(1, 4)]),
    "torch dtype": (LINE, ((1, 4), torch.float32), [(1, 4)]),
    "numpy dtype": (LINE, [((1, 4), np.float32)], [(1, 4)]),
    "numpy dtype object": (LINE, {"input": [[1, 4], np.dtype("float32")]}, [(1, 4)]),
    "tensor": (LINE, torch.zeros(2, 4), [(2, 4)]),
    "tensor that is trained": (LINE, torch.zeros(2, 4, requires_grad=True), [(2, 4)]),
    "array": (LINE, np.zeros((2, 4), np.float32), [(2, 4)]),
    "array that runs backwards": (LINE, np.zeros((2, 4), np.float32)[::-1], [(2, 4)]),
    "array that nobody may write to": (LINE, np.broadcast_to(np.float32(1), (2, 4)), [(2, 4)]),
    "spec": (LINE, TensorSpec("whatever", ("n", 4), "float32"), [("n", 4)]),
    "several": (Two(), [(1, 4), (1, 4)], [(1, 4), (1, 4)]),
    "several in a tuple": (Two(), ((1, 4), (1, 4), (1, 4)), [(1, 4)] * 3),
    "by name": (Two(), {"b": (1, 4), "a": (1, 4)}, [(1, 4), (1, 4)]),
    "by name in any mapping": (Two(), collections.UserDict(a=(1, 4), b=(1, 4)), [(1, 4), (1, 4)]),
    "mixed": (Two(), [torch.zeros(2, 4), ((2, 4), "float32")], [(2, 4), (2, 4)]),
    "any number": (Any(), [(1, 4)] * 3, [(1, 4)] * 3),
    "any number by name": (Any(), {"first": (1, 4), "more": (1, 4)}, [(1, 4)] * 2),
    "single number": (nn.Identity(), (), [()]),
    "none": (Nothing(), [], []),
    "none by name": (Nothing(), {}, []),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_what_is_taken(kind: str) -> None:
    module, given, shapes = RIGHT[kind]
    found = example_inputs(module, given)
    assert [i.shape for i in found] == shapes
    assert all(type(d) in (int, str, type(None)) for i in found for d in i.shape)
    assert [tuple(i.example.shape) for i in found] == [tuple(d if isinstance(d, int) else 2 for d in s) for s in shapes]
    assert not any(i.example.requires_grad for i in found)
    module(*[i.example for i in found])


WRONG = {
    "nothing": (LINE, None, "input_shape"),
    "text": (LINE, "abc", "a shape is a tuple"),
    "bytes": (LINE, b"\x01\x04", "a shape is a tuple"),
    "number": (LINE, 7, "a shape is a tuple"),
    "a set": (LINE, {1, 4}, "a shape is a tuple"),
    "negative": (LINE, (-1, 4), "Axis 0 of input 'input' is given as -1"),
    "zero": (LINE, (1, 0), "Axis 1 of input 'input' is given as 0"),
    "zero in a tensor": (LINE, torch.zeros(0, 4), "Axis 0 of input 'input' is given as 0"),
    "truth value": (LINE, (True, 4), "Axis 0 .* True"),
    "numpy's truth value": (LINE, (1, np.True_), "Axis 1 .*True"),
    "float": (LINE, (1, 4.0), r"Axis 1 .* 4\.0"),
    "not a number": (LINE, (1, float("nan")), "Axis 1 .* nan"),
    "complex": (LINE, (1, 4j), "Axis 1 .* 4j"),
    "empty name": (LINE, ("", 4), "Axis 0 .* ''"),
    "blank name": (LINE, (" ", 4), "Axis 0"),
    "a class": (LINE, (1, int), "Axis 1"),
    "nested": (LINE, [[1, 4], [1, [4]]], r"2 inputs were given"),
    "nested in one": (Two(), [[1, 4], [1, [4]]], r"Input 'b' is given as \[1, \[4\]\]"),
    "unknown dtype": (LINE, ((2, 4), "float99"), "float99"),
    "a dtype that torch lacks": (LINE, ((2, 4), np.dtype("U3")), "unknown dtype"),
    "an array of text": (LINE, np.array(["a"]), "array of"),
    "an array of objects": (LINE, np.array([{}]), "array of"),
    "too many": (LINE, [(1, 4), (1, 4)], "2 inputs were given"),
    "too few": (Two(), [(1, 4)], r"\['b'\] were not given"),
    "too few as one": (Two(), (1, 4), r"\['b'\] were not given"),
    "none by name": (Two(), {}, r"\['a', 'b'\] were not given"),
    "a gap": (Two(), {"a": (1, 4), "c": (1, 4)}, "'b' comes before"),
    "unknown name": (LINE, {"other": (1, 4)}, r"no input \['other'\]"),
    "a name that is no text": (LINE, {0: (1, 4)}, r"no input \[0\]"),
    "by keyword only": (Keyword(), (1, 4), r"\['mask'\] by keyword only"),
    "for a module without inputs": (Nothing(), (1, 4), "1 inputs were given"),
    "huge": (LINE, (10**6, 10**9), r"need 3725290\.3 GB of memory"),
    "beyond all machines": (LINE, (2**62, 2**62), "memory"),
    "huge together": (Two(), [(2**20, 2**17)] * 2, "memory"),
    "no rank": (LINE, TensorSpec("x", None, "float32"), "shape of input 'input'"),
    "no values": (LINE, torch.zeros(1, 4, device="meta"), "plain one with values"),
    "sparse": (LINE, torch.zeros(1, 4).to_sparse(), "plain one with values"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_refused(kind: str) -> None:
    module, given, said = WRONG[kind]
    with pytest.raises(SignatureError, match=said):
        Converter(module, input_shape=given).to_onnx()


@pytest.mark.parametrize("kind", ["numpy integers", "several", "by name", "array that runs backwards", "any number", "mixed"])
def test_what_is_taken_is_exported(kind: str) -> None:
    module, given, _ = RIGHT[kind]
    converter = Converter(module, input_shape=given)
    converter.to_onnx()
    assert converter.report.verdict == "verified"


def test_a_module_without_inputs() -> None:
    converter = Converter(Nothing(), input_shape=[])
    assert not converter.to_onnx().graph.input
    assert converter.report.verdict == "verified"


def test_an_example_is_not_written_to() -> None:
    """A module may work in place."""

    class InPlace(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2) + 1

    given = torch.ones(2, 3)
    converter = Converter(InPlace(), input_shape=given, verify=False)
    converter.to_onnx()
    assert torch.equal(given, torch.ones(2, 3))


@pytest.mark.parametrize("names", ["pixels", ["pixels"], ("pixels",)])
def test_one_name_may_be_given_as_it_is(names) -> None:
    converter = Converter(LINE, input_shape=(1, 4), input_names=names, output_names="scores")
    proto = converter.to_onnx()
    assert [v.name for v in proto.graph.input] == ["pixels"] and [v.name for v in proto.graph.output] == ["scores"]
    with pytest.raises(SignatureError, match="input_names has 1 names for 2 inputs"):
        Converter(Two(), input_shape=[(1, 4)] * 2, input_names="ab").to_onnx()
