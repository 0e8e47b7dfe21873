"""The one body of all cases: a module gives in eval mode what ONNX Runtime gives for the model."""

import numpy as np
import onnx
import onnxruntime as ort
import torch

from mlconverter import Converter
from tests.ops.onnx_torch.models import N

ort.set_default_logger_severity(4)
BATCHES = (1, 3)


def feeds_of(model: onnx.ModelProto, batch: int, low: float = -2.0, high: float = 2.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(batch)
    known = {i.name for i in model.graph.initializer}
    feeds = {}
    for info in model.graph.input:
        if info.name in known:
            continue
        tensor = info.type.tensor_type
        shape = [batch if d.dim_param == N else d.dim_value for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype.kind == "b":
            feeds[info.name] = rng.integers(0, 2, shape).astype(bool)
        elif dtype.kind in "iu":
            feeds[info.name] = rng.integers(max(low, 0) if dtype.kind == "u" else low, high + 1, shape).astype(dtype)
        else:
            feeds[info.name] = rng.uniform(low, high, shape).astype(dtype)
    return feeds


def run_torch(module: torch.nn.Module, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    with torch.no_grad():
        result = module(*[torch.from_numpy(np.array(a)) for a in feeds.values()])
    return [t.detach().numpy() for t in (result if isinstance(result, tuple) else (result,))]


def has_batch(model: onnx.ModelProto) -> bool:
    return any(d.dim_param == N for i in model.graph.input for d in i.type.tensor_type.shape.dim)


def check(
    model: onnx.ModelProto,
    *feeds: dict[str, np.ndarray],
    low: float = -2.0,
    high: float = 2.0,
    rtol: float = 2e-5,
    judge: onnx.ModelProto | None = None,
) -> torch.nn.Module:
    """Convert once, compare at every batch with what ONNX Runtime gives for it or ``judge``; the module."""
    module = Converter(model, verify=False).to_torch()
    session = ort.InferenceSession((judge or model).SerializeToString(), providers=["CPUExecutionProvider"])
    batches = BATCHES if has_batch(model) else BATCHES[:1]
    for given in feeds or [feeds_of(model, batch, low, high) for batch in batches]:
        compare(run_torch(module, given), session.run(None, given), rtol)
    return module


def compare(got: list[np.ndarray], want: list[np.ndarray], rtol: float = 2e-5) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        assert g.dtype == w.dtype
        if w.dtype.kind == "f":
            np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol * np.abs(w).max(initial=0, where=np.isfinite(w)) + 1e-6)
        else:
            np.testing.assert_array_equal(g, w)
