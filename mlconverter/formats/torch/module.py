"""The module that a conversion gives: ordinary torch, that knows where its weights come from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import fx, nn

from mlconverter.errors import SignatureError
from mlconverter.formats.torch.dtypes import DTYPES
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
        storage: for parameters that the origin keeps in a narrower precision, its dtype.
        source_hash: digest of the origin.
        options: the choices under which it was converted.
        signature: inputs and outputs of the module.
        fingerprint: of the module as it was made, see :func:`fingerprint`.
    """

    links: tuple[WeightLink, ...]
    masks: Mapping[str, npt.NDArray[np.bool_]]
    storage: Mapping[str, str]
    source_hash: str
    options: ConvertOptions
    signature: IOSignature
    fingerprint: Mapping[str, str]

    def __deepcopy__(self, memo: dict[int, Any]) -> ModuleOrigin:
        return self  # nothing in it ever changes


class StorageRounding:
    """Hooks that let a forward see weights as the origin stores them, and put the weights themselves back afterwards.

    Args:
        storage: dtype of the origin by parameter.
    """

    def __init__(self, storage: Mapping[str, str]) -> None:
        self._storage = storage
        self._taken: list[tuple[nn.Module, str, nn.Parameter]] = []

    def put(self, module: ConvertedModule, arguments: Any) -> None:
        """Before a forward: put rounded weights in the place of the weights."""
        if not module.round_to_storage or self._taken:
            return
        rounded: dict[int, torch.Tensor] = {}
        for path, dtype in self._storage.items():
            folder, _, name = path.rpartition(".")
            owner = module.get_submodule(folder)
            weight = owner._parameters.get(name)
            if weight is None or weight.dtype is not torch.float32:
                continue
            if id(weight) not in rounded:
                stored = weight.detach().to(DTYPES[dtype]).to(weight.dtype)
                # Exact: the difference of two neighbouring numbers is representable, so the sum is the stored value.
                rounded[id(weight)] = weight + (stored - weight.detach())
            self._taken.append((owner, name, weight))
            owner._parameters[name] = rounded[id(weight)]  # type: ignore[assignment]

    def take_back(self, module: ConvertedModule, arguments: Any, result: Any) -> None:
        """After a forward, also one that failed: put the weights back."""
        for owner, name, weight in self._taken:
            owner._parameters[name] = weight
        self._taken.clear()


class FixedBatch:
    """A hook that refuses a batch which nothing has proved: items of it might be mixed.

    Args:
        signature: inputs of the module, in order.
    """

    def __init__(self, signature: IOSignature) -> None:
        self._first = [(s.name, s.shape[0]) for s in signature.inputs if s.shape]
        self._positions = [i for i, s in enumerate(signature.inputs) if s.shape]

    def check(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        """Before a forward: compare the first axis of each input with what the model fixes."""
        for position, (name, size) in zip(self._positions, self._first, strict=True):
            if position >= len(arguments) or not isinstance(size, int) or not isinstance(arguments[position], torch.Tensor):
                continue
            got = arguments[position].shape[0] if arguments[position].dim() else None
            if got != size:
                raise SignatureError(f"Input '{name}' has a first axis of {got}; the model fixes it to {size}.")


class ConvertedModule(fx.GraphModule):
    """A ``GraphModule`` whose weights have a way back; ``code`` shows what it computes.

    What is trained is what the origin can hold. Gradients of sparse weights are masked to the pattern that the
    origin stores. Weights that it keeps in half precision are trained in single precision, and every forward sees
    them rounded as they will be stored (gradients pass the rounding straight through), so that the file computes
    what the module computes; ``round_to_storage = False`` turns the rounding off.
    """

    def __init__(self, root: nn.Module | dict[str, Any], graph: fx.Graph, class_name: str = "ConvertedModule") -> None:
        super().__init__(root, graph, class_name)
        self.round_to_storage = True

    def remember(self, origin: ModuleOrigin) -> None:
        """Keep what the way back needs."""
        self.meta[_META_KEY] = origin
        self._watch()

    def _watch(self) -> None:
        """Set the hooks that keep what is trained storable, and the batch what it is where the model fixes it."""
        self.register_forward_pre_hook(FixedBatch(self.origin.signature).check)
        for path, mask in self.origin.masks.items():
            parameter = self.get_parameter(path)
            stored = torch.from_numpy(np.array(mask)).to(parameter.dtype)
            parameter.register_hook(partial(_masked, stored))  # type: ignore[no-untyped-call]
        if self.origin.storage:
            rounding = StorageRounding(self.origin.storage)
            self.register_forward_pre_hook(rounding.put)
            self.register_forward_hook(rounding.take_back, always_call=True)

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

    def __deepcopy__(self, memo: dict[int, Any]) -> ConvertedModule:
        copy = cast(ConvertedModule, super().__deepcopy__(memo))
        copy.round_to_storage = self.round_to_storage
        copy._watch()  # hooks are not copied along
        return copy

    def _deepcopy_init(self) -> Any:
        return ConvertedModule.__init__


def _masked(stored: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    return gradient * stored.to(gradient)


def unwrap(module: nn.Module) -> ConvertedModule | None:
    """The converted module in a module, also behind ``torch.compile``, ``DataParallel`` and averages of weights.

    Only wrappers that add nothing to what is computed are looked through: anybody's own module may do more than call ``module``.
    """
    inner: Any = module
    while not isinstance(inner, ConvertedModule):
        if type(inner) in (nn.DataParallel, nn.parallel.DistributedDataParallel, torch.optim.swa_utils.AveragedModel):
            wrapped = inner.module
        elif type(inner).__name__ == "OptimizedModule" and type(inner).__module__.startswith("torch._dynamo"):
            wrapped = inner._orig_mod
        else:
            return None
        if _interference(inner)[0]:
            return None  # a hook of the wrapper's own may change what comes out
        inner = wrapped
    return inner if _META_KEY in inner.meta else None


def fingerprint(module: fx.GraphModule) -> dict[str, str]:
    """What a module computes, not the values of its weights: a digest of its code (``""``) and of each layer by name.

    A changed activation or stride leaves the state-dict keys as they are and changes this; so does a hook or a
    forward of somebody's own.
    """
    digests = {}
    for name, layer in module.named_modules(remove_duplicate=False):
        kind = f"{type(layer).__module__}.{type(layer).__qualname__}"
        does = f"{type(module).__name__} {module.code}" if layer is module else f"{kind} {_configuration(layer)}"
        own = (*layer._parameters.items(), *layer._buffers.items())
        holds = [(n, tuple(t.shape), t.is_floating_point()) for n, t in own if t is not None]
        digests[name] = hashlib.sha256(f"{does} {_interference(layer)} {holds}".encode()).hexdigest()
    return digests


def _configuration(layer: nn.Module) -> list[tuple[str, Any]]:
    """Attributes of a layer that are plain values: strides, epsilons, modes."""
    plain = (int, float, str, bool, tuple, type(None))
    values = vars(layer).items()
    return sorted((n, v) for n, v in values if not n.startswith("_") and n != "training" and isinstance(v, plain))


def _interference(layer: nn.Module) -> tuple[int, bool]:
    """How many hooks change what a layer computes, those of the conversion left out, and whether its forward was replaced."""
    hooks = (*layer._forward_hooks.values(), *layer._forward_pre_hooks.values())
    foreign = [hook for hook in hooks if not isinstance(getattr(hook, "__self__", None), (StorageRounding, FixedBatch))]
    return len(foreign), "forward" in vars(layer)
