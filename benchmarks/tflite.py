"""ONNX → TFLite against its peers: ``python -m benchmarks.tflite``. Takes most of an hour, nearly all of it the peers'.

Each converter runs in a process of its own, from the file or module to the written file, imports not counted: this package and
onnx2tf on the same ONNX file (of this package the least time of several processes; onnx2tf writes a float16 file, too),
litert-torch on the torch module from which that was exported. Then the files run in turn under the same LiteRT, one thread. Names
with a slash are networks of ``tests/architectures``, on small inputs; others are torchvision's on a picture of 224 × 224.
"""

from __future__ import annotations

import argparse
import math
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import peers
from benchmarks.files import is_right, latencies, transposes
from benchmarks.large import Large, large
from benchmarks.measure import peak_memory, timed

FULL_SIZE = "resnet18 mobilenet_v2 vit_b_16 convnext_tiny swin_t".split()
ZOO = (
    "torchvision/resnet18 torchvision/resnet50 torchvision/mobilenet_v2 torchvision/mobilenet_v3_large "
    "torchvision/shufflenet_v2_x1_0 torchvision/efficientnet_b0 torchvision/densenet121 torchvision/convnext_tiny "
    "torchvision/swin_t torchvision/regnet_y_400mf torchvision/deeplabv3_mobilenet_v3_large timm/starnet_s1 "
    "timm/convmixer_768_32 timm/mobilevit_xxs timm/ghostnet_050 timm/poolformer_s12 timm/mixer_s32_224 "
    "timm/vit_tiny_patch16_224 timm/repvgg_a0 transformers/SegformerForSemanticSegmentation"
).split()

OWN = """
import ai_edge_litert.schema_py_generated, loguru, onnx.shape_inference
import mlconverter.formats.onnx.converter, mlconverter.formats.torch.converter, mlconverter.hub.rebatch
from mlconverter import Converter
from mlconverter.formats.tflite import from_onnx
"""
PROCESSES = 3
"""In which a conversion of ours is timed; the least time counts."""

_TORCHVISION = """
import torch, torchvision
torch.manual_seed(0)
module = getattr(torchvision.models, {name!r})(weights=None).eval()
example = (torch.rand(1, 3, 224, 224),)
shapes = [(1, 3, 224, 224)]
"""
_ARCHITECTURE = """
import torch
from tests.architectures.specs import architectures
architecture = architectures()[{name!r}]
module, example = architecture.make(), architecture.inputs(0)
shapes = [(s, "int64") if i in architecture.integers else s for i, s in enumerate(architecture.shapes)]
"""


