"""Runs a piece of Python in a process of its own and takes times there, so that nothing is warm that would not be."""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]

_TIMED = """
import json, sys, time
{setup}
times = []
for _ in range({count}):
    start = time.perf_counter()
    {code}
    times.append(time.perf_counter() - start)
print(json.dumps(times), *(m for m in {watched!r} if m in sys.modules))
"""

WATCHED = ("torch", "tensorflow", "onnx", "onnxruntime", "ai_edge_litert", "numpy")


def timed(setup: str, code: str, count: int, python: str = sys.executable) -> tuple[list[float], list[str]]:
    """Seconds of each of several runs of ``code`` in one process after ``setup``, and which heavy modules are loaded then."""
    text = _TIMED.format(setup=setup, code=code, count=count, watched=WATCHED)
    output = _run([python, "-c", text]).splitlines()[-1]
    times, _, loaded = output.partition("]")
    return json.loads(times + "]"), loaded.split()


def peak_memory(code: str) -> int:
    """The most bytes that a whole process holds which runs ``code``, the interpreter and all that it imports included.

    Raises:
        RuntimeError: the system is none that says so (Linux does); ``getrusage`` counts what the process was before.
    """
    report = "print(*(int(line.split()[1]) * 1024 for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    return int(_run([sys.executable, "-c", f"{code}\n{report}"]).split()[-1])


def process_seconds(code: str, count: int) -> float:
    """Median seconds of a whole Python process that runs ``code``."""
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        _run([sys.executable, "-c", code])
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _run(command: list[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if result.returncode:
        raise RuntimeError(result.stderr.strip()[-2000:])
    return result.stdout
