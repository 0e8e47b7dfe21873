"""Whether comparisons that passed could have failed: an output that never changes proves nothing about its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlconverter.signature import Quantization, TensorSpec
from mlconverter.verification.compare import compare_tensors
from mlconverter.verification.dtypes import Array, dtype_name, kind_of
from mlconverter.verification.tolerance import Tolerances


class Evidence:
    """Watches the source's outputs over all samples.

    Args:
        outputs: specs of the source's outputs. One that is empty by its shape is constant, and nobody expects more of it.
        tolerances: those of the verification. A change that is smaller would also have passed for the target, so that a
            target which gives one constant would pass, too.
    """

    def __init__(self, outputs: Sequence[TensorSpec], tolerances: Tolerances) -> None:
        self._tolerances = tolerances
        self._quantizations = {s.name: s.quantization for s in outputs}
        self._names = [s.name for s in outputs if 0 not in (s.shape or ())]
        # The first sample of each set of input shapes: only among equal shapes is a change one of values.
        self._first: dict[tuple[tuple[int, ...], ...], tuple[dict[str, Array], dict[str, Array]]] = {}
        self._compared = False
        self._changed: set[str] = set()
        self._alive: set[str] = set()
        self._finite: set[str] = set()
        self._ends: dict[str, tuple[float, float]] = {}
        self._between: set[str] = set()

    def add(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Take one sample into account."""
        for name, value in outputs.items():
            if finite(value).any() or not value.size:
                self._finite.add(name)
            if _any_nonzero(value):
                self._alive.add(name)
            self._look_between(name, value)
        shapes = tuple(v.shape for v in inputs.values())
        known = self._first.setdefault(shapes, (dict(inputs), dict(outputs)))
        first_inputs, first_outputs = known
        if all(same(first_inputs[n], v) for n, v in inputs.items()):
            return
        self._compared = True
        self._changed |= {n for n, v in outputs.items() if self._changes(n, v, first_outputs[n])}

    @property
    def compared(self) -> bool:
        """Whether there were two different samples."""
        return self._compared

    def weakness(self) -> str | None:
        """Why passing proves nothing for some outputs, with their names; ``None`` where it proves something for all."""
        dead = [n for n in self._names if n not in self._finite]
        if dead:
            return f"{_names(dead)} never finite: no sample gives a number that could be compared"
        zero = [n for n in self._names if n not in self._alive]
        if zero:
            return f"{_names(zero)} zero or empty on every sample: a model that computes nothing gives the same"
        still = [n for n in self._names if n not in self._changed]
        if self._compared and still:
            return f"{_names(still)} the same, within the tolerance, for all inputs: a constant would have passed"
        return None

    def saturated(self) -> list[str]:
        """Outputs of floats that are at one of two values on all samples: a threshold would have passed."""
        return [n for n in self._names if n in self._ends and n not in self._between and self._ends[n][0] < self._ends[n][1]]

    def _look_between(self, name: str, value: Array) -> None:
        """Note whether an output is anywhere between its smallest and its largest value so far."""
        if name in self._between or kind_of(dtype_name(value.dtype)) != "float" or not finite(value).any():
            return
        values = value[finite(value)].astype(np.float64)
        low, high = float(values.min()), float(values.max())
        before = self._ends.get(name, (low, high))
        ends = min(low, before[0]), max(high, before[1])
        self._ends[name] = ends
        bound = self._tolerances.of(dtype_name(value.dtype)).bound(max(map(abs, ends)))
        seen = np.append(values, before)
        if not ((seen - ends[0] <= bound) | (ends[1] - seen <= bound)).all():
            self._between.add(name)

    def _changes(self, name: str, value: Array, first: Array) -> bool:
        return differs(value, first, self._tolerances, self._quantizations.get(name))


def differs(value: Array, other: Array, tolerances: Tolerances, quantization: Quantization | None = None) -> bool:
    """Whether neither of two values would pass for the other; where either is not finite says nothing."""
    if value.shape == other.shape and value.size and not (finite(value) & finite(other)).all():
        both = finite(value) & finite(other)
        value, other = value[both], other[both]
    pairs = (value, other), (other, value)
    return not any(compare_tensors("", got, want, tolerances, quantization) for got, want in pairs)


def same(a: Array, b: Array) -> bool:
    """Whether two arrays of one shape and dtype hold the same, NaN included."""
    # As bytes, so that NaN equals itself; text has no bytes of its own.
    return bool(np.array_equal(a, b)) if kind_of(dtype_name(a.dtype)) == "text" else a.tobytes() == b.tobytes()


def finite(value: Array) -> Array:
    """Where an array holds numbers, text and truth values included."""
    if kind_of(dtype_name(value.dtype)) not in ("float", "complex"):
        return np.ones(value.shape, bool)
    return np.asarray(np.isfinite(value))


def _names(names: list[str]) -> str:
    return f"output '{names[0]}' is" if len(names) == 1 else f"outputs {names} are"


def _any_nonzero(value: Array) -> bool:
    if kind_of(dtype_name(value.dtype)) == "text":
        return value.size > 0
    return bool((value != np.zeros((), value.dtype)).any())
