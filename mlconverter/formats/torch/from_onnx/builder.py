"""What a translator is handed: it records torch code and lets weights in through one door."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch import fx, nn

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.values import DTYPES, Const, Ints, Sizes, Tensor, Tracer, Value
from mlconverter.hub.weights import Step, WeightLink


class Builder:
    """Records one module.

    Attributes:
        root: the module that holds parameters and layers.
        graph: the code, as it is recorded.
        node: the ONNX node being translated.
        links: for every weight, how a parameter or buffer of ``root`` comes from it.
    """

    def __init__(self) -> None:
        self.root = nn.Module()
        self.graph = fx.Graph()
        self.tracer = Tracer(self.graph)
        self.node: ir.Node | None = None
        self.links: list[WeightLink] = []
        self._tensors: dict[tuple[str, tuple[Step, ...]], torch.Tensor] = {}
        self._reads: dict[str, Tensor] = {}
        self._roles: Callable[[str], str] = lambda weight: "parameter"

    def decide_roles(self, role: Callable[[str], str]) -> None:
        """Say which weights are parameters: ``role`` maps a weight's name to ``parameter`` or ``buffer``."""
        self._roles = role

    # -- recording -------------------------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Tensor:
        """Record a call of a run-time helper as one call, instead of what it does."""
        return self.tracer.create_proxy("call_function", function, args, kwargs)  # type: ignore[no-any-return]

    def tensor(self, value: Value | float | int | bool) -> Any:
        """A value as something that recorded code can use: a tensor, or a number as it is."""
        if isinstance(value, Const):
            return self.constant(value)
        if isinstance(value, Sizes):
            items = [v if isinstance(v, fx.Proxy) else int(v) for v in value.array.reshape(-1)]
            sizes = self.call(runtime.sizes_tensor, items, list(value.array.shape), DTYPES[value.dtype])
            return self.known(sizes, value.array.shape, DTYPES[value.dtype])
        return value

    def known(self, tensor: Tensor, shape: tuple[int | None, ...] | None, dtype: torch.dtype | None) -> Tensor:
        """Say what is known of a recorded tensor."""
        tensor._known_shape, tensor._known_dtype = shape, dtype
        return tensor

    def sole_reader(self, output: int = 0) -> ir.Node | None:
        """The only node that reads an output of the current node, if there is just one and it is no graph output."""
        assert self.node is not None
        value = self.node.outputs[output]
        uses = list(value.uses())
        return uses[0].node if len(uses) == 1 and not value.is_graph_output() else None

    # -- weights ---------------------------------------------------------------------------------------------------

    def constant(self, const: Const) -> Tensor:
        """Read a constant as a tensor: a parameter or buffer of the root module."""
        tensor = self._weight(const)
        path = self._path_of(tensor)
        if path is None:
            path = self._free_path(_dotted(const.name))
            self._attach(self.root, path, tensor)
            self._link(const, path)
        if path not in self._reads:
            read = self.tracer.create_proxy("get_attr", path, (), {})
            self._reads[path] = self.known(read, const.value.shape, tensor.dtype)
        return self._reads[path]

    def layer(self, layer: nn.Module, *args: Any, **weights: Const | None) -> Tensor:
        """Record a call of a layer whose parameters are ``weights``.

        Args:
            layer: built on the ``meta`` device; the named parameters and buffers are put in their place.
            *args: what the layer is called with.
            **weights: by the layer's attribute; ``None`` where the layer has none.

        Returns:
            The layer's result.
        """
        present = {attribute: const for attribute, const in weights.items() if const is not None}
        path = self._free_path(self._layer_path(present))
        self._attach(self.root, path, layer)
        for attribute, const in present.items():
            tensor = self._weight(const, buffer=attribute in layer._buffers)
            _put(layer, attribute, tensor)
            self._link(const, f"{path}.{attribute}")
        return self.tracer.create_proxy("call_module", path, args, {})  # type: ignore[no-any-return]

    def _weight(self, const: Const, *, buffer: bool = False) -> torch.Tensor:
        """The one torch tensor of a weight seen through its steps: ties stay tied, independent weights independent."""
        key = (const.weight or f"constant:{const.name}", const.steps)
        known = self._tensors.get(key)
        if known is None:
            data = _to_torch(const.value)
            role = "buffer" if buffer or const.weight is None else const.role or self._roles(const.weight)
            trainable = role == "parameter" and data.dtype.is_floating_point
            known = self._tensors[key] = nn.Parameter(data) if trainable else data
        return known

    def _link(self, const: Const, path: str) -> None:
        if const.weight is None:
            return
        self.links.append(WeightLink(const.weight, path, const.steps))

    def _path_of(self, tensor: torch.Tensor) -> str | None:
        for link in self.links:
            if _lookup(self.root, link.target) is tensor:
                return link.target
        for path in self._reads:
            if _lookup(self.root, path) is tensor:
                return path
        return None

    def _layer_path(self, weights: dict[str, Const]) -> str:
        for attribute, const in weights.items():
            if const.name.endswith(f".{attribute}") and const.weight is not None:
                return _dotted(const.name[: -len(attribute) - 1])
        first = next((c.name for c in weights.values() if c.weight is not None), None)
        assert self.node is not None
        return _dotted(first or self.node.name or self.node.op_type.lower())

    def _free_path(self, path: str) -> str:
        """``path``, or it with the first number behind it that makes it new."""
        candidate, number = path, 0
        while _lookup(self.root, candidate) is not None:
            number += 1
            candidate = f"{path}_{number}"
        return candidate

    @staticmethod
    def _attach(root: nn.Module, path: str, thing: nn.Module | torch.Tensor) -> None:
        *folders, name = path.split(".")
        for folder in folders:
            if folder not in root._modules:
                root.add_module(folder, nn.Module())
            root = root._modules[folder]  # type: ignore[assignment]
        if isinstance(thing, nn.Module):
            root.add_module(name, thing)
        elif isinstance(thing, nn.Parameter):
            root.register_parameter(name, thing)
        else:
            root.register_buffer(name, thing)


def _put(layer: nn.Module, attribute: str, tensor: torch.Tensor) -> None:
    """Set a layer's parameter; one that is no parameter in the source becomes a buffer."""
    if attribute in layer._parameters and not isinstance(tensor, nn.Parameter):
        del layer._parameters[attribute]
        layer.register_buffer(attribute, tensor)
    else:
        setattr(layer, attribute, tensor)


def _lookup(root: nn.Module, path: str) -> Any:
    thing: Any = root
    for name in path.split("."):
        thing = getattr(thing, name, None)
        if thing is None:
            return None
    return thing


def _dotted(name: str) -> str:
    """A name of the ONNX graph as a path of attributes."""
    parts = [re.sub(r"\W+", "_", part).strip("_") for part in re.sub(r":\d+$", "", name).split(".")]
    # ``training`` and friends are attributes of every module; a leading underscore would hide the weight.
    return ".".join(f"{part}_" if hasattr(nn.Module, part) or part == "training" else part for part in parts if part) or "constant"


def _to_torch(array: np.ndarray) -> torch.Tensor:  # type: ignore[type-arg]
    """A tensor of its own memory; the one copy that a weight goes through."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(np.array(array, order="C").view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array, order="C"))


def ints_of(value: Value) -> Ints | None:
    """A value as integers known at conversion, ``None`` where it is none."""
    if isinstance(value, Const) and value.value.dtype.kind in "iub":
        return Ints(int(v) for v in value.value.reshape(-1))
    if isinstance(value, Sizes):
        return Ints(v if isinstance(v, fx.Proxy) else int(v) for v in value.array.reshape(-1))
    return None
