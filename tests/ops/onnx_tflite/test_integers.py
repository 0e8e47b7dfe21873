"""Integers are exact to the last bit: at the ends of their range, whatever type LiteRT computes them in."""

import numpy as np
import onnx
import pytest
from onnx import helper

from mlconverter import Converter
from tests.ops.onnx_tflite.check import check, run_tflite
from tests.ops.onnx_torch.models import model, node

KINDS = {name: helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in ("int32", "int64", "uint32", "uint64")}
SMALL = {name: helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in ("int8", "uint8", "int16", "uint16")}
BOOL = onnx.TensorProto.BOOL


def edges(dtype: str) -> np.ndarray:
    """Numbers at and around the ends, the powers of two, and anywhere between."""
    info = np.iinfo(dtype)
    near = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2, info.max // 3, 0, 1, 2, 3, 7, 10, 127]
    near += [-n for n in (1, 2, 3, 10)] if info.min else []
    near += [sign * (1 << n) for n in range(2, info.bits - 1, 3) for sign in ((1, -1) if info.min else (1,))]
    anywhere = np.random.default_rng(0).integers(info.min, info.max, 40, dtype=dtype, endpoint=True)
    return np.concatenate([np.array(near, dtype), anywhere, anywhere >> np.array(info.bits // 2, dtype)])


def on_pairs(op: str, a: np.ndarray, b: np.ndarray, result: int | None = None, **attributes):
    kind = helper.np_dtype_to_tensor_dtype(a.dtype)
    nodes = [node(op, "a b", "y", **attributes)]
    made = model(nodes, {"a": (kind, a.shape), "b": (kind, b.shape)}, {"y": result or kind})
    return check(made, {"a": a, "b": b})


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Each with each, but what no processor divides."""
    a, b = (v.reshape(-1) for v in np.meshgrid(edges(dtype), edges(dtype)))
    defined = b != 0
    if np.iinfo(dtype).min:
        defined &= ~((a == np.iinfo(dtype).min) & (b == np.array(-1, dtype)))
    return a[defined], b[defined]


@pytest.mark.parametrize("dtype", [*KINDS, *SMALL])
@pytest.mark.parametrize(("op", "attributes"), [("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1})])
def test_divisions(op, attributes, dtype):
    if op == "Div" and dtype in SMALL:
        pytest.skip("ONNX Runtime has none")
    a, b = pairs(dtype)
    if attributes and np.iinfo(dtype).min:
        defined = (a != np.iinfo(dtype).min) & (b != np.iinfo(dtype).min)  # have no absolute value
        a, b = a[defined], b[defined]
    on_pairs(op, a, b, **attributes)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("dtype", KINDS)
def test_rings(op, dtype):
    on_pairs(op, edges(dtype)[:, None], edges(dtype))


@pytest.mark.parametrize("op", ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Max", "Min"])
@pytest.mark.parametrize("dtype", ["int64", "uint32", "uint64"])
def test_orders(op, dtype):
    if (op, dtype) == ("Equal", "uint32"):
        pytest.skip("ONNX Runtime has none")
    on_pairs(op, edges(dtype)[:, None], edges(dtype), None if op in ("Max", "Min") else BOOL)


@pytest.mark.parametrize("op", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
@pytest.mark.parametrize("dtype", [*KINDS, *SMALL])
def test_bits(op, dtype):
    on_pairs(op, edges(dtype)[:, None], edges(dtype))


@pytest.mark.parametrize("dtype", [*KINDS, *SMALL])
def test_all_bits_turned(dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    check(model([node("BitwiseNot", "a", "y")], {"a": (kind, edges(dtype).shape)}, {"y": kind}), {"a": edges(dtype)})


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_shifts(direction, dtype):
    steps = np.arange(np.iinfo(dtype).bits, dtype=dtype)
    on_pairs("BitShift", edges(dtype)[:, None], steps, direction=direction)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for by in (np.array([3], dtype), steps[:, None, None]):
        made = model([node("BitShift", "a b", "y", direction=direction)], {"a": (kind, ("n", 2))}, {"y": kind}, {"b": by})
        check(made, {"a": edges(dtype)[:30].reshape(-1, 2)})


UINT8, INT32 = onnx.TensorProto.UINT8, onnx.TensorProto.INT32


@pytest.mark.parametrize("columns", [4, 258, 259, 700])
@pytest.mark.parametrize("zeros", [(), (3,), (200, 7), ("rows", "columns")])
@pytest.mark.parametrize("constant", [True, False])
def test_integer_matrices(columns, zeros, constant):
    numbers = np.random.default_rng(0)
    x, y = (numbers.choice([0, 1, 254, 255], shape).astype(np.uint8) for shape in ((5, columns), (columns, 3)))
    zero = {f"z{n}": np.array(z, np.uint8) for n, z in enumerate(zeros) if not isinstance(z, str)}
    if "rows" in zeros:
        zero = {"z0": np.array(9, np.uint8), "z1": np.array([1, 0, 255], np.uint8)}
    inputs = {"x": (UINT8, ("n", columns))} | ({} if constant else {"y": (UINT8, y.shape)})
    made = model(
        [node("MatMulInteger", " ".join(["x y", *zero]), "o")], inputs, {"o": INT32}, zero | ({"y": y} if constant else {})
    )
    check(made, {"x": x} | ({} if constant else {"y": y}))


@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 0, 1, 1], "strides": [2, 1]}, {"group": 2}])
@pytest.mark.parametrize("channels", [4, 60])
@pytest.mark.parametrize("zeros", [(), (3,), (200, 7)])
def test_integer_convolutions(attributes, channels, zeros):
    numbers = np.random.default_rng(0)
    w = numbers.choice([0, 1, 254, 255], (6, channels // attributes.get("group", 1), 3, 2)).astype(np.uint8)
    zero = {f"z{n}": np.array(z, np.uint8) for n, z in enumerate(zeros)}
    nodes = [node("ConvInteger", " ".join(["x w", *zero]), "o", **attributes)]
    made = model(nodes, {"x": (UINT8, ("n", channels, 6, 7))}, {"o": INT32}, {"w": w, **zero})
    check(made, {"x": numbers.choice([0, 1, 254, 255], (2, channels, 6, 7)).astype(np.uint8)})


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("op", ["Div", "Mod"])
@pytest.mark.parametrize("constant", [True, False])
def test_the_lowest_integer_divided_by_minus_one_ends_no_process(op, dtype, constant):
    kind, low = KINDS[dtype], np.iinfo(dtype).min
    a, b = np.array([low, low, 7], dtype), np.array([-1, 2, -1], dtype)
    inputs = {"a": (kind, a.shape)} | ({} if constant else {"b": (kind, b.shape)})
    made = model([node(op, "a b", "y")], inputs, {"y": kind}, {"b": b} if constant else {})
    got = run_tflite(Converter(made, verify=False).to_tflite(), {"a": a} | ({} if constant else {"b": b}))["y"]
    assert got[1:].tolist() == ([low // 2, -7] if op == "Div" else [0, 0])


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_shifts_by_all_bits_leave_nothing(direction, dtype):
    kind, bits = helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), np.iinfo(dtype).bits
    a, by = np.full(4, np.iinfo(dtype).max, dtype), np.array([bits - 1, bits, bits + 1, np.iinfo(dtype).max], dtype)
    made = model([node("BitShift", "a b", "y", direction=direction)], {"a": (kind, (4,)), "b": (kind, (4,))}, {"y": kind})
    got = run_tflite(Converter(made, verify=False).to_tflite(), {"a": a, "b": by})["y"]
    assert got.tolist() == [1 if direction == "RIGHT" else 1 << (bits - 1), 0, 0, 0]
