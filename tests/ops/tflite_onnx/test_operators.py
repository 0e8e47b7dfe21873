"""Every case gives in ONNX Runtime what it gives in LiteRT."""

import contextlib

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from mlconverter.errors import ConversionError
from mlconverter.formats.tflite.runner import LiteRTRunner
from mlconverter.formats.tflite.to_onnx.convert import convert
from mlconverter.hub.model import HubModel
from tests.ops.tflite_onnx import cases_more, cases_shapes, cases_stablehlo, cases_stablehlo_places  # noqa: F401  (add to the table)
from tests.ops.tflite_onnx.cases import CASES, Case
from tests.ops.tflite_onnx.files import File

RUNS = [pytest.param(case, batch, id=f"{case.id} n={batch}") for case in CASES for batch in case.batches]


def onnx_outputs(hub: HubModel, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    proto = ir.to_proto(hub.model)
    onnx.checker.check_model(proto, full_check=True)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert [i.name for i in session.get_inputs()] == list(hub.signature.input_names)
    names = [o.name for o in session.get_outputs()]
    assert names == list(hub.signature.output_names)
    return dict(zip(names, session.run(names, feeds), strict=True))


def feeds_for(hub: HubModel, case: Case, batch: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    feeds = {}
    for spec in hub.signature.inputs:
        shape = spec.concrete({"batch": batch})
        if spec.dtype == "bool":
            feeds[spec.name] = rng.integers(0, 2, shape).astype(bool)
        elif spec.dtype.startswith("float"):
            feeds[spec.name] = rng.uniform(case.low, case.high, shape).astype(spec.dtype)
        else:
            feeds[spec.name] = rng.integers(int(case.low), int(case.high) + 1, shape).astype(spec.dtype)
    return feeds


def assert_close(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    assert list(got) == list(want)
    for name, expected in want.items():
        assert got[name].shape == expected.shape
        assert got[name].dtype == expected.dtype
        if expected.dtype.kind == "f":
            precision = 2e-3 if expected.dtype == np.float16 else 1e-5
            limit = precision * np.abs(expected[np.isfinite(expected)]).max(initial=0) + 1e-6
            np.testing.assert_allclose(got[name], expected, rtol=0, atol=limit)
        else:
            np.testing.assert_array_equal(got[name], expected)


def wanted(case: Case, hub: HubModel, data: bytes, feeds: dict[str, np.ndarray], kernels: str) -> dict[str, np.ndarray]:
    """What LiteRT gives, or what the case itself says where LiteRT has no kernel."""
    if case.expect is not None:
        outputs = case.expect(*feeds.values())
        return dict(zip(hub.signature.output_names, outputs if isinstance(outputs, list) else [outputs], strict=True))
    with LiteRTRunner(data, kernels=kernels) as runner:
        return runner.run(feeds)


def has_batch(case: Case) -> bool:
    file = File()
    case.build(file, 1)
    return file.free_batch()


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES if 1 in c.batches and c.free and has_batch(c)])
def test_free_batch(case: Case):
    """A file whose batch is free is right at another batch too, wherever LiteRT itself takes one."""
    file = File()
    outputs = case.build(file, 1)
    file.free_batch()
    data = file.finish(*(outputs if isinstance(outputs, list) else [outputs]))
    hub = convert(data)
    feeds = feeds_for(hub, case, 3)
    want = None
    for kernels in ("default", "reference"):
        with contextlib.suppress(ConversionError):
            want = wanted(case, hub, data, feeds, kernels)
            break
    if want is None:
        pytest.skip("LiteRT takes no other batch")
    assert_close(onnx_outputs(hub, feeds), want)


@pytest.mark.parametrize(("case", "batch"), RUNS)
def test_operator(case: Case, batch: int):
    file = File()
    outputs = case.build(file, batch)
    data = file.finish(*(outputs if isinstance(outputs, list) else [outputs]))
    hub = convert(data)
    feeds = feeds_for(hub, case, batch)
    want = wanted(case, hub, data, feeds, "reference" if case.reference else "default")
    assert_close(onnx_outputs(hub, feeds), want)
    if case.transposes is not None:
        assert [n.op_type for n in hub.model.graph].count("Transpose") <= case.transposes
