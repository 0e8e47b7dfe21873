"""Take the networks of Keras from TFLite to torch and back: ``python -m tests.tf.applications [part of a name …]``."""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mlconverter import Converter
from mlconverter.errors import MLConverterError, UnsupportedOpsError
from mlconverter.formats.tflite.model import TFLiteModel
from mlconverter.signature import TensorSpec
from mlconverter.verification.steps import MOST
from tests.tf.entry import Mode
from tests.tf.files import installed
from tests.tf.large import MODES, NETWORKS, build, path_of
from tests.tf.workers import one_by_one

RTOL = {"float": 1e-3, "int8": MOST}
"""Part of the largest value; operators of quantised models are judged one by one by the conversions themselves."""


@dataclass
class Row:
    """What was found of one file.

    Attributes:
        stage: how far it came: ``to torch``, ``outputs``, ``back``, ``anew`` or ``ok``.
        reason: why no further.
        seconds: of the conversion to torch, verified.
        torch: the difference of the module's scores, as part of the largest.
        anew: that of a file that the engine makes of the module.
        size: of that file, as part of the original's.
    """

    name: str
    mode: Mode
    stage: str = "to torch"
    reason: str = ""
    seconds: float = math.nan
    torch: float = math.nan
    anew: float = math.nan
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
    for column in ("to torch, s", "torch", "anew", "its size"):
        table.add_column(column, justify="right")
    for row in rows:
        said = "ok" if row.stage == "ok" else f"{row.stage}: {' '.join(row.reason.split())}"[:120]
        numbers = (f"{row.seconds:.1f}", f"{row.torch:.0e}", f"{row.anew:.0e}", f"{row.size:.0%}")
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
    given, wanted = original.signature.inputs[0], original.signature.outputs[0]
    images = [_stored(given, image[None]) for image in NETWORKS[row.name].photographs(2, seed=2)]
    want = [np.asarray(original(image)) for image in images]
    start = time.perf_counter()
    converter = Converter(model_path=path)
    module = converter.to_torch()
    row.seconds, row.stage = time.perf_counter() - start, "outputs"
    with torch.no_grad():
        got = [module(torch.from_numpy(image)).numpy() for image in images]
    row.torch = _difference(wanted, got, want, RTOL[row.mode])
    row.stage = "back"
    assert bytes(converter.to_origin_type(module)) == path.read_bytes(), "a module that nobody trained comes back as other bytes"
    row.stage = "anew"
    shape = tuple(1 if d == "batch" else d for d in given.shape or ())
    made = Converter(module, input_shape=[(shape, given.dtype)]).to_tflite()
    row.size = len(made) / len(original)
    row.anew = _difference(wanted, [np.asarray(made(image)) for image in images], want, RTOL[row.mode])
    row.stage = "ok"


def _stored(spec: TensorSpec, value: np.ndarray) -> np.ndarray:
    if spec.quantization is None:
        return value
    limits = np.iinfo(spec.dtype)
    steps = np.rint(value / spec.quantization.scale[0]) + spec.quantization.zero_point[0]
    return np.clip(steps, limits.min, limits.max).astype(spec.dtype)


def _difference(spec: TensorSpec, got: list[Any], want: list[Any], rtol: float) -> float:
    """The largest difference, as part of the largest value."""
    zero = spec.quantization.zero_point[0] if spec.quantization else 0
    worst = 0.0
    for value, expected in zip(got, want, strict=True):
        assert value.shape == expected.shape and value.dtype == expected.dtype, f"{value.dtype}{list(value.shape)} comes out"
        largest = float(np.abs(expected.astype(np.float64) - zero).max())
        worst = max(worst, float(np.abs(value.astype(np.float64) - expected).max()) / largest)
    assert worst <= rtol, f"the scores differ by {worst:.1e} of the largest, allowed {rtol:.1e}"
    return worst


if __name__ == "__main__":
    sys.exit(main())
