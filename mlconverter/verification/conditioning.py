"""How far rounding alone moves a model's outputs.

Where a model subtracts large numbers that are nearly equal, two right implementations differ by far more than
either rounds anywhere. How much that is can be asked of the source itself: its inputs are moved by a few
roundings, and what its outputs do is a spread below which nobody can tell right from wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mlconverter.errors import MLConverterError
from mlconverter.verification.compare import TensorComparison
from mlconverter.verification.dtypes import Array, dtype_name, eps_of, kind_of
from mlconverter.verification.runner import Runner
from mlconverter.verification.tolerance import ATOL

Spread = npt.NDArray[np.float64]

ROUNDINGS = 4.0
"""By how many eps inputs are moved, at most."""

DRAWS = 3
"""How often; the largest spread counts."""

PER_SPREAD = 8.0
"""Differences up to so many spreads pass. Every layer rounds, the inputs only once: on deep models whose error against float64
is known, right implementations were 2 to 5 spreads apart."""

MOST = 1e-2
"""No spread excuses a difference beyond this part of the largest magnitude."""


EXCUSABLE = ("values", "parts")
"""Checks that rounding can fail."""

COMPANY = 2.0
"""A difference passes where the source moves many elements: for each that it moves out of the tolerance, so many may be off."""


def rounding_spread(runner: Runner, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> dict[str, Spread]:
    """By output and element: the largest change when every float input is moved by a few eps.

    Args:
        runner: runs the source.
        inputs: the inputs of a run.
        outputs: what the source gave for them.
    """
    spread: dict[str, Spread] = {name: np.zeros(value.shape) for name, value in outputs.items()}
    moving = [name for name, value in inputs.items() if kind_of(dtype_name(value.dtype)) == "float"]
    for seed in range(DRAWS) if moving else ():
        rng = np.random.default_rng(seed)
        moved = dict(inputs)
        for name in moving:
            value = inputs[name]
            factor = 1 + rng.uniform(-1, 1, value.shape) * ROUNDINGS * eps_of(value.dtype.name)
            moved[name] = (value.astype(np.float64) * factor).astype(value.dtype)
        try:
            results = runner.run(moved)
        except MLConverterError:
            continue  # what does not run says nothing about rounding
        for name, value in results.items():
            want = outputs[name]
            if kind_of(dtype_name(want.dtype)) == "float" and value.shape == want.shape:
                change = _distance(value, want)
                np.maximum(spread[name], np.where(np.isfinite(change), change, 0.0), out=spread[name])
    return spread


def excused(comparison: TensorComparison, got: Array, want: Array, spread: Spread) -> TensorComparison:
    """The comparison under the tolerance that the source's own spread leaves, where that lets it pass.

    Args:
        comparison: one that failed.
        got: what the target gave.
        want: what the source gave.
        spread: how far rounding moves each element of it.
    """
    part = min(PER_SPREAD * float(spread.max(initial=0.0)), MOST * comparison.max_want)
    bound = part + ATOL
    if comparison.failed not in EXCUSABLE or not comparison.max_abs_error <= bound:
        return comparison
    errors, moved = _distance(got, want), PER_SPREAD * spread
    # One element that jumps, at a threshold, excuses that element and its like, and not the errors of all others.
    if comparison.failed == "values":
        alike = (errors > comparison.tolerance).sum() <= COMPANY * (moved > comparison.tolerance).sum()
    else:
        alike = np.median(errors) <= np.median(moved)
    if not alike:
        return comparison
    rtol = part / comparison.max_want if comparison.max_want else 0.0
    return replace(comparison, failed=None, reason="", tolerance=bound, rtol=rtol)


def _distance(a: Array, b: Array) -> Spread:
    with np.errstate(invalid="ignore", over="ignore"):  # infinities, and what is too far apart
        return np.asarray(np.abs(a.astype(np.float64) - b.astype(np.float64)))
