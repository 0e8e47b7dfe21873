"""TFLite files run side by side under one LiteRT."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

SAME = 1e-2
"""Part of the largest value by which outputs of files of the same model may be apart."""


def transposes(path: Path) -> int:
    """How many TRANSPOSE operators a file has."""
    from mlconverter.formats.tflite.model import TFLiteModel

    return sum(op.op == "TRANSPOSE" for op in TFLiteModel.load(path).structure.subgraphs[0].operators)


def latencies(paths: list[Path], runs: int) -> list[float]:
    """The least seconds of one run of each file, one thread.

    The files run in turn, so that all see the same machine, and are loaded several times, each of them first once: where the
    memory of an interpreter comes to lie makes a difference of some percent.
    """
    best = [math.inf] * len(paths)
    for first in range(len(paths)) if len(paths) > 1 else (0,):
        order = [(first + i) % len(paths) for i in range(len(paths))]
        interpreters = [(i, loaded(paths[i])) for i in order]
        for _ in range(runs):
            for i, interpreter in interpreters:
                start = time.perf_counter()
                interpreter.invoke()
                best[i] = min(best[i], time.perf_counter() - start)
    return best


def is_right(ours: Path, theirs: Path) -> bool:
    """Whether a file gives what ours gives, its axes in whatever order; one that does not run is not."""
    try:
        results = [_results(loaded(path)) for path in (ours, theirs)]
    except (RuntimeError, ValueError):
        return False
    if [r.size for r in results[0]] != [r.size for r in results[1]]:
        return False
    sorted_pairs = ((np.sort(a, axis=None), np.sort(b, axis=None)) for a, b in zip(*results, strict=True))
    return all(float(np.abs(a - b).max(initial=0)) <= SAME * float(np.abs(a).max(initial=0)) for a, b in sorted_pairs)


def loaded(path: Path) -> Any:
    """An interpreter with the same inputs for every file of a model: those of one whose images have channels first."""
    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], _input(tuple(detail["shape"]), detail["dtype"]))
    interpreter.invoke()
    return interpreter


def _input(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 50, shape).astype(dtype)
    channels_last = len(shape) == 4 and shape[3] == 3 and shape[1] != 3
    data = rng.random((shape[0], shape[3], *shape[1:3]) if channels_last else shape).astype(dtype)
    return np.ascontiguousarray(data.transpose(0, 2, 3, 1)) if channels_last else data


def _results(interpreter: Any) -> list[np.ndarray[Any, Any]]:
    outputs = [interpreter.get_tensor(d["index"]).astype(np.float64) for d in interpreter.get_output_details()]
    return sorted(outputs, key=lambda output: output.size)
