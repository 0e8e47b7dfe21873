"""Whether comparisons that passed could have failed: an output that never changes proves nothing about its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlconverter.signature import TensorSpec
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

    def add(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Take one sample into account."""
        for name, value in outputs.items():
            if _any_finite(value):
                self._finite.add(name)
            if _any_nonzero(value):
                self._alive.add(name)
        shapes = tuple(v.shape for v in inputs.values())
        known = self._first.setdefault(shapes, (dict(inputs), dict(outputs)))
        first_inputs, first_outputs = known
        if all(same(first_inputs[n], v) for n, v in inputs.items()):
            return
        self._compared = True
        self._changed |= {n for n, v in outputs.items() if not self._passes(n, v, first_outputs[n])}

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

    def _passes(self, name: str, value: Array, first: Array) -> bool:
        return bool(compare_tensors(name, value, first, self._tolerances, self._quantizations.get(name)))


def _names(names: list[str]) -> str:
    return f"output '{names[0]}' is" if len(names) == 1 else f"outputs {names} are"


def same(a: Array, b: Array) -> bool:
    """Whether two arrays of one shape and dtype hold the same, NaN included."""
    # As bytes, so that NaN equals itself; text has no bytes of its own.
    return bool(np.array_equal(a, b)) if kind_of(dtype_name(a.dtype)) == "text" else a.tobytes() == b.tobytes()


def _any_finite(value: Array) -> bool:
    if value.size == 0 or kind_of(dtype_name(value.dtype)) not in ("float", "complex"):
        return True
    return bool(np.isfinite(value).any())


def _any_nonzero(value: Array) -> bool:
    if kind_of(dtype_name(value.dtype)) == "text":
        return value.size > 0
    return bool((value != np.zeros((), value.dtype)).any())
