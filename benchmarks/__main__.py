"""Prints the table: what was measured, how long it takes, and what it should take."""

import argparse
import platform
import statistics
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import peers
from benchmarks.measure import process_seconds, timed

TARGETS = {"import": 0.15, "tflite-onnx": 0.3, "onnx-torch": 0.6}
"""Seconds that this package wants to stay under."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("-n", type=int, default=5, help="runs of each measurement; the median is shown")
    parser.add_argument("--no-peers", action="store_true", help="only this package")
    options = parser.parse_args()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("what", "first run", f"median of {options.n}", "target", ""):
        table.add_column(column, justify="left" if column in ("what", "") else "right")
    console = Console()
    packages = ("mlconverter", "onnx", "onnx-ir", "torch", "ai-edge-litert", "numpy")
    console.print(f"Python {platform.python_version()}, " + ", ".join(f"{p} {version(p)}" for p in packages), highlight=False)
    with console.status("measuring"), tempfile.TemporaryDirectory() as folder:
        imports(table, options.n)
        tflite_to_onnx(table, options.n)
        onnx_to_torch(table, options.n, Path(folder), with_peers=not options.no_peers)
    console.print(table)
    console.print(
        "Imports: beyond an empty process. Conversions: in process, imports not counted; the peer reads the same file.",
        highlight=False,
    )


def imports(table: Table, count: int) -> None:
    """What imports add to an empty process: the package alone, and its main class."""
    empty = process_seconds("pass", count)
    for code, target in (("import mlconverter", TARGETS["import"]), ("from mlconverter import Converter", None)):
        extra = process_seconds(code, count) - empty
        _, loaded = timed("", code, 1)
        verdict = "" if target is None else "ok, " if extra <= target else "TOO SLOW, "
        verdict += f"loads {', '.join(loaded)}" if loaded else "loads no framework"
        table.add_row(code, "", seconds(extra), "" if target is None else seconds(target), verdict)


def tflite_to_onnx(table: Table, count: int) -> None:
    """The face detection model, with and without the comparison with LiteRT."""
    from tests import zoo

    path = str(zoo.model("mediapipe", "face_detection_short_range.tflite"))
    setup = "from mlconverter import Converter; from mlconverter.registry import formats; formats.discover()"
    for verify in (False, "fast"):
        times, loaded = timed(setup, f"Converter(model_path={path!r}, verify={verify!r}).to_onnx()", count)
        foreign = [m for m in loaded if m in ("torch", "tensorflow")]
        note = f"loads {', '.join(foreign)}" if foreign else "no torch, no tensorflow"
        row(table, "TFLite → ONNX, face detection", verify, times, TARGETS["tflite-onnx"], note)


def onnx_to_torch(table: Table, count: int, folder: Path, *, with_peers: bool) -> None:
    """ResNet-18, and what onnx2torch takes for the same file."""
    path = str(folder / "resnet18.onnx")
    export_resnet18(path)
    setup = "import torch, onnx; from mlconverter import Converter; import mlconverter.formats.torch.from_onnx"
    mine = 0.0
    for verify in (False, "fast"):
        times, _ = timed(setup, f"Converter(model_path={path!r}, verify={verify!r}).to_torch()", count)
        mine = mine or statistics.median(times)
        row(table, "ONNX → PyTorch, ResNet-18", verify, times, TARGETS["onnx-torch"], "")
    if not with_peers:
        return
    try:
        python = peers.python_with("onnx2torch")
        times, _ = timed("import torch, onnx; from onnx2torch import convert", f"convert({path!r})", count, python)
    except (RuntimeError, OSError) as error:
        table.add_row("  onnx2torch", "", "", "", f"not measured: {str(error).splitlines()[-1]}")
        return
    name = f"  onnx2torch {peers.version_of(python, 'onnx2torch')}"
    ratio = statistics.median(times) / mine
    table.add_row(name, seconds(times[0]), seconds(statistics.median(times)), "", f"{ratio:.2f} × ours")


def export_resnet18(path: str) -> None:
    """As the older exporter writes it at opset 13: the form that the peer reads, too."""
    import torch

    from tests import zoo

    network = zoo.torch_models()["resnet18"]()
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    how = {"opset_version": 13, "dynamo": False, "input_names": ["x"], "output_names": ["y"], "dynamic_axes": axes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(network, torch.rand(2, 3, 224, 224), path, **how)


def row(table: Table, what: str, verify: object, times: list[float], target: float, note: str) -> None:
    """One conversion; the target is for the conversion alone."""
    how = ",\n  verified" if verify else ""
    median = statistics.median(times)
    reached = note if verify else ", ".join(filter(None, ["ok" if median <= target else "TOO SLOW", note]))
    table.add_row(what + how, seconds(times[0]), seconds(median), "" if verify else seconds(target), reached)


def seconds(value: float) -> str:
    return f"{value:.3f} s"


if __name__ == "__main__":
    main()
