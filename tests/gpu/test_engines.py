"""TensorRT engines on a GPU: they compute what their sources compute, in every precision, in a program, with other weights.

``python -m tests.gpu`` runs these and prints a table of latencies.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mlconverter import Converter, SignatureError
from mlconverter.formats.trt import runtimes
from mlconverter.formats.trt.engine import TRTEngine
from mlconverter.options import ConvertOptions
from mlconverter.verification.tolerance import ROUNDED
from tests import zoo
from tests.contract.test_formats import small_onnx
from tests.unit.trt.cases import CASES, Case

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no NVIDIA GPU"),
    pytest.mark.skipif(not any(r.is_installed for r in runtimes.RUNTIMES.values()), reason="no runtime of TensorRT is installed"),
]

PRECISIONS = ("fp32", "fp16", "int8")


class Tokens(nn.Module):
    """A transformer with a free batch and a free length."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(99, 64)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2)
        self.head = nn.Linear(64, 5)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.words(ids)).mean(1))


def _images(batch: int) -> np.ndarray:
    picture = zoo.photograph(224, 224, channels_last=False)
    return np.concatenate([np.roll(picture, 17 * i, 2) for i in range(batch)])


def _ids(batch: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 99, (batch, 21))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Any, Callable[[int], np.ndarray]]] = {
    "resnet18": (lambda: zoo.torch_models()["resnet18"](), ("batch", 3, 224, 224), _images),
    "mobilenet_v2": (lambda: zoo.torch_models()["mobilenet_v2"](), ("batch", 3, 224, 224), _images),
    "vit_b_16": (lambda: zoo.torch_models()["vit_b_16"](), ("batch", 3, 224, 224), _images),
    "tokens": (Tokens, (("batch", "length"), "int64"), _ids),
}


@functools.cache
def network(name: str) -> tuple[Converter, Callable[[int], np.ndarray]]:
    """A network's converter, and what it takes."""
    torch.manual_seed(0)
    make, shape, inputs = NETWORKS[name]
    exported = Converter(make().eval(), input_shape=shape).to_onnx()
    return Converter(exported), inputs


@functools.cache
def engine(name: str, precision: str) -> TRTEngine:
    """Its engine, which is verified as it is built."""
    converter, inputs = network(name)
    calibration = [inputs(2)] if precision == "int8" else None
    made: TRTEngine = converter.to_trt(precision=precision, calibration=calibration)
    assert converter.report.verdict == "verified", str(converter.report)
    return made


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", NETWORKS)
def test_it_computes_what_its_source_computes(name: str, precision: str) -> None:
    converter, inputs = network(name)
    source = converter._inner.source_runner()
    (given,) = converter.signature.input_names
    for batch in (1, 3):
        want = source.run({given: inputs(batch)})
        for graph in (False, True):
            got = engine(name, precision).run({given: inputs(batch)}, cuda_graph=graph)
            for output, expected in want.items():
                tolerance = ROUNDED.get(precision, 5e-3) * np.abs(expected).max()
                assert got[output].shape == expected.shape and got[output].dtype == expected.dtype
                np.testing.assert_allclose(got[output], expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_graphs_on_which_others_were_wrong(case: Case) -> None:
    converter = Converter(case.model())
    made = converter.to_trt(precision=case.precision, dynamic_shapes={"n": (2, 2, 4)})
    assert converter.report.verdict == "verified", str(converter.report)
    want = converter._inner.source_runner().run(case.inputs)["y"]
    got = made.run(case.inputs)["y"]
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=0, atol=ROUNDED.get(case.precision, 5e-3) * np.abs(want).max())
    else:
        np.testing.assert_array_equal(got, want)


def test_a_program_gives_the_same_numbers(tmp_path: Path) -> None:
    made, (_, inputs) = engine("resnet18", "fp16"), network("resnet18")
    program = torch.export.load(made.save(tmp_path / "net.pt2")).module()
    for batch in (1, 4):
        want = made.run({made.signature.input_names[0]: inputs(batch)})
        got = program(torch.from_numpy(inputs(batch)).cuda())
        np.testing.assert_allclose(got.cpu().numpy(), want[made.signature.output_names[0]], rtol=0, atol=1e-5)
    with pytest.raises(SignatureError, match="GPU"):
        program(torch.from_numpy(inputs(1)))


def test_shapes_outside_of_the_range_are_refused() -> None:
    made, (_, inputs) = engine("resnet18", "fp32"), network("resnet18")
    with pytest.raises(SignatureError, match=r"\(16, 3, 224, 224\)"):
        made.run({made.signature.input_names[0]: inputs(17)})


def test_other_weights() -> None:
    converter = Converter(small_onnx())
    refittable = {"refittable": True} if runtimes.chosen().package == "tensorrt" else {}
    made = converter.to_trt(**refittable)
    module = converter.to_torch()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter *= 0.5
    image = np.random.default_rng(0).random((2, 3, 8, 6), np.float32)
    want = module(torch.from_numpy(image)).detach().numpy()
    got = made.refit(module).run({"image": image})[made.signature.output_names[0]]
    np.testing.assert_allclose(got, want, rtol=0, atol=5e-3 * np.abs(want).max())
    assert not np.allclose(made.run({"image": image})[made.signature.output_names[0]], want, atol=1e-4)


def test_the_tolerances_have_a_row_for_every_precision() -> None:
    assert set(PRECISIONS[1:]) <= set(ROUNDED) and ConvertOptions(precision="fp16").rounded == "fp16"
