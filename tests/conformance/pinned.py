"""Lists of cases that are right, which only grow."""

import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.node_cases import NodeCase, node_cases

PARTS = 8
"""In how many parts the cases are tested."""


def plain_cases() -> list[NodeCase]:
    """All cases of tensors, as they are and with all inputs but the first as initializers."""
    return [c for case in node_cases().values() for c in ((case, case.with_constants()) if len(case.inputs) > 1 else (case,))]


@dataclass(frozen=True)
class Pinned:
    """The cases of a route.

    Attributes:
        route: names the list.
        outcome: ``right``, ``refused: …`` or ``wrong: …`` of a case.
        cases: gives all of them.
    """

    route: str
    outcome: Callable[[NodeCase], str]
    cases: Callable[[], Iterable[NodeCase]] = plain_cases

    @property
    def file(self) -> Path:
        """The list."""
        return Path(__file__).with_name(f"passes_{self.route}.txt")

    def names(self) -> list[str]:
        """The cases that are right, as they are listed."""
        return self.file.read_text().splitlines()

    def check(self, part: int) -> None:
        """Hold one part of the cases against the list: none is wrong, and none is right no more."""
        listed = set(self.names())
        found = {case.name: self.outcome(case) for case in list(self.cases())[part::PARTS]}
        wrong = [f"{name}: {verdict}" for name, verdict in found.items() if verdict.startswith("wrong")]
        assert not wrong, "\n".join(wrong)
        lost = [f"{name}: {verdict}" for name, verdict in found.items() if verdict != "right" and name in listed]
        assert not lost, "cases that were right before:\n" + "\n".join(lost)
        new = [name for name, verdict in found.items() if verdict == "right" and name not in listed]
        if new:
            warnings.warn(f"add to {self.file.name}: {', '.join(new)}", stacklevel=2)

    def write(self) -> None:
        """Write the list anew, and say what is wrong."""
        found = {case.name: self.outcome(case) for case in self.cases()}
        print("\n".join(f"{name}: {verdict}" for name, verdict in found.items() if verdict.startswith("wrong")), file=sys.stderr)
        self.file.write_text("".join(f"{name}\n" for name in sorted(n for n, verdict in found.items() if verdict == "right")))
