"""Take networks to a format and print what became of them: ``python -m tests.architectures [--to tflite] [part of a name …]``."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.architectures import deploy, engines, examine
from tests.architectures.specs import architectures

PER_PROCESS = 12
"""Networks after which a process is replaced, which gives its memory back."""

WAYS: dict[str, tuple[str, Callable[[str], Any], float]] = {
    "torch": ("torch → ONNX → torch", examine.examine_alone, 0.97),
    "tflite": ("torch → ONNX → TFLite", deploy.examine_alone, 0.98),
    "trt": ("torch → ONNX → TensorRT", engines.examine_alone, 0.95),
}
"""What each is called, what takes one network that way, and which share of those that reach ONNX has to be right."""

REACH_ONNX = 0.97


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.architectures")
    parser.add_argument("names", nargs="*", help="parts of names; all networks by default")
    parser.add_argument("--to", choices=WAYS, default="torch")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="where to write what was found, too")
    options = parser.parse_args()
    names = [n for n in architectures() if not options.names or any(part in n for part in options.names)]
    title, take, share = WAYS[options.to]
    rows: list[Any] = []
    spawn = multiprocessing.get_context("spawn")
    with Progress() as progress, spawn.Pool(options.workers, maxtasksperchild=PER_PROCESS) as pool:
        task = progress.add_task(title, total=len(names))
        for row in pool.imap_unordered(take, names):
            rows.append(row)
            progress.advance(task)
            if options.json:
                options.json.write_text(json.dumps([row.asdict() for row in rows], indent=1))
    rows.sort(key=lambda row: names.index(row.name))
    console = Console(width=max(150, Console().width))
    console.print(_table(title, rows))
    exported = [row for row in rows if row.stage != "export"]
    right = [row for row in exported if row.stage == "ok"]
    console.print(f"{len(exported)} of {len(rows)} networks reach ONNX, {len(right)} of those are right at the end.")
    return 0 if len(exported) >= REACH_ONNX * len(rows) and len(right) >= share * len(exported) else 1


def _table(title: str, rows: list[Any]) -> Table:
    table = Table("network", "result", title=title)
    for column in rows[0].numbers() if rows else ():
        table.add_column(column, justify="right")
    for row in rows:
        said = "ok" if row.stage == "ok" else f"{row.stage}: {row.reason}"[:160]
        table.add_row(row.name, said, *row.numbers().values(), style="" if row.stage == "ok" else "red")
    return table


if __name__ == "__main__":
    sys.exit(main())
