"""What a few more runs of a source show where its samples alone show too little."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mlconverter.errors import MLConverterError
from mlconverter.verification.dtypes import Array, dtype_name, kind_of
from mlconverter.verification.evidence import differs, finite, same
from mlconverter.verification.runner import Runner
from mlconverter.verification.tolerance import Tolerances

Inputs = Mapping[str, Array]

HALVINGS = 24
"""How finely two samples are divided; a float32 tells no more apart."""


@dataclass(frozen=True)
class Run:
    """A sample and what the source gives for it."""

    inputs: Inputs
    outputs: Inputs

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the inputs."""
        return tuple(v.shape for v in self.inputs.values())


def moves(source: Runner, run: Run, other: Run, name: str, tolerances: Tolerances) -> bool:
    """Whether an output changes where one input comes from another sample: if not, a target could do without it."""
    if run.shapes != other.shapes or same(run.inputs[name], other.inputs[name]):
        return False
    try:
        outputs = source.run({n: v.copy() for n, v in {**run.inputs, name: other.inputs[name]}.items()})
    except MLConverterError:
        return False  # these two do not go together, which says nothing
    how = {s.name: s.quantization for s in source.signature.outputs}
    return any(differs(outputs[n], v, tolerances, how.get(n)) for n, v in run.outputs.items())


def between(source: Runner, run: Run, other: Run, name: str, tolerances: Tolerances) -> Inputs | None:
    """Inputs between two samples on which an output is at neither of the values that it has on them.

    A steep sigmoid is full or empty on nearly all inputs, as a threshold is; somewhere between two inputs they differ.
    """
    first, last = run.outputs[name], other.outputs[name]
    if run.shapes != other.shapes or first.shape != last.shape or not first.size:
        return None
    both = finite(first) & finite(last)
    apart = np.where(both, np.abs(np.where(both, first, 0).astype(np.float64) - np.where(both, last, 0).astype(np.float64)), 0.0)
    place = np.unravel_index(int(apart.argmax()), first.shape)
    ends = [float(first[place]), float(last[place])]
    bound = tolerances.of(dtype_name(first.dtype)).bound(max(map(abs, ends)))
    if not apart[place] > 2 * bound:
        return None
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        part = (low + high) / 2
        mixed = {n: _mixed(v, other.inputs[n], part) for n, v in run.inputs.items()}
        try:
            value = float(source.run({n: v.copy() for n, v in mixed.items()})[name][place])
        except MLConverterError:
            return None
        near = [abs(value - end) <= bound for end in ends]
        if not any(near):
            return mixed
        low, high = (part, high) if near[0] else (low, part)
    return None


def _mixed(a: Array, b: Array, part: float) -> Array:
    if kind_of(dtype_name(a.dtype)) != "float":
        return a
    return np.asarray((a.astype(np.float64) * (1 - part) + b.astype(np.float64) * part).astype(a.dtype))
