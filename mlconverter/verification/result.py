"""What a verification found: a verdict, its reason, and every comparison that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from mlconverter.errors import VerificationError
from mlconverter.verification.compare import TensorComparison

Verdict = Literal["verified", "wrong", "inconclusive", "unverified"]

InputKind = Literal["natural", "edge", "noise", "given", "between"]
"""Where the inputs of a run come from; ``"given"`` are the caller's own, ``"between"`` lie between two others."""


@dataclass(frozen=True)
class RunComparison:
    """Both models run on the same inputs; true where every output passed.

    Attributes:
        kind: where the inputs come from.
        seed: seed of the inputs, ``None`` for the caller's own.
        batch: size of the first axis of the inputs, ``None`` where no input has an axis.
        outputs: one comparison an output.
        error: why the target did not run; empty where it did.
        factor: what the floats of the inputs were multiplied with.
    """

    kind: InputKind
    seed: int | None
    batch: int | None
    outputs: tuple[TensorComparison, ...] = ()
    error: str = ""
    factor: float = 1.0

    def __bool__(self) -> bool:
        """Whether something was compared and all of it passed."""
        return not self.error and bool(self.outputs) and all(self.outputs)

    def __str__(self) -> str:
        where = self.inputs if self.seed is None else f"{self.inputs} (seed {self.seed})"
        return where if self.batch is None else f"{where}, batch {self.batch}"

    @property
    def inputs(self) -> str:
        """What the inputs are, in words."""
        if self.kind == "between":
            return "inputs between two others"
        return f"{self.kind} inputs" if self.factor == 1.0 else f"{self.kind} inputs times {self.factor:g}"


@dataclass(frozen=True)
class VerificationResult:
    """Whether a target computes what its source computes. True where that is verified, and only there.

    Attributes:
        verdict: ``"verified"``: every comparison passed and could have failed. ``"wrong"``: one failed, or nothing was
            compared. ``"inconclusive"``: nothing failed, and for some output nothing could have. ``"unverified"``:
            source or target cannot be run here, or nobody wanted to.
        reason: why, in words; empty where the result is verified.
        runs: every run with its comparisons.
        source: name and version of what ran the source.
        target: name and version of what ran the target.
        rtol: the relative tolerance that the caller asked for, ``None`` for the table's.
        seconds: how long it took.
        notes: what else is to know: samples that the source refuses, runs that were left out.
        spread: by output, the relative tolerance that two kernel sets of the source's own runtime need to pass against
            each other; empty where only one was run.
        first_difference: of a wrong target, the first tensor between its operators that differs, where that was asked for
            and both models show their tensors.
    """

    verdict: Verdict
    reason: str = ""
    runs: tuple[RunComparison, ...] = ()
    source: str = ""
    target: str = ""
    rtol: float | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    spread: Mapping[str, float] = field(default_factory=dict)
    first_difference: TensorComparison | None = None

    def __post_init__(self) -> None:
        """Refuse a verdict that the runs do not carry."""
        if self.verdict == "verified" and not (self.runs and all(self.runs)):
            raise ValueError("Only comparisons that were made and passed can verify a model.")
        if self.verdict != "verified" and not self.reason:
            raise ValueError(f"The verdict '{self.verdict}' needs a reason.")

    @classmethod
    def unverified(cls, reason: str, *, source: str = "", target: str = "") -> Self:
        """The result where source or target cannot be run, or nobody wanted them to be."""
        return cls("unverified", reason, source=source, target=target)

    def __bool__(self) -> bool:
        """Whether the target is verified."""
        return self.verdict == "verified"

    def __str__(self) -> str:
        """The summary; ``repr`` shows every field."""
        return self.summary()

    def raise_if_wrong(self) -> Self:
        """The result itself.

        Raises:
            VerificationError: the verdict is ``"wrong"``.
        """
        if self.verdict == "wrong":
            raise VerificationError(self.summary(), self)
        return self

    @property
    def comparisons(self) -> tuple[TensorComparison, ...]:
        """The comparisons of all runs."""
        return tuple(c for run in self.runs for c in run.outputs)

    @property
    def worst(self) -> TensorComparison | None:
        """The comparison that needs the largest part of its tolerance; a failed one before any that passed."""
        return max(self.comparisons, key=_severity, default=None)

    @property
    def rtol_needed(self) -> float:
        """The smallest relative tolerance with which every comparison passes; infinite where none does."""
        return max((c.rtol_needed for c in self.comparisons), default=0.0)

    def summary(self) -> str:
        """One paragraph for people: the verdict, why, and how close it was."""
        pair = f"{self.target or 'the target'} against {self.source or 'the source'}"
        text = f"{self.verdict}: {pair}"
        if self.runs:
            text += f", {len(self.runs)} runs, {len(self.comparisons)} comparisons, {self.seconds:.1f} s"
        text += f". {self.reason.rstrip('.')}." if self.reason else "."
        worst = self.worst
        if worst is not None and worst:
            text += f" Closest to its limit is {worst}."
        if self.first_difference is not None:
            text += f" The first tensor that differs is {self.first_difference}."
        apart = max(self.spread, key=lambda name: self.spread[name], default=None)
        if apart is not None and self.spread[apart] > 0:
            text += f" The source's own kernel sets differ most in output '{apart}': an rtol of {self.spread[apart]:.2g} passes."
        return " ".join([text, *self.notes])

    def rows(self) -> list[dict[str, str | int | float | bool | None]]:
        """One row of plain values a comparison, and one for every run that the target did not survive."""
        rows: list[dict[str, str | int | float | bool | None]] = []
        for run in self.runs:
            head: dict[str, str | int | float | bool | None] = {"inputs": run.kind, "seed": run.seed, "batch": run.batch}
            if run.error:
                rows.append({**head, **_row(None), "ok": False, "reason": run.error})
            rows += [{**head, **_row(output)} for output in run.outputs]
        return rows


def _severity(comparison: TensorComparison) -> tuple[bool, float]:
    used = comparison.max_abs_error / comparison.tolerance if comparison.tolerance else comparison.max_abs_error
    return not comparison, used


def _row(output: TensorComparison | None) -> dict[str, str | int | float | bool | None]:
    """The cells of one comparison; the same columns, empty, where there is none."""
    return {
        "output": output.name if output is not None else None,
        "shape": "x".join(map(str, output.shape)) if output is not None else None,
        "dtype": output.dtype if output is not None else None,
        "ok": output is not None and bool(output),
        "max_abs_error": output.max_abs_error if output is not None else None,
        "tolerance": output.tolerance if output is not None else None,
        "max_want": output.max_want if output is not None else None,
        "rtol": output.rtol if output is not None else None,
        "rtol_needed": output.rtol_needed if output is not None else None,
        "reason": output.reason if output is not None else "",
    }
