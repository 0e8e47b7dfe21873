"""What is trained is what the origin can hold, whoever runs it; what was changed by hand is noticed."""

import copy
import os
import shutil

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import torch.utils.checkpoint
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


def with_vectors() -> onnx.ModelProto:
    """Half-precision weights that no layer holds: vectors that the graph reads itself."""
    nodes = [
        helper.make_node("Cast", ["matrix"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["scale"], ["scale_wide"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "wide"], ["hidden"]),
        helper.make_node("Mul", ["hidden", "scale_wide"], ["scaled"]),
        helper.make_node("MatMul", ["scaled", "other"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    weights = {"matrix": rng.normal(size=(6, 8)), "scale": rng.normal(size=8), "other": rng.normal(size=(8, 3))}
    graph = helper.make_graph(
        nodes,
        "vectors",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(w.astype(np.float32 if n == "other" else np.float16), n) for n, w in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def by_onnx(dynamo: bool):
    """What ``torch.onnx.export`` makes of a module, as a function."""

    def run(module, path):
        torch.onnx.export(module, (X,), path / "net.onnx", dynamo=dynamo, verbose=False, external_data=False)
        session = ort.InferenceSession(path / "net.onnx")
        return lambda x: torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])

    return run


def compiled(module):
    """What ``torch.compile`` makes of a module with the compiler that people have."""
    if not any(shutil.which(c) for c in (os.environ.get("CXX") or "g++", "clang++")):
        pytest.skip("torch.compile needs a C++ compiler, and there is none")
    return torch.compile(module, fullgraph=True)


ELSEWHERE = {
    "export": lambda m, path: torch.export.export(m, (X,), strict=False).module(),
    "export, strict": lambda m, path: torch.export.export(m, (X,), strict=True).module(),
    "compiled": lambda m, path: compiled(m),
    "compiled, as it is": lambda m, path: torch.compile(m, backend="eager", fullgraph=True),
    "onnx": by_onnx(dynamo=True),
    "onnx, traced": by_onnx(dynamo=False),
    "traced": lambda m, path: torch.jit.trace(m, (X,)),
    "fx": lambda m, path: torch.fx.symbolic_trace(m),
    "copy": lambda m, path: copy.copy(m),
    "replica": lambda m, path: replica(m),
    "checkpoint": lambda m, path: lambda x: torch.utils.checkpoint.checkpoint(m, x, use_reentrant=False),
}


def replica(module):
    """A module as ``DataParallel`` makes it for a second device: parameters are plain attributes of shallow copies."""
    twin = module._replicate_for_data_parallel()
    for name, child in module._modules.items():
        twin._modules[name] = replica(child)
    for name, parameter in module._parameters.items():
        setattr(twin, name, None if parameter is None else parameter.view_as(parameter))
    return twin


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
class TestTorchItself:
    """Whatever torch makes of a module rounds as the module does."""

    @pytest.mark.parametrize("way", ELSEWHERE)
    @pytest.mark.parametrize("make", [half_stored, with_vectors])
    def test_computes_what_the_module_computes(self, make, way: str, tmp_path) -> None:
        module = Converter(make(), verify=False).to_torch()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(1.0003)
        want = module(X)
        plain = copy.deepcopy(module)
        plain.round_to_storage = False
        assert float((plain(X) - want).abs().max()) > 1e-4
        with torch.no_grad():
            got = ELSEWHERE[way](module, tmp_path)(X)
        torch.testing.assert_close(got, want, rtol=0, atol=4e-6)
        torch.testing.assert_close(module(X), want, rtol=0, atol=0)

    def test_our_own_export_leaves_the_module_as_it_is(self, module) -> None:
        nudge(module)
        before = {name: (parameter, parameter.clone()) for name, parameter in module.named_parameters()}
        converter = Converter(Everybody(module), input_shape=(1, 6))
        proto = converter.to_onnx()
        assert converter.report.verdict == "verified"
        assert "Cast" not in {node.op_type for node in proto.graph.node}, "rounds once more in every run"
        for name, parameter in module.named_parameters():
            assert parameter is before[name][0] and torch.equal(parameter, before[name][1])
        assert module.round_to_storage

    def test_an_export_that_is_trained_rounds_too(self, module) -> None:
        nudge(module)
        trained = torch.export.export_for_training if hasattr(torch.export, "export_for_training") else torch.export.export
        exported = trained(module, (X,)).module()
        exported(X).sum().backward()
        module(X).sum().backward()
        for ours, theirs in zip(module.parameters(), exported.parameters(), strict=True):
            torch.testing.assert_close(theirs.grad, ours.grad)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
    def test_in_another_precision_too(self, module, dtype) -> None:
        """What is wider or of another range than the storage is rounded all the same."""
        nudge(module)
        module.to(dtype)
        stored = copy.deepcopy(module)
        with torch.no_grad():
            for parameter in stored.parameters():
                parameter.copy_(parameter.half())
        stored.round_to_storage = False
        assert torch.equal(module(X.to(dtype)), stored(X.to(dtype)))


class Everybody(torch.nn.Module):
    """A module of somebody's own with a converted one in it."""

    def __init__(self, inner) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * 2


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
