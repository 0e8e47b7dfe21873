"""The judge of files with 8-bit weights: what it compares with computes with exactly those weights."""

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from mlconverter.formats.tflite.runner import LiteRTRunner
from tests.ops.tflite_onnx.files import File
from tests.tf.hybrid import dequantised


def _hybrid(scales):
    """A layer with 8-bit weights and float activations, and what its weights are."""
    weights = np.random.default_rng(0).integers(-127, 128, (4, 6)).astype(np.int8)
    grid = schema.QuantizationParametersT(
        scale=np.asarray(scales, np.float32), zeroPoint=np.zeros(len(scales), np.int64), quantizedDimension=0
    )
    file = File()
    x = file.input((3, 6), name="x")
    w = file.constant(weights, quantization=grid)
    y = file.op("FULLY_CONNECTED", [x, w, -1], options=schema.FullyConnectedOptionsT(), version=9)
    return file.finish(y), weights * np.reshape(np.asarray(scales, np.float32), (-1, 1))


def _output(content, x):
    with LiteRTRunner(content) as runner:
        (value,) = runner.run({"x": x}).values()
    return value


def test_one_scale():
    content, weights = _hybrid([0.01])
    rewritten, count = dequantised(content)
    x = np.random.default_rng(1).normal(size=(3, 6)).astype(np.float32)
    assert count == 1
    np.testing.assert_allclose(_output(rewritten, x), x @ weights.T, rtol=1e-5, atol=1e-6)
    assert np.abs(_output(content, x) - x @ weights.T).max() > 1e-5  # LiteRT rounds what goes in


def test_a_scale_for_each_row():
    content, weights = _hybrid([0.01, 0.02, 0.03, 0.005])
    x = np.random.default_rng(1).normal(size=(3, 6)).astype(np.float32)
    np.testing.assert_allclose(_output(dequantised(content)[0], x), x @ weights.T, rtol=1e-5, atol=1e-6)


def test_floats_stay_as_they_are():
    file = File()
    content = file.finish(file.op("RELU", [file.input((2, 3), name="x")]))
    assert dequantised(content)[1] == 0
