"""LiteRT behind the runner's interface."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as S

from mlconverter.errors import ConversionError, CorruptModelError, SignatureError
from mlconverter.formats.tflite.runner import LiteRTRunner
from mlconverter.formats.tflite.schema import load
from mlconverter.formats.tflite.signature import border_of
from tests.ops.tflite_onnx.files import File


def add_file(dtype="float32", **how) -> bytes:
    f = File()
    a, b = f.input((1, 3), dtype, name="a", **how), f.input((1, 3), dtype, name="b", **how)
    y = f.op("ADD", [a, b], dtype, options=S.AddOptionsT(), shapes=[(1, 3)])
    f.signature({"right": b, "left": a}, {"sum": y})
    return f.finish(y)


@pytest.mark.parametrize("kernels", ["default", "reference"])
def test_by_name(kernels):
    with LiteRTRunner(add_file(), kernels=kernels, num_threads=2) as runner:
        assert runner.name.startswith("LiteRT ")
        assert runner.signature.input_names == ("right", "left")
        result = runner.run({"left": np.float32([[1, 2, 3]]), "right": np.float32([[10, 20, 30]])})
    np.testing.assert_array_equal(result["sum"], [[11, 22, 33]])


def test_from_a_path(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(add_file())
    with LiteRTRunner(path) as runner:
        assert runner.signature.output_names == ("sum",)


def test_free_dimensions_are_resized():
    with LiteRTRunner(add_file(free=(0,))) as runner:
        for batch in (1, 4, 2):
            result = runner.run({"left": np.ones((batch, 3), np.float32), "right": np.ones((batch, 3), np.float32)})
            assert result["sum"].shape == (batch, 3)


def test_fixed_dimensions_are_resized_on_demand():
    data = add_file()
    feeds = {"left": np.ones((4, 3), np.float32), "right": np.ones((4, 3), np.float32)}
    with LiteRTRunner(data) as runner, pytest.raises(SignatureError):
        runner.run(feeds)
    free = border_of(load(add_file(free=(0,)))).signature
    with LiteRTRunner(data, signature=free) as runner:
        assert runner.run(feeds)["sum"].shape == (4, 3)


def test_shapes_that_the_model_does_not_bear():
    f = File()
    y = f.op("RESHAPE", [f.input((1, 4), name="x", free=(0,)), f.constant(np.int32([1, 4]))])
    with LiteRTRunner(f.finish(y)) as runner, pytest.raises(ConversionError, match="LiteRT"):
        runner.run({"x": np.ones((2, 4), np.float32)})


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_what_would_crash_is_refused(dtype):
    with pytest.raises(ConversionError, match="would crash"):
        LiteRTRunner(add_file(dtype))


def test_what_litert_refuses():
    f = File()
    y = f.op(None, [f.input((2,))], custom="Unknown", options=b"", shapes=[(2,)])
    with pytest.raises(ConversionError, match="Unknown"):
        LiteRTRunner(f.finish(y))
    with pytest.raises(CorruptModelError):
        LiteRTRunner(b"nothing")