@dataclass
class Found:
    """What was measured of one model.

    Attributes:
        weights: bytes of the ONNX file.
        memory: the most bytes that a process of ours held.
        seconds: that our conversion took.
        theirs: seconds of the peers by name; not a number where one failed.
        transposes: in our file.
        latency: seconds of a run of our file.
        their_latency: of the peers' files by name, of those that give the same.
    """

    weights: int = 0
    memory: int = 0
    seconds: float = math.nan
    theirs: dict[str, float] = field(default_factory=dict)
    transposes: int = 0
    latency: float = math.nan
    their_latency: dict[str, float] = field(default_factory=dict)

    @property
    def faster(self) -> float:
        """How many times faster than the faster peer."""
        return min((t for t in self.theirs.values() if not math.isnan(t)), default=math.nan) / self.seconds

    @property
    def ratio(self) -> float:
        """Our latency as part of that of the quicker of the peers' files."""
        return self.latency / min(self.their_latency.values(), default=math.nan)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tflite")
    parser.add_argument("models", nargs="*", default=[*FULL_SIZE, *ZOO])
    parser.add_argument("--runs", type=int, default=50, help="runs of each file under LiteRT; the least time counts")
    parser.add_argument("--onnx2tf-python", default="python3.12", help="a Python on which onnx2tf runs; '' to leave it out")
    parser.add_argument("--large", action="store_true", help="a model of 2.5 GB, and nothing else")
    options = parser.parse_args()
    console = Console(width=max(150, Console().width))
    own = ", ".join(f"{p} {version(p)}" for p in ("mlconverter", "onnx", "ai-edge-litert", "torch"))
    if options.large:
        console.print(f"Python {platform.python_version()}, {own}", highlight=False)
        with console.status("a model of 2.5 GB"):
            _print_large(console, large())
        return
    with console.status("installing the peers"):
        pythons = {"litert-torch": peers.python_with("litert-torch", "torchvision", "timm", "transformers", apart=True)}
        if options.onnx2tf_python:
            pythons["onnx2tf"] = peers.python_with("onnx2tf", apart=True, interpreter=options.onnx2tf_python)
    names = [f"{peer} {peers.version_of(python, peer)}" for peer, python in pythons.items()]
    console.print(f"Python {platform.python_version()}, {own}; peers: {', '.join(names)}", highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for column in ("file\nMiB", "memory\nMiB", "seconds", *pythons, "faster\nthan best", "TRANSPOSE", "latency\nms"):
        table.add_column(column, justify="right")
    for column in (*(f"{peer}\nms" for peer in pythons), "ratio"):
        table.add_column(column, justify="right")
    found: dict[str, Found] = {}
    for name in options.models:
        with console.status(name) as status, tempfile.TemporaryDirectory() as folder:
            found[name] = measure(name, Path(folder), pythons, options.runs, status.update)
        table.add_row(name, *_cells(found[name], list(pythons)))
        console.print(f"{name}: {found[name].faster:.1f}x faster, latency ratio {found[name].ratio:.3f}", highlight=False)
    console.print(table)
    for title, chosen in (("full size", [n for n in found if "/" not in n]), ("networks", [n for n in found if "/" in n])):
        rows = [found[name] for name in chosen]
        if rows:
            speed, ratio = _mean([r.faster for r in rows]), _mean([r.ratio for r in rows])
            least, most = min(r.faster for r in rows), max(r.ratio for r in rows)
            console.print(
                f"{len(rows)} {title}: {speed:.1f}x faster than the faster peer (at least {least:.1f}x); "
                f"latency {ratio:.3f} of the better peer's files (at most {most:.3f})",
                highlight=False,
            )


def _mean(values: list[float]) -> float:
    known = [v for v in values if not math.isnan(v)]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else math.nan


def _cells(found: Found, names: list[str]) -> list[str]:
    def milliseconds(seconds: float | None) -> str:
        return "–" if seconds is None else f"{seconds * 1e3:.2f}"

    return [
        f"{found.weights / 2**20:.0f}",
        f"{found.memory / 2**20:.0f}",
        f"{found.seconds:.2f}",
        *("failed" if math.isnan(t := found.theirs[n]) else f"{t:.1f}" for n in names),
        f"{found.faster:.1f}x",
        str(found.transposes),
        milliseconds(found.latency),
        *(milliseconds(found.their_latency.get(n)) for n in names),
        f"{found.ratio:.3f}",
    ]


def measure(name: str, folder: Path, pythons: dict[str, str], runs: int, say: Callable[[str], Any]) -> Found:
    """Everything about one model."""
    found = Found()
    setup = (_ARCHITECTURE if "/" in name else _TORCHVISION).format(name=name)
    source, made = folder / "model.onnx", folder / "model.tflite"
    say(f"{name}: torch → ONNX")
    export = "Converter(module, input_shape=shapes, dynamic_batch=False, verify=False).save({path!r})"
    timed(f"{setup}\nfrom mlconverter import Converter", export.format(path=str(source)), 1)
    found.weights = source.stat().st_size
    code = f"Converter(model_path={str(source)!r}, verify=False).to_tflite().save({str(made)!r})"
    say(f"{name}: ONNX → TFLite")
    found.seconds = min(timed(OWN, code, 1)[0][0] for _ in range(PROCESSES))
    found.memory, found.transposes = peak_memory(f"{OWN}\n{code}"), transposes(made)
    out = str(folder / "onnx2tf")
    calls = {
        "litert-torch": (
            f"{setup}\nimport litert_torch",
            f"litert_torch.convert(module, example).export({str(folder / 'litert-torch.tflite')!r})",
        ),
        "onnx2tf": (
            "import onnx2tf",
            f"onnx2tf.convert(input_onnx_file_path={str(source)!r}, output_folder_path={out!r}, non_verbose=True)",
        ),
    }
    files = {}
    for peer, python in pythons.items():
        say(f"{name}: {peer}")
        try:
            found.theirs[peer] = timed(*calls[peer], 1, python)[0][0]
        except RuntimeError:
            found.theirs[peer] = math.nan
            continue
        written = (
            folder / "litert-torch.tflite" if peer == "litert-torch" else next((folder / peer).glob("*_float32.tflite"), None)
        )
        if written is not None and is_right(made, written):
            files[peer] = written
    say(f"{name}: running the files")
    found.latency, *others = latencies([made, *files.values()], runs)
    found.their_latency = dict(zip(files, others, strict=True))
    return found


def _print_large(console: Console, found: Large) -> None:
    console.print(
        f"{found.weights / 1e9:.2f} GB of weights: converted and saved in {found.seconds:.1f} s, {found.memory / 1e9:.2f} GB of "
        f"memory ({(found.memory - 5e8) / found.weights:.2f} times the weights and 0.5 GB); one run {found.run:.1f} s, "
        f"{found.difference:.0e} of the largest value from numpy's.",
        highlight=False,
    )


if __name__ == "__main__":
    main()
