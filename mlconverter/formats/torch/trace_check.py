"""Whether the record of one run computes what the module computes, also where the module would decide otherwise.

A trace fixes every decision that Python takes in it. So it is held against the module on inputs that are like the
example in nothing but their dtype: photographs and noise, values at the edges of kernels, each also negated, very small and
large, with other sizes of free dimensions and two batches. One that differs is reason enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from mlconverter.errors import MLConverterError
from mlconverter.formats.torch.outputs import Flat
from mlconverter.formats.torch.runner import TorchRunner
from mlconverter.hub.io import to_proto
from mlconverter.hub.model import HubModel
from mlconverter.hub.weights import Array
from mlconverter.registry import formats
from mlconverter.signature import IOSignature
from mlconverter.verification import verify_runners
from mlconverter.verification.samples import SampleKind, sample_inputs
from mlconverter.verification.shapes import batch_inputs

BATCHES = (1, 3)
KINDS: tuple[SampleKind, ...] = ("natural", "edge", "noise")
SEEDS = (0, 1)

CHANGES: tuple[Callable[[Array], Array], ...] = (
    lambda x: x,
    np.negative,
    lambda x: x * np.asarray(1e-3, x.dtype),
    lambda x: x * np.asarray(-30, x.dtype),
    np.zeros_like,
)
"""What is done to the floats of a sample."""


def trace_failure(module: Flat, hub: HubModel) -> str | None:
    """Why a trace is not what the module computes; ``None`` where no input shows a difference.

    Args:
        module: the module, as it was traced.
        hub: what the trace became.
    """
    signature = replace(hub.signature, states=())  # of one call by itself, whatever the call before has left
    try:
        with TorchRunner(module, signature) as source, formats["onnx"]._runner(to_proto(hub.model), signature) as target:
            result = verify_runners(source, target, target_format="onnx", inputs=list(probes(signature)))
    except MLConverterError as error:
        return f"the recorded run cannot be judged: {error}"
    return None if result else f"the recorded run is not what the module computes on other inputs: {result.reason}"


def probes(signature: IOSignature, seeds: Sequence[int] = SEEDS) -> Iterator[dict[str, Array]]:
    """Inputs that are like no example."""
    for batch in BATCHES if batch_inputs(signature) else BATCHES[:1]:
        for kind in KINDS:
            for seed in seeds:
                sample = sample_inputs(signature, kind=kind, seed=seed, batch=batch)
                for change in CHANGES:
                    yield {name: change(value) if value.dtype.kind == "f" else value for name, value in sample.items()}
