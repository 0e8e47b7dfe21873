"""The runs of one verification, and the verdict that follows from them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from mlconverter.errors import MLConverterError, SignatureError
from mlconverter.verification.bisect import bisect_runners
from mlconverter.verification.compare import TensorComparison, compare_outputs, undecided
from mlconverter.verification.conditioning import EXCUSABLE, excused, rounding_spread
from mlconverter.verification.dtypes import Array
from mlconverter.verification.evidence import Evidence
from mlconverter.verification.probing import HALVINGS, Run, between, moves
from mlconverter.verification.result import InputKind, RunComparison, VerificationResult
from mlconverter.verification.runner import Runner, Varied, quantizations
from mlconverter.verification.steps import ALIVE, excused_by_steps, stepwise
from mlconverter.verification.tolerance import Tolerances

Inputs = Mapping[str, Array]

OWN_DIFFERENCES = 10.0
"""Where a source differs from itself, a target may differ from it by so much more."""


@dataclass(frozen=True)
class Sample:
    """Inputs of a run.

    Attributes:
        kind: where they come from.
        seed: seed of the samples, ``None`` where there is none.
        inputs: the inputs.
        factor: what floats were multiplied with.
    """

    kind: InputKind
    seed: int | None
    inputs: Inputs
    factor: float = 1.0


class Session:
    """The runs of one verification.

    Args:
        source: runs the model that is right by definition.
        target: runs the model that was made from it.
        tolerances: how far they may be apart.
        limit: seconds after which no further run is started, ``None`` for no limit.

    Attributes:
        other: runs the source by other kernels, ``None`` where nobody asks for that.
        bisects: whether to look for the first tensor that differs in what is wrong.
        runs: every run with its comparisons.
        notes: what else is to know.
    """

    def __init__(self, source: Runner, target: Runner, tolerances: Tolerances, limit: float | None = None) -> None:
        self._source, self._target, self._tolerances, self._limit = source, target, tolerances, limit
        self.other: Runner | None = None
        self.bisects = False
        self._first_difference: TensorComparison | None = None
        self._start = time.perf_counter()
        self._quantizations = quantizations(source, target)
        outputs = [replace(s, quantization=self._quantizations[s.name]) for s in source.signature.outputs]
        self._evidence = Evidence(outputs, tolerances)
        self._refused: list[str] = []
        self._erratic: dict[str, TensorComparison | str] = {}
        self._seen: list[Run] = []
        self._idle = list(source.signature.input_names) if len(source.signature.inputs) > 1 else []
        self._spread: dict[str, float] = {}
        self.runs: list[RunComparison] = []
        self.notes: list[str] = []

    def late(self, runs: int = 1) -> bool:
        """Whether there is no time for so many runs more; what is left out is noted once."""
        if self._limit is None or not self.runs:
            return False
        seconds = time.perf_counter() - self._start
        if seconds + (runs - 1) * seconds / len(self.runs) <= self._limit:
            return False
        note = f"Runs after the first {self._limit:.0f} s were left out."
        self.notes += [] if note in self.notes else [note]
        return True

    def run(self, sample: Sample) -> None:
        """Run both models on one sample and compare."""
        try:
            want = self._source.run(copied(sample.inputs))
        except MLConverterError as error:
            # The caller's own inputs are the caller's mistake; a sample that the source refuses is only no evidence.
            if sample.kind == "given" and isinstance(error, SignatureError):
                raise
            self._refused.append(f"The source does not run on {sample.kind} inputs {_shapes(sample.inputs)}: {error}")
            return
        self._watch(Run(sample.inputs, want), given=sample.kind == "given")
        batch = next((v.shape[0] for v in sample.inputs.values() if v.ndim), None)
        try:
            got = self._target.run(copied(sample.inputs))
        except MLConverterError as error:
            failed = f"the target does not run: {error}"
            self.runs.append(RunComparison(sample.kind, sample.seed, batch, error=failed, factor=sample.factor))
            return
        outputs = self._conditioned(sample, want, got)
        if any(c.failed == "finite" for c in outputs):
            outputs = self._conditioned(sample, self._as_either(sample, want, got), got)
        self.runs.append(RunComparison(sample.kind, sample.seed, batch, outputs, factor=sample.factor))
        if not all(c or self._is_erratic(c) for c in outputs):
            self._look_for_differences_of_its_own(sample, want)
            if self.bisects and self._fails(self.runs[-1]):
                self._bisect(sample)

    def weakness(self) -> str | None:
        """Why comparisons that passed prove too little; ``None`` where they could all have failed."""
        if not self._source.signature.inputs:
            return None
        weakness = self._evidence.weakness()
        if weakness is None and self._idle and self._evidence.compared:
            named = f"input '{self._idle[0]}' changes" if len(self._idle) == 1 else f"inputs {self._idle} change"
            weakness = f"{named} no output on any sample: a target that leaves it out would have passed"
        return weakness

    @property
    def wants_more(self) -> bool:
        """Whether other samples could show more."""
        return bool(self._source.signature.inputs) and (self.weakness() is not None or not self._evidence.compared)

    def look_between(self) -> None:
        """Where an output is at one of two values on all samples, compare on inputs between two of them, too."""
        for name in self._evidence.saturated():
            if self.late(HALVINGS):
                return
            pairs = ((self._seen[0], other) for other in self._seen[1:])
            found = (between(self._source, run, other, name, self._tolerances) for run, other in pairs)
            inputs = next((f for f in found if f is not None), None)
            if inputs is not None:
                self.run(Sample("between", None, inputs))

    def _watch(self, run: Run, given: bool) -> None:
        self._evidence.add(run.inputs, run.outputs)
        first = self._seen[0] if self._seen else run
        if given or (self._idle and self.late(len(self._idle))):
            self._idle = []  # what the caller gives is for the caller to choose
        self._idle = [n for n in self._idle if not moves(self._source, first, run, n, self._tolerances)]
        self._seen.append(run)
        if self.other is None:
            return
        try:
            again = self.other.run(copied(run.inputs))
        except MLConverterError as error:
            self.notes.append(f"The source's other kernels do not run: {error}")
            self.other = None
            return
        for c in compare_outputs(again, run.outputs, self._tolerances, self._quantizations):
            self._spread[c.name] = max(self._spread.get(c.name, 0.0), c.rtol_needed)

    def _bisect(self, sample: Sample) -> None:
        """Find the first tensor that differs on the first sample on which an output does."""
        self.bisects = False
        try:
            self._first_difference = bisect_runners(self._source, self._target, sample.inputs, self._tolerances)
        except MLConverterError as error:
            self.notes.append(f"The first tensor that differs cannot be found: {error}")
            return
        if self._first_difference is None:
            self.notes.append("No tensor between the operators differs that both models have by one name.")

    def _conditioned(self, sample: Sample, want: Inputs, got: Inputs) -> tuple[TensorComparison, ...]:
        """The comparisons, with those let pass that are apart by no more than rounding moves the source itself."""
        outputs = compare_outputs(got, want, self._tolerances, self._quantizations)
        if self._tolerances.rtol is not None or all(c.failed not in EXCUSABLE for c in outputs):
            return outputs  # whoever sets a tolerance gets that one
        spread = rounding_spread(self._source, copied(sample.inputs), want)
        judged = []
        for comparison in outputs:
            name = comparison.name
            other = comparison
            if comparison.failed in EXCUSABLE:
                other = excused(comparison, got[name], want[name], spread[name])
            if other is not comparison:
                self.notes.append(
                    f"Output '{name}' is ill-conditioned on {sample.kind} inputs: a few roundings of the inputs move "
                    f"the source by {float(spread[name].max()):.2g}, so a difference of {other.max_abs_error:.2g} passes."
                )
            judged.append(other)
        return tuple(judged) if all(judged) else self._by_steps(sample, tuple(judged))

    def _by_steps(self, sample: Sample, outputs: tuple[TensorComparison, ...]) -> tuple[TensorComparison, ...]:
        """The comparisons, with those let pass that are of quantised models all of whose operators are right."""
        found = stepwise(self._source, self._target, copied(sample.inputs), self._tolerances)
        if found is None:
            return outputs
        if not found:
            off = "the outputs differ behind the last" if found.fitting else f"'{found.worst}' is {found.steps} steps off"
            self.notes.append(f"Of {found.compared} quantised values, each computed by {found.fed} from the other's, {off}.")
            return outputs
        spread = self._own_spread(sample)
        judged = tuple(c or excused_by_steps(c, found, spread.get(c.name, 0.0)) for c in outputs)
        if all(judged):
            apart = max((c.max_abs_error / c.max_want for c in outputs if c.max_want), default=0.0)
            self.notes.append(
                f"All {found.compared} quantised values are within a step, each computed by {found.fed} from the other's "
                f"before it; on {sample.kind} inputs that adds up to {apart:.2g} of the largest value of the outputs."
            )
        return judged

    def _as_either(self, sample: Sample, want: Inputs, got: Inputs) -> Inputs:
        """What the source gives, with numbers that its other kernels call infinite or none taken as the target has them."""
        if not isinstance(self._source, Varied):
            return want
        try:
            with self._source.other_kernels() as other:
                again = other.run(copied(sample.inputs))
        except MLConverterError:
            return want
        either = {n: undecided(v, again[n], got[n]) if n in got else v for n, v in want.items()}
        if any(either[n] is not v for n, v in want.items()):
            self.notes.append(f"On {sample.kind} inputs the source's own kernels differ in which numbers are finite.")
        return either

    def _is_proved_by_steps(self) -> bool:
        """Whether what outputs do not show, as they hardly change, shows in the quantised values before them."""
        compared = 0
        for run in (self._seen[0], self._seen[-1]):
            found = stepwise(self._source, self._target, copied(run.inputs), self._tolerances)
            if not found or found.alive < ALIVE * found.compared:
                return False
            compared = found.compared
        self.notes.append(f"The outputs hardly change; {compared} quantised values before them do, and are within a step.")
        return True

    def _own_spread(self, sample: Sample) -> dict[str, float]:
        """How far one of the two is from itself by other kernels, by output; nothing where no runtime has others."""
        varied = next((r for r in (self._source, self._target) if isinstance(r, Varied)), None)
        if varied is None:
            return {}
        try:
            want = varied.run(copied(sample.inputs))
            with varied.other_kernels() as other:
                again = other.run(copied(sample.inputs))
        except MLConverterError:
            return {}
        return {c.name: c.max_abs_error for c in compare_outputs(again, want, self._tolerances, self._quantizations)}

    def _look_for_differences_of_its_own(self, sample: Sample, want: Inputs) -> None:
        """Note outputs in which the source differs from itself: where it draws random numbers, little can be compared."""
        try:
            got = self._source.run(copied(sample.inputs))
        except MLConverterError as error:
            self._erratic.update(dict.fromkeys(want, f"the source does not run twice on the same inputs: {error}"))
            return
        for again in compare_outputs(got, want, self._tolerances, self._quantizations):
            known = self._erratic.get(again.name)
            if not again and (not isinstance(known, TensorComparison) or known.max_abs_error < again.max_abs_error):
                self._erratic[again.name] = again

    def _is_erratic(self, comparison: TensorComparison) -> bool:
        """Whether a comparison failed in the way, and by about as much, as the source fails against itself."""
        own = self._erratic.get(comparison.name)
        if isinstance(own, TensorComparison):
            return comparison.failed == own.failed and comparison.max_abs_error <= OWN_DIFFERENCES * own.max_abs_error
        return own is not None and comparison.failed in ("finite", *EXCUSABLE)

    def result(self, wrong: str | None = None, unverified: str | None = None) -> VerificationResult:
        """The verdict on all runs; ``wrong`` and ``unverified`` are reasons that need none."""
        proved = bool(self.runs) and self.weakness() is not None and self._is_proved_by_steps()
        notes = (*self.notes, *(self._refused if self.runs else ()))

        def verdict(name: Literal["verified", "wrong", "inconclusive", "unverified"], reason: str = "") -> VerificationResult:
            pair, seconds = (self._source.name, self._target.name), time.perf_counter() - self._start
            rtol, found = self._tolerances.rtol, self._first_difference
            return VerificationResult(name, reason, tuple(self.runs), *pair, rtol, seconds, notes, self._spread, found)

        if wrong is not None:
            return verdict("wrong", wrong)
        if unverified is not None:
            return verdict("unverified", unverified)
        if not self.runs:
            return verdict("unverified", self._refused[0]) if self._refused else verdict("wrong", "nothing was compared")
        failed = next((run for run in self.runs if self._fails(run)), None)
        if failed is not None:
            return verdict("wrong", self._failure(failed))
        erratic = next((c for run in self.runs for c in run.outputs if not c), None)
        if erratic is not None:
            own = self._erratic[erratic.name]
            return verdict(
                "inconclusive",
                own if isinstance(own, str) else f"the source differs from itself on the same inputs: output {own}",
            )
        weakness = self.weakness()
        return verdict("verified") if weakness is None or proved else verdict("inconclusive", weakness)

    def _fails(self, run: RunComparison) -> bool:
        """Whether a run failed, and not only because of outputs in which the source differs from itself."""
        return bool(run.error) or not run.outputs or not all(c or self._is_erratic(c) for c in run.outputs)

    def _failure(self, run: RunComparison) -> str:
        if run.error:
            return f"{run.error} ({run})"
        if not run.outputs:
            return "nothing was compared: the source has no outputs"
        failed = [c for c in run.outputs if not c and not self._is_erratic(c)]
        others = f"; {len(failed) - 1} more outputs fail" if len(failed) > 1 else ""
        return f"output '{failed[0].name}' on {run}: {failed[0].reason}{others}"


def copied(inputs: Inputs) -> dict[str, Array]:
    """Each model gets its own: one that writes into its inputs must not change what the other sees."""
    return {n: v.copy() for n, v in inputs.items()}


def _shapes(inputs: Inputs) -> str:
    return ", ".join(f"{n}{list(v.shape)}" for n, v in inputs.items())
