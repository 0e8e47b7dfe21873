"""How long things take, on this machine, now: ``python -m benchmarks``. No test depends on a time."""
