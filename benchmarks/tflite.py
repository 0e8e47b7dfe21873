"""ONNX → TFLite against its peers: ``python -m benchmarks.tflite``. Takes minutes, nearly all of them the peers'.

Each converter runs in a process of its own, from the file or module to the written file, imports not counted: this package
and onnx2tf on the same ONNX file (the fastest of several processes; onnx2tf writes a float16 file, too), litert-torch once,
on the torch module from which that was exported. Then the files run in turn under the same LiteRT, one thread.
"""

import argparse
import math
import platform
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import peers
from benchmarks.measure import peak_memory, timed

MODELS = (
    "resnet18 mobilenet_v2 mobilenet_v3_small efficientnet_b0 shufflenet_v2_x1_0 "
    "convnext_tiny vit_b_16 densenet121 deeplabv3_mobilenet_v3_large"
).split()

OWN = """
import ai_edge_litert.schema_py_generated, loguru, onnx.shape_inference
import mlconverter.formats.onnx, mlconverter.formats.torch, mlconverter.formats.trt, mlconverter.hub.rebatch
from mlconverter import Converter
from mlconverter.formats.tflite import from_onnx
"""
PROCESSES = 3
"""In which a conversion from ONNX is timed; the least time counts."""

LITERT_TORCH = """
import torch, torchvision, litert_torch
family = torchvision.models.segmentation if {name!r}.startswith("deeplab") else torchvision.models
keywords = {{"weights_backbone": None}} if {name!r}.startswith("deeplab") else {{}}
torch.manual_seed(0)
module = getattr(family, {name!r})(weights=None, **keywords).eval()
if keywords:
    class Only(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
        def forward(self, x):
            return self.inner(x)["out"]
    module = Only(module)
example = (torch.rand(1, 3, 224, 224),)
"""
ONNX2TF = "import onnx2tf"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tflite")
    parser.add_argument("models", nargs="*", default=MODELS, help="torchvision models")
    parser.add_argument("--runs", type=int, default=30, help="runs of each file under LiteRT; the least time counts")
    parser.add_argument("--onnx2tf-python", default="python3.12", help="a Python on which onnx2tf runs; '' to leave it out")
    options = parser.parse_args()
    console = Console(width=max(130, Console().width))
    with console.status("installing the peers"):
        litert_torch = peers.python_with("litert-torch", "torchvision", apart=True)
        onnx2tf = ""
        if options.onnx2tf_python:
            onnx2tf = peers.python_with("onnx2tf", apart=True, interpreter=options.onnx2tf_python)
    names = [f"litert-torch {peers.version_of(litert_torch, 'litert-torch')}"]
    names += [f"onnx2tf {peers.version_of(onnx2tf, 'onnx2tf')}"] if onnx2tf else []
    own = ", ".join(f"{p} {version(p)}" for p in ("mlconverter", "onnx", "ai-edge-litert", "torch"))
    console.print(f"Python {platform.python_version()}, {own}; peers: {', '.join(names)}", highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for column in ("weights\nMiB", "memory\nMiB", "seconds", *(n.split()[0] for n in names), "faster\nthan best"):
        table.add_column(column, justify="right")
    for column in ("TRANSPOSE", "latency\nms", "the peer's\nms", "ratio"):
        table.add_column(column, justify="right")
    faster: list[float] = []
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            with console.status(name) as status:
                row, speed, ratio = _row(name, Path(folder), litert_torch, onnx2tf, options.runs, status.update)
            faster.append(speed)
            ratios.append(ratio)
            table.add_row(name, *row)
    console.print(table)
    console.print(f"Faster than the faster peer, geometric mean: {_mean(faster):.1f}x", highlight=False)
    console.print(f"Latency against litert-torch's files, geometric mean: {_mean(ratios):.3f}", highlight=False)


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _row(
    name: str, folder: Path, litert_torch: str, onnx2tf: str, runs: int, say: Callable[[str], Any]
) -> tuple[list[str], float, float]:
    """Cells of the table, how many times faster than the faster peer, and the ratio of latencies."""
    source, made, theirs = folder / f"{name}.onnx", folder / f"{name}.tflite", folder / f"{name}.peer.tflite"
    say(f"{name}: torch → ONNX")
    timed(LITERT_TORCH.format(name=name).replace("litert_torch", "mlconverter"), _EXPORT.format(source=str(source)), 1)
    code = f"model = Converter(model_path={str(source)!r}, verify=False).to_tflite().save({str(made)!r})"
    say(f"{name}: ONNX → TFLite")
    seconds = min(timed(OWN, code, 1)[0][0] for _ in range(PROCESSES))
    memory = peak_memory(f"{OWN}\n{code}")
    say(f"{name}: litert-torch")
    call = f"litert_torch.convert(module, example).export({str(theirs)!r})"
    times = [timed(LITERT_TORCH.format(name=name), call, 1, litert_torch)[0][0]]
    if onnx2tf:
        say(f"{name}: onnx2tf")
        out = str(folder / f"{name}.onnx2tf")
        call = f"onnx2tf.convert(input_onnx_file_path={str(source)!r}, output_folder_path={out!r}, non_verbose=True)"
        try:
            times.append(min(timed(ONNX2TF, call, 1, onnx2tf)[0][0] for _ in range(PROCESSES)))
        except RuntimeError:
            times.append(math.nan)
    say(f"{name}: running both files")
    ours, peer = latencies([made, theirs], runs)
    best = min(t for t in times if not math.isnan(t))
    cells = [
        f"{source.stat().st_size / 2**20:.0f}",
        f"{memory / 2**20:.0f}",
        f"{seconds:.2f}",
        *("failed" if math.isnan(t) else f"{t:.1f}" for t in times),
        f"{best / seconds:.0f}x",
        str(transposes(made)),
        f"{ours * 1e3:.1f}",
        f"{peer * 1e3:.1f}",
        f"{ours / peer:.3f}",
    ]
    return cells, best / seconds, ours / peer


_EXPORT = """mlconverter.Converter(module, input_shape=(1, 3, 224, 224), dynamic_batch=False, verify=False).save({source!r})"""


def transposes(path: Path) -> int:
    """How many TRANSPOSE operators a file has."""
    from mlconverter.formats.tflite.model import TFLiteModel

    return sum(op.op == "TRANSPOSE" for op in TFLiteModel.load(path).structure.subgraphs[0].operators)


def latencies(paths: list[Path], runs: int) -> list[float]:
    """The least seconds of one run of each file, one thread, the files in turn so that all see the same machine."""
    interpreters = []
    for path in paths:
        interpreter = Interpreter(model_path=str(path), num_threads=1)
        interpreter.allocate_tensors()
        for detail in interpreter.get_input_details():
            data = np.random.default_rng(0).random(detail["shape"]).astype(detail["dtype"])
            interpreter.set_tensor(detail["index"], data)
        interpreter.invoke()
        interpreters.append(interpreter)
    best = [math.inf] * len(paths)
    for _ in range(runs):
        for i, interpreter in enumerate(interpreters):
            start = time.perf_counter()
            interpreter.invoke()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


if __name__ == "__main__":
    main()
