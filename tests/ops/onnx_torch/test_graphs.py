"""Graphs of several nodes: outputs by value, weights that train, sizes that follow the batch, and what is refused."""

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from mlconverter import Converter
from mlconverter.errors import MLConverterError, UnsupportedOpsError
from tests.ops.onnx_torch.check import check, compare, run_torch
from tests.ops.onnx_torch.models import BOOL, FLOAT, INT64, N, ints, model, node, weight


def gradients(module: torch.nn.Module, *inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    result = module(*inputs)
    (result if isinstance(result, torch.Tensor) else result[0]).float().pow(2).sum().backward()
    return {name: p.grad for name, p in module.named_parameters()}


# -- outputs by value --------------------------------------------------------------------------------------------------


def test_only_the_indices_of_topk():
    check(model([node("TopK", "x k", "values indices", axis=1)], {"x": (N, 6)}, {"indices": INT64}, {"k": ints(3)}))


def test_split_in_reverse():
    parts = node("Split", "x sizes", "a b c", axis=1)
    check(model([parts], {"x": (N, 6)}, {"c": FLOAT, "a": FLOAT, "b": FLOAT}, {"sizes": ints(1, 3, 2)}))


def test_one_value_as_two_outputs():
    nodes = [node("Relu", "x", "y"), node("Identity", "y", "z")]
    check(model(nodes, {"x": (N, 3)}, {"y": FLOAT, "z": FLOAT}))


def test_an_input_as_output():
    nodes = [node("Relu", "x", "y")]
    check(model(nodes, {"x": (N, 3), "other": (N, 2)}, {"y": FLOAT, "other": FLOAT}))


def test_a_constant_as_output():
    check(model([node("Identity", "w", "y")], {"x": (N, 3)}, {"y": FLOAT}, {"w": weight(2, 3)}))


def test_names_that_are_no_identifiers():
    nodes = [node("Sub", "x/y:0 1", "z")]
    module = check(model(nodes, {"1": (N, 3), "x/y:0": (N, 3)}, {"z": FLOAT}))
    assert len(module.origin.signature.inputs) == 2


# -- weights -----------------------------------------------------------------------------------------------------------


def test_dense_layers_of_keras_are_linear_layers_that_train():
    nodes = [
        node("MatMul", "x dense/kernel", "a"),
        node("Add", "a dense/bias", "b"),
        node("Relu", "b", "c"),
        node("MatMul", "c dense_1/kernel", "d"),
        node("Add", "dense_1/bias d", "e"),
    ]
    weights = {"dense/kernel": weight(4, 8), "dense/bias": weight(8), "dense_1/kernel": weight(8, 2), "dense_1/bias": weight(2)}
    module = check(model(nodes, {"x": (N, 4)}, {"e": FLOAT}, weights))
    assert {type(layer).__name__ for layer in module.modules()} >= {"Linear"}
    found = gradients(module, torch.randn(3, 4))
    assert len(found) == 4 and all(g is not None and g.abs().sum() > 0 for g in found.values())
    assert {o.source for origins in module.weight_origins.values() for o in origins} == set(weights)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("shape", [None, (1,), (5,), (1, 5), (3, 1), (3, 5)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.5, 1.0), (1.0, 2.0)])
def test_gemm_trains(transposed, shape, alpha, beta):
    weights = {"w": weight(*((5, 4) if transposed else (4, 5)))} | ({"c": weight(*shape)} if shape else {})
    gemm = node("Gemm", "x w" + (" c" if shape else ""), "y", transB=transposed, alpha=alpha, beta=beta)
    module = check(model([gemm], {"x": (3, 4)}, {"y": FLOAT}, weights))
    found = gradients(module, torch.randn(3, 4))
    assert sum(g.numel() for g in found.values()) == sum(w.size for w in weights.values())
    assert all(g.abs().sum() > 0 for g in found.values())


