"""How far rounding alone moves a model's outputs.

Where a model subtracts large numbers that are nearly equal, two right implementations differ by far more than
either rounds anywhere. How much that is can be asked of the source itself: its inputs are moved by a few
roundings, and what its outputs do is a spread below which nobody can tell right from wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mlconverter.verification.compare import TensorComparison
from mlconverter.verification.dtypes import Array, eps_of, kind_of
from mlconverter.verification.runner import Runner
from mlconverter.verification.tolerance import ATOL

ROUNDINGS = 4.0
"""By how many eps inputs are moved, at most."""

DRAWS = 3
"""How often; the largest spread counts."""

PER_SPREAD = 8.0
"""Differences up to so many spreads pass. Every layer rounds, the inputs only once: on deep models whose error against float64
is known, right implementations were 2 to 5 spreads apart."""

MOST = 1e-2
"""No spread excuses a difference beyond this part of the largest magnitude."""


def rounding_spread(runner: Runner, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> dict[str, float]:
    """By output: the largest change when every float input is moved by a few eps.

    Args:
        runner: runs the source.
        inputs: the inputs of a run.
        outputs: what the source gave for them.
    """
    spread = dict.fromkeys(outputs, 0.0)
    moving = [name for name, value in inputs.items() if kind_of(value.dtype.name) == "float"]
    for seed in range(DRAWS) if moving else ():
        rng = np.random.default_rng(seed)
        moved = dict(inputs)
        for name in moving:
            value = inputs[name]
            factor = 1 + rng.uniform(-1, 1, value.shape) * ROUNDINGS * eps_of(value.dtype.name)
            moved[name] = (value.astype(np.float64) * factor).astype(value.dtype)
        for name, value in runner.run(moved).items():
            want = outputs[name]
            if kind_of(want.dtype.name) == "float" and value.shape == want.shape and want.size:
                change = np.abs(value.astype(np.float64) - want.astype(np.float64))
                spread[name] = max(spread[name], float(np.max(change, where=np.isfinite(change), initial=0.0)))
    return spread


def excused(comparison: TensorComparison, spread: float) -> TensorComparison:
    """The comparison under the tolerance that the source's own spread leaves, where that lets it pass."""
    part = min(PER_SPREAD * spread, MOST * comparison.max_want)
    bound = part + ATOL
    if comparison.failed != "values" or not comparison.max_abs_error <= bound:
        return comparison
    rtol = part / comparison.max_want if comparison.max_want else 0.0
    return replace(comparison, failed=None, reason="", tolerance=bound, rtol=rtol)
