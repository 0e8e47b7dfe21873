"""The module that a conversion gives: ordinary torch, that knows where its weights come from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import fx, nn

from mlconverter.hub.weights import Step, WeightLink
from mlconverter.options import ConvertOptions
from mlconverter.signature import IOSignature

_META_KEY = "mlconverter"


@dataclass(frozen=True)
class WeightOrigin:
    """Where a parameter or buffer comes from.

    Attributes:
        source: name of the tensor in the origin.
        steps: from the origin's storage to the parameter's value.
    """

    source: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, eq=False)
class ModuleOrigin:
    """What a converted module keeps of its conversion.

    Attributes:
        links: from the origin's tensors to this module's parameters and buffers.
        masks: for parameters with sparse storage, where values are stored.
        source_hash: digest of the origin.
        options: the choices under which it was converted.
        signature: inputs and outputs of the module.
        fingerprint: of the module as it was made, see :func:`fingerprint`.
    """

    links: tuple[WeightLink, ...]
    masks: Mapping[str, npt.NDArray[np.bool_]]
    source_hash: str
    options: ConvertOptions
    signature: IOSignature
    fingerprint: str

    def __deepcopy__(self, memo: dict[int, Any]) -> ModuleOrigin:
        return self  # nothing in it ever changes


class ConvertedModule(fx.GraphModule):
    """A ``GraphModule`` whose weights have a way back; ``code`` shows what it computes.

    Gradients of sparse weights are masked to the pattern that the origin stores, so that training keeps it.
    """

    def __init__(self, root: nn.Module | dict[str, Any], graph: fx.Graph, class_name: str = "ConvertedModule") -> None:
        super().__init__(root, graph, class_name)

    def remember(self, origin: ModuleOrigin) -> None:
        """Keep what the way back needs."""
        self.meta[_META_KEY] = origin
        self._mask_gradients()

    @property
    def origin(self) -> ModuleOrigin:
        """What the module keeps of its conversion."""
        origin: ModuleOrigin = self.meta[_META_KEY]
        return origin

    @property
    def weight_origins(self) -> dict[str, tuple[WeightOrigin, ...]]:
        """By parameter or buffer: the tensors of the origin that it comes from, and how."""
        origins: dict[str, list[WeightOrigin]] = {}
        for link in self.origin.links:
            origins.setdefault(link.target, []).append(WeightOrigin(link.source, link.steps))
        return {name: tuple(found) for name, found in origins.items()}

    def _mask_gradients(self) -> None:
        for path, mask in self.origin.masks.items():
            parameter = self.get_parameter(path)
            stored = torch.from_numpy(np.array(mask)).to(parameter.dtype)
            parameter.register_hook(lambda gradient, stored=stored: gradient * stored.to(gradient))

    def __deepcopy__(self, memo: dict[int, Any]) -> ConvertedModule:
        copy: ConvertedModule = super().__deepcopy__(memo)
        copy._mask_gradients()  # hooks of tensors are not copied along
        return copy

    def _deepcopy_init(self) -> Any:
        return ConvertedModule.__init__


def unwrap(module: nn.Module) -> ConvertedModule | None:
    """The converted module in a module, also behind ``torch.compile``."""
    inner = getattr(module, "_orig_mod", module)
    return inner if isinstance(inner, ConvertedModule) else None


def fingerprint(module: fx.GraphModule) -> str:
    """What a module computes, as a digest: its code and the configuration of its layers, not the values of its weights.

    A changed activation or stride leaves the state-dict keys as they are and changes this.
    """
    digest = hashlib.sha256(module.code.encode())
    for name, layer in module.named_modules():
        digest.update(f"{name}:{type(layer).__module__}.{type(layer).__qualname__}".encode())
        if layer is not module:
            digest.update(repr(_configuration(layer)).encode())
        hooks = (layer._forward_hooks, layer._forward_pre_hooks, "forward" in vars(layer) and layer is not module)
        digest.update(repr([bool(h) for h in hooks]).encode())
    for name, tensor in (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)):
        digest.update(f"{name}:{tuple(tensor.shape)}:{tensor.is_floating_point()}".encode())
    return digest.hexdigest()


def _configuration(layer: nn.Module) -> list[tuple[str, Any]]:
    """Attributes of a layer that are plain values: strides, epsilons, modes."""
    plain = (int, float, str, bool, tuple, type(None))
    return sorted(
        (name, value) for name, value in vars(layer).items() if not name.startswith("_") and name != "training" and isinstance(value, plain)
    )
