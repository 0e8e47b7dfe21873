"""Graphs on which tools for TensorRT were wrong become engines; what those compute is compared where there is a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from mlconverter import Converter
from mlconverter.conversion import hub_runner
from mlconverter.formats.trt.prepare import prepared
from mlconverter.hub.io import signature_of
from mlconverter.hub.model import HubModel
from mlconverter.options import ConvertOptions
from tests.unit.trt.building import built
from tests.unit.trt.cases import CASES, Case


@built
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_engine_is_built(case: Case) -> None:
    engine = Converter(case.model()).to_trt(precision=case.precision, dynamic_shapes={"n": (2, 2, 4)})
    assert set(engine.info.profile) == set(case.inputs)
    assert engine.signature.output_names == ("y",)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_graph_that_is_built_computes_the_same(case: Case) -> None:
    hub = Converter(case.model())._inner.hub()
    model, _ = prepared(hub, ConvertOptions(precision=case.precision))
    want = hub_runner(hub).run(case.inputs)["y"]
    got = hub_runner(HubModel(model, signature_of(model))).run(case.inputs)["y"]
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-3 if case.precision == "fp16" else 1e-6)
