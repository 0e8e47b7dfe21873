"""Take all networks there and back and print what became of them: ``python -m tests.architectures [part of a name …]``."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.architectures.examine import Row, examine_alone
from tests.architectures.specs import architectures

PER_PROCESS = 12
"""Networks after which a process is replaced, which gives its memory back."""

WANTED = 0.97


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.architectures")
    parser.add_argument("names", nargs="*", help="parts of names; all networks by default")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="where to write what was found, too")
    options = parser.parse_args()
    names = [n for n in architectures() if not options.names or any(part in n for part in options.names)]
    rows: list[Row] = []
    spawn = multiprocessing.get_context("spawn")
    with Progress() as progress, spawn.Pool(options.workers, maxtasksperchild=PER_PROCESS) as pool:
        task = progress.add_task("there and back", total=len(names))
        for row in pool.imap_unordered(examine_alone, names):
            rows.append(row)
            progress.advance(task)
            if options.json:
                options.json.write_text(json.dumps([row.asdict() for row in rows], indent=1))
    rows.sort(key=lambda row: names.index(row.name))
    console = Console(width=max(150, Console().width))
    console.print(_table(rows))
    exported = [row for row in rows if row.stage != "export"]
    back = [row for row in exported if row.stage == "ok"]
    console.print(f"{len(exported)} of {len(rows)} networks reach ONNX, {len(back)} of those come back and train as before.")
    enough = len(exported) >= WANTED * len(rows) and len(back) >= WANTED * len(exported)
    return 0 if enough else 1


def _table(rows: list[Row]) -> Table:
    table = Table("network", "result", title="torch → ONNX → torch")
    for column in ("to ONNX, s", "to torch, s", "outputs", "parameters", "loss moved", "losses"):
        table.add_column(column, justify="right")
    for row in rows:
        style = "" if row.stage == "ok" else "red"
        said = "ok" if row.stage == "ok" else f"{row.stage}: {row.reason}"[:160]
        numbers = (f"{row.to_onnx:.1f}", f"{row.to_torch:.2f}", f"{row.difference:.0e}", f"{row.parameters:,}")
        table.add_row(row.name, said, *numbers, f"{row.moved:.0%}", f"{row.losses:.0e}", style=style)
    return table


if __name__ == "__main__":
    sys.exit(main())
