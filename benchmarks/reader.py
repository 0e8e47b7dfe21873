"""TFLite → ONNX against tf2onnx, on mediapipe's models (Apache-2.0): ``python -m benchmarks.reader``. Takes some minutes.

Three things are measured of each model in the same run: the conversion in a process that has imported everything, the whole
process from its start to the written file with the most memory that it held, and what ONNX Runtime takes for the two graphs, one
thread. Nothing is compared with the source in any of them. tf2onnx is installed in an environment of its own, with TensorFlow.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import peers
from benchmarks.measure import ROOT, timed
from tests import zoo

OPSET = 18
"""The newest that tf2onnx writes."""

OWN = "import ai_edge_litert.schema_py_generated, onnx\nfrom mlconverter.formats.tflite.to_onnx.convert import convert"
OWN_CODE = "convert(open({path!r}, 'rb').read())"
OWN_PROCESS = "from mlconverter import Converter; Converter(model_path={path!r}, verify=False).save({out!r})"
PEER = "import tensorflow, tf2onnx.convert, logging\nlogging.disable(logging.CRITICAL)"
PEER_CODE = "tf2onnx.convert.from_tflite({path!r}, opset={opset})"


LOADS = 4
"""Times that each graph is the first to be loaded."""

TRIES = 2
"""Runs of a whole process; the least counts."""

_WATCHING = """
import os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(status, time.perf_counter() - start, usage.ru_maxrss)
"""
"""Runs a process from a small one: a system counts with the memory of a process that of the one which started it."""


@dataclass
class Found:
    """What was measured of one model; not a number where tf2onnx failed.

    Attributes:
        seconds: of the conversion, ours and the peer's.
        process: seconds of the whole process.
        memory: the most bytes that the process held.
        latency: seconds of a run of the graph.
        transposes: in the graph.
    """

    seconds: tuple[float, float]
    process: tuple[float, float]
    memory: tuple[float, float]
    latency: tuple[float, float]
    transposes: tuple[int, int]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader")
    parser.add_argument("models", nargs="*", help="parts of the models' names; all by default")
    parser.add_argument("--runs", type=int, default=40, help="runs of each graph after each loading; the least time counts")
    options = parser.parse_args()
    console = Console(width=max(140, Console().width))
    members = [m for m in zoo.members("mediapipe") if "with_attention" not in m]
    chosen = [m for m in members if not options.models or any(part in m for part in options.models)]
    with console.status("installing tf2onnx and TensorFlow"):
        python = peers.python_with("tf2onnx", "tensorflow-cpu", "onnxruntime", apart=True)
    own = ", ".join(f"{p} {version(p)}" for p in ("mlconverter", "onnx", "onnxruntime", "ai-edge-litert"))
    theirs = ", ".join(f"{p} {peers.version_of(python, p)}" for p in ("tf2onnx", "tensorflow-cpu", "onnx"))
    console.print(f"Python {platform.python_version()}, {own}; peer: {theirs}", highlight=False)
    found: dict[str, Found] = {}
    for member in chosen:
        name = Path(member).stem
        with console.status(name), tempfile.TemporaryDirectory() as folder:
            found[name] = measure(zoo.model("mediapipe", Path(member).name), Path(folder), python, options.runs)
    _print(console, found)


def measure(path: Path, folder: Path, python: str, runs: int) -> Found:
    """Both converters on one file."""
    ours, theirs = folder / "ours.onnx", folder / "theirs.onnx"
    times, _ = timed(OWN, OWN_CODE.format(path=str(path)), 5)
    command = [sys.executable, "-c", OWN_PROCESS.format(path=str(path), out=str(ours))]
    process, memory = _measured(command)
    peer = [python, "-m", "tf2onnx.convert", "--tflite", str(path), "--output", str(theirs), "--opset", str(OPSET)]
    try:
        peer_process, peer_memory = _measured(peer)
        peer_times, _ = timed(PEER, PEER_CODE.format(path=str(path), opset=OPSET), 2, python)
        latency = _latencies([ours, theirs], runs)
        peer_seconds, peer_transposes = min(peer_times), _transposes(theirs)
    except (RuntimeError, ort.capi.onnxruntime_pybind11_state.Fail, ort.capi.onnxruntime_pybind11_state.InvalidGraph):
        peer_process = peer_memory = peer_seconds = math.nan
        latency, peer_transposes = [*_latencies([ours], runs), math.nan], 0
    return Found(
        (min(times), peer_seconds),
        (process, peer_process),
        (memory, peer_memory),
        (latency[0], latency[1]),
        (_transposes(ours), peer_transposes),
    )


def _measured(command: list[str]) -> tuple[float, float]:
    """Seconds of a whole process, and the most bytes that it held.

    Raises:
        RuntimeError: it failed.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    watching = [sys.executable, "-c", _WATCHING, *command]
    seconds, memory = math.inf, math.inf
    for _ in range(TRIES):
        said = subprocess.run(watching, env=environment, capture_output=True, text=True, check=True).stdout
        failed, took, held = map(float, said.split())
        if failed:
            raise RuntimeError(f"{command[0]} failed")
        seconds, memory = min(seconds, took), min(memory, held * 1024)
    return seconds, memory


