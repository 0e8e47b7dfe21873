"""The one body of all cases: LiteRT gives for the file what ONNX Runtime gives for the model."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort

from mlconverter import Converter
from mlconverter.formats.tflite.model import TFLiteModel
from tests.ops.onnx_torch.check import BATCHES, compare, feeds_of, has_batch

ort.set_default_logger_severity(4)


def run_tflite(model: TFLiteModel, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with model.runner(num_threads=1) as runner:
        return runner.run(feeds)


def check(
    model: onnx.ModelProto,
    feeds: dict[str, np.ndarray] | None = None,
    *,
    low: float = -2.0,
    high: float = 2.0,
    rtol: float = 2e-5,
    **options,
) -> TFLiteModel:
    """Convert once, compare at every batch, names and their order included; the file, for tests that look further."""
    made = Converter(model, verify=False).to_tflite(**options)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    with made.runner(num_threads=1) as runner:
        for batch in BATCHES if has_batch(model) and feeds is None else BATCHES[:1]:
            given = feeds or feeds_of(model, batch, low, high)
            got = runner.run(given)
            assert list(got) == names
            compare(list(got.values()), session.run(None, given), rtol)
    return made


def operators(model: TFLiteModel) -> Counter[str]:
    return Counter(o.op for o in model.structure.subgraphs[0].operators)


def fused(model: TFLiteModel) -> list[tuple[str, int]]:
    """The operators with the activation that each has fused."""
    return [(o.op, getattr(o.options, "fusedActivationFunction", 0)) for o in model.structure.subgraphs[0].operators]
