"""Convert what TensorFlow's converter made and print what became of it: ``python -m tests.tf [part of a name …]``."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.tf.build import NOTHING, build
from tests.tf.entry import MODES
from tests.tf.files import folder, installed, reason_of
from tests.tf.judge import Outcome, Piece, died, judge_piece, path_of
from tests.tf.table import entries, source_of
from tests.tf.workers import one_by_one

SHARE = 0.98
"""Part of the models that has to be right."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tf")
    parser.add_argument("names", nargs="*", help="parts of names; all models by default")
    parser.add_argument("--mode", choices=MODES, action="append", help="all modes by default")
    parser.add_argument("--build", action="store_true", help="make the files only")
    parser.add_argument("--json", type=Path, help="where to write what was found, too")
    options = parser.parse_args()
    names = [n for n in entries() if not options.names or any(part in n for part in options.names)]
    console = Console(width=max(150, Console().width))
    if installed() is None and any(folder(source_of(name)) is None for name in names):
        console.print("Skipped: TensorFlow is not installed, and no files of an earlier run are there: make test-tf")
        return 0
    if installed() is not None:
        for name in _progress(console, build(names), len(names), "made by TensorFlow"):
            assert name
    if options.build:
        return 0
    pieces = [(name, mode) for name in names for mode in entries()[name].modes if not options.mode or mode in options.mode]
    there = [(name, mode) for name, mode in pieces if path_of(name, mode).exists()]
    found = list(_progress(console, one_by_one(judge_piece, there, died), len(there), "converted"))
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in found], indent=1))
    return _report(console, found, [piece for piece in pieces if piece not in set(there)])


def _progress(console: Console, work: Iterator, total: int, what: str) -> Iterator:
    """What work gives, with a line now and then that says how far it is."""
    for number, result in enumerate(work, 1):
        if number % 100 == 0 or number == total:
            console.print(f"{number} of {total} {what}")
        yield result


def _report(console: Console, found: list[Outcome], missing: list[Piece]) -> int:
    """Print what was found; the exit status."""
    judged = [outcome for outcome in found if outcome.result != "none"]
    for outcome in judged:
        if outcome.result in ("wrong", "crash"):
            console.print(f"[red]{outcome.result}[/] {outcome.name} ({outcome.mode}): ", end="")
            console.print(" ".join(outcome.reason.split())[:400], markup=False, highlight=False, soft_wrap=True)
    reasons = Counter(reason for outcome in judged for reason in outcome.refusals)
    for reason, count in reasons.most_common():
        console.print(f"{count:5} {' '.join(reason.split())[:300]}", markup=False, highlight=False, soft_wrap=True)
    for name, mode in missing:
        text = reason_of(path_of(name, mode))
        reason = text.read_text() if text.exists() else "not made"
        if reason != NOTHING:
            console.print(
                f"TensorFlow does not convert {name} ({mode}): {reason}"[:300], markup=False, highlight=False, soft_wrap=True
            )
    for outcome in found:
        if outcome.result == "none":
            console.print(f"LiteRT does not run {outcome.name} ({outcome.mode})", markup=False, highlight=False, soft_wrap=True)
    console.print(_table(judged))
    bad = [outcome for outcome in judged if outcome.result in ("wrong", "crash")]
    right = [outcome for outcome in judged if outcome.result == "right"]
    return 0 if not bad and len(right) >= SHARE * len(judged) else 1


def _table(judged: list[Outcome]) -> Table:
    table = Table("mode", "what it is", title=f"{len({o.name for o in judged})} models of TensorFlow's converter, TFLite → ONNX")
    for column in ("files", "right", "refused", "wrong", "crash", "right, %"):
        table.add_column(column, justify="right")
    rows = [(mode, said, [o for o in judged if o.mode == mode]) for mode, said in MODES.items()]
    for mode, said, outcomes in (*rows, ("all", "", judged)):
        counts = Counter(outcome.result for outcome in outcomes)
        share = f"{100 * counts['right'] / len(outcomes):.1f}" if outcomes else "–"
        table.add_row(mode, said, str(len(outcomes)), *(str(counts[r]) for r in ("right", "refused", "wrong", "crash")), share)
    return table


if __name__ == "__main__":
    sys.exit(main())