@pytest.mark.parametrize(
    ("op", "inputs", "weights", "attributes"),
    [
        ("Conv", (N, 3, 8, 8), [weight(4, 3, 3, 3), weight(4)], {}),
        ("ConvTranspose", (N, 3, 8, 8), [weight(3, 4, 3, 3), weight(4)], {"strides": [2, 2]}),
        ("MatMul", (N, 5, 4), [weight(4, 6)], {}),
        ("PRelu", (N, 4, 3, 3), [weight(4, 1, 1)], {}),
        ("LayerNormalization", (N, 5, 4), [weight(4), weight(4)], {}),
        ("InstanceNormalization", (N, 4, 3, 3), [weight(4), weight(4)], {}),
    ],
)
def test_layers_train(op, inputs, weights, attributes):
    names = [f"layer.{name}" for name in ("weight", "bias")][: len(weights)]
    made = model(
        [node(op, " ".join(["x", *names]), "y", **attributes)],
        {"x": inputs},
        {"y": FLOAT},
        dict(zip(names, weights, strict=True)),
    )
    module = check(made)
    assert [name for name, _ in module.named_parameters()] == names
    found = gradients(module, torch.randn(2, *inputs[1:]))
    assert all(g.abs().sum() > 0 for g in found.values())


def test_an_embedding_trains():
    module = check(
        model([node("Gather", "table ids", "y")], {"ids": (INT64, (N, 3))}, {"y": FLOAT}, {"table": weight(9, 4)}), low=0, high=8
    )
    assert type(next(m for m in module.modules() if isinstance(m, torch.nn.Embedding))) is torch.nn.Embedding
    assert gradients(module, torch.tensor([[1, 2, 3]]))["table.weight"].abs().sum() > 0


def test_ties_stay_tied_and_equal_weights_stay_apart():
    shared, twin = weight(4, 4), weight(4, 4)
    nodes = [node("MatMul", "x w", "a"), node("MatMul", "a w", "b"), node("MatMul", "b twin", "y")]
    module = check(model(nodes, {"x": (N, 4)}, {"y": FLOAT}, {"w": shared, "twin": twin}))
    assert len(list(module.parameters())) == 2


def test_an_embedding_tied_to_the_head_is_one_parameter():
    nodes = [
        node("Gather", "table ids", "h"),
        node("Transpose", "table", "t", perm=[1, 0]),
        node("MatMul", "h t", "y"),
    ]
    made = model(nodes, {"ids": (INT64, (N, 3))}, {"y": FLOAT}, {"table": weight(9, 4)})
    assert len(list(check(made, low=0, high=8).parameters())) == 1


def test_a_weight_used_both_ways_round_is_one_parameter():
    nodes = [node("MatMul", "x w", "a"), node("Transpose", "w", "t", perm=[1, 0]), node("MatMul", "a t", "y")]
    module = check(model(nodes, {"x": (N, 4)}, {"y": FLOAT}, {"w": weight(4, 6)}))
    assert len(list(module.parameters())) == 1


# -- the batch ---------------------------------------------------------------------------------------------------------


def test_a_flatten_spelled_out_with_shapes():
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "n", axis=0),
        node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 rest", "target", axis=0),
        node("Reshape", "x target", "y"),
    ]
    weights = {"zero": np.array(0, np.int64), "axis": ints(0), "rest": ints(-1)}
    module = check(model(nodes, {"x": (N, 3, 4)}, {"y": FLOAT}, weights))
    assert "sizes_tensor" not in module.code  # shapes stay out of tensors


def test_a_reshape_that_keeps_a_batch_of_one_is_freed():
    nodes = [node("Reshape", "x target", "a"), node("Relu", "a", "y")]
    made = model(nodes, {"x": (1, 3, 4)}, {"y": FLOAT}, {"target": ints(1, -1)})
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, (1, 12)))
    module = Converter(made, verify=False).to_torch()
    assert module(torch.randn(3, 3, 4)).shape == (3, 12)


@pytest.mark.parametrize("batch", [1, 4])
def test_batch_norm_behind_a_convolution(batch):
    c = 5
    weights = {"w": weight(c, 3, 3, 3), "s": weight(c), "b": weight(c), "m": weight(c), "v": np.abs(weight(c)) + 0.5}
    nodes = [node("Conv", "x w", "a"), node("BatchNormalization", "a s b m v", "y")]
    check(model(nodes, {"x": (batch, 3, 6, 6)}, {"y": FLOAT}, weights))


