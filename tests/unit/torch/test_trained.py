"""What comes back from training is accepted in whatever form people have it, and compared with what they have."""

import copy

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import numpy_helper

from mlconverter import Converter, SignatureError
from mlconverter.formats.torch.from_onnx import convert
from mlconverter.formats.torch.storage import Storage
from mlconverter.hub.io import signature_of
from mlconverter.hub.model import HubModel
from mlconverter.hub.weights import Densify, WeightLink
from mlconverter.options import ConvertOptions
from tests import zoo
from tests.ops.onnx_torch.models import FLOAT, INT64, N, model, node, weight
from tests.unit.torch.test_storage import half_stored, nudge


def plain() -> onnx.ModelProto:
    """Convolution, normalisation, a vector that the graph reads itself, and a layer, in single precision."""
    weights = {
        "conv.weight": weight(6, 3, 3, 3),
        "bn.weight": np.abs(weight(6, seed=1)),
        "bn.bias": weight(6, seed=2),
        "bn.running_mean": weight(6, seed=3),
        "bn.running_var": np.abs(weight(6, seed=4)) + 0.5,
        "scale": weight(6, 1, 1, seed=5),
        "fc.weight": weight(4, 6),
        "fc.bias": weight(4),
    }
    nodes = [
        node("Conv", "x conv.weight", "a", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "a bn.weight bn.bias bn.running_mean bn.running_var", "b"),
        node("Mul", "b scale", "c"),
        node("Relu", "c", "d"),
        node("GlobalAveragePool", "d", "e"),
        node("Flatten", "e", "f"),
        node("Gemm", "f fc.weight fc.bias", "y", transB=1),
    ]
    return model(nodes, {"x": (N, 3, 8, 8)}, {"y": FLOAT}, weights)


def tokens() -> onnx.ModelProto:
    """Integers in, and a weight of double precision among those of single."""
    weights = {"table": weight(100, 4), "fine": weight(4, seed=1).astype(np.float64)}
    nodes = [
        node("Gather", "table ids", "a"),
        node("Cast", "a", "b", to=11),
        node("Mul", "b fine", "c"),
        node("Cast", "c", "y", to=1),
    ]
    return model(nodes, {"ids": (INT64, (N, 5))}, {"y": FLOAT}, weights)


ORIGINS = {"single": plain, "half": half_stored, "double": tokens}


@pytest.mark.parametrize("origin", ORIGINS)
class TestPrecision:
    """Whatever precision a module was trained in, what comes back is compared in that of the origin."""

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_another_one_is_verified(self, origin: str, dtype: torch.dtype) -> None:
        converter = Converter(ORIGINS[origin]())
        module = converter.to_torch()
        nudge(module)
        module.to(dtype).train()
        before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        tuned = converter.to_origin_type(module)
        assert converter.report.verdict == "verified", converter.report
        assert {i.name: i.data_type for i in tuned.graph.initializer} == {
            i.name: i.data_type for i in ORIGINS[origin]().graph.initializer
        }
        assert module.training
        for name, tensor in module.state_dict().items():
            assert tensor.dtype == before[name].dtype and torch.equal(tensor, before[name])
        links = {link.target: link for link in module.origin.links}
        stored = {i.name: numpy_helper.to_array(i) for i in tuned.graph.initializer}
        for name, link in links.items():
            want = before[name].to(torch.float64).numpy()
            np.testing.assert_allclose(link.get(stored[link.source]), want, rtol=1e-3 if origin == "half" else 1e-7)

    def test_a_wider_one_loses_nothing(self, origin: str) -> None:
        converter = Converter(ORIGINS[origin]())
        assert converter.to_origin_type(converter.to_torch().double()) == ORIGINS[origin]()
        assert converter.report.verdict == "verified"

    def test_a_state_in_another_one(self, origin: str) -> None:
        converter = Converter(ORIGINS[origin]())
        module = copy.deepcopy(converter.to_torch())
        nudge(module)
        state = module.half().state_dict()
        assert converter.to_origin_type(state) == converter.to_origin_type(module)
        assert converter.report.verdict == "verified"


def test_a_changed_graph_in_another_precision_is_converted_anew() -> None:
    converter = Converter(plain())
    module = converter.to_torch()
    next(n for n in module.graph.nodes if n.target is torch.nn.functional.relu).target = torch.nn.functional.silu
    module.recompile()
    again = converter.to_origin_type(module.half())
    assert converter.report.verdict == "verified" and "anew" in converter.report.way_back
    assert "Sigmoid" in {n.op_type for n in again.graph.node}


