"""Quantised graphs: exact in eval mode, and trained through as fake quantisation."""

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from mlconverter import Converter
from tests.ops.onnx_torch.check import check, feeds_of, run_torch
from tests.ops.onnx_torch.models import FLOAT, N, model, node, weight

INT8, UINT8, INT16, UINT16, INT32 = (getattr(TensorProto, n) for n in "INT8 UINT8 INT16 UINT16 INT32".split())
NUMPY = {INT8: np.int8, UINT8: np.uint8, INT16: np.int16, UINT16: np.uint16, INT32: np.int32}


def scalar(value: float, dtype: type = np.float32) -> np.ndarray:
    return np.array(value, dtype)


def there_and_back(kind: int, *, scale: np.ndarray, zero: np.ndarray | None, axis: int = 1, opset: int = 21) -> onnx.ModelProto:
    names = "x scale zero" if zero is not None else "x scale"
    attributes = {"axis": axis} if scale.ndim else {}
    nodes = [
        node("QuantizeLinear", names, "q", **attributes),
        node("DequantizeLinear", names.replace("x", "q"), "y", **attributes),
    ]
    weights = {"scale": scale, **({} if zero is None else {"zero": zero})}
    return model(nodes, {"x": [N, 5, 4]}, {"y": FLOAT}, weights, opset)


@pytest.mark.parametrize(
    ("kind", "opset"), [*((kind, opset) for kind in (INT8, UINT8) for opset in (10, 13, 19, 21)), (INT16, 21), (UINT16, 21)]
)
def test_there_and_back(kind, opset):
    check(there_and_back(kind, scale=scalar(0.013), zero=scalar(3, NUMPY[kind]), opset=opset))
    check(there_and_back(kind, scale=scalar(0.013), zero=scalar(0, NUMPY[kind]), opset=opset))


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_a_scale_for_each_index_of_an_axis(axis):
    count = (None, 5, 4)[axis]
    scale = np.linspace(0.005, 0.03, count).astype(np.float32)
    check(there_and_back(INT8, scale=scale, zero=np.arange(count).astype(np.int8), axis=axis))


def test_quantised_values_can_be_outputs():
    made = model(
        [node("QuantizeLinear", "x scale zero", "q"), node("DequantizeLinear", "q scale zero", "y")],
        {"x": [N, 6]},
        {"q": UINT8, "y": FLOAT},
        {"scale": scalar(0.01), "zero": scalar(128, np.uint8)},
    )
    module = check(made)
    assert "fake_quantize" not in module.code


def test_one_scale_and_then_another_is_no_fake_quantisation():
    made = model(
        [node("QuantizeLinear", "x scale zero", "q"), node("DequantizeLinear", "q other zero", "y")],
        {"x": [N, 6]},
        {"y": FLOAT},
        {"scale": scalar(0.01), "other": scalar(0.02), "zero": scalar(128, np.uint8)},
    )
    assert "fake_quantize" not in check(made).code


def test_gradients_pass_straight_through_inside_of_the_range():
    module = check(there_and_back(INT8, scale=scalar(0.01), zero=scalar(0, np.int8)))
    assert "fake_quantize" in module.code
    x = torch.tensor([[[-2.0, -1.0, 0.004, 1.0, 2.0]]]).expand(1, 4, 5).mT.contiguous().requires_grad_()
    module(x).sum().backward()
    torch.testing.assert_close(x.grad[0, :, 0], torch.tensor([0.0, 1, 1, 1, 0]))


def network() -> onnx.ModelProto:
    """Two quantised layers with float weights that are quantised in the graph, as training leaves them."""
    nodes = []

    def quantised(name: str, scale: str, zero: str) -> str:
        nodes.append(node("QuantizeLinear", f"{name} {scale} {zero}", f"{name}_q"))
        nodes.append(node("DequantizeLinear", f"{name}_q {scale} {zero}", f"{name}_d"))
        return f"{name}_d"

    nodes.append(node("Conv", f"{quantised('x', 's', 'z')} {quantised('w', 'sw', 'zw')} b", "h", pads=[1, 1, 1, 1]))
    nodes.append(node("Relu", "h", "r"))
    nodes.append(node("GlobalAveragePool", quantised("r", "s", "z"), "p"))
    nodes.append(node("Flatten", "p", "f"))
    nodes.append(node("MatMul", f"f {quantised('v', 'sw', 'zw')}", "y"))
    weights = {
        "w": weight(6, 3, 3, 3),
        "b": weight(6, seed=1),
        "v": weight(6, 4, seed=2),
        "s": scalar(0.02),
        "z": scalar(128, np.uint8),
        "sw": scalar(0.01),
        "zw": scalar(0, np.int8),
    }
    return model(nodes, {"x": [N, 3, 8, 8]}, {"y": FLOAT}, weights)


