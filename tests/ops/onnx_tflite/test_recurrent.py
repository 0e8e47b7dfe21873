"""Recurrent operators give in LiteRT what they give in ONNX Runtime, call after call."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import nn

from mlconverter import Converter
from tests.ops.onnx_tflite.check import operators
from tests.ops.onnx_torch.cases_recurrent import CASES, GATES, Recurrent
from tests.ops.onnx_torch.check import BATCHES, compare
from tests.ops.onnx_torch.test_recurrent import feeds

SINGLE = [
    Recurrent(op, {"direction": direction}, given, steps=1)
    for op in GATES
    for direction in ("forward", "bidirectional")
    for given in ("b", "bh")
]
LONG = [Recurrent(op, {"direction": "bidirectional"}, "bl", steps=steps) for op in GATES for steps in (65, 128, 200)]
BATCH_FIRST = [
    Recurrent(op, {"direction": d, "layout": 1}, given, steps=steps)
    for op in GATES
    for d in ("forward", "reverse", "bidirectional")
    for given in ("b", "bh", "bl")
    for steps in (1, 5, "steps")
]


@pytest.mark.parametrize("case", [*CASES, *SINGLE, *LONG], ids=lambda case: f"{case.id} {case.steps}")
def test_as_onnx_runtime(case: Recurrent):
    model = case.build()
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with Converter(model, verify=False).to_tflite().runner(num_threads=1) as runner:
        for batch in BATCHES:
            given = feeds(case, batch)
            for _ in range(2):  # nothing is kept from one call to the next
                compare(list(runner.run(given).values()), session.run(None, given))


@pytest.mark.parametrize("case", BATCH_FIRST, ids=lambda case: f"{case.id} {case.steps}")
def test_the_batch_first(case: Recurrent):
    """ONNX Runtime has no such layout: it is asked for the other one, of which this one is a transpose."""
    other = Recurrent(case.op, {**case.attributes, "layout": 0}, case.given, steps=case.steps)
    model = case.build()
    for value in model.graph.input:
        if value.name != "l":
            dims = [onnx.TensorShapeProto.Dimension.FromString(d.SerializeToString()) for d in value.type.tensor_type.shape.dim]
            for i, dim in enumerate((dims[1], dims[0], dims[2])):
                value.type.tensor_type.shape.dim[i].CopyFrom(dim)
    session = ort.InferenceSession(other.build().SerializeToString(), providers=["CPUExecutionProvider"])
    with Converter(model, verify=False).to_tflite().runner(num_threads=1) as runner:
        for batch in BATCHES:
            given = feeds(other, batch)
            if "l" in given:
                given["l"] = np.minimum(given["l"], len(given["x"]))
            y, *lasts = session.run(None, given)
            want = [y.transpose(2, 0, 1, 3), *(last.transpose(1, 0, 2) for last in lasts)]
            turned = {n: a if n == "l" else a.transpose(1, 0, 2) for n, a in given.items()}
            compare(list(runner.run(turned).values()), want)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_one_file_for_all_lengths(op, direction):
    """Whole blocks of steps, and one step more or less."""
    case = Recurrent(op, {"direction": direction}, "b", steps="steps")
    model = case.build()
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    with Converter(model, verify=False).to_tflite().runner(num_threads=1) as runner:
        for length in (1, 63, 64, 65, 128, 200, 3):
            given = {"x": rng.normal(size=(length, 2, 3)).astype(np.float32)}
            compare(list(runner.run(given).values()), session.run(None, given))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("op", GATES)
def test_first_states_that_say_how_many_sequences_there_are(op, count):
    """The batch is free in the sequences alone: it is that of the states, and no other."""
    case = Recurrent(op, {}, "bh")
    model = case.build()
    state = next(value for value in model.graph.input if value.name == "h")
    state.type.tensor_type.shape.dim[1].dim_value = count
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with Converter(model, verify=False).to_tflite().runner(num_threads=1) as runner:
        given = feeds(case, count)
        compare(list(runner.run(given).values()), session.run(None, given))
        if count == 1:
            with pytest.raises(Exception, match=r"reshape|RESHAPE"):
                runner.run({**given, "x": np.concatenate([given["x"]] * 2, 1)})


def test_a_single_step_is_no_loop():
    made = Converter(Recurrent("LSTM", {}, "bhc", steps=1).build(), verify=False).to_tflite()
    assert "WHILE" not in operators(made) and len(made.structure.subgraphs) == 1


def test_weights_of_loops_in_half_precision():
    model = Recurrent("LSTM", {}, "bhc").build()
    whole, half = (Converter(model, verify=False).to_tflite(**o) for o in ({}, {"weights": "float16"}))
    assert [t.shape for t in half.structure.subgraphs[2].tensors if t.dtype == "float16"] == [(16, 4)]
    given = feeds(Recurrent("LSTM", {}, "bhc"), 3)
    with whole.runner() as a, half.runner() as b:
        for x, y in zip(a.run(given).values(), b.run(given).values(), strict=True):
            np.testing.assert_allclose(x, y, atol=5e-3)


def test_functions_that_nobody_agrees_on_are_refused():
    model = Recurrent("LSTM", {"activations": ["Affine", "Tanh", "Tanh"]}).build()
    with pytest.raises(Exception, match="alpha or beta that everybody agrees on"):
        Converter(model, verify=False).to_tflite()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_layers_of_torch(kind):
    """Verified, with other kernels and another batch as well."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = kind(6, 8, batch_first=True, num_layers=2, bidirectional=True)
            self.head = nn.Linear(16, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.layer(x)[0][:, -1])

    net = Net().eval()
    converter = Converter(model=net, input_shape=(1, 7, 6), verify="full")
    made = converter.to_tflite()
    assert converter.report.verdict == "verified"
    for batch in BATCHES:
        x = torch.rand(batch, 7, 6)
        np.testing.assert_allclose(made(x.numpy()), net(x).detach().numpy(), rtol=1e-4, atol=1e-5)