def test_a_hook_of_somebodys_own_is_in_what_comes_back() -> None:
    """It is a part of what the module computes, wherever it hangs."""
    for place in ("", "fc"):
        converter = Converter(plain())
        module = converter.to_torch()
        module.get_submodule(place).register_forward_hook(lambda layer, arguments, result: result * 3)
        again = converter.to_origin_type(module)
        assert converter.report.verdict == "verified" and "anew" in converter.report.way_back
        x = torch.randn(1, 3, 8, 8)
        with torch.no_grad():
            torch.testing.assert_close(Converter(again).to_torch()(x), module(x))


def test_what_has_no_values_is_refused() -> None:
    converter = Converter(plain())
    with pytest.raises(SignatureError, match="meta device"):
        converter.to_origin_type(converter.to_torch().to("meta"))


def compiled(module):
    return torch.compile(module, backend="eager")


def averaged(module):
    average = torch.optim.swa_utils.AveragedModel(module)
    average.update_parameters(module)
    return average


WRAPPERS = {
    "parallel": torch.nn.DataParallel,
    "compiled": compiled,
    "averaged": averaged,
    "compiled in parallel": lambda m: torch.nn.DataParallel(compiled(m)),
    "parallel, compiled": lambda m: compiled(torch.nn.DataParallel(m)),
    "average of compiled": lambda m: averaged(compiled(m)),
}


class TestWrappers:
    """What people wrap modules in for training."""

    @pytest.mark.parametrize("wrapper", WRAPPERS)
    def test_modules_and_their_states(self, wrapper: str) -> None:
        converter = Converter(plain())
        module = converter.to_torch()
        nudge(module)
        want = converter.to_origin_type(module)
        wrapped = WRAPPERS[wrapper](copy.deepcopy(module))
        assert converter.to_origin_type(wrapped) == want
        assert set(wrapped.state_dict()) != set(module.state_dict())
        assert converter.to_origin_type(wrapped.state_dict()) == want

    def test_a_model_whose_own_names_have_such_a_prefix(self) -> None:
        """As a file exported from inside a wrapper has them."""
        proto = model([node("MatMul", "x module.w", "a"), node("MatMul", "a w", "y")], {"x": (N, 3)}, {"y": FLOAT}, {})
        proto.graph.initializer.extend(
            [numpy_helper.from_array(weight(3, 3, seed=i), n) for i, n in enumerate(("module.w", "w"))]
        )
        converter = Converter(proto)
        module = converter.to_torch()
        nudge(module)
        want = converter.to_origin_type(module)
        assert converter.to_origin_type(module.state_dict()) == want
        assert converter.to_origin_type(torch.nn.DataParallel(module).state_dict()) == want

    def test_what_a_wrapper_of_somebodys_own_adds_is_not_lost(self) -> None:
        converter = Converter(plain())
        state = {f"module.{n}": t for n, t in converter.to_torch().state_dict().items()} | {"head.weight": torch.zeros(2, 4)}
        with pytest.raises(SignatureError, match=r"head\.weight"):
            converter.to_origin_type(state)


def without(state, name):
    return {n: t for n, t in state.items() if n != name}


class TestStates:
    """States that do not fit are refused, and what does not fit is said."""

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda s: without(s, "fc.bias"), [r"Missing.*fc\.bias"]),
            (lambda s: {**s, "more": torch.zeros(1)}, ["Unexpected.*more"]),
            (lambda s: {**s, "fc.weight": torch.zeros(4, 7)}, [r"fc\.weight.*\[4, 7\].*\[4, 6\]"]),
            (lambda s: {**without(s, "fc.bias"), "more": torch.zeros(1)}, [r"fc\.bias", "more"]),
            (lambda s: {**s, "fc.weight": s["fc.weight"].numpy()}, [r"fc\.weight.*ndarray"]),
            (lambda s: {**s, "fc.weight": "no tensor", "fc.bias": 3}, [r"fc\.weight.*str", r"fc\.bias.*int"]),
            (lambda s: {**s, "fc.weight": s["fc.weight"].to(torch.int8)}, [r"fc\.weight.*int8.*float32"]),
            (lambda s: {**s, "fc.weight": s["fc.weight"].to(torch.complex64)}, [r"fc\.weight.*complex64"]),
            (lambda s: {**s, "fc.weight": s["fc.weight"].to("meta")}, [r"fc\.weight.*meta"]),
            (lambda s: {**s, 7: torch.zeros(1)}, ["7 is no name"]),
            (lambda s: {}, ["Missing"]),
            (lambda s: {"state_dict": s}, ["state_dict.*dict"]),
        ],
        ids=["missing", "unexpected", "shape", "both", "array", "text", "integers", "complex", "meta", "key", "empty", "nested"],
    )
    def test_are_refused(self, change, said) -> None:
        converter = Converter(plain())
        module = converter.to_torch()
        state = dict(module.state_dict())
        before = {n: t.clone() for n, t in state.items()}
        with pytest.raises(SignatureError, match="do not fit") as caught:
            converter.to_origin_type(change(state))
        for pattern in said:
            assert caught.match(pattern)
        assert all(torch.equal(t, before[n]) for n, t in module.state_dict().items())

    def test_of_a_torch_source_are_loaded_into_a_copy(self) -> None:
        net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
        converter = Converter(net, input_shape=(1, 4))
        before = net[0].weight.clone()
        trained = {n: t * 2 for n, t in net.state_dict().items()}
        for state in (trained, {f"module.{n}": t for n, t in trained.items()}):
            back = converter.to_origin_type(state)
            assert back is not net and torch.equal(back[0].weight, before * 2) and torch.equal(net[0].weight, before)
        with pytest.raises(SignatureError, match="do not fit"):
            converter.to_origin_type({"1.weight": torch.zeros(3)})


