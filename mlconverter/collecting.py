"""The garbage collector, which conversions do without."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection meanwhile.

    To build a graph is to make many objects that stay, which brings on collections that look at every object of the
    process, those of the frameworks too: a quarter of the time of a conversion.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
