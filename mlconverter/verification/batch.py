"""The proof that a model with a free batch treats every item of a batch by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mlconverter.errors import MLConverterError
from mlconverter.signature import IOSignature, TensorSpec
from mlconverter.verification.compare import compare_tensors
from mlconverter.verification.conditioning import excused, rounding_spread
from mlconverter.verification.dtypes import Array
from mlconverter.verification.evidence import differs, same
from mlconverter.verification.runner import Runner
from mlconverter.verification.samples import SampleKind, sample_inputs
from mlconverter.verification.shapes import batch_dims, batch_inputs
from mlconverter.verification.singly import Singly
from mlconverter.verification.steps import ALIVE, stepwise
from mlconverter.verification.successive import Afresh, keeps_state
from mlconverter.verification.tolerance import Tolerances

Inputs = Mapping[str, Array]

_BATCHES: tuple[tuple[tuple[SampleKind, float], ...], ...] = (
    (("natural", 1.0), ("edge", 1.0), ("natural", 10.0)),
    (("noise", 1.0), ("natural", -1.0), ("natural", 0.1)),
    # Where an output has not changed until then:
    (("noise", 10.0), ("natural", 0.01), ("noise", -1.0)),
    (("natural", 100.0), ("noise", 0.01), ("natural", -10.0)),
    (("noise", 100.0), ("edge", 1.0), ("noise", -10.0)),
)
"""Kinds of the items of each batch, and factors of their floats: items that are alike could change places unseen."""

_ALWAYS = 2
"""So many batches are run in any case."""


def batch_failure(
    runner: Runner,
    n: int = 3,
    *,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    tolerances: Tolerances | None = None,
) -> str | None:
    """Why a batch of ``n`` is not the same as ``n`` single runs; ``None`` where it is.

    Every output whose first axis is free, or of unknown shape, has to be the single runs' joined along that axis, item by
    item within the tolerance of the item, and has to change between the items of some batch. Any other output has to be
    the same for all of them.

    Args:
        runner: runs a model whose inputs have a free batch.
        n: size of the batch, at least 2.
        seed: seed of the first item's inputs.
        sizes: sizes of the other free dimensions.
        tolerances: how far the values may be apart; the table's by default.

    Raises:
        ValueError: ``n`` is below 2.
    """
    if n < 2:
        raise ValueError(f"A batch of {n} proves nothing; at least 2 are needed.")
    if keeps_state(runner):
        runner = Afresh(runner)
    signature = runner.signature
    if not batch_inputs(signature):
        return "no input has a free batch"
    twice = _batch_elsewhere(signature)
    if twice is not None:
        return twice
    proof = _Proof(runner, tolerances or Tolerances(), sizes)
    unmoved = {s.name for s in signature.outputs if _has_batch(s)}
    if not unmoved:
        return "no output has a batch"
    for number, kinds in enumerate(_BATCHES):
        if number >= _ALWAYS and not unmoved:
            break
        try:
            items, singles = proof.single_runs([kinds[i % len(kinds)] for i in range(n)], seed + n * number)
            together = runner.run(proof.joined(items))
        except MLConverterError as error:
            return f"the model does not run: {error}"
        for spec in signature.outputs:
            reason = proof.difference(spec, together[spec.name], items, singles)
            if reason is not None and not proof.is_right_by_steps(items):
                return reason
        unmoved -= {name for name in unmoved if proof.changes(name, singles)}
    if unmoved:
        return f"{_listed(sorted(unmoved))} the same for all inputs, so that mixed-up items would not show"
    return None


@dataclass(frozen=True)
class _Proof:
    """What the batches of one proof have in common."""

    runner: Runner
    limits: Tolerances
    sizes: Mapping[str, int] | None

    def single_runs(
        self, kinds: Sequence[tuple[SampleKind, float]], seed: int
    ) -> tuple[list[dict[str, Array]], list[dict[str, Array]]]:
        """Inputs and outputs of one run for each item; where a model refuses a kind of sample, a natural one takes its place."""
        items: list[dict[str, Array]] = []
        singles: list[dict[str, Array]] = []
        for offset, (kind, factor) in enumerate(kinds):
            shared = items[0] if items else {}
            item = self._item(kind, factor, seed + offset, shared)
            try:
                single = self.runner.run(item)
            except MLConverterError:
                if (kind, factor) == ("natural", 1.0):
                    raise
                item = self._item("natural", 1.0, seed + offset, shared)
                single = self.runner.run(item)
            items.append(item)
            singles.append(single)
        return items, singles

    def _item(self, kind: SampleKind, factor: float, seed: int, shared: Inputs) -> dict[str, Array]:
        """The inputs of one item; an input without a batch is one for all of them."""
        signature = self.runner.signature
        made = sample_inputs(signature, kind=kind, seed=seed, sizes=self.sizes, batch=1, factor=factor)
        names = batch_inputs(signature)
        return {k: v if k in names else shared.get(k, v) for k, v in made.items()}

    def joined(self, items: Sequence[Inputs]) -> dict[str, Array]:
        """The inputs of a batch."""
        names = batch_inputs(self.runner.signature)
        return {k: np.concatenate([item[k] for item in items]) if k in names else v for k, v in items[0].items()}

    def difference(self, spec: TensorSpec, together: Array, items: Sequence[Inputs], singles: Sequence[Inputs]) -> str | None:
        """Why an output of a batch is not that of the single runs."""
        name, outputs = spec.name, [s[spec.name] for s in singles]
        shapes, n = {o.shape for o in outputs}, len(singles)
        if len(shapes) > 1:
            return f"output '{name}' has the shapes {sorted(shapes)} in single runs, which cannot be compared with a batch"
        one = outputs[0].shape
        if not _has_batch(spec):
            wants, parts = outputs, [together] * n
            if not all(same(o, outputs[0]) for o in outputs):
                return f"output '{name}' has no batch axis and differs from item to item"
        elif not one or together.shape != (n * one[0], *one[1:]):
            return f"output '{name}' has the shape {one} for one item and {together.shape} for {n}"
        else:
            wants, parts = outputs, np.split(together, n) if one[0] else [together] * n
        for item, single, want, got in zip(items, singles, wants, parts, strict=True):
            compared = compare_tensors(name, got, want, self.limits, spec.quantization)
            if compared.failed == "values" and self.limits.rtol is None:
                compared = excused(compared, got, want, rounding_spread(self.runner, item, single)[name])
            if not compared:
                return f"output '{name}' of a batch of {n} is not that of {n} single runs: {compared.reason}"
        return None

    def is_right_by_steps(self, items: Sequence[Inputs]) -> bool:
        """Whether a model is quantised, and every operator of it gives within a step for a batch what it gives for the items.

        How far that adds up says nothing then: items that were mixed up would show in the operator that mixes them.
        """
        found = stepwise(Singly(self.runner), self.runner, self.joined(items), self.limits)
        return found is not None and bool(found) and found.alive >= ALIVE * found.compared

    def changes(self, name: str, singles: Sequence[Inputs]) -> bool:
        """Whether an output of some item is, in numbers, another one than that of the first."""
        how = next(s.quantization for s in self.runner.signature.outputs if s.name == name)
        first, *others = (s[name] for s in singles)
        return any(differs(other, first, self.limits, how) for other in others)


def _has_batch(spec: TensorSpec) -> bool:
    return spec.shape is None or (len(spec.shape) > 0 and not isinstance(spec.shape[0], int))


def _batch_elsewhere(signature: IOSignature) -> str | None:
    dims = batch_dims(signature)
    for spec in signature.inputs:
        if any(d in dims for d in (spec.shape or ())[1:]):
            return f"the batch is also a later axis of input '{spec.name}' ({spec})"
    return None


def _listed(names: Sequence[str]) -> str:
    return f"output '{names[0]}' is" if len(names) == 1 else f"outputs {list(names)} are"