def _latencies(paths: list[Path], runs: int) -> list[float]:
    """The least seconds of one run of each graph, in turn, each of them loaded first as often as the others.

    Where the memory of a session happens to lie makes up to two percent, so that each graph is loaded several times.
    """
    best = [math.inf] * len(paths)
    for first in range(LOADS * len(paths)):
        order = [(first + i) % len(paths) for i in range(len(paths))]
        sessions = [(i, *_loaded(paths[i])) for i in order]
        for _ in range(runs):
            for i, session, feeds in sessions:
                start = time.perf_counter()
                session.run(None, feeds)
                best[i] = min(best[i], time.perf_counter() - start)
    return best


def _loaded(path: Path) -> tuple[ort.InferenceSession, dict[str, np.ndarray]]:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    return session, {
        i.name: rng.random([d if isinstance(d, int) else 1 for d in i.shape], np.float32) for i in session.get_inputs()
    }


def _transposes(path: Path) -> int:
    return sum(node.op_type == "Transpose" for node in onnx.load(path).graph.node)


def _print(console: Console, found: dict[str, Found]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for column in (
        "ms",
        "tf2onnx\nms",
        "faster",
        "process\ns",
        "tf2onnx\ns",
        "memory\nMiB",
        "tf2onnx\nMiB",
        "Transpose",
        "tf2onnx's",
        "latency\nms",
        "ratio",
    ):
        table.add_column(column, justify="right")
    for name, f in found.items():
        cells = (
            f"{f.seconds[0] * 1e3:.0f}",
            _cell(f.seconds[1] * 1e3),
            _cell(f.seconds[1] / f.seconds[0]),
            f"{f.process[0]:.2f}",
            _cell(f.process[1], 2),
            f"{f.memory[0] / 2**20:.0f}",
            _cell(f.memory[1] / 2**20),
            str(f.transposes[0]),
            str(f.transposes[1]) if not math.isnan(f.latency[1]) else "failed",
            f"{f.latency[0] * 1e3:.2f}",
            _cell(f.latency[0] / f.latency[1], 3),
        )
        table.add_row(name, *cells)
    console.print(table)
    both = [f for f in found.values() if not math.isnan(f.latency[1])]
    console.print(f"{len(found)} models, {len(both)} of them by tf2onnx, too; of tf2onnx's figures ours are:", highlight=False)
    for what, pairs in (
        ("conversion", [f.seconds for f in both]),
        ("whole process", [f.process for f in both]),
        ("memory", [f.memory for f in both]),
        ("latency", [f.latency for f in both]),
    ):
        parts = [own / theirs for own, theirs in pairs]
        if parts:
            console.print(f"  {what}: {_mean(parts):.3f} in the mean, {max(parts):.3f} at most", highlight=False)


def _cell(value: float, digits: int = 0) -> str:
    return "failed" if math.isnan(value) else f"{value:.{digits}f}"


def _mean(values: list[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


if __name__ == "__main__":
    main()
