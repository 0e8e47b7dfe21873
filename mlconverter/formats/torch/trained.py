"""What a trained module brings back: its values, the map to the origin, and whether it still computes the same graph."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mlconverter.conversion import TrainedWeights
from mlconverter.errors import SignatureError
from mlconverter.formats.torch.arrays import to_numpy
from mlconverter.formats.torch.checkpoint import load_checkpoint
from mlconverter.formats.torch.fingerprint import fingerprint, interference
from mlconverter.formats.torch.module import ConvertedModule
from mlconverter.formats.torch.runner import TorchRunner
from mlconverter.formats.torch.state import put_values, refuse_unready, state_of
from mlconverter.formats.torch.state_dict import load_state
from mlconverter.hub.weights import Array


def read(trained: nn.Module | Mapping[str, Any] | str | os.PathLike[str], reference: Any) -> TrainedWeights:
    """Read a trained module or its state.

    Args:
        trained: a module that a conversion gave, or a copy of one, or a state dict or a file of one, in whatever precision and
            place.
        reference: the module that the state belongs to; it is left as it is.

    Raises:
        SignatureError: nothing says where the module comes from, or the state does not fit it.
    """
    module = unwrap(reference if isinstance(trained, (Mapping, str, os.PathLike)) else trained)
    if module is None:
        raise SignatureError(
            f"This {type(trained).__name__} does not know where it comes from. Pass the module that to_torch() gave, "
            "a deep copy of it, or a state_dict of it."
        )
    refuse_unready(module)
    module = as_made(module)
    if isinstance(trained, Mapping):
        load_state(module, trained, "The trained weights")
    elif isinstance(trained, (str, os.PathLike)):
        load_checkpoint(module, Path(trained), trust=False)
    origin = module.origin
    values = {name: to_numpy(tensor) for name, tensor in state_of(module).items()}

    def runner(other: Mapping[str, Array]) -> TorchRunner:
        return TorchRunner(put_values(copy.deepcopy(module), other), origin.signature)

    changed = _difference(module)
    return TrainedWeights(values, origin.links, origin.source_hash, origin.options, origin.signature, changed, module, runner)


def unwrap(module: Any) -> ConvertedModule | None:
    """The converted module in a module, also behind ``torch.compile``, ``DataParallel`` and averages of weights.

    Only wrappers that add nothing to what is computed are looked through: anybody's own module may do more than call ``module``.
    """
    inner = module
    while not isinstance(inner, ConvertedModule):
        if _is_lightning(inner):
            inside = [part for part in inner.modules() if isinstance(part, ConvertedModule)]
            return inside[0] if len(inside) == 1 and inside[0].knows_its_origin else None  # what it does beside is training
        if type(inner) in (nn.DataParallel, nn.parallel.DistributedDataParallel, torch.optim.swa_utils.AveragedModel):
            wrapped = inner.module
        elif type(inner).__name__ == "OptimizedModule" and type(inner).__module__.startswith("torch._dynamo"):
            wrapped = inner._orig_mod
        else:
            return None
        if interference(inner)[0]:
            return None  # a hook of the wrapper's own may change what comes out
        inner = wrapped
    return inner if inner.knows_its_origin else None


def _is_lightning(module: Any) -> bool:
    """Whether a module is Lightning's, told by its classes: Lightning is not imported to ask."""
    names = {(cls.__module__.split(".")[0], cls.__name__) for cls in type(module).__mro__}
    return bool(names & {("lightning", "LightningModule"), ("pytorch_lightning", "LightningModule")})


def as_made(module: ConvertedModule) -> ConvertedModule:
    """A copy in ``eval()`` mode, on the CPU and in the dtypes in which the conversion made it."""
    twin = copy.deepcopy(module).cpu().eval()
    dtypes = module.origin.dtypes
    usual = next((d for d in dtypes.values() if "float" in d), None)
    for name, tensor in state_of(twin).items():
        wanted = dtypes.get(name, usual if tensor.is_floating_point() else None)
        tensor.data = tensor.data.to(tensor.dtype if wanted is None else getattr(torch, wanted))
    return twin


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
