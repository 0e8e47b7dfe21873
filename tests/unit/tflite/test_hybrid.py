"""Files with 8-bit weights and real activations: what they are compared with computes with exactly those weights."""

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from mlconverter import Converter
from mlconverter.formats.tflite.hybrid import hybrid_operators, with_real_weights
from mlconverter.formats.tflite.runner import LiteRTRunner
from mlconverter.formats.tflite.schema import load
from tests.ops.tflite_onnx.files import File


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
    assert hybrid_operators(load(content)) == ["FULLY_CONNECTED"]
    rewritten = with_real_weights(load(content))
    x = np.random.default_rng(1).normal(size=(3, 6)).astype(np.float32)
    np.testing.assert_allclose(_output(rewritten, x), x @ weights.T, rtol=1e-5, atol=1e-6)
    assert np.abs(_output(content, x) - x @ weights.T).max() > 1e-5  # LiteRT rounds what goes in


def test_a_scale_for_each_row():
    content, weights = _hybrid([0.01, 0.02, 0.03, 0.005])
    x = np.random.default_rng(1).normal(size=(3, 6)).astype(np.float32)
    np.testing.assert_allclose(_output(with_real_weights(load(content)), x), x @ weights.T, rtol=1e-5, atol=1e-6)


def test_floats_stay_as_they_are():
    file = File()
    content = file.finish(file.op("RELU", [file.input((2, 3), name="x")]))
    assert not hybrid_operators(load(content))


def test_a_conversion_says_what_it_is_compared_with():
    content, weights = _hybrid([0.01, 0.02, 0.03, 0.005])
    converter = Converter(content)
    module = converter.to_torch()
    assert converter.report.verdict == "verified"
    assert any("LiteRT also quantises" in note for note in converter.report.steps[-1].notes)
    (weight,) = module.parameters()
    np.testing.assert_array_equal(weight.detach().numpy(), weights.astype(np.float32))
    assert bytes(converter.to_origin_type(module)) == content
