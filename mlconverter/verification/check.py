"""The verification of one conversion: run source and target on the same inputs and compare all that comes out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mlconverter.errors import MLConverterError, SignatureError
from mlconverter.signature import IOSignature, Quantization
from mlconverter.verification.adapters import Permuted
from mlconverter.verification.compare import TensorComparison, compare_outputs
from mlconverter.verification.conditioning import excused, rounding_spread
from mlconverter.verification.dtypes import Array
from mlconverter.verification.evidence import Evidence
from mlconverter.verification.result import InputKind, RunComparison, VerificationResult
from mlconverter.verification.runner import Runner
from mlconverter.verification.samples import SampleKind, sample_inputs
from mlconverter.verification.shapes import batch_inputs
from mlconverter.verification.tolerance import OTHER, Tolerances

Level = Literal["fast", "full", False]

Inputs = Mapping[str, Array]

FAST_SECONDS = 60.0
"""After so long, a fast verification starts no further run."""

SECOND_BATCH = 3
"""The other batch size of a full verification: odd, and no divisor of usual sizes."""

_FAST: tuple[tuple[SampleKind, int], ...] = (("natural", 0), ("edge", 0))
_FULL: tuple[tuple[SampleKind, int], ...] = (("natural", 0), ("edge", 0), ("noise", 0), ("natural", 1), ("edge", 1), ("noise", 1))
_FULL_SECOND_BATCH: tuple[tuple[SampleKind, int], ...] = (("natural", 2), ("noise", 2))


@dataclass(frozen=True)
class _Sample:
    kind: InputKind
    seed: int | None
    inputs: Inputs


def verify_runners(
    source: Runner,
    target: Runner,
    *,
    level: Level = "fast",
    target_format: str = OTHER,
    rtol: float | None = None,
    compute: str | None = None,
    inputs: Inputs | Sequence[Inputs] | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    input_perms: Mapping[str, Sequence[int]] | None = None,
    output_perms: Mapping[str, Sequence[int]] | None = None,
) -> VerificationResult:
    """Whether ``target`` computes what ``source`` computes.

    Args:
        source: runs the model that is right by definition.
        target: runs the model that was made from it.
        level: ``"fast"``: a natural and an edge input at the source's batch, and no further run after a minute.
            ``"full"``: two seeds of natural, edge and noise inputs, and a second batch size where the batch is free in both.
            ``False``: nothing is run.
        target_format: name of the target's format, which picks the tolerance.
        rtol: relative tolerance instead of the table's. Integers, bools and text stay exact, except quantised integers,
            which get it on top of one step.
        compute: name of a narrower float type in which the target was asked to compute or to keep its weights.
        inputs: the caller's own inputs, one set or several, instead of samples.
        sizes: sizes of free dimensions by name; one without a name is called ``"<input>:<axis>"``.
        seed: first seed of the samples.
        input_perms: axis orders of inputs that the target has in another order, ``target = source.transpose(perm)``.
        output_perms: the same for outputs.

    Raises:
        SignatureError: the caller's inputs, sizes or permutations do not fit the models.
        ValueError: there is no such ``level``.
    """
    if level not in ("fast", "full", False):
        raise ValueError(f"Verification is 'fast', 'full' or False, not {level!r}.")
    if level is False:
        return VerificationResult.unverified("verify=False", source=source.name, target=target.name)
    start = time.perf_counter()
    if input_perms or output_perms:
        target = Permuted(target, input_perms or {}, output_perms or {})
    tolerances = Tolerances(target_format, rtol, compute)
    session = _Session(source, target, tolerances, start)
    reason = _border_difference(source.signature, target.signature)
    if reason is not None:
        return session.result(reason)
    unranked = [s.name for s in source.signature.inputs if s.shape is None]
    if inputs is None and unranked:
        return session.result(unverified=f"nothing is known about the shape of {unranked}; give inputs to verify with")
    for sample in _samples(source.signature, target.signature, level=level, inputs=inputs, sizes=sizes, seed=seed):
        if level == "fast" and inputs is None and session.runs and time.perf_counter() - start > FAST_SECONDS:
            session.notes.append(f"Runs after the first {FAST_SECONDS:.0f} s were left out.")
            break
        session.run(sample)
    return session.result()


class _Session:
    """The runs of one verification, and the verdict that follows from them."""

    def __init__(self, source: Runner, target: Runner, tolerances: Tolerances, start: float) -> None:
        self._source, self._target, self._tolerances, self._start = source, target, tolerances, start
        self._quantizations: dict[str, Quantization | None] = {s.name: s.quantization for s in source.signature.outputs}
        self._evidence = Evidence(source.signature.outputs, tolerances)
        self._refused: list[str] = []
        self._erratic: dict[str, str] = {}
        self.runs: list[RunComparison] = []
        self.notes: list[str] = []

    def run(self, sample: _Sample) -> None:
        """Run both models on one sample and compare."""
        try:
            want = self._source.run(_copied(sample.inputs))
        except MLConverterError as error:
            # The caller's own inputs are the caller's mistake; a sample that the source refuses is only no evidence.
            if sample.kind == "given" and isinstance(error, SignatureError):
                raise
            self._refused.append(f"The source does not run on {sample.kind} inputs {_shapes(sample.inputs)}: {error}")
            return
        batch = next((v.shape[0] for v in sample.inputs.values() if v.ndim), None)
        self._evidence.add(sample.inputs, want)
        try:
            got = self._target.run(_copied(sample.inputs))
        except MLConverterError as error:
            self.runs.append(RunComparison(sample.kind, sample.seed, batch, error=f"the target does not run: {error}"))
            return
        outputs = self._conditioned(sample, want, got)
        run = RunComparison(sample.kind, sample.seed, batch, outputs)
        self.runs.append(run)
        if any(not c and c.name not in self._erratic for c in outputs):
            self._erratic.update(self._self_differences(sample, want))

    def _conditioned(self, sample: _Sample, want: Inputs, got: Inputs) -> tuple[TensorComparison, ...]:
        """The comparisons, with those let pass that are apart by no more than rounding moves the source itself."""
        outputs = compare_outputs(got, want, self._tolerances, self._quantizations)
        if self._tolerances.rtol is not None or all(c.failed != "values" for c in outputs):
            return outputs  # whoever sets a tolerance gets that one
        spread = rounding_spread(self._source, _copied(sample.inputs), want)
        judged = []
        for comparison in outputs:
            name = comparison.name
            other = excused(comparison, got[name], want[name], spread[name]) if comparison.failed == "values" else comparison
            if other is not comparison:
                self.notes.append(
                    f"Output '{name}' is ill-conditioned on {sample.kind} inputs: a few roundings of the inputs move "
                    f"the source by {float(spread[name].max()):.2g}, so a difference of {other.max_abs_error:.2g} passes."
                )
            judged.append(other)
        return tuple(judged)

    def _self_differences(self, sample: _Sample, want: Inputs) -> dict[str, str]:
        """Outputs in which the source differs from itself: where it draws random numbers, nothing can be compared."""
        try:
            got = self._source.run(_copied(sample.inputs))
        except MLConverterError as error:
            return dict.fromkeys(want, f"the source does not run twice on the same inputs: {error}")
        again = compare_outputs(got, want, self._tolerances, self._quantizations)
        return {c.name: f"the source differs from itself on the same inputs: output {c}" for c in again if not c}

    def result(self, wrong: str | None = None, unverified: str | None = None) -> VerificationResult:
        """The verdict on all runs; ``wrong`` and ``unverified`` are reasons that need none."""
        notes = (*self.notes, *(self._refused if self.runs else ()))

        def verdict(name: Literal["verified", "wrong", "inconclusive", "unverified"], reason: str = "") -> VerificationResult:
            seconds = time.perf_counter() - self._start
            pair = self._source.name, self._target.name
            return VerificationResult(name, reason, tuple(self.runs), *pair, self._tolerances.rtol, seconds, notes)

        if wrong is not None:
            return verdict("wrong", wrong)
        if unverified is not None:
            return verdict("unverified", unverified)
        if not self.runs:
            return verdict("unverified", self._refused[0]) if self._refused else verdict("wrong", "nothing was compared")
        failed = next((run for run in self.runs if self._fails(run)), None)
        if failed is not None:
            return verdict("wrong", _failure(failed, tuple(self._erratic)))
        if self._erratic:
            return verdict("inconclusive", next(iter(self._erratic.values())))
        weakness = self._evidence.weakness() if self._source.signature.inputs else None
        return verdict("verified") if weakness is None else verdict("inconclusive", weakness)

    def _fails(self, run: RunComparison) -> bool:
        """Whether a run failed, and not only because of outputs in which the source differs from itself."""
        return bool(run.error) or not run.outputs or any(not c and c.name not in self._erratic for c in run.outputs)


def _border_difference(source: IOSignature, target: IOSignature) -> str | None:
    """How the names of two signatures differ; their shapes and dtypes show when they run."""
    for what, want, got in (
        ("inputs", source.input_names, target.input_names),
        ("outputs", source.output_names, target.output_names),
    ):
        if want != got:
            return f"the {what} are {list(got)}, not {list(want)}; where only the names differ, compare by position"
    return None


def _samples(
    source: IOSignature,
    target: IOSignature,
    *,
    level: Level,
    inputs: Inputs | Sequence[Inputs] | None,
    sizes: Mapping[str, int] | None,
    seed: int,
) -> Iterator[_Sample]:
    """The inputs of all runs, made one at a time."""
    if inputs is not None:
        for given in [inputs] if isinstance(inputs, Mapping) else inputs:
            yield _Sample("given", None, {n: np.asarray(v) for n, v in given.items()})
        return
    for kind, offset in _FULL if level == "full" else _FAST:
        yield _Sample(kind, seed + offset, sample_inputs(source, kind=kind, seed=seed + offset, sizes=sizes))
    if level == "full" and batch_is_free(source, target):
        for kind, offset in _FULL_SECOND_BATCH:
            made = sample_inputs(source, kind=kind, seed=seed + offset, sizes=sizes, batch=SECOND_BATCH)
            yield _Sample(kind, seed + offset, made)


def batch_is_free(source: IOSignature, target: IOSignature) -> bool:
    """Whether some inputs of the source have a free batch, and the target leaves the first axis of all those free."""
    names = batch_inputs(source)
    shapes = {s.name: s.shape for s in target.inputs}
    return bool(names) and all(not shapes[n] or not isinstance((shapes[n] or (None,))[0], int) for n in names)


def _copied(inputs: Inputs) -> dict[str, Array]:
    """Each model gets its own: one that writes into its inputs must not change what the other sees."""
    return {n: v.copy() for n, v in inputs.items()}


def _shapes(inputs: Inputs) -> str:
    return ", ".join(f"{n}{list(v.shape)}" for n, v in inputs.items())


def _failure(run: RunComparison, erratic: tuple[str, ...]) -> str:
    if run.error:
        return f"{run.error} ({run})"
    if not run.outputs:
        return "nothing was compared: the source has no outputs"
    failed = [c for c in run.outputs if not c and c.name not in erratic]
    others = f"; {len(failed) - 1} more outputs fail" if len(failed) > 1 else ""
    return f"output '{failed[0].name}' on {run}: {failed[0].reason}{others}"
