"""A runner that takes the items of a batch one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlconverter.verification.dtypes import Array
from mlconverter.verification.runner import BaseRunner, Runner, intermediates_of
from mlconverter.verification.shapes import batch_inputs


class Singly(BaseRunner):
    """Shows what a batch is item by item, joined along the first axes. The runner stays its owner's to close.

    Args:
        runner: runs a model whose inputs have a free batch.
    """

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner.name, runner.signature)
        self._runner = runner

    def _run(self, inputs: dict[str, Array]) -> Mapping[str, Array]:
        return _joined([self._runner.run(item) for item in self._items(inputs)])

    def intermediates(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """What the runner shows of each item, joined."""
        return _joined([intermediates_of(self._runner, item) for item in self._items(inputs)])

    def _items(self, inputs: Mapping[str, Array]) -> list[dict[str, Array]]:
        names = batch_inputs(self.signature)
        count = min(len(inputs[name]) for name in names)
        return [{n: v[i : i + 1] if n in names else v for n, v in inputs.items()} for i in range(count)]


def _joined(runs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    first = runs[0]
    return {n: np.concatenate([run[n] for run in runs]) if v.ndim else v for n, v in first.items()}
