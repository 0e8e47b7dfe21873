"""Real models as TensorRT engines, built ahead of time without a GPU; ranges are given where a model takes few sizes only."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnx
import pytest

from mlconverter import Converter
from mlconverter.formats.trt.engine import TRTEngine
from tests import zoo

pytestmark = pytest.mark.skipif(find_spec("tensorrt_rtx") is None, reason="tensorrt_rtx is not installed")

LINES = {"x": ((1, 3, 48, 32), (1, 3, 48, 320), (8, 3, 48, 2048))}
"""Lines of text are 48 high."""

ONE = {"batch_size": (1, 1, 1)}
"""These take one recording at a time, whatever their inputs say."""

RANGES: dict[str, dict[str, Any]] = {
    "ch_PP-OCRv4_rec_infer.onnx": LINES,
    "plcmos_v2.onnx": ONE,
    "Run_1663829550_Stage_0.onnx": ONE,
    "Run_1663915512_Stage_0.onnx": ONE,
    "Run_1668423760_Stage_0.onnx": ONE,
}

MODELS = [
    (package, member)
    for package in ("rapidocr-onnxruntime", "speechmos", "mediapipe")
    for member in zoo.members(package)
    if "with_attention" not in member  # refused by name on the way to ONNX
]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(("package", "member"), MODELS, ids=[Path(member).stem for _, member in MODELS])
def test_an_engine_with_a_free_batch_that_leads_back(package: str, member: str, precision: str, tmp_path: Path) -> None:
    source = zoo.model(package, member)
    converter = Converter(source)
    given = RANGES.get(source.name)
    engine = converter.to_trt(precision=precision, dynamic_shapes=given)
    assert engine.info.precision == precision and engine.info.layers > 0
    name, (low, _, high) = next(iter(engine.info.profile.items()))
    assert (low[0], high[0]) == ((1, 1) if given is ONE else (1, 8) if given is LINES else (1, 16)), name
    path = engine.save(tmp_path / "net.engine")
    assert TRTEngine.load(path) == engine
    again = Converter(path).to_onnx(verify=False)
    assert again == (onnx.load(source) if source.suffix == ".onnx" else converter.to_onnx(verify=False))
