"""A module's graph with the module's weights as they are now: where only those have changed, nothing is exported again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import onnx_ir as ir
import torch
from torch import nn

from mlconverter.formats.torch.arrays import to_numpy
from mlconverter.formats.torch.state import state_of, structure_hash
from mlconverter.hub.model import HubModel, is_weight

NEW_WEIGHTS = "Only weights have changed since the module was exported; its graph was kept."

_COUNT = "num_batches_tracked"
"""What layers count in training, and never look at in ``eval()``."""


@dataclass(frozen=True)
class Exported:
    """What an export gave, and of what.

    Attributes:
        hub: the graph.
        structure: of the module.
        values: digests of its parameters and buffers by name.
    """

    hub: HubModel
    structure: str
    values: Mapping[str, str]

    @classmethod
    def of(cls, module: nn.Module, hub: HubModel) -> Exported:
        """Remember an export."""
        return cls(hub, structure_hash(module), _digests(module))

    def refreshed(self, module: nn.Module) -> HubModel | None:
        """The graph with other weights; ``None`` where the module has to be exported anew.

        A weight that the graph has under its name was read by the exporter as a placeholder: nothing else in the graph comes
        from its values. Of anything else nobody can tell what came of it.
        """
        if structure_hash(module) != self.structure:
            return None
        now, state = _digests(module), state_of(module)
        initializers = self.hub.model.graph.initializers
        changed = {_named(n, state, initializers) for n, digest in now.items() if self.values.get(n) != digest}
        if now.keys() != self.values.keys() or not all(_has(initializers, name, state) for name in changed):
            return None
        model = self.hub.model.clone()
        for name in sorted(changed):
            value = model.graph.initializers[name]
            value.const_value = ir.tensor(to_numpy(state[name]).copy(), value.dtype, name=name)
        return replace(self.hub, model=model).noting(NEW_WEIGHTS)


def _digests(module: nn.Module) -> dict[str, str]:
    """Digests of parameters and buffers by name."""
    found = {}
    for name, tensor in state_of(module).items():
        if name.rpartition(".")[2] == _COUNT:
            continue
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        said = f"{tuple(tensor.shape)}:{tensor.dtype}:".encode()
        found[name] = hashlib.blake2b(said + (flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")).hexdigest()
    return found


def _named(name: str, state: Mapping[str, torch.Tensor], initializers: Mapping[str, ir.Value]) -> str:
    """The name under which the graph has a weight: one that is tied has several, and the graph one of them."""
    if name in initializers:
        return name
    return next((other for other, tensor in state.items() if tensor is state[name] and other in initializers), name)


def _has(initializers: Mapping[str, ir.Value], name: str, state: Mapping[str, torch.Tensor]) -> bool:
    """Whether the graph has a weight as its module has it."""
    value = initializers.get(name)
    if value is None or not is_weight(value) or value.const_value is None:
        return False
    array = value.const_value
    return tuple(array.shape.numpy()) == tuple(state[name].shape) and array.dtype.numpy() == to_numpy(state[name][:0]).dtype