def test_a_chain_of_depthwise_convolutions():
    nodes, weights, previous = [], {}, "x"
    for i in range(4):
        weights |= {
            f"w{i}": weight(6, 1, 3, 3, seed=i, scale=0.3),
            f"s{i}": weight(6, seed=i),
            f"b{i}": weight(6),
            f"m{i}": weight(6),
        }
        weights[f"v{i}"] = np.abs(weight(6, seed=i)) + 0.5
        nodes += [
            node("Conv", f"{previous} w{i}", f"a{i}", group=6, pads=[1, 1, 1, 1]),
            node("BatchNormalization", f"a{i} s{i} b{i} m{i} v{i}", f"c{i}"),
            node("Clip", f"c{i} low high", f"y{i}"),
        ]
        previous = f"y{i}"
    weights |= {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}
    check(model(nodes, {"x": (N, 6, 8, 8)}, {previous: FLOAT}, weights))


def test_expand_by_the_size_of_another_input():
    nodes = [node("Shape", "y", "s"), node("Expand", "x s", "z")]
    made = model(nodes, {"x": ("n", 1), "y": ("m", 3)}, {"z": FLOAT})
    for n, m in ((1, 4), (4, 1), (4, 4)):
        check(made, {"x": weight(n, 1), "y": weight(m, 3)})


# -- what was wrong once -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 3, 8])
@pytest.mark.parametrize(("by", "expected"), [(2, "start"), (-2, "end")])
def test_a_difference_of_sizes_is_divided_towards_zero(length, by, expected):
    """(length - 3) / 2 is 0 for a length of 2, where rounding down gives -1."""
    nodes = [
        node("Shape", "x", "shape", start=1, end=2),
        node("Sub", "shape three", "less"),
        node("Div", "less by", "half"),
        node("Slice", "x half far axis" if expected == "start" else "x zero half axis", "y"),
    ]
    weights = {"three": ints(3), "by": ints(by), "far": ints(99), "zero": ints(0), "axis": ints(1)}
    source = model(nodes, {"x": (2, "length")}, {"y": FLOAT}, weights)
    check(source, {"x": weight(2, length)})


@pytest.mark.parametrize("length", [2, 5])
def test_a_difference_of_sizes_may_be_minus_one(length):
    nodes = [
        node("Shape", "x", "shape", start=1, end=2),
        node("Sub", "shape three", "less"),
        node("Equal", "less minus", "same"),
        node("Where", "same seven less", "z"),
        node("Add", "z shape", "y"),
    ]
    weights = {"three": ints(3), "minus": ints(-1), "seven": ints(7)}
    check(model(nodes, {"x": (2, "length")}, {"y": INT64}, weights), {"x": weight(2, length)})


def test_slopes_of_old_opsets_belong_to_channels():
    x, slope = weight(2, 4, 3, 4), weight(4)
    module = Converter(
        model([node("PRelu", "x s", "y")], {"x": x.shape}, {"y": FLOAT}, {"s": slope}, opset=6), verify=False
    ).to_torch()
    compare(run_torch(module, {"x": x}), [np.where(x < 0, x * slope.reshape(1, 4, 1, 1), x)])


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("shape", [(2, 5, 3, 4), (2, 4, 5), (2, 4)])
def test_local_response_norm_sums_one_channel_more_upwards(size, shape):
    x = weight(*shape)
    below, above = (size - 1) // 2, -(-(size - 1) // 2)
    windows = [np.square(x[:, max(0, c - below) : c + above + 1]).sum(1) for c in range(shape[1])]
    want = x / (2 + 0.1 / size * np.stack(windows, 1)) ** 0.5
    made = model([node("LRN", "x", "y", size=size, alpha=0.1, beta=0.5, bias=2.0)], {"x": shape}, {"y": FLOAT})
    compare(run_torch(Converter(made, verify=False).to_torch(), {"x": x}), [want])


def test_unsigned_numbers_beyond_the_signed_range():
    x = np.array([2**64 - 1, 5, 2**63], np.uint64)
    kind = onnx.TensorProto.UINT64
    nodes = [node("Less", "x y", "a"), node("Max", "x y", "b"), node("Add", "x y", "c")]
    made = model(nodes, {"x": (kind, (3,)), "y": (kind, (3,))}, {"a": BOOL, "b": kind, "c": kind})
    check(made, {"x": x, "y": x[::-1].copy()})


