"""Converted modules against the originals, one thread, and the time to convert: ``python -m benchmarks.eager``.

A module goes torch → ONNX → torch, and both then run in turn on the same inputs; the least time of each counts. Then stacks of
1, 2, 4 and 8 blocks are converted, whose times should grow with the number of nodes.
"""

from __future__ import annotations

import argparse
import math
import platform
import time
import warnings
from importlib.metadata import version
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import nn

from mlconverter import Converter
from tests.architectures.specs import architectures

MODELS = (
    "torchvision/resnet18 torchvision/resnet50 torchvision/mobilenet_v2 torchvision/mobilenet_v3_large "
    "torchvision/shufflenet_v2_x1_0 torchvision/efficientnet_b0 torchvision/densenet121 torchvision/convnext_tiny "
    "torchvision/vit_tiny torchvision/swin_t torchvision/regnet_y_400mf torchvision/deeplabv3_mobilenet_v3_large "
    "timm/vit_tiny_patch16_224 timm/mixer_s32_224 timm/ghostnet_050 timm/mobilevit_xxs timm/poolformer_s12 "
    "transformers/BertModel transformers/GPT2LMHeadModel transformers/LlamaForCausalLM"
).split()
STACKS = (1, 2, 4, 8)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.eager")
    parser.add_argument("models", nargs="*", default=MODELS, help="networks of tests/architectures")
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    console = Console(width=max(110, Console().width))
    packages = ", ".join(f"{p} {version(p)}" for p in ("mlconverter", "torch", "torchvision", "timm", "transformers"))
    console.print(f"Python {platform.python_version()}, {packages}, one thread", highlight=False)
    table = Table("model", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("ONNX → torch, s", "original, ms", "converted, ms", "ratio"):
        table.add_column(column, justify="right")
    ratios = []
    for name in options.models:
        with console.status(name):
            seconds, original, converted = measure(name, options.runs)
        ratios.append(converted / original)
        table.add_row(name, f"{seconds:.2f}", f"{original * 1e3:.2f}", f"{converted * 1e3:.2f}", f"{ratios[-1]:.3f}")
    console.print(table)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    console.print(f"Latency of the converted modules, geometric mean: {mean:.3f}, largest {max(ratios):.3f}", highlight=False)
    times = [(n, *stack(n)) for n in STACKS]
    said = ", ".join(f"{n} blocks ({nodes} nodes) {seconds:.2f} s" for n, nodes, seconds in times)
    console.print(f"ONNX → torch of stacked blocks: {said}", highlight=False)


def measure(name: str, runs: int) -> tuple[float, float, float]:
    """Seconds of the conversion from ONNX, of a run of the original, and of one of the converted module."""
    architecture = architectures()[name]
    original = architecture.make()
    shapes = [(s, "int64") if i in architecture.integers else s for i, s in enumerate(architecture.shapes)]
    exported = Converter(original, input_shape=shapes, verify=False).to_onnx()
    start = time.perf_counter()
    module = Converter(exported, verify=False).to_torch()
    seconds = time.perf_counter() - start
    inputs = architecture.inputs(0)
    return seconds, *latencies([original, module], inputs, runs)


def latencies(modules: list[nn.Module], inputs: tuple[Any, ...], runs: int) -> list[float]:
    """The least seconds of one run of each module, in turn so that all see the same machine."""
    best = [math.inf] * len(modules)
    with torch.inference_mode():
        for module in modules:
            module(*inputs)
        for _ in range(runs):
            for i, module in enumerate(modules):
                start = time.perf_counter()
                module(*inputs)
                best[i] = min(best[i], time.perf_counter() - start)
    return best


class Block(nn.Module):
    """A residual block with normalisation and attention-like products."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(torch.nn.functional.gelu(self.first(self.norm(x))))


def stack(count: int) -> tuple[int, float]:
    """Nodes of a stack of blocks, forty for each that is counted, and seconds of its conversion from ONNX."""
    net = nn.Sequential(*(Block() for _ in range(40 * count))).eval()
    exported = Converter(net, input_shape=(2, 10, 32), verify=False).to_onnx()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        Converter(exported, verify=False).to_torch()
        times.append(time.perf_counter() - start)
    return len(exported.graph.node), min(times)


if __name__ == "__main__":
    main()
