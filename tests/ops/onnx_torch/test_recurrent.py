"""Recurrent operators give what ONNX Runtime gives, and become layers of torch wherever those mean the same."""

import numpy as np
import pytest
from torch import nn

from tests.ops.onnx_torch.cases_recurrent import CASES, STEPS, Recurrent
from tests.ops.onnx_torch.check import BATCHES, check, feeds_of


def feeds(case: Recurrent, batch: int) -> dict[str, np.ndarray]:
    model = case.build()
    for info in model.graph.input:
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param == "steps":
                dim.dim_value = STEPS
    given = feeds_of(model, batch)
    if "l" in given:
        given["l"] = np.array([2, 0, 5], np.int32)[: len(given["l"])]
    return given


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_as_onnx_runtime(case: Recurrent):
    model = case.build()
    for batch in BATCHES:
        module = check(model, feeds(case, batch))
    layers = [m for m in module.modules() if isinstance(m, (nn.LSTM, nn.GRU, nn.RNN))]
    odd = {"clip", "input_forget"} & case.attributes.keys() or "p" in case.given or case.computed
    odd = odd or (case.op == "GRU" and not case.attributes.get("linear_before_reset"))
    if not odd and "activations" not in case.attributes:
        assert len(layers) == 1
    if not case.computed:
        trained = sum(p.numel() for p in module.parameters())
        assert trained == sum(np.prod(i.dims, dtype=int) for i in model.graph.initializer if i.name != "l")
