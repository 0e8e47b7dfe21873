"""Take the networks of Keras from TFLite to torch and back: ``python -m tests.tf.applications [part of a name …]``."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import time
import warnings
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from mlconverter import Converter
from mlconverter.errors import MLConverterError, UnsupportedOpsError
from mlconverter.formats.tflite.model import TFLiteModel
from mlconverter.signature import TensorSpec
from tests.tf.entry import Mode
from tests.tf.files import installed
from tests.tf.large import MODES, NETWORKS, build, path_of
from tests.tf.workers import one_by_one

RTOL = 1e-3
"""Part of the largest value by which scores of single precision may be apart."""

PHOTOGRAPHS = {"float": 2, "int8": 100}

FAR = 0.999
"""Scores of quantised models may be no further off than those of LiteRT's reference kernels: on average, nor at this quantile.

The farthest single one of 100,000 scores says nothing: operators that are all right round a tie to either side.
"""


@dataclass
class Row:
    """What was found of one file.

    Attributes:
        stage: how far it came: ``to torch``, ``outputs``, ``back``, ``anew`` or ``ok``.
        reason: why no further.
        seconds: of the conversion to torch, verified.
        torch: the difference of the module's scores: as part of the largest, or in steps on average.
        anew: that of a file that the engine makes of the module.
        reference: that of LiteRT's reference kernels, where a model is quantised.
        size: of that file, as part of the original's.
    """

    name: str
    mode: Mode
    stage: str = "to torch"
    reason: str = ""
    seconds: float = math.nan
    torch: float = math.nan
    anew: float = math.nan
    reference: float = math.nan
    size: float = math.nan


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tf.applications")
    parser.add_argument("names", nargs="*", help="parts of names; all networks by default")
    parser.add_argument("--mode", choices=MODES, action="append", help="both by default")
    options = parser.parse_args()
    names = [n for n in NETWORKS if not options.names or any(part in n for part in options.names)]
    console = Console(width=max(150, Console().width))
    if installed() is not None:
        for name in build(names):
            console.print(f"{name} made by Keras")
    pieces = [(name, mode) for name in names for mode in options.mode or MODES]
    there = [(name, mode) for name, mode in pieces if (path := path_of(name, mode)) and path.exists()]
    if not there:
        console.print("Skipped: TensorFlow is not installed, and no files of an earlier run are there: make test-tf")
        return 0
    rows = []
    for row in one_by_one(_examined, there, lambda piece: Row(*piece, reason="it ends the process")):
        console.print(
            f"{row.name} ({row.mode}): {row.stage} {' '.join(row.reason.split())[:300]}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        rows.append(row)
    console.print(_table(rows))
    return 0 if all(row.stage == "ok" for row in rows) and len(there) == len(pieces) else 1


def _table(rows: list[Row]) -> Table:
    table = Table("network", "mode", "result", title="Keras → TFLite → torch → TFLite")
    for column in ("to torch, s", "torch", "anew", "reference kernels", "its size"):
        table.add_column(column, justify="right")
    for row in rows:
        said = "ok" if row.stage == "ok" else f"{row.stage}: {' '.join(row.reason.split())}"[:120]
        differences = [f"{d:.0e}" if row.mode == "float" else f"{d:.2f} steps" for d in (row.torch, row.anew, row.reference)]
        numbers = (f"{row.seconds:.1f}", *differences, f"{row.size:.0%}")
        table.add_row(row.name, row.mode, said, *("–" if n.startswith("nan") else n for n in numbers))
    return table


def _examined(piece: tuple[str, Mode]) -> Row:
    warnings.simplefilter("ignore")
    row = Row(*piece)
    try:
        _examine(row)
    except UnsupportedOpsError as error:
        row.reason = "refused: " + ", ".join(sorted({f"{op.op} ({op.reason})" for op in error.ops}))
    except MLConverterError as error:
        row.reason = f"{type(error).__name__}: {error}"
    except AssertionError as error:
        row.reason = str(error)
    except Exception as error:
        row.reason = f"unexpected {type(error).__name__}: {error}"
    return row


def _examine(row: Row) -> None:
    import torch

    torch.manual_seed(0)
    path = path_of(row.name, row.mode)
    assert path is not None
    original = TFLiteModel.load(path)
    given = original.signature.inputs[0]
    images = [_stored(given, image[None]) for image in NETWORKS[row.name].photographs(PHOTOGRAPHS[row.mode], seed=2)]
    want, reference = _scores(original, images), _scores(original, images, reference=True) if row.mode == "int8" else None
    if reference is not None:
        row.reference = _steps(reference, want).mean()
    start = time.perf_counter()
    converter = Converter(model_path=path)
    module = converter.to_torch()
    row.seconds, row.stage = time.perf_counter() - start, "outputs"
    with torch.no_grad():
        got = [module(torch.from_numpy(image)).numpy() for image in images]
    row.torch = _difference(got, want, reference)
    row.stage = "back"
    assert bytes(converter.to_origin_type(module)) == path.read_bytes(), "a module that nobody trained comes back as other bytes"
    row.stage = "anew"
    shape = tuple(1 if d == "batch" else d for d in given.shape or ())
    made = Converter(module, input_shape=[(shape, given.dtype)]).to_tflite()
    row.size = len(made) / len(original)
    row.anew = _difference(_scores(made, images), want, reference)
    row.stage = "ok"


def _stored(spec: TensorSpec, value: np.ndarray) -> np.ndarray:
    if spec.quantization is None:
        return value
    limits = np.iinfo(spec.dtype)
    steps = np.rint(value / spec.quantization.scale[0]) + spec.quantization.zero_point[0]
    return np.clip(steps, limits.min, limits.max).astype(spec.dtype)


def _scores(model: TFLiteModel, images: list[np.ndarray], *, reference: bool = False) -> list[np.ndarray]:
    """What LiteRT gives, by its default or by its reference kernels."""
    (given,), (wanted,) = model.signature.inputs, model.signature.outputs
    with model.runner() as default, default.other_kernels() if reference else contextlib.nullcontext(default) as runner:
        return [np.asarray(runner.run({given.name: image})[wanted.name]) for image in images]


def _steps(got: list[np.ndarray], want: list[np.ndarray]) -> np.ndarray:
    return np.abs(np.stack(got).astype(np.int64) - np.stack(want))


def _difference(got: list[np.ndarray], want: list[np.ndarray], reference: list[np.ndarray] | None) -> float:
    """How far scores are apart: of the largest, or in steps on average."""
    for value, expected in zip(got, want, strict=True):
        assert value.shape == expected.shape and value.dtype == expected.dtype, f"{value.dtype}{list(value.shape)} comes out"
    if reference is None:
        pairs = zip(got, want, strict=True)
        apart = max(float(np.abs(value - expected).max() / np.abs(expected).max()) for value, expected in pairs)
        assert apart <= RTOL, f"the scores differ by {apart:.1e} of the largest, allowed {RTOL:.1e}"
        return apart
    steps, theirs = _steps(got, want), _steps(reference, want)
    ours, allowed = ((apart.mean(), np.quantile(apart, FAR)) for apart in (steps, theirs))
    said = "{:.2f} steps off on average, a thousandth more than {:.0f}"
    assert np.less_equal(ours, allowed).all(), f"{said.format(*ours)}; the reference kernels {said.format(*allowed)}"
    return float(steps.mean())


if __name__ == "__main__":
    sys.exit(main())
