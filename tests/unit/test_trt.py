"""TensorRT engines are built where its runtime is installed, without a GPU; elsewhere the extra is named."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from mlconverter import ConversionError, Converter, MissingDependencyError, NotConvertibleError, UnsupportedOpsError
from mlconverter.formats.trt.build import BATCHES, PACKAGE, batch_profile
from mlconverter.formats.trt.engine import TRTEngine
from mlconverter.signature import IOSignature, TensorSpec
from tests.contract.test_formats import small_onnx

built = pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason=f"{PACKAGE} is not installed")


def test_without_the_runtime_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"mlconverter\[tensorrt-rtx\]") as caught:
        Converter(small_onnx()).to_trt()
    assert caught.value.package == PACKAGE


def test_a_free_batch_gets_a_range_and_other_free_dimensions_are_refused() -> None:
    def signature(*shape: int | str | None) -> IOSignature:
        return IOSignature((TensorSpec("x", shape, "float32"),), ())

    assert batch_profile(signature(2, 3)) == {}
    assert batch_profile(signature("batch", 3)) == {"x": [(n, 3) for n in BATCHES]}
    for shape in ((1, "length"), ("batch", None)):
        with pytest.raises(ConversionError, match="x: float32"):
            batch_profile(signature(*shape))


def test_an_engine_is_no_source(tmp_path: Path) -> None:
    engine = TRTEngine(b"engine", IOSignature((), ()), "a runtime")
    path = engine.save(tmp_path / "net.engine")
    for given in (engine, path):
        with pytest.raises(NotConvertibleError, match="built from"):
            Converter(given)


@built
class TestBuilding:
    """With the runtime."""

    def test_an_engine(self, tmp_path: Path) -> None:
        converter = Converter(small_onnx())
        engine = converter.to_trt()
        assert engine.batches == (BATCHES[0], BATCHES[-1])
        assert [str(s) for s in engine.signature.inputs] == ["image: float32[batch, 3, 8, 6]"]
        assert converter.report.verdict == "unverified"
        path = converter.save(tmp_path / "net.engine")
        assert path.read_bytes() == bytes(engine) and len(engine) > 0

    def test_operators_that_its_parser_refuses(self) -> None:
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
        node = helper.make_node("NoSuchOperator", ["x"], ["y"], name="odd", domain="somebody.else")
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("somebody.else", 1)]
        graph = helper.make_graph([node], "g", ends[:1], ends[1:])
        proto: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        with pytest.raises(UnsupportedOpsError, match=r"NoSuchOperator.*odd"):
            Converter(proto).to_trt()