def test_constants_from_attributes_are_not_mixed_up():
    nodes = [node("TopK", "x", "a i", k=2, axis=1), node("TopK", "x", "b j", k=3, axis=1)]
    made = model(nodes, {"x": (N, 5)}, {"a": FLOAT, "b": FLOAT}, opset=9)
    check(made)


@pytest.mark.parametrize(("mode", "refused"), [(None, False), (False, False), (True, True)])
def test_training_mode_of_dropout(mode, refused):
    weights = {"ratio": np.array(0.5, np.float32)} | ({} if mode is None else {"mode": np.array(mode)})
    made = model([node("Dropout", "x ratio" + ("" if mode is None else " mode"), "y")], {"x": (N, 9)}, {"y": FLOAT}, weights)
    if refused:
        with pytest.raises(UnsupportedOpsError, match="training_mode=1"):
            Converter(made, verify=False).to_torch()
    else:
        check(made)


def test_everything_that_is_unsupported_is_named_at_once():
    odd = node("LSTM", "x w r", "a", hidden_size=3, activations=["Sigmoid", "Tanh", "Sine"])
    nodes = [odd, node("ImageDecoder", "b", "c"), node("Relu", "x", "y")]
    weights = {"w": weight(1, 12, 4), "r": weight(1, 12, 3)}
    made = model(
        nodes,
        {"x": (5, N, 4), "b": (onnx.TensorProto.UINT8, (N,))},
        {"a": FLOAT, "c": onnx.TensorProto.UINT8, "y": FLOAT},
        weights,
    )
    with pytest.raises(UnsupportedOpsError) as caught:
        Converter(made, verify=False).to_torch()
    assert {o.op for o in caught.value.ops} == {"LSTM", "ImageDecoder"}


def test_integers_are_not_interpolated():
    made = model(
        [node("Resize", "x _ scales", "y", mode="linear")],
        {"x": (INT64, (1, 1, 4, 4))},
        {"y": INT64},
        {"scales": np.array([1, 1, 2, 2], np.float32)},
    )
    with pytest.raises(MLConverterError, match="how integers are rounded"):
        Converter(made, verify=False).to_torch()


def test_gradients_reach_weights_through_statistics_that_are_computed_from_them():
    """Weights that are standardised by a normalisation of their own before a convolution uses them."""
    nodes = [
        node("Reshape", "w flat", "rows"),
        helper.make_node("ReduceMean", ["rows"], ["mean"], axes=[0, 2], keepdims=0),
        node("Mul", "rows rows", "squares"),
        helper.make_node("ReduceMean", ["squares"], ["var"], axes=[0, 2], keepdims=0),
        node("BatchNormalization", "rows gain zero mean var", "normal"),
        node("Reshape", "normal shape", "kernel"),
        node("Conv", "x kernel", "y"),
    ]
    constants = {
        "w": weight(6, 3, 3, 3),
        "gain": weight(6, seed=1),
        "zero": np.zeros(6, np.float32),
        "flat": np.array([1, 6, -1]),
        "shape": np.array([6, 3, 3, 3]),
    }
    module = check(model(nodes, {"x": [N, 3, 6, 6]}, {"y": FLOAT}, constants, 17))
    module(torch.rand(2, 3, 6, 6)).square().sum().backward()
    reached = {p.numel() for p in module.parameters() if p.grad is not None and bool(p.grad.abs().sum() > 0)}
    assert {6 * 3 * 3 * 3, 6} <= reached


class ScaledActivation(torch.nn.Module):
    """An activation with a scale and an offset of one number each, which are trained."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.offset = torch.nn.Parameter(torch.tensor(0.9)), torch.nn.Parameter(torch.tensor([-0.4]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * torch.relu(x) ** 2 + self.offset


def test_parameters_of_one_number_are_trained():
    original = torch.nn.Sequential(torch.nn.Linear(4, 4), ScaledActivation(), torch.nn.Linear(4, 2)).eval()
    module = Converter(Converter(original, input_shape=(N, 4)).to_onnx()).to_torch()
    assert sorted(p.numel() for p in module.parameters()) == sorted(p.numel() for p in original.parameters())
    module(torch.rand(3, 4)).sum().backward()
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in module.parameters())
