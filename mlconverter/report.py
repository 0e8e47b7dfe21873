"""What happened in each step of a conversion, for people and for scripts."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlconverter.logs import get_logger
from mlconverter.verification.result import VerificationResult


@dataclass(frozen=True)
class Step:
    """One step of a conversion.

    Attributes:
        name: for example ``"tflite → torch"``.
        seconds: how long it took, verification not counted.
        verification: how the result compares with the source, ``None`` for a step that gives nothing to compare.
        notes: sentences worth knowing: what was left out, which constants are buffers, why a batch stayed fixed.
    """

    name: str
    seconds: float
    verification: VerificationResult | None = None
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The verification's verdict, empty where there is none."""
        return "" if self.verification is None else self.verification.verdict


@dataclass
class Report:
    """The steps of a converter so far.

    Attributes:
        steps: in the order in which they were taken.
        way_back: how :meth:`~mlconverter.base.BaseConverter.to_origin_type` went back, empty before it did.
    """

    steps: list[Step] = field(default_factory=list)
    way_back: str = ""

    def record(self, step: Step) -> None:
        """Add a step, and log it."""
        self.steps.append(step)
        verdict = "" if step.verification is None else f", {step.verification.summary()}"
        get_logger().info("{}: {:.2f} s{}", step.name, step.seconds, verdict)
        for note in step.notes:
            get_logger().debug("{}: {}", step.name, note)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of all steps."""
        return tuple(note for step in self.steps for note in step.notes)

    @property
    def verdict(self) -> str:
        """The verdict of the last step, empty before there is one."""
        return self.steps[-1].verdict if self.steps else ""

    def __str__(self) -> str:
        lines = []
        for step in self.steps:
            lines.append(
                f"{step.name}: {step.seconds:.2f} s"
                + (f", {step.verification.summary()}" if step.verification is not None else "")
            )
            lines.extend(f"  {note}" for note in step.notes)
        return "\n".join([*lines, f"way back: {self.way_back}"] if self.way_back else lines)