DENSE = np.zeros((4, 6), np.float32)
DENSE.reshape(-1)[[0, 7, 20]] = 1.0


def sparse():
    """A module of which the origin stores three elements of a layer's weight, and two of a vector's."""
    vector = np.array([0, 2, 0, 3, 0, 0], np.float32)
    proto = model([node("MatMul", "x w", "a"), node("Add", "a v", "y")], {"x": (N, 4)}, {"y": FLOAT}, {"w": DENSE, "v": vector})
    source = ir.from_proto(proto)
    links = (
        WeightLink("stored", "w", (Densify((4, 6), np.array([0, 7, 20])),)),
        WeightLink("vector", "v", (Densify((6,), np.array([1, 3])),)),
    )
    module, _ = convert(HubModel(source, signature_of(source), links), ConvertOptions(), "")
    return module


def assert_gradients_keep_to_the_pattern(module) -> None:
    module(torch.randn(3, 4)).sum().backward()
    found = [p.grad.numpy().reshape(-1) for p in module.parameters() if p.grad is not None]
    assert sorted(int(np.count_nonzero(g)) for g in found) == [2, 3]


def assigned(module):
    module.load_state_dict({n: t.clone() for n, t in module.state_dict().items()}, assign=True)
    return module


def assigned_from_outside(module):
    """As a part of somebody's own module, which is the one that is loaded."""
    outer = torch.nn.Sequential(module)
    outer.load_state_dict({n: t.clone() for n, t in outer.state_dict().items()}, assign=True)
    return module


def replaced(module):
    for layer in module.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.weight = torch.nn.Parameter(layer.weight.detach().clone())
    return module


def frozen_and_copied(module):
    twin = copy.deepcopy(module.requires_grad_(False))
    return twin.requires_grad_(True)


def emptied(module):
    state = {n: t.clone() for n, t in module.state_dict().items()}
    module.to("meta").to_empty(device="cpu").load_state_dict(state)
    return module


WAYS = {
    "assigned": assigned,
    "assigned from outside": assigned_from_outside,
    "replaced": replaced,
    "frozen and copied": frozen_and_copied,
    "emptied": emptied,
    "deepcopy": copy.deepcopy,
    "averaged": lambda m: averaged(m).module,
    "compiled": compiled,
    "trained": lambda m: m.train(),
}


class TestSparse:
    """The pattern of a sparse weight holds whatever becomes of the parameter itself."""

    @pytest.mark.parametrize("way", WAYS)
    def test_gradients_keep_to_what_is_stored(self, way: str) -> None:
        assert_gradients_keep_to_the_pattern(WAYS[way](sparse()))

    @pytest.mark.parametrize("way", WAYS)
    def test_the_origin_is_still_known(self, way: str) -> None:
        module = WAYS[way](sparse())
        inner = module._orig_mod if way == "compiled" else module
        assert {o.source for origins in inner.weight_origins.values() for o in origins} == {"stored", "vector"}
        assert sum(isinstance(part, Storage) for part in inner.modules()) == 2

    def test_an_export_has_nothing_of_it(self) -> None:
        """Where nothing is trained nothing is masked."""
        exported = torch.export.export(sparse(), (torch.randn(2, 4),))
        assert "where" not in exported.graph_module.code

    def test_a_real_file_after_its_state_was_assigned(self) -> None:
        converter = Converter(model_path=zoo.model("mediapipe", "face_detection_full_range_sparse.tflite"), verify=False)
        module = assigned(converter.to_torch())
        optimiser = torch.optim.SGD(module.parameters(), lr=1e-5)
        sum(o.square().mean() for o in module(torch.rand(1, 192, 192, 3))).backward()
        optimiser.step()
        assert bytes(converter.to_origin_type(module)) != bytes(converter._inner.source)
