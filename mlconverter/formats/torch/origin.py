"""What a converted module keeps of its conversion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlconverter.hub.weights import Step, WeightLink
from mlconverter.options import ConvertOptions
from mlconverter.signature import IOSignature


@dataclass(frozen=True)
class WeightOrigin:
    """Where a parameter or buffer comes from.

    Attributes:
        source: name of the tensor in the origin.
        steps: from the origin's storage to the parameter's value.
    """

    source: str
    steps: tuple[Step, ...]

    def as_dict(self) -> dict[str, Any]:
        """For people who read a contract."""
        return {"source": self.source, "steps": [type(step).__name__ for step in self.steps]}


@dataclass(frozen=True, eq=False)
class ModuleOrigin:
    """What a converted module keeps of its conversion.

    Attributes:
        links: from the origin's tensors to this module's parameters and buffers.
        source_hash: digest of the origin.
        options: the choices under which it was converted.
        signature: inputs and outputs of the module.
        fingerprint: of the module as it was made, see :func:`~mlconverter.formats.torch.fingerprint.fingerprint`.
        dtypes: of its parameters and buffers as it was made.
    """

    links: tuple[WeightLink, ...]
    source_hash: str
    options: ConvertOptions
    signature: IOSignature
    fingerprint: Mapping[str, str]
    dtypes: Mapping[str, str]

    def __deepcopy__(self, memo: dict[int, Any]) -> ModuleOrigin:
        return self  # nothing in it ever changes
