"""Modules that keep something from call to call: what keeps it, what forgets it, and what leaves it alone."""

import copy
import importlib.util
import io
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from mlconverter import Converter
from mlconverter.formats.torch.from_onnx.runtime import State
from tests.ops.onnx_torch.models import FLOAT, N, model, node, weight
from tests.ops.stateful import Feeds, States, calls, stateful

CALLS = 5
STATES: States = {
    "h/0": ("h/out", weight(1, 5, seed=3)),
    "past": ("past_next", weight(1, 3, seed=4)),
}


def recurrence(batch: int | str = 1) -> onnx.ModelProto:
    """A recurrent cell that also sees what came in one call before."""
    nodes = [node("Concat", "x past h/0", "all", axis=1), node("Gemm", "all w b", "g"), node("Tanh", "g", "h/out")]
    nodes += [node("Identity", "x", "past_next"), node("MatMul", "h/out v", "y")]
    weights = {"w": weight(11, 5), "b": weight(5), "v": weight(5, 2)}
    inputs = {"x": (batch, 3), "h/0": (batch, 5), "past": (batch, 3)}
    made = model(nodes, inputs, {"y": FLOAT, "h/out": FLOAT, "past_next": FLOAT}, weights)
    for value, size in zip(made.graph.output, (2, 5, 3), strict=True):
        value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, FLOAT, (batch, size)))
    return stateful(made, STATES)


def feeds(batch: int = 1) -> list[Feeds]:
    return [{"x": weight(batch, 3, seed=10 + i)} for i in range(CALLS)]


XS = [torch.from_numpy(given["x"]) for given in feeds()]


def wanted() -> list[np.ndarray]:
    return [result["y"] for result in calls(recurrence(), STATES, feeds())]


def called(module: nn.Module, xs: list[torch.Tensor] | None = None) -> list[np.ndarray]:
    with torch.no_grad():
        return [module(x).numpy() for x in xs or XS]


def same(got: list[np.ndarray], want: list[np.ndarray]) -> bool:
    return all(np.allclose(g, w, rtol=1e-5, atol=1e-5) for g, w in zip(got, want, strict=True))


@pytest.fixture
def module() -> nn.Module:
    return Converter(recurrence(), verify=False).to_torch()


def test_a_call_sees_what_the_call_before_has_left(module: nn.Module):
    assert same(called(module), wanted())
    assert not same(called(module), wanted())
    module.reset_state()
    assert same(called(module), wanted())


def test_it_comes_as_new_whatever_was_run_to_verify_it():
    for verify in ("fast", "full"):
        assert same(called(Converter(recurrence(), verify=verify).to_torch()), wanted())


def test_looking_at_it_leaves_it_alone(module: nn.Module):
    called(module, XS[:2])
    other = Converter(module, verify="full", dynamic_batch=False)
    assert other.signature.input_names == ("x",)
    other.to_onnx()
    other.to_tflite()
    assert same(called(module, XS[2:]), wanted()[2:])


def test_every_call_in_training_is_the_first(module: nn.Module):
    module.train()
    first = module(XS[0])
    first.sum().backward()
    assert all(p.grad is not None for p in module.parameters())
    assert torch.equal(module(XS[0]), first)
    module.eval()
    assert same(called(module), wanted())


def test_another_batch_is_another_first_call():
    module = Converter(recurrence(N), verify=False).to_torch()
    states = {name: (output, np.repeat(initial, 3, 0)) for name, (output, initial) in STATES.items()}
    want = [r["y"] for r in calls(recurrence(N), states, feeds(3))]
    assert same(called(module), wanted())
    assert same(called(module, [torch.from_numpy(f["x"]) for f in feeds(3)]), want)
    assert same(called(module), wanted())


def test_copies_go_on_where_it_is(module: nn.Module):
    called(module, XS[:2])
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    twins = [copy.deepcopy(module), copy.copy(module), torch.load(file, weights_only=False)]
    before = copy.deepcopy(twins[0])
    assert same(called(before, XS[2:]), wanted()[2:])
    assert same(called(twins[0], XS[2:]), wanted()[2:])  # which the other copy has not moved
    assert same(called(twins[2], XS[2:]), wanted()[2:])
    assert same(called(twins[1], XS[2:]), wanted()[2:])  # a shallow copy shares all tensors, those too


