"""What goes into and comes out of a conversion: plain values that formats hand to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlconverter.hub.model import HubModel
from mlconverter.hub.weights import Array, WeightLink
from mlconverter.options import ConvertOptions
from mlconverter.registry import formats
from mlconverter.signature import IOSignature
from mlconverter.verification import Runner

Trained = Any
"""What ``to_origin_type`` takes: a trained module, or its state by name."""


@dataclass(frozen=True)
class Conversion:
    """A model that came out of the hub.

    Attributes:
        model: in its own format.
        signature: what it takes and gives.
        notes: for the report.
    """

    model: Any
    signature: IOSignature
    notes: tuple[str, ...] = ()


def hub_runner(hub: HubModel) -> Runner:
    """Runs a graph of the hub.

    Raises:
        NotRunnableError: nothing here can.
    """
    from mlconverter.hub.io import to_proto

    runner: Runner = formats["onnx"]._runner(to_proto(hub.model), hub.signature)
    return runner


@dataclass(frozen=True)
class TrainedWeights:
    """What comes back from training.

    Attributes:
        values: the trained tensors by name.
        links: from the origin's tensors to them.
        source_hash: digest of the origin.
        options: the choices under which the origin was converted.
        signature: inputs and outputs of the trained model.
        changed: how the model's graph differs from the one that was converted, empty where it does not.
        model: the trained model itself.
        runner: makes a runner of it holding other values of the linked tensors.
    """

    values: Mapping[str, Array]
    links: tuple[WeightLink, ...]
    source_hash: str
    options: ConvertOptions
    signature: IOSignature
    changed: str
    model: Any
    runner: Callable[[Mapping[str, Array]], Runner]

    def rounding(self, kept: Mapping[str, Array]) -> tuple[str, ...]:
        """What the origin's storage cannot hold of the trained values, as notes for the report.

        Args:
            kept: the values that it holds, by the names of :attr:`values`.
        """
        moved: list[float] = []
        for name, value in kept.items():
            trained = self.values[name].astype(np.float64)
            most = float(np.max(np.abs(trained - value), initial=0.0))
            if most > 0:
                moved.append(most / float(np.max(np.abs(trained))))
        if not moved:
            return ()
        share = f"{len(moved)} of {len(kept)} trained tensors"
        return (f"The origin's storage rounds {share}, by at most {max(moved):.1e} of their largest value.",)
