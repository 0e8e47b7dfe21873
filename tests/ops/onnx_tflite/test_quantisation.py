"""Quantised values are the numbers that ONNX means, halves to even."""

import numpy as np
import onnx
import pytest
from onnx import helper

from mlconverter import Converter
from tests.ops.onnx_torch.models import FLOAT, N, node, weight
from tests.ops.onnx_torch.models import model as build

from .check import check, operators

TYPES = {"int8": onnx.TensorProto.INT8, "uint8": onnx.TensorProto.UINT8, "int16": onnx.TensorProto.INT16}
TYPES["uint16"] = onnx.TensorProto.UINT16

SHAPE = (N, 6, 4)
SCALES = {
    "one": (np.float32(0.25), {}),
    "one in a list": (np.array([0.25], np.float32), {}),
    "channels": (np.array([0.5, 0.25, 0.125, 1, 0.1, 0.3], np.float32), {}),
    "the last axis": (np.array([0.5, 0.25, 0.1, 1], np.float32), {"axis": -1}),
    "blocks": (np.abs(weight(3, 2, 4)) + np.float32(0.1), {"axis": 1, "block_size": 3}),
}


def zeros(scale, name):
    limits = np.iinfo(name)
    return np.random.default_rng(0).integers(max(limits.min, -9), 9, np.shape(scale)).astype(name) + np.array(
        1 if limits.min == 0 else 0, name
    )


def case(op, dtype, kind, with_zero, constant):
    scale, attributes = SCALES[kind]
    scale = np.asarray(scale)
    shape = (3, *SHAPE[1:]) if kind == "blocks" else SHAPE
    settings = {"s": scale, **({"z": np.asarray(zeros(scale, dtype))} if with_zero else {})}
    given = {"x": shape} | ({} if constant else {k: v.shape for k, v in settings.items()})
    names = "x s z" if with_zero else "x s"
    dtypes = {"x": FLOAT if op == "QuantizeLinear" else TYPES[dtype], "s": FLOAT, "z": TYPES[dtype]}
    infos = [helper.make_tensor_value_info(k, dtypes[k], list(v)) for k, v in given.items()]
    result = TYPES[dtype] if op == "QuantizeLinear" else FLOAT
    if not with_zero and op == "QuantizeLinear":
        attributes = {**attributes, "output_dtype": TYPES[dtype]}
    graph = helper.make_graph(
        [node(op, names, "y", **attributes)],
        "quantised",
        infos,
        [helper.make_tensor_value_info("y", result, None)],
        [onnx.numpy_helper.from_array(v, k) for k, v in settings.items()] if constant else [],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feeds = None
    if op == "DequantizeLinear" or not constant:
        rng = np.random.default_rng(1)
        x = rng.integers(0, 100, (3, *shape[1:])).astype(dtype)
        if op == "QuantizeLinear":
            x = (rng.integers(-40, 40, (3, *shape[1:])) / 16).astype(np.float32)  # halves among the quotients
        feeds = {"x": x} | ({} if constant else settings)
    return made, feeds


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("with_zero", [True, False])
@pytest.mark.parametrize("constant", [True, False])
def test_each_number(op, dtype, kind, with_zero, constant):
    made, feeds = case(op, dtype, kind, with_zero, constant)
    if op == "DequantizeLinear" and not with_zero and dtype in ("int16", "uint16") and constant:
        made.opset_import[0].version = 21
    check(made, feeds)


def test_halves_go_to_the_even_neighbour():
    made = build(
        [node("QuantizeLinear", "x s z", "y")], {"x": (9,)}, {"y": TYPES["int8"]}, {"s": np.float32(1), "z": np.int8(0)}, 13
    )
    tflite = Converter(made, verify=False).to_tflite()
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 200, -200, 126.5], np.float32)
    with tflite.runner() as runner:
        assert runner.run({"x": x})["y"].tolist() == [-2, -2, 0, 0, 2, 2, 127, -128, 126]


def test_weights_are_dequantised_beforehand():
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.integers(-127, 127, (5, 3, 3, 3)).astype(np.int8),
        "ws": rng.uniform(0.01, 0.02, 5).astype(np.float32),
        "xs": np.float32(0.05),
        "xz": np.uint8(120),
        "b": rng.integers(-99, 99, 5).astype(np.int32),
        "bs": rng.uniform(0.001, 0.002, 5).astype(np.float32),
    }
    nodes = [
        node("QuantizeLinear", "x xs xz", "q"),
        node("DequantizeLinear", "q xs xz", "d"),
        node("DequantizeLinear", "w ws", "wd", axis=0),
        node("DequantizeLinear", "b bs", "bd", axis=0),
        node("Conv", "d wd bd", "y"),
    ]
    made = check(build(nodes, {"x": (N, 3, 7, 6)}, {"y": FLOAT}, weights, 13), rtol=1e-5)
    assert operators(made)["CONV_2D"] == 1


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_products_of_whole_numbers(constant, dtype):
    rng = np.random.default_rng(0)
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    arrays = {
        "a": rng.integers(low, high, (3, 4, 7)).astype(dtype),
        "b": rng.integers(low, high, (7, 5)).astype(dtype),
        "az": np.array(3, dtype),
        "bz": np.array(5, dtype),
    }
    kept = ["b", "az", "bz"] if constant else []
    graph = helper.make_graph(
        [node("MatMulInteger", "a b az bz", "y")],
        "integers",
        [helper.make_tensor_value_info(k, TYPES[dtype], v.shape) for k, v in arrays.items() if k not in kept],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, None)],
        [onnx.numpy_helper.from_array(arrays[k], k) for k in kept],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    check(made, {k: v for k, v in arrays.items() if k not in kept})
