"""Quantised models, judged operator by operator.

Two right implementations of a quantised model round a value that lies between two steps to either of them, and what is
computed from it is another step apart. After fifty operators the outputs tell nothing. So every operator is judged by
itself: fed with the quantised values of the one model, the other has to give the next ones within a step.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from mlconverter.errors import MLConverterError
from mlconverter.signature import Quantization
from mlconverter.verification.compare import TensorComparison, compare_outputs
from mlconverter.verification.conditioning import EXCUSABLE
from mlconverter.verification.dtypes import Array
from mlconverter.verification.runner import Inspectable, Runner, Stateful, quantizations
from mlconverter.verification.tolerance import Tolerances

STEPS = {"int8": 1, "uint8": 1, "int16": 16, "uint16": 16}
"""By how many steps an operator's results may be apart. Functions of 16 bits LiteRT interpolates in tables, up to twelve off."""

ALIVE = 0.5
"""Part of the quantised values that has to be more than one number, where comparing them is to prove anything."""

MOST = 0.1
"""Part of the largest value by which outputs may be apart in the end, whatever each operator does."""

OWN_SPREADS = 2.0
"""How many times further than a runtime's own sets of kernels a target may be from its source in the end."""

_OFFSETS = {("int8", "uint8"): 128, ("uint8", "int8"): -128}


@runtime_checkable
class Resumable(Protocol):
    """A runner that goes on from quantised values which somebody else computed."""

    def resumed(self, inputs: Mapping[str, Array], values: Mapping[str, Array]) -> Mapping[str, Array]:
        """Outputs, and each of some quantised values as it follows from the others.

        Args:
            inputs: the model's.
            values: quantised values by name, a selection of those that ``quantized`` names.
        """

    @property
    def quantized(self) -> list[str]:
        """Names of the values that are quantised between the model's operators."""


@dataclass(frozen=True)
class Stepwise:
    """What comparing operator by operator found.

    Attributes:
        fed: name of the runtime that was fed.
        compared: how many quantised values were compared.
        fitting: whether all are within the steps that their type is allowed.
        steps: the most steps that the worst is off.
        worst: the name of that one.
        alive: how many of the compared values are not all one number.
        outputs: those outputs that are not quantised themselves, as they follow from the last values that are, compared.
    """

    fed: str
    compared: int
    fitting: bool
    steps: int
    worst: str
    alive: int
    outputs: tuple[TensorComparison, ...]

    def __bool__(self) -> bool:
        """Whether every operator is right."""
        return self.fitting and all(self.outputs)


def stepwise(source: Runner, target: Runner, inputs: Mapping[str, Array], tolerances: Tolerances) -> Stepwise | None:
    """Compare a quantised model operator by operator; ``None`` where these two cannot be, or have no such values."""
    found = _stepwise(source, target, inputs, tolerances)
    return _stepwise(source, target, inputs, tolerances, feed_target=True) if found is None else found


def _stepwise(
    source: Runner, target: Runner, inputs: Mapping[str, Array], tolerances: Tolerances, *, feed_target: bool = False
) -> Stepwise | None:
    """Feed one of two models with the other's quantised values; ``None`` where it cannot be, or they have none in common."""
    fed, other = (target, source) if feed_target else (source, target)
    if not (isinstance(fed, Resumable) and isinstance(fed, Inspectable) and isinstance(other, Inspectable)):
        return None
    names = fed.quantized
    if not names:
        return None
    try:
        _forget(fed, other)
        own, theirs = fed.intermediates(inputs), other.intermediates(inputs)
        pairs = ((n, _like(theirs[n], own[n])) for n in names if n in theirs and n in own)
        given = {name: value for name, value in pairs if value is not None}
        if not given:
            return None
        _forget(fed)
        results = fed.resumed(inputs, given)
    except MLConverterError:
        return None  # what does not run by its parts is judged as a whole
    steps = {n: int(np.abs(results[n].astype(np.int64) - v.astype(np.int64)).max(initial=0)) for n, v in given.items()}
    outputs = [name for name in source.signature.output_names if name not in given]
    got, want = (results, theirs) if feed_target else (theirs, results)
    how = quantizations(source, target)
    for name in [n for n in outputs if _are_steps(n, how, got, want)]:
        given[name] = want[name]
        steps[name] = int(np.abs(got[name].astype(np.int64) - want[name].astype(np.int64)).max(initial=0))
        outputs.remove(name)
    beyond = {name: off - STEPS.get(given[name].dtype.name, 1) for name, off in steps.items()}
    worst = max(steps, key=lambda name: (beyond[name], steps[name]))
    compared = compare_outputs({n: got[n] for n in outputs if n in got}, {n: want[n] for n in outputs}, tolerances, how)
    alive = sum(bool((v != v.reshape(-1)[:1]).any()) for v in given.values())
    return Stepwise(fed.name, len(steps), beyond[worst] <= 0, steps[worst], worst, alive, compared)


def _forget(*runners: Runner) -> None:
    """Let runners that keep something from call to call begin anew."""
    for runner in runners:
        if isinstance(runner, Stateful) and runner.keeps_state:
            runner.reset()


def _are_steps(name: str, how: Mapping[str, Quantization | None], got: Mapping[str, Array], want: Mapping[str, Array]) -> bool:
    """Whether an output is one of quantised values, whose axes another name hid."""
    values = [v.get(name) for v in (got, want)]
    if how[name] is None or values[0] is None or values[1] is None:
        return False
    return values[0].shape == values[1].shape and values[0].dtype == values[1].dtype and values[0].dtype.name in STEPS


def excused_by_steps(comparison: TensorComparison, found: Stepwise, spread: float) -> TensorComparison:
    """The comparison of an output whose operators are all right, under the tolerance that many of them together need.

    Args:
        comparison: of the output.
        found: what comparing operator by operator found.
        spread: how far one of the runtimes is from itself by other kernels.
    """
    bound = max(MOST * comparison.max_want, OWN_SPREADS * spread, comparison.tolerance)
    if not found or comparison.failed not in EXCUSABLE or not comparison.max_abs_error <= bound:
        return comparison
    return replace(comparison, failed=None, reason="", tolerance=bound, rtol=bound / max(comparison.max_want, 1e-30))


def _like(got: Array, want: Array) -> Array | None:
    """The same integers with the axes and in the type of others; ``None`` where they are something else.

    A target may store the axes in another order, which only the values tell where sizes are equal.
    """
    if got.dtype.kind not in "iu" or want.dtype.kind not in "iu" or got.ndim != want.ndim:
        return None
    moved = got.astype(np.int64) + _OFFSETS.get((got.dtype.name, want.dtype.name), 0)
    orders = [p for p in itertools.permutations(range(got.ndim)) if tuple(got.shape[a] for a in p) == want.shape]
    if not orders:
        return None
    aim = want.astype(np.int64)
    nearest = min(orders, key=lambda order: float(np.abs(moved.transpose(order) - aim).sum()))
    return moved.transpose(nearest).astype(want.dtype)
