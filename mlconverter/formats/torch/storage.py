"""Weights as their origin can store them: in a narrower precision, or with holes where a sparse tensor has nothing.

All of it stands in the module's graph and layers and not around the module as a whole, so that whatever reads those
(``torch.export``, ``torch.compile``, ``torch.fx``, a copy) sees it too.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

import torch
from torch import fx, nn

from mlconverter.formats.torch.dtypes import DTYPES
from mlconverter.hub.weights import Grid, WeightLink, storage_dtype, storage_grid, stored_mask

_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)


class Storage(nn.Module):
    """What the origin can hold of one weight; the weight goes through it whenever it is used.

    Where nothing is stored no gradient arrives. Other values are rounded to the dtype of the origin, or to the multiples of
    a scale that its integers stand for, gradients passing the rounding straight through.

    Args:
        path: of the weight in the converted module, or in the part of it whose code reads the weight.
        dtype: the narrower dtype of the origin, ``None`` where it holds the weight as it is.
        mask: where the origin stores values, ``None`` where it stores all.
        grid: the numbers that the origin's integers stand for, ``None`` where it has no integers.
    """

    def __init__(self, path: str, dtype: torch.dtype | None, mask: torch.Tensor | None, grid: Grid | None = None) -> None:
        super().__init__()
        self.path, self.dtype, self.mask = path, dtype, mask
        self.grid = None if grid is None else tuple(torch.tensor(a) for a in (grid.scale, grid.low, grid.high))
        self.integers = "" if grid is None else grid.dtype
        self._rounds = True  # no part of what a module computes by its fingerprint

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """The weight as it is stored."""
        if self.mask is not None and torch.is_grad_enabled() and not _exporting():
            weight = torch.where(self.mask.to(weight.device), weight, weight.detach())
        return self.rounded(weight) if self._rounds else weight

    def rounded(self, weight: torch.Tensor) -> torch.Tensor:
        """The weight in the precision of the origin, in its own dtype."""
        value = weight.detach()
        if self.grid is not None:
            scale, low, high = (setting.to(weight) for setting in self.grid)
            return weight + (torch.clamp(torch.round(value / scale), low, high) * scale - value)
        if self.dtype is None or weight.dtype is self.dtype:
            return weight
        compiled = torch.compiler.is_compiling() and not _exporting()
        stored: torch.Tensor = _rounded(value, self.dtype) if compiled else value.to(self.dtype).to(value.dtype)
        # Exact: the difference of two neighbouring numbers is representable, so the sum is the stored value.
        return weight + (stored - value)

    def extra_repr(self) -> str:
        """What stands between the brackets."""
        parts = [self.path, *([] if self.dtype is None else [str(self.dtype)]), *([] if self.mask is None else ["sparse"])]
        parts += [] if self.grid is None else [self.integers]
        return ", ".join(parts)


@torch.library.custom_op("mlconverter::rounded", mutates_args=(), schema="(Tensor value, ScalarType dtype) -> Tensor")
def _rounded(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """``value`` rounded to ``dtype``; a compiler that knew what it does would take two casts for none."""
    return value.to(dtype).to(value.dtype)


@_rounded.register_fake
def _(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_like(value)


class StoredWeights:
    """Hooks of a layer: while it computes it has its weights as they are stored, and its own ones afterwards.

    Args:
        storages: by the names of its weights.
    """

    def __init__(self, storages: dict[str, Storage]) -> None:
        self._storages, self.names = storages, frozenset(storages)
        self._taken: dict[int, list[tuple[MutableMapping[str, Any], str, Any]]] = {}

    def watch(self, layer: nn.Module) -> None:
        """Hang the hooks on a layer."""
        layer.register_forward_pre_hook(self.put)
        layer.register_forward_hook(self.take_back, always_call=True)

    def put(self, layer: nn.Module, arguments: Any) -> None:
        """Before the layer computes: put what is stored in the place of the weights."""
        taken = self._taken[id(layer)] = []  # a replica of the layer shares its hooks
        for name, storage in self._storages.items():
            # A replica for another device has its parameters as plain attributes.
            place = next((p for p in (layer._parameters, vars(layer)) if p.get(name) is not None), None)
            if place is not None:
                taken.append((place, name, place[name]))
                place[name] = storage(place[name])

    def take_back(self, layer: nn.Module, arguments: Any, result: Any) -> None:
        """After the layer computed, also where it failed: put the weights back."""
        for place, name, weight in self._taken.pop(id(layer), ()):
            place[name] = weight


def keep_storable(module: fx.GraphModule, links: Iterable[WeightLink]) -> None:
    """Let the parameters that the origin cannot hold as they are go through a :class:`Storage` wherever they are used.

    Args:
        module: a converted module; its graph and layers are changed.
        links: from the origin's tensors to its parameters and buffers.
    """
    parameters = dict(module.named_parameters(remove_duplicate=False))
    watched: dict[nn.Module, dict[str, Storage]] = {}
    changed: set[fx.GraphModule] = set()
    parts = {path: part for path, part in module.named_modules() if isinstance(part, fx.GraphModule)}
    for link in {link.target: link for link in links}.values():
        weight = parameters.get(link.target)  # a buffer is not trained; layers write into theirs while they compute
        # The code that reads a weight is that of the innermost part which has it.
        part = max((p for p in parts if not p or link.target.startswith(f"{p}.")), key=len)
        path = link.target[len(part) + 1 if part else 0 :]
        storage = None if weight is None else _storage(link, path, weight)
        if storage is None:
            continue
        reader = parts[part]
        reader.add_submodule(f"stored.{path}", storage)
        if _read_through(reader.graph, path):
            changed.add(reader)
        layer, _, name = path.rpartition(".")
        if any(node.op == "call_module" and node.target == layer for node in reader.graph.nodes):
            watched.setdefault(reader.get_submodule(layer), {})[name] = storage
    for called, storages in watched.items():
        StoredWeights(storages).watch(called)
    for reader in changed:
        reader.recompile()


def storages(module: nn.Module) -> dict[str, Storage]:
    """What weights of a module go through when they are used, by their names.

    A layer that somebody put in the place of another has weights of its own, which go through nothing.
    """
    found = {}
    for path, part in module.named_modules(remove_duplicate=False):
        if not isinstance(part, fx.GraphModule) or "stored" not in part._modules:
            continue
        for storage in part.get_submodule("stored").modules():
            if isinstance(storage, Storage) and _goes_through(part, storage):
                found[f"{path}.{storage.path}".lstrip(".")] = storage
    return found


def _goes_through(part: fx.GraphModule, storage: Storage) -> bool:
    """Whether the code of a part of a module, or a layer of it, has a weight as it is stored."""
    if any(node.op == "call_module" and node.target == f"stored.{storage.path}" for node in part.graph.nodes):
        return True
    layer, _, name = storage.path.rpartition(".")
    hooks = [] if layer not in dict(part.named_modules()) else part.get_submodule(layer)._forward_pre_hooks.values()
    watchers = [getattr(hook, "__self__", None) for hook in hooks]
    return any(isinstance(watcher, StoredWeights) and name in watcher.names for watcher in watchers)


def _storage(link: WeightLink, path: str, weight: torch.Tensor) -> Storage | None:
    """The storage of a weight, ``None`` where the origin can hold any value of it."""
    mask, name = stored_mask(link), storage_dtype(link)
    dtype = None if name is None or DTYPES[name].itemsize >= weight.element_size() else DTYPES[name]
    grid = storage_grid(link)
    if mask is None and dtype is None and grid is None:
        return None
    return Storage(path, dtype, None if mask is None else torch.from_numpy(mask.copy()), grid)


def _read_through(graph: fx.Graph, path: str) -> bool:
    """Let what the code reads of a weight go through its storage; whether it reads it."""
    reads = [n for n in graph.nodes if n.op == "get_attr" and n.target == path]
    for node in reads:
        with graph.inserting_after(node):
            seen = graph.call_module(f"stored.{path}", (node,))
        node.replace_all_uses_with(seen, delete_user_cb=lambda user, seen=seen: user is not seen)
    return bool(reads)
