"""What becomes of a network on its way torch → ONNX → TFLite: its results under LiteRT, and what it is made of."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mlconverter import Converter
from mlconverter.formats.onnx.runner import OnnxRuntimeRunner
from mlconverter.formats.tflite.model import TFLiteModel
from mlconverter.formats.tflite.runner import Kernels
from mlconverter.hub.onnx_io import OnnxIO
from tests.architectures.examine import OWN_ROUNDING, in_double, shapes_of
from tests.architectures.row import Row, filled
from tests.architectures.specs import Architecture

RTOL = 1e-3

SMALL = 2 << 20
"""Bytes of a file up to which LiteRT's reference kernels run it, too."""


@dataclass
class Deployed(Row):
    """What was found of one network.

    Attributes:
        stage: how far it came: ``export``, ``refused``, ``runs``, ``outputs`` or ``ok``.
        reason: why no further.
        to_tflite: seconds, unverified.
        difference: of the outputs from ONNX Runtime's, as part of their largest value.
        operators: of the file.
        transposes: among them.
        reference: the difference under LiteRT's reference kernels, of small files.
    """

    to_tflite: float = math.nan
    difference: float = math.nan
    operators: int = 0
    transposes: int = 0
    reference: float = math.nan

    def numbers(self) -> dict[str, str]:
        """What stands in the columns of a table."""
        return {
            "to TFLite, s": f"{self.to_tflite:.2f}",
            "outputs": f"{self.difference:.0e}",
            "reference": "–" if math.isnan(self.reference) else f"{self.reference:.0e}",
            "operators": str(self.operators),
            "transposes": str(self.transposes),
        }


def examine_alone(name: str) -> Deployed:
    """Take a network to TFLite."""
    return filled(name, Deployed, _examine)


def _examine(architecture: Architecture, row: Deployed) -> None:
    original = architecture.make()
    exported = Converter(original, input_shape=shapes_of(architecture), verify=False).to_onnx()
    row.stage = "refused"
    start = time.perf_counter()
    made = Converter(exported, verify=False).to_tflite()
    row.to_tflite = time.perf_counter() - start
    names = [o.op for graph in made.structure.subgraphs for o in graph.operators]
    row.operators, row.transposes = len(names), names.count("TRANSPOSE")
    row.stage = "runs"
    signature = OnnxIO(exported).signature
    inputs = architecture.inputs(1)
    feeds = {spec.name: x.numpy() for spec, x in zip(signature.inputs, inputs, strict=True)}
    with OnnxRuntimeRunner(exported, signature) as source:
        want = source.run(feeds)
    exact = in_double(original, inputs) or [None] * len(want)
    row.difference = _difference(row, made, "default", feeds, want, exact)
    if len(made) <= SMALL:
        row.reference = _difference(row, made, "reference", feeds, want, exact)
    row.stage = "ok"


def _difference(
    row: Deployed,
    made: TFLiteModel,
    kernels: Kernels,
    feeds: dict[str, Any],
    want: dict[str, Any],
    exact: list[torch.Tensor | None],
) -> float:
    """The largest difference of any output from ONNX Runtime's, as part of its largest value."""
    row.stage = "runs"
    with made.runner(kernels=kernels, num_threads=1) as runner:
        got = runner.run(feeds)
    row.stage = "outputs"
    assert list(got) == list(want), "outputs have other names"
    worst, allowed = 0.0, RTOL
    for (name, expected), true in zip(want.items(), exact, strict=True):
        assert got[name].shape == expected.shape, f"'{name}' has another shape"
        scale = float(np.abs(expected).max(initial=0)) or 1.0
        worst = max(worst, float(np.abs(got[name] - expected).max(initial=0)) / scale)
        if true is not None:
            allowed = max(allowed, OWN_ROUNDING * float(np.abs(true.numpy() - expected).max(initial=0)) / scale)
    assert worst <= allowed, f"{kernels} kernels: outputs differ by {worst:.1e} of the largest, allowed {allowed:.1e}"
    return worst
