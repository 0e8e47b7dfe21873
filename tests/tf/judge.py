"""One file, held against LiteRT: right, refused, wrong, or not even that."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mlconverter import Converter
from mlconverter.errors import ConversionError, MLConverterError, UnsupportedOpsError, VerificationError
from mlconverter.formats.onnx.converter import ONNXConverter
from mlconverter.formats.tflite.hybrid import with_real_weights
from mlconverter.formats.tflite.runner import Kernels, LiteRTRunner
from mlconverter.formats.tflite.schema import load
from mlconverter.signature import IOSignature, TensorSpec
from mlconverter.verification import Runner
from mlconverter.verification.steps import MOST, STEPS, stepwise
from mlconverter.verification.tolerance import Tolerances
from tests.tf.entry import Entry, Mode
from tests.tf.files import file_of, folder
from tests.tf.table import entries, source_of

RTOL, ATOL = 1e-4, 1e-6

ON_THE_FLY = 0.05
"""Part of the largest value by which activations that LiteRT quantises on the fly may move a result."""

RUNS = ((0, 1), (1, 1), (2, 3))
"""Inputs by number and batch; the last where the batch is free."""

Feeds = dict[str, np.ndarray]


@dataclass
class Outcome:
    """What became of a file.

    Attributes:
        result: ``right``, ``refused``, ``wrong``, ``crash``, or ``none`` where LiteRT itself does not run the file.
        reason: why it is not right.
        refusals: for a refusal, each operator with its reason.
        difference: the largest from LiteRT, as part of the largest value; steps for quantised models.
    """

    name: str
    mode: Mode
    result: str = "right"
    reason: str = ""
    refusals: list[str] = field(default_factory=list)
    difference: float = 0.0


class Wrong(Exception):
    """A result is another one than LiteRT's."""


class NotRunnable(Exception):
    """LiteRT does not run the file."""


Piece = tuple[str, Mode]


def path_of(name: str, mode: Mode) -> Path:
    """Where the file of an entry is, or would be."""
    place = folder(source_of(name))
    assert place is not None
    return file_of(place, entries()[name], mode)


def judge_piece(piece: Piece) -> Outcome:
    """Convert the file of an entry and compare."""
    name, mode = piece
    return judge(entries()[name], mode, path_of(name, mode))


def died(piece: Piece) -> Outcome:
    """What became of a file that ended the process."""
    return Outcome(*piece, result="crash", reason="it ends the process")


def judge(entry: Entry, mode: Mode, path: Path) -> Outcome:
    """Convert a file and compare."""
    warnings.simplefilter("ignore")
    outcome = Outcome(entry.name, mode)
    try:
        outcome.difference = _judge(entry, mode, path)
    except UnsupportedOpsError as error:
        outcome.result, outcome.refusals = "refused", sorted({f"{op.op}: {op.reason}" for op in error.ops})
        outcome.reason = "; ".join(outcome.refusals)
    except Wrong as error:
        outcome.result, outcome.reason = "wrong", str(error)
    except VerificationError as error:
        outcome.result, outcome.reason = "wrong", f"right here, and not for the package's own verification: {error}"
    except NotRunnable:
        outcome.result = "none"
    except MLConverterError as error:
        outcome.result, outcome.reason = "refused", f"{type(error).__name__}: {error}"
        outcome.refusals = [outcome.reason]
    except Exception as error:
        outcome.result, outcome.reason = "crash", f"{type(error).__name__}: {error}"
    return outcome


def _judge(entry: Entry, mode: Mode, path: Path) -> float:
    content = path.read_bytes()
    quantised = mode in ("int8", "int16")
    converter = Converter(model_path=path, verify=False)
    signature = converter.signature
    feeds = [_stored(signature, entry.feeds(number, batch)) for number, batch in RUNS]
    wanted = [_wanted(content, given) for given in feeds[: len(feeds) if _free_batch(signature) else -1]]
    if wanted[0] is None:
        raise NotRunnable
    model = converter.to_onnx()
    floats = wanted
    if mode == "dynamic":
        real = with_real_weights(load(content))
        floats = [_wanted(real, given) for given in feeds[: len(wanted)]]
    worst = 0.0
    for given, want, original in zip(feeds, floats, wanted, strict=False):
        if want is None or original is None:
            continue  # LiteRT does not take every other batch
        if quantised:
            worst = max(worst, _by_steps(model, signature, content, given, original))
            continue
        got = _run(model, given)
        worst = max(worst, _difference(got, want, RTOL))
        if mode == "dynamic":
            _difference(got, original, ON_THE_FLY, integers=False)
    # What is right here has to pass the package's own verification, too, or nobody gets it.
    Converter(model_path=path).to_onnx()
    return worst