def test_a_quantised_network_is_trained():
    converter = Converter(network(), rtol=5e-3)  # a value at the edge of two steps becomes either
    module = converter.to_torch()
    assert converter.report.verdict == "verified"
    shapes = sorted(tuple(p.shape) for p in module.parameters())
    assert shapes == [(6,), (6, 3, 3, 3), (6, 4)]
    x, wanted = torch.rand(4, 3, 8, 8), torch.rand(4, 4)
    optimizer = torch.optim.SGD(module.parameters(), 0.5)
    losses = []
    for _ in range(30):
        loss = torch.nn.functional.mse_loss(module(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in module.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    converter.to_origin_type(module)
    assert converter.report.verdict == "verified"


@pytest.mark.parametrize("kind", [INT8, UINT8])
@pytest.mark.parametrize(
    ("attributes", "shape", "kernel"),
    [
        ({}, [N, 4, 6, 7], (5, 4, 3, 2)),
        ({"pads": [1, 0, 2, 1], "strides": [2, 1]}, [N, 4, 6, 7], (5, 4, 3, 3)),
        ({"group": 2, "dilations": [2, 1]}, [N, 4, 6, 7], (6, 2, 2, 3)),
        ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, [N, 4, 6, 7], (5, 4, 3, 3)),
        ({"auto_pad": "SAME_LOWER", "strides": [2, 2]}, [N, 4, 6, 7], (5, 4, 2, 2)),
        ({}, [N, 4, 9], (5, 4, 3)),
    ],
    ids=str,
)
@pytest.mark.parametrize("per_channel", [False, True])
def test_quantised_convolutions(kind, attributes, shape, kernel, per_channel):
    rng = np.random.default_rng(0)
    channels = kernel[0]
    weights = {
        "xs": scalar(0.02),
        "xz": scalar(3, NUMPY[kind]),
        "w": rng.integers(-100, 100, kernel).astype(np.int8),
        "ws": np.linspace(0.01, 0.02, channels).astype(np.float32) if per_channel else scalar(0.013),
        "wz": np.zeros(channels, np.int8) if per_channel else scalar(0, np.int8),
        "ys": scalar(1.1),
        "yz": scalar(5, NUMPY[kind]),
        "b": rng.integers(-1000, 1000, channels).astype(np.int32),
    }
    made = model(
        [node("QLinearConv", "x xs xz w ws wz ys yz b", "y", **attributes)], {"x": (kind, shape)}, {"y": kind}, weights, 13
    )
    check(made, low=-100, high=100)


@pytest.mark.parametrize("kind", [INT8, UINT8])
def test_products_of_integers(kind):
    weights = {
        "b": np.random.default_rng(1).integers(-100, 100, (5, 3)).astype(np.int8),
        "az": scalar(7, NUMPY[kind]),
        "bz": scalar(2, np.int8),
    }
    made = model([node("MatMulInteger", "a b az bz", "y")], {"a": (kind, [N, 4, 5])}, {"y": INT32}, weights)
    check(made, low=-100, high=100)
    made = model(
        [node("QLinearMatMul", "a as az b bs bz ys yz", "y")],
        {"a": (kind, [N, 4, 5])},
        {"y": kind},
        {**weights, "as": scalar(0.02), "bs": scalar(0.01), "ys": scalar(0.9), "yz": scalar(1, NUMPY[kind])},
    )
    check(made, low=-100, high=100)


def test_convolutions_of_integers():
    weights = {"w": np.random.default_rng(1).integers(0, 255, (5, 4, 3, 3)).astype(np.uint8), "xz": scalar(7, np.uint8)}
    made = model([node("ConvInteger", "x w xz", "y", pads=[1, 1, 1, 1])], {"x": (UINT8, [N, 4, 6, 7])}, {"y": INT32}, weights)
    check(made, low=0, high=255)


@pytest.mark.parametrize(("low", "high"), [(-2, 3), (0.5, 4), (-4, -1), (0, 0)])
def test_scales_from_the_values(low, high):
    outputs = {"y": UINT8, "scale": FLOAT, "zero": UINT8}
    check(model([node("DynamicQuantizeLinear", "x", "y scale zero")], {"x": [3, 5]}, outputs), low=low, high=high)


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_weights_of_four_bits(name):
    kind, signed = getattr(TensorProto, name.upper()), name == "int4"
    values = np.random.default_rng(0).integers(-8 if signed else 0, 8 if signed else 16, (6, 5))
    packed = helper.make_tensor("w", kind, [6, 5], values.reshape(-1).tolist())
    nodes = [node("DequantizeLinear", "w s", "d", axis=0), node("MatMul", "x d", "y")]
    made = model(nodes, {"x": [N, 6]}, {"y": FLOAT}, {"s": np.linspace(0.1, 0.2, 6).astype(np.float32)})
    made.graph.initializer.append(packed)
    module = check(made)
    np.testing.assert_array_equal(dict(module.named_buffers())["w"].numpy(), values)


def test_blocks_of_weights():
    values = np.random.default_rng(0).integers(-100, 100, (6, 5)).astype(np.int8)
    scale = np.random.default_rng(1).uniform(0.01, 0.1, (3, 5)).astype(np.float32)
    nodes = [node("DequantizeLinear", "w s", "d", axis=0, block_size=2), node("MatMul", "x d", "y")]
    check(model(nodes, {"x": [N, 6]}, {"y": FLOAT}, {"w": values, "s": scale}))


def test_a_verified_conversion_of_narrow_inputs_and_outputs():
    made = model([node("Cast", "x", "y", to=TensorProto.INT4)], {"x": [N, 4]}, {"y": TensorProto.INT4})
    module = Converter(made, verify=False).to_torch()
    assert run_torch(module, feeds_of(made, 3))[0].dtype == np.int8