def test_saved_weights_hold_first_states_and_no_present_ones(module: nn.Module, tmp_path: Path):
    called(module, XS[:2])
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    state = torch.load(tmp_path / "weights.pt")
    assert sum(key.endswith(".initial") for key in state) == 2
    assert not any(key.endswith(".value") for key in state)
    fresh = Converter(recurrence(), verify=False).to_torch()
    assert fresh.load_state_dict(state) and same(called(fresh), wanted())


def test_as_source(tmp_path: Path):
    path = tmp_path / "cell.py"
    converter = Converter(recurrence(), verify=False)
    called(converter.to_torch(), XS[:2])
    converter.to_torch(save_source=path)
    spec = importlib.util.spec_from_file_location("cell", path)
    assert spec is not None and spec.loader is not None
    cell = sys.modules["cell"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cell)
    assert same(called(cell.load()), wanted())


def test_torch_exports_it_with_its_states():
    module = Converter(recurrence(), verify=False, dynamic_batch=False).to_torch()
    exported = torch.export.export(module, (XS[0],)).module()
    assert same(called(exported), wanted())
    module.reset_state()  # torch's export goes on with the tensors of the module itself
    assert same(called(module), wanted())


def test_it_names_what_it_was(module: nn.Module):
    layers = [part for part in module.modules() if isinstance(part, State)]
    assert [layer.names for layer in layers] == [("h/0", "h/out"), ("past", "past_next")]


# -- as a model of another format --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("batch", [1, N])
def test_states_are_inputs_and_outputs_again(batch: int | str, wrapped: bool):
    module = Converter(recurrence(batch), verify=False, dynamic_batch=False).to_torch()
    free = {"dynamic_batch": batch == N, "verify": "full"}
    if wrapped:
        converter = Converter(nn.Sequential(module, nn.Softplus()), input_shape=(1, 3), **free)
    else:
        converter = Converter(module, **free)
    made = converter.to_onnx()
    assert [v.name for v in made.graph.input][-2:] == ["h/0", "past"]
    assert [v.name for v in made.graph.output][-2:] == ["h/out", "past_next"]
    assert converter.report.steps[-1].verification.verdict == "verified"
    want = wanted()
    if wrapped:
        want = [np.log1p(np.exp(w)) for w in want]
    name = made.graph.input[0].name
    session = [next(iter(r.values())) for r in calls(made, STATES, [{name: f["x"]} for f in feeds()])]
    assert same(session, want)


@pytest.mark.parametrize(("origin", "batch"), [("onnx", 1), ("onnx", N), ("tflite", 1)])
def test_the_way_back(origin: str, batch: int | str):
    source = recurrence(batch) if origin == "onnx" else Converter(recurrence(), verify=False).to_tflite()
    converter = Converter(source, verify="full")
    module = converter.to_torch()
    called(module, XS[:2])
    untouched = converter.to_origin_type(module)
    assert untouched.SerializeToString() == source.SerializeToString() if origin == "onnx" else bytes(untouched) == bytes(source)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(0.9)
    trained = converter.to_origin_type(module)
    assert converter.report.way_back == "trained weights written back into the origin"
    module.reset_state()
    assert same(_ran(trained, origin), called(module))
    for n in module.graph.nodes:
        if n.target is torch.tanh:
            n.target = torch.sigmoid
    module.recompile()
    changed = converter.to_origin_type(module)
    assert converter.report.way_back.startswith("converted anew")
    module.reset_state()
    assert same(_ran(changed, origin), called(module))


def _ran(made, origin: str) -> list[np.ndarray]:
    if origin == "onnx":
        return [r["y"] for r in calls(made, STATES, feeds())]
    with made.runner() as runner:
        return [runner.run(f)["y"] for f in feeds()]