def _run(model: Any, feeds: Feeds) -> Feeds:
    """What ONNX Runtime gives; that it does not run what was made is no refusal."""
    try:
        with _runner(model) as runner:
            return dict(runner.run(feeds))
    except MLConverterError as error:
        raise RuntimeError(f"what was made does not run: {error}") from error


def _runner(model: Any) -> Runner:
    """ONNX Runtime, from the first state on where the model has states."""
    return ONNXConverter(model).source_runner()


def _free_batch(signature: IOSignature) -> bool:
    return any("batch" in (spec.shape or ()) for spec in signature.inputs)


def _stored(signature: IOSignature, feeds: Feeds) -> Feeds:
    """Inputs as the file wants them: integers where it is quantised."""
    return {spec.name: _on_grid(spec, feeds[spec.name]) for spec in signature.inputs}


def _on_grid(spec: TensorSpec, value: np.ndarray) -> np.ndarray:
    if spec.quantization is None or value.dtype.kind != "f":
        return value.astype(spec.dtype)
    limits = np.iinfo(spec.dtype)
    steps = np.rint(value / spec.quantization.scale[0]) + spec.quantization.zero_point[0]
    return np.clip(steps, limits.min, limits.max).astype(spec.dtype)


def _wanted(content: bytes, feeds: Feeds) -> Feeds | None:
    """LiteRT's results, by those of its kernels that run the file."""
    kernels: tuple[Kernels, ...] = ("default", "reference")
    for choice in kernels:
        try:
            with LiteRTRunner(content, kernels=choice, num_threads=1) as runner:
                return {name: np.array(value) for name, value in runner.run(feeds).items()}
        except ConversionError:
            continue
    return None


def _by_steps(model: Any, signature: IOSignature, content: bytes, feeds: Feeds, want: Feeds) -> float:
    """By how many steps results are off; where that is too much, quantised values, each computed from LiteRT's own before it."""
    got = _run(model, feeds)
    if all(_within_a_step(spec, got[spec.name], want[spec.name]) for spec in signature.outputs):
        return 1.0
    with _runner(model) as ours, LiteRTRunner(content, num_threads=1) as theirs:
        found = stepwise(ours, theirs, feeds, Tolerances("onnx", RTOL))
    if found is not None:
        if not found.fitting:
            raise Wrong(f"'{found.worst}' is {found.steps} steps off")
        off = next((c for c in found.outputs if not c), None)
        if off is not None:
            raise Wrong(f"output {off.name}: {off.reason}")
    for spec in signature.outputs:
        name = spec.name
        if found is not None:
            _difference({name: got[name]}, {name: want[name]}, MOST, integers=False)
        elif spec.quantization is None:
            _difference({name: got[name]}, {name: want[name]}, RTOL)
        else:
            apart = int(np.abs(got[name].astype(np.int64) - want[name].astype(np.int64)).max(initial=0))
            if apart > STEPS.get(spec.dtype, 1):
                raise Wrong(f"output '{name}' is {apart} steps off")
    return float(found.steps) if found is not None else 0.0


def _within_a_step(spec: TensorSpec, got: np.ndarray, want: np.ndarray) -> bool:
    if spec.quantization is None or (got.shape, got.dtype) != (want.shape, want.dtype):
        return False
    return int(np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0)) <= 1


def _difference(got: Feeds, want: Feeds, rtol: float, integers: bool = True) -> float:
    """The largest difference, as part of the largest value.

    Raises:
        Wrong: it is too large, or the outputs are others.
    """
    if list(got) != list(want):
        raise Wrong(f"the outputs are {list(got)}, not {list(want)}")
    worst = 0.0
    for name, expected in want.items():
        value = got[name]
        if value.shape != expected.shape or value.dtype != expected.dtype:
            raise Wrong(f"output '{name}' is {value.dtype}{list(value.shape)}, not {expected.dtype}{list(expected.shape)}")
        if expected.dtype.kind != "f":
            if integers and not np.array_equal(value, expected):
                raise Wrong(f"output '{name}': {np.mean(value != expected):.0%} of the {expected.dtype} values differ")
            continue
        finite = np.isfinite(expected)
        if not np.array_equal(value[~finite], expected[~finite], equal_nan=True):
            raise Wrong(f"output '{name}' has other values where LiteRT has infinities or none")
        largest = float(np.abs(expected[finite]).max(initial=0))
        apart = float(np.abs(value[finite].astype(np.float64) - expected[finite]).max(initial=0))
        if not apart <= rtol * largest + ATOL:
            raise Wrong(f"output '{name}' is {apart:.2g} off, of {largest:.2g}")
        worst = max(worst, apart / largest if largest else 0.0)
    return worst
