"""What a trained module brings back: its values, the map to the origin, and whether it still computes the same graph."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from mlconverter.conversion import TrainedWeights
from mlconverter.errors import SignatureError
from mlconverter.formats.torch.module import ConvertedModule, fingerprint, unwrap
from mlconverter.formats.torch.runner import TorchRunner, to_numpy
from mlconverter.formats.torch.state import evaluating, put_values, state_of
from mlconverter.hub.weights import Array


def read(trained: nn.Module | Mapping[str, torch.Tensor], reference: Any) -> TrainedWeights:
    """Read a trained module or its state.

    Args:
        trained: a module that a conversion gave, or a copy of one, or a state dict.
        reference: the module that the state belongs to; it is left as it is.

    Raises:
        SignatureError: nothing says where the module comes from.
    """
    if isinstance(trained, Mapping):
        trained = _with_state(reference, trained)
    module = unwrap(trained)
    if module is None:
        raise SignatureError(
            f"This {type(trained).__name__} does not know where it comes from. Pass the module that to_torch() gave, "
            "a deep copy of it, or a state_dict of it."
        )
    origin = module.origin
    values = {name: _as_float32_if_narrowed(to_numpy(tensor)) for name, tensor in state_of(module).items()}
    with evaluating(module):
        changed = _difference(module)

    def runner(other: Mapping[str, Array]) -> TorchRunner:
        return TorchRunner(put_values(copy.deepcopy(module), other), origin.signature)

    return TrainedWeights(values, origin.links, origin.source_hash, origin.options, origin.signature, changed, module, runner)


def _with_state(reference: Any, state: Mapping[str, torch.Tensor]) -> ConvertedModule:
    module: ConvertedModule = copy.deepcopy(reference)
    module.load_state_dict(dict(state))
    return module


def _as_float32_if_narrowed(array: Any) -> Any:
    """Values of a module in half precision, as the links expect them."""
    return array.astype("float32") if array.dtype.name in ("float16", "bfloat16") else array


def _difference(module: ConvertedModule) -> str:
    """How a module differs from the one that was converted, empty where it does not."""
    before, now = module.origin.fingerprint, fingerprint(module)
    if before == now:
        return ""
    gone, new = [n for n in before if n not in now], [n for n in now if n not in before]
    changed = [n for n in before if n in now and before[n] != now[n]]
    parts = [
        *(["its code has changed"] if "" in changed else []),
        *(
            f"{what} {', '.join(map(repr, names[:3]))}" + (" …" if len(names) > 3 else "")
            for what, names in (("changed:", [n for n in changed if n]), ("gone:", gone), ("new:", new))
            if names
        ),
    ]
    return "; ".join(parts)
