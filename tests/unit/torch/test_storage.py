"""What is trained is what the origin can hold; what was changed by hand is noticed."""

import copy

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from mlconverter import Converter, SignatureError, VerificationError
from mlconverter.formats.torch.fingerprint import fingerprint


def half_stored() -> onnx.ModelProto:
    """Two layers whose weights are stored in half precision and cast before use, as TFLite's DEQUANTIZE has it."""
    rng = np.random.default_rng(0)
    weights = {"first": (6, 8), "second": (8, 3)}
    nodes = [
        helper.make_node("Cast", ["first"], ["first_wide"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["second"], ["second_wide"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "first_wide"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("MatMul", ["active", "second_wide"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(rng.normal(size=s).astype(np.float16), n) for n, s in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture
def converter() -> Converter:
    return Converter(half_stored())


@pytest.fixture
def module(converter: Converter):
    return converter.to_torch()


X = torch.linspace(-1, 1, 12).reshape(2, 6)


def nudge(module) -> None:
    """Move weights by less than half precision can tell apart, and by more."""
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.add_(1e-6 if i else 3e-3)


class TestRounding:
    """Half-precision storage."""

    def test_weights_are_single_and_trainable(self, module) -> None:
        assert {p.dtype for p in module.parameters()} == {torch.float32}
        assert all(p.requires_grad for p in module.parameters())

    def test_the_forward_sees_what_is_stored(self, module) -> None:
        nudge(module)
        rounded = copy.deepcopy(module)
        rounded.round_to_storage = False
        with torch.no_grad():
            for parameter in rounded.parameters():
                parameter.copy_(parameter.half().float())
        assert torch.equal(module(X), rounded(X))

    def test_it_can_be_turned_off_and_that_changes_something(self, module) -> None:
        nudge(module)
        seen = module(X)
        module.round_to_storage = False
        assert not torch.equal(module(X), seen)

    def test_gradients_pass_straight_through(self, module) -> None:
        module(X).sum().backward()
        plain = copy.deepcopy(module)
        plain.round_to_storage = False
        plain.zero_grad()
        plain(X).sum().backward()
        for ours, theirs in zip(module.parameters(), plain.parameters(), strict=True):
            assert ours.grad is not None and torch.equal(ours.grad, theirs.grad)

    def test_parameters_are_back_after_a_forward_that_fails(self, module) -> None:
        before = dict(module.named_parameters())
        with pytest.raises(RuntimeError):
            module(torch.zeros(2, 7))
        after = dict(module.named_parameters())
        assert all(after[name] is parameter for name, parameter in before.items())

    def test_copies_round_too(self, module) -> None:
        nudge(module)
        assert torch.equal(copy.deepcopy(module)(X), module(X))

    def test_the_file_computes_what_the_module_computes(self, converter: Converter, module) -> None:
        nudge(module)
        tuned = converter.to_origin_type()
        assert converter.report.verdict == "verified"
        assert {i.data_type for i in tuned.graph.initializer} == {TensorProto.FLOAT16}
        assert any("rounds" in note for note in converter.report.steps[-1].notes)
        with torch.no_grad():
            again = Converter(tuned, verify=False).to_torch()(X)
            assert torch.equal(again, module(X))


class TestChangesByHand:
    """The fingerprint names what changed, and nothing else changes it."""

    def test_training_changes_nothing(self, module) -> None:
        before = fingerprint(module)
        nudge(module)
        module.train()
        module(X).sum().backward()
        assert fingerprint(module) == before == module.origin.fingerprint

    @pytest.mark.parametrize(
        ("change", "where"),
        [
            (lambda m: setattr(m.first, "in_features", 7), "first"),
            (lambda m: m.first.register_forward_hook(lambda layer, a, r: r), "first"),
            (lambda m: setattr(m.second, "forward", lambda x: x), "second"),
            (lambda m: m.register_forward_pre_hook(lambda layer, a: a), ""),
            (lambda m: setattr(m, "second", torch.nn.Linear(8, 4)), "second"),
            (lambda m: torch.nn.utils.parametrizations.weight_norm(m.first), "first"),
        ],
    )
    def test_is_noticed(self, module, change, where: str) -> None:
        change(module)
        before, now = module.origin.fingerprint, fingerprint(module)
        assert {n for n in before if before[n] != now.get(n)} == {where}


def test_a_subclass_with_a_forward_of_its_own_is_noticed(converter: Converter, module) -> None:
    """Its code is not the graph's."""
    sub = type("Sub", (type(module),), {"forward": lambda self, x: x})
    module.__class__ = sub
    assert {n for n in module.origin.fingerprint if module.origin.fingerprint[n] != fingerprint(module)[n]} == {""}


def test_wrappers_are_looked_through(converter: Converter, module) -> None:
    """The same weights behind what people wrap modules in."""
    average = torch.optim.swa_utils.AveragedModel(module)
    average.update_parameters(module)
    for wrapped in (average, torch.nn.DataParallel(module), torch.compile(module, backend="eager")):
        assert converter.to_origin_type(wrapped) == half_stored()


class WithHead(torch.nn.Module):
    """Somebody's own module around a converted one."""

    def __init__(self, module) -> None:
        super().__init__()
        self.module = module
        self.head = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.module(x))


def test_somebodys_own_wrapper_is_not_looked_through(converter: Converter, module) -> None:
    """What it adds would be lost."""
    with pytest.raises(SignatureError, match="WithHead"):
        converter.to_origin_type(WithHead(module))
    hooked = torch.nn.DataParallel(module)
    hooked.register_forward_hook(lambda layer, arguments, result: result * 2)
    with pytest.raises(SignatureError, match="DataParallel"):
        converter.to_origin_type(hooked)


def test_a_wrong_file_would_be_noticed(converter: Converter, module, monkeypatch) -> None:
    """The written model is run against the trained module."""
    nudge(module)
    inner = converter._inner
    right = inner._with_weights

    def wrong(changed):
        return right({name: value * np.float16(1.01) for name, value in changed.items()})

    monkeypatch.setattr(inner, "_with_weights", wrong)
    with pytest.raises(VerificationError):
        converter.to_origin_type()


class Scaled(torch.nn.Module):
    """A module with an attribute and a layer that may be exchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        self._scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * self._scale


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m, "_scale", 5.0),
        lambda m: m.inner.__setitem__(1, torch.nn.Sigmoid()),
        lambda m: m.register_forward_hook(lambda layer, arguments, result: result + 1),
    ],
)
def test_a_module_changed_in_place_is_exported_anew(change) -> None:
    """Not its weights alone say what a torch source computes."""
    net = Scaled()
    converter = Converter(net, input_shape=(1, 4))
    before = converter.to_onnx()
    assert converter.to_onnx() is before
    change(net)
    after = converter.to_onnx()
    assert after != before
    assert converter.report.verdict == "verified"


def odd_names(*names: str) -> onnx.ModelProto:
    """A chain of products and sums with weights, and inputs, of odd names."""
    nodes, value = [], "x"
    for i, name in enumerate(names):
        nodes.append(helper.make_node("Mul" if i % 2 else "Add", [value, name], [f"v{i}"]))
        value = f"v{i}"
    nodes.append(helper.make_node("Sub", [value, "X"], ["w"]))
    nodes.append(helper.make_node("Sum", ["w", "lambda", "def"], ["y"]))
    rng = np.random.default_rng(0)
    return helper.make_model(
        helper.make_graph(
            nodes,
            "names",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 3]) for n in ("x", "X", "lambda", "def")],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
            [numpy_helper.from_array(rng.normal(size=3).astype(np.float32), n) for n in names],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )


@pytest.mark.parametrize(
    "names",
    [
        ("class", "None", "return.weight", "in.weight"),
        ("graph", "code", "meta", "origin", "weight_origins", "round_to_storage", "recompile"),
        ("self", "forward", "training", "_graph"),
        ("conv", "conv.bias", "w.1", "w.1.2"),
        ("a.b", "a_b", "a_b_1", "a"),
    ],
    ids=str,
)
def test_names_that_python_or_torch_have_taken(names) -> None:
    """They convert, run, and find their way back."""
    converter = Converter(odd_names(*names))
    module = converter.to_torch()
    assert converter.report.verdict == "verified"
    with torch.no_grad():
        for tensor in module.state_dict().values():
            tensor.mul_(2)
    tuned = {i.name: numpy_helper.to_array(i) for i in converter.to_origin_type().graph.initializer}
    for before in odd_names(*names).graph.initializer:
        np.testing.assert_array_equal(tuned[before.name], numpy_helper.to_array(before) * 2)
