"""Everything that takes a GPU, and a table of latencies: ``python -m tests.gpu``."""

from __future__ import annotations

import sys
import time

import pytest
import torch
from rich.console import Console
from rich.table import Table

from tests.gpu.test_engines import NETWORKS, PRECISIONS, engine, network

BATCH = 8
RUNS = 50


def main() -> int:
    failed = pytest.main(["-q", "-m", "gpu", "tests/gpu"])
    if torch.cuda.is_available():
        Console().print(_table())
    return int(failed)


def _table() -> Table:
    table = Table("network", "precision", title=f"{torch.cuda.get_device_name()}, batch {BATCH}")
    for column in ("build, s", "MB", "run, ms", "recorded, ms", "torch, ms"):
        table.add_column(column, justify="right")
    for name in NETWORKS:
        _, inputs = network(name)
        given = torch.from_numpy(inputs(BATCH)).cuda()
        eager = _milliseconds(network(name)[0].to_torch(verify=False).cuda().eval(), given)
        for precision in PRECISIONS:
            made = engine(name, precision)
            own, recorded = (_milliseconds(made.to_module(cuda_graph=graph).cuda(), given) for graph in (False, True))
            figures = (made.info.seconds, len(made) / 1e6, own, recorded, eager)
            table.add_row(name, precision, *(f"{figure:.2f}" for figure in figures))
    return table


def _milliseconds(module: torch.nn.Module, given: torch.Tensor) -> float:
    """The least time of a run, tensors on the GPU."""
    best = float("inf")
    with torch.inference_mode():
        for _ in range(RUNS):
            torch.cuda.synchronize()
            start = time.perf_counter()
            module(given)
            torch.cuda.synchronize()
            best = min(best, time.perf_counter() - start)
    return best * 1e3


if __name__ == "__main__":
    sys.exit(main())
