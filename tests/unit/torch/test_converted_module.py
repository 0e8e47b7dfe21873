"""What a converted module does beyond computing: it copies, saves, trains, exports and reads as ordinary torch."""

import copy
import io
import re

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn

from mlconverter import Converter
from mlconverter.formats.torch.from_onnx import convert
from mlconverter.formats.torch.module import ConvertedModule
from mlconverter.hub.io import signature_of
from mlconverter.hub.model import HubModel
from mlconverter.hub.weights import Densify, WeightLink
from mlconverter.options import ConvertOptions
from tests.ops.onnx_torch.models import FLOAT, INT64, N, ints, model, node, weight


def convolutional() -> torch.nn.Module:
    """Conv, BatchNormalization, Relu, pooling, Dropout and a dense layer."""
    c = 6
    weights = {
        "conv.weight": weight(c, 3, 3, 3),
        "bn.weight": np.abs(weight(c, seed=1)),
        "bn.bias": weight(c, seed=2),
        "bn.running_mean": weight(c, seed=3),
        "bn.running_var": np.abs(weight(c, seed=4)) + 0.5,
        "ratio": np.array(0.5, np.float32),
        "fc.weight": weight(4, c),
        "fc.bias": weight(4),
    }
    nodes = [
        node("Conv", "x conv.weight", "a", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "a bn.weight bn.bias bn.running_mean bn.running_var", "b", momentum=0.9),
        node("Relu", "b", "c"),
        node("GlobalAveragePool", "c", "d"),
        node("Flatten", "d", "e"),
        node("Dropout", "e ratio", "f"),
        node("Gemm", "f fc.weight fc.bias", "y", transB=1),
    ]
    return Converter(model(nodes, {"x": (N, 3, 8, 8)}, {"y": FLOAT}, weights), verify=False).to_torch()


def attention() -> torch.nn.Module:
    """Embedding, LayerNormalization, one attention head reshaped by the sizes of its input, and a tied head."""
    d = 8
    weights = {
        "table": weight(11, d),
        "ln.weight": weight(d),
        "ln.bias": weight(d),
        "q": weight(d, d),
        "k": weight(d, d),
        "v": weight(d, d),
        "scale": np.array(d**-0.5, np.float32),
        "zero": ints(0),
        "one": ints(1),
        "heads": ints(2, d // 2),
        "all": ints(d),
    }
    nodes = [
        node("Gather", "table ids", "h"),
        node("LayerNormalization", "h ln.weight ln.bias", "n", axis=-1),
        node("Shape", "n", "s"),
        node("Gather", "s zero", "s0"),
        node("Gather", "s one", "s1"),
        node("Concat", "s0 s1 heads", "split", axis=0),
        node("Concat", "s0 s1 all", "join", axis=0),
        *(
            made
            for name in "qkv"
            for made in (
                node("MatMul", f"n {name}", f"{name}0"),
                node("Reshape", f"{name}0 split", f"{name}1"),
                node("Transpose", f"{name}1", f"{name}2", perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
            )
        ),
        node("MatMul", "q2 k2", "scores"),
        node("Mul", "scores scale", "scaled"),
        node("Softmax", "scaled", "weights", axis=-1),
        node("MatMul", "weights v2", "mixed"),
        node("Transpose", "mixed", "back", perm=[0, 2, 1, 3]),
        node("Reshape", "back join", "joined"),
        node("Add", "joined h", "sum"),
        node("Transpose", "table", "tableT", perm=[1, 0]),
        node("MatMul", "sum tableT", "y"),
    ]
    return Converter(model(nodes, {"ids": (INT64, (N, 5))}, {"y": FLOAT}, weights), verify=False).to_torch()


IMAGES, TOKENS = torch.randn(2, 3, 8, 8), torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]])
BOTH = pytest.mark.parametrize(("make", "x"), [(convolutional, IMAGES), (attention, TOKENS)])


@BOTH
def test_a_copy_computes_the_same_and_trains_alone(make, x):
    module = make()
    twin = copy.deepcopy(module)
    want = module(x)
    torch.testing.assert_close(twin(x), want)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1.0)
    torch.testing.assert_close(module(x), want)
    assert isinstance(twin, ConvertedModule) and twin.weight_origins == module.weight_origins
    assert len(list(twin.parameters())) == len(list(module.parameters()))  # ties are copied as ties


