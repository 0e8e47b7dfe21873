"""Work in a process of its own: what ends the process must not end the run."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

PER_PROCESS = 100
"""Pieces of work after which a process is replaced, which gives its memory back."""


def one_by_one(work: Callable[[T], R], pieces: Iterable[T], died: Callable[[T], R]) -> Iterator[R]:
    """The result of each piece of work; ``died`` gives that of one during which the process ended."""
    pool: ProcessPoolExecutor | None = None
    try:
        for piece in pieces:
            pool = pool or _pool()
            try:
                yield pool.submit(work, piece).result()
            except BrokenProcessPool:
                pool.shutdown()
                pool = None
                yield died(piece)
    finally:
        if pool is not None:
            pool.shutdown()


def _pool() -> ProcessPoolExecutor:
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, mp_context=spawn, initializer=_silence, max_tasks_per_child=PER_PROCESS)


def _silence() -> None:
    # TensorFlow and MLIR write pages to stderr from C++; what matters comes as an exception.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
