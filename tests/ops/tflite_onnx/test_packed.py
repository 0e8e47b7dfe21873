"""Weights of which a byte holds several: what LiteRT computes with them, and their way back."""

import numpy as np
import pytest
import torch
from ai_edge_litert import schema_py_generated as S

from mlconverter import Converter
from mlconverter.errors import ConversionError, UnsupportedOpsError
from mlconverter.formats.tflite.to_onnx.convert import convert
from mlconverter.hub.weights import Unpack, whole_limits
from tests.ops.tflite_onnx.files import File
from tests.ops.tflite_onnx.test_quantised import grid, op, q

BITS = {"int4": 4, "int2": 2}


def packed(whole: np.ndarray, bits: int) -> np.ndarray:
    """The bytes, the first number in the lowest bits."""
    each = 8 // bits
    flat = np.zeros(-(-whole.size // each) * each, np.uint8)
    flat[: whole.size] = whole.reshape(-1).astype(np.uint8) & ((1 << bits) - 1)
    return sum(flat[i::each] << (i * bits) for i in range(each)).astype(np.uint8)


def layer(dtype: str, shape: tuple[int, int], real: bool) -> bytes:
    """A layer with packed weights, a scale for each row."""
    low, high = whole_limits(dtype)
    whole = np.random.default_rng(1).integers(low + 1, high + 1, shape)
    f = File()
    x = f.input((1, shape[1]), "float32" if real else "int8", quantization=None if real else grid("int8"), name="x")
    scales = np.linspace(0.05, 0.2, shape[0]).astype(np.float32)
    w = f.tensor(shape, dtype, buffer=f.buffer(packed(whole, BITS[dtype])), quantization=q(scales))
    options = S.FullyConnectedOptionsT()
    if real:
        return f.finish(f.op("FULLY_CONNECTED", [x, w, -1], options=options, version=9))
    bias = f.constant(np.zeros(shape[0], np.int32), quantization=q(np.float32(0.05) * scales))
    return f.finish(op(f, "FULLY_CONNECTED", [x, w, bias], "int8", q(0.1, 3), (1, shape[0]), options=options, version=10))


@pytest.mark.parametrize("shape", [(4, 8), (6, 10), (8, 32)])
@pytest.mark.parametrize("real", [True, False], ids=["real", "int8"])
@pytest.mark.parametrize("dtype", BITS)
def test_a_layer(dtype, shape, real):
    """Compared with LiteRT; numbers that no byte is full of included."""
    data = layer(dtype, shape, real)
    converter = Converter(data, verify="full")
    module = converter.to_torch()
    assert converter.report.steps[-1].verdict == "verified"
    assert bytes(converter.to_origin_type(module)) == data


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("shape", [(3, 5), (4, 4), (1, 1), (7,)])
def test_there_and_back(bits, shape):
    rng = np.random.default_rng(0)
    whole = rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape).astype(np.int8)
    stored = packed(whole, bits)
    step = Unpack(bits, shape)
    np.testing.assert_array_equal(step.get(stored), whole)
    np.testing.assert_array_equal(step.put(stored, whole), stored)
    changed = np.roll(whole, 1)
    np.testing.assert_array_equal(step.get(step.put(stored, changed)), changed)
    with pytest.raises(ConversionError, match="beyond"):
        step.put(stored, np.full(shape, 1 << bits, np.int8))


def test_what_is_trained_stays_within_four_bits():
    data = layer("int4", (6, 10), real=True)
    converter = Converter(data)
    module = converter.to_torch()
    (weight,) = module.parameters()
    with torch.no_grad():
        weight.mul_(3)  # most are beyond the largest number now
    tuned = converter.to_origin_type(module)
    assert len(bytes(tuned)) == len(data) and bytes(tuned) != data
    assert converter.report.verdict == "verified"


def test_packed_activations_are_refused():
    f = File()
    x = f.input((1, 8), "int4", quantization=q(0.1))
    with pytest.raises(UnsupportedOpsError, match="no quantised weights"):
        convert(f.finish(f.op("RELU", [x], "int4", shapes=[(1, 8)]), shapes=False))