@BOTH
def test_weights_go_through_a_file(make, x):
    module, other = make(), make()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.5)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(other(x), module(x))


def test_parameters_bear_the_names_of_the_initializers():
    assert dict(convolutional().state_dict()).keys() == {
        "conv.weight",
        "bn.weight",
        "bn.bias",
        "bn.running_mean",
        "bn.running_var",
        "bn.num_batches_tracked",
        "fc.weight",
        "fc.bias",
    }


def test_it_arrives_in_eval_mode():
    assert not convolutional().training


def test_batch_norm_obeys_the_mode():
    module = convolutional()
    layer = next(m for m in module.modules() if isinstance(m, nn.BatchNorm2d))
    before = layer.running_mean.clone()
    module(IMAGES)
    assert torch.equal(layer.running_mean, before)
    module.train()
    module(IMAGES)
    batch = module.get_submodule("conv")(IMAGES).mean((0, 2, 3))
    torch.testing.assert_close(layer.running_mean, before * 0.9 + batch * 0.1)


def test_dropout_obeys_the_mode():
    module = convolutional()
    assert torch.equal(module(IMAGES), module(IMAGES))
    module.train()
    assert not torch.equal(module(IMAGES), module(IMAGES))


@BOTH
def test_a_step_of_training_lowers_the_loss(make, x):
    module = make().train()
    for layer in module.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        loss = module(x).square().mean()
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]


@BOTH
def test_export_keeps_the_batch_free(make, x):
    module = make()
    exported = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},), strict=False)
    more = torch.cat([x, x, x])
    torch.testing.assert_close(exported.module()(more), module(more))


@BOTH
def test_compile_takes_the_whole_graph(make, x):
    module = make()
    torch.testing.assert_close(torch.compile(module, backend="eager", fullgraph=True)(x), module(x))


@BOTH
def test_half_the_way_back_to_onnx(make, x):
    module = make()
    again = Converter(model=module, input_shape=x if x.dtype != torch.float32 else tuple(x.shape), verify="fast").to_onnx()
    assert again.graph.node


def test_code_reads_like_a_person_wrote_it():
    code = convolutional().code
    for line in ("self.conv(", "self.bn(", "relu(", ".mean((2, 3), keepdim=True)", ".flatten(1)", "self.fc("):
        assert line in code
    assert not re.search(r"wrap_index|sizes_tensor", code)


def test_it_runs_at_every_batch():
    for make, x in ((convolutional, IMAGES), (attention, TOKENS)):
        module = make()
        together = module(x)
        torch.testing.assert_close(torch.cat([module(row.unsqueeze(0)) for row in x]), together)


def test_new_tensors_lie_where_the_input_lies():
    nodes = [node("Shape", "x", "s"), node("ConstantOfShape", "s", "zeros"), node("Add", "x zeros", "y")]
    module = Converter(model(nodes, {"x": (N, 3)}, {"y": FLOAT}), verify=False).to_torch()
    assert module.to("meta")(torch.empty(2, 3, device="meta")).device.type == "meta"


def test_gradients_of_a_sparse_weight_keep_to_what_is_stored_in_a_copy_too():
    dense = np.zeros((4, 6), np.float32)
    dense.reshape(-1)[[0, 7, 20]] = 1.0
    proto = model([node("MatMul", "x w", "y")], {"x": (N, 4)}, {"y": FLOAT}, {"w": dense})
    source = ir.from_proto(proto)
    link = WeightLink("stored", "w", (Densify((4, 6), np.array([0, 7, 20])),))
    module, _ = convert(HubModel(source, signature_of(source), (link,)), ConvertOptions(), "")
    for one in (module, copy.deepcopy(module)):
        one(torch.randn(3, 4)).sum().backward()
        (parameter,) = one.parameters()
        assert parameter.grad is not None
        np.testing.assert_array_equal(parameter.grad.numpy().T != 0, dense != 0)
