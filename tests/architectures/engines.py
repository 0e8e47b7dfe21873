"""What becomes of a network on its way torch → ONNX → TensorRT: engines in single and half precision, with a free batch.

They are built ahead of time by TensorRT for RTX, which takes no GPU; so nothing here runs them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlconverter import Converter
from mlconverter.hub.onnx_io import OnnxIO
from tests.architectures.examine import shapes_of
from tests.architectures.row import Row, filled
from tests.architectures.specs import Architecture


@dataclass
class Built(Row):
    """What was found of one network.

    Attributes:
        stage: how far it came: ``export``, ``fp32``, ``fp16``, ``batch`` or ``ok``.
        reason: why no further.
        seconds: that building took, in single and in half precision.
        sizes: bytes of the engines.
        layers: of the engine in single precision.
    """

    seconds: tuple[float, float] = (math.nan, math.nan)
    sizes: tuple[int, int] = (0, 0)
    layers: int = 0

    def numbers(self) -> dict[str, str]:
        """What stands in the columns of a table."""
        return {
            "fp32, s": f"{self.seconds[0]:.2f}",
            "fp16, s": f"{self.seconds[1]:.2f}",
            "fp32, MB": f"{self.sizes[0] / 1e6:.1f}",
            "fp16, MB": f"{self.sizes[1] / 1e6:.1f}",
            "layers": str(self.layers),
        }


def examine_alone(name: str) -> Built:
    """Build a network's engines."""
    return filled(name, Built, _examine)


def _examine(architecture: Architecture, row: Built) -> None:
    exported = Converter(architecture.make(), input_shape=shapes_of(architecture), verify=False).to_onnx()
    converter = Converter(exported, verify=False)
    row.stage = "fp32"
    single = converter.to_trt()
    row.seconds, row.sizes, row.layers = (single.info.seconds, math.nan), (len(single), 0), single.info.layers
    row.stage = "fp16"
    half = converter.to_trt(precision="fp16")
    row.seconds, row.sizes = (single.info.seconds, half.info.seconds), (len(single), len(half))
    row.stage = "batch"
    free = OnnxIO(exported).signature.free_dims
    ranges = {name: shapes for name, shapes in half.info.profile.items() if shapes[0] != shapes[2]}
    assert ranges or not free, f"{free} are free in the network, and nothing in the engine"
    row.stage = "ok"
