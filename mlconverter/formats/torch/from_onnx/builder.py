"""What a translator is handed: it records torch code and lets weights in through one door."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import onnx_ir as ir
import torch
from torch import fx, nn

from mlconverter.formats.torch.arrays import to_tensor
from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.paths import dotted, lookup
from mlconverter.formats.torch.from_onnx.values import (
    DTYPES,
    Array,
    Const,
    Ints,
    Moved,
    Sizes,
    Tensor,
    Tracer,
    UnknownAtConversion,
    Value,
    dtype_of,
    know,
)
from mlconverter.formats.torch.module import ConvertedModule
from mlconverter.hub.io import dim_of, numpy_name
from mlconverter.hub.model import PARAMETERS
from mlconverter.hub.weights import Step, Transpose, WeightLink


@dataclass(frozen=True)
class Bodies:
    """The graphs that a node runs, as parts of the module.

    Attributes:
        parts: called with the inputs of their graph and then with the operands; they give tuples.
        operands: what the graphs read from outside.
    """

    parts: tuple[fx.Proxy, ...]
    operands: tuple[fx.Proxy, ...]


class Builder:
    """Records one module.

    Args:
        outer: of the module whose part this one will be, ``None`` for a module of its own.

    Attributes:
        root: the module that holds parameters and layers.
        graph: the code, as it is recorded.
        node: the ONNX node being translated.
        first_input: of those inputs that are tensors.
        bodies: records graphs of the current node as parts of this module, by the names of the parts.
        states: paths of the layers that keep something from call to call, by the names of the inputs that they stand for.
    """

    bodies: Callable[[dict[str, ir.Graph]], Bodies]

    def __init__(self, outer: Builder | None = None) -> None:
        self.root = nn.Module()
        self.graph = fx.Graph()
        self.tracer = Tracer(self.graph)
        self.node: ir.Node | None = None
        self.first_input: Tensor | None = None
        self.states: dict[str, str] = {}
        self._links: list[WeightLink] = []
        self._inner: dict[str, Builder] = {}
        # One tensor for each weight, in whichever parts of the module it is used.
        self._tensors: dict[tuple[str, tuple[Step, ...]], torch.Tensor] = {} if outer is None else outer._tensors
        self._seen: dict[str, Const] = {} if outer is None else outer._seen
        self._paths: dict[torch.Tensor, str] = {}
        self._reads: dict[str, Tensor] = {}
        self._device: Any = None
        self._roles: Callable[[str], str] = (lambda weight: "parameter") if outer is None else outer._roles

    def decide_roles(self, role: Callable[[str], str]) -> None:
        """Say which weights are parameters: ``role`` maps a weight's name to ``parameter``, ``frozen`` or ``buffer``."""
        self._roles = role

    @property
    def links(self) -> list[WeightLink]:
        """For every weight that the recorded code reads, how a parameter or buffer comes from it."""
        read = {str(node.target) for node in self.graph.nodes if node.op in ("get_attr", "call_module")}
        own = [link for link in self._links if link.target in read or link.target.rpartition(".")[0] in read]
        inner = [(path, link) for path, part in self._inner.items() if path in read for link in part.links]
        return own + [replace(link, target=f"{path}.{link.target}") for path, link in inner]

    def part(self, inner: Builder, name: str) -> fx.Proxy:
        """Make what another builder recorded a part of this module, and read it."""
        path = self._free_path(dotted(name))
        self._attach(self.root, path, ConvertedModule(inner.root, inner.graph))
        self._inner[path] = inner
        return self.tracer.create_proxy("get_attr", path, (), {})

    # -- recording -------------------------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Tensor:
        """Record a call of a run-time helper as one call, instead of what it does."""
        return cast(Tensor, self.tracer.create_proxy("call_function", function, args, kwargs))

    def tensor(self, value: Value | float | int | bool) -> Any:
        """A value as something that recorded code can use: a tensor, or a number as it is."""
        if isinstance(value, Const):
            return self.constant(value)
        if isinstance(value, Moved):
            return value.record()
        if isinstance(value, Sizes):
            items = [v if isinstance(v, fx.Proxy) else int(v) for v in value.array.reshape(-1)]
            sizes = self.call(runtime.sizes_tensor, items, list(value.array.shape), DTYPES[value.dtype], self.device)
            return know(sizes, value.array.shape, DTYPES[value.dtype])
        return value

    @property
    def device(self) -> Any:
        """Where the first input lies, which is where tensors belong that are made anew; ``None`` where no input is a tensor."""
        if self._device is None and self.first_input is not None:
            self._device = self.first_input.device
        return self._device

    def output_dtype(self, position: int = 0) -> torch.dtype | None:
        """Element type that the graph gives an output of the current node, ``None`` where it gives none."""
        assert self.node is not None
        return DTYPES.get(numpy_name(self.node.outputs[position].dtype))

    def output_shape(self, position: int) -> tuple[int | None, ...] | None:
        """Sizes that the graph gives an output of the current node, ``None`` where it does not give even the rank."""
        assert self.node is not None
        shape = self.node.outputs[position].shape
        return None if shape is None else tuple(d if isinstance(d, int) else None for d in map(dim_of, shape))

    def is_read(self, position: int) -> bool:
        """Whether the current node has an output at a position, and anything uses it."""
        assert self.node is not None
        if position >= len(self.node.outputs):
            return False
        output = self.node.outputs[position]
        return bool(output.uses()) or output.is_graph_output()

    def sole_reader(self, output: int = 0) -> ir.Node | None:
        """The only node that reads an output of the current node, if there is just one and it is no graph output."""
        readers = self.readers(output)
        return readers[0] if len(readers) == 1 else None

    def readers(self, output: int = 0) -> list[ir.Node]:
        """The nodes that read an output of the current node, each as often as it does; none where it is a graph output."""
        assert self.node is not None
        value = self.node.outputs[output]
        return [] if value.is_graph_output() else [use.node for use in value.uses()]

    # -- weights ---------------------------------------------------------------------------------------------------

    def constant(self, const: Const) -> Tensor:
        """Read a constant as a tensor: a parameter or buffer of the root module."""
        first = self._seen.get(const.weight or "")
        if first is not None and self.tied_elsewhere(const):
            read, perm = self.constant(first), _permutation(first.steps, const.steps)
            if perm is not None:
                return know(read.permute(perm), const.value.shape, dtype_of(read))
        tensor = self._weight(const)
        path = self._paths.get(tensor)
        if path is None:
            path = self._free_path(dotted(const.name))
            self._attach(self.root, path, tensor)
            self._link(const, path, tensor)
        if path not in self._reads:
            self._reads[path] = know(self.tracer.create_proxy("get_attr", path, (), {}), const.value.shape, tensor.dtype)
        return self._reads[path]

    def table(self, name: str, array: Array) -> Tensor:
        """An array that stands in an attribute of the current node: a buffer called after the node's first output."""
        assert self.node is not None
        return self.constant(Const(array, f"{self.node.outputs[0].name}.{name}"))

    def tied_elsewhere(self, const: Const) -> bool:
        """Whether a weight is a parameter already, in another form than this: transposed, say.

        A layer of its own would untie the two; a translator computes with ``tensor(const)`` instead.
        """
        first = self._seen.get(const.weight or "")
        return first is not None and first.steps != const.steps and _permutation(first.steps, const.steps) is not None

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
            self._link(const, f"{path}.{attribute}", tensor)
        return cast(Tensor, self.tracer.create_proxy("call_module", path, args, {}))

    # -- states ----------------------------------------------------------------------------------------------------

    def state(self, name: str, value: ir.Value, output: str) -> Tensor:
        """Read what the call before has left of a state, which goes out by the name of an output."""
        shape = [dim_of(d) for d in value.shape or ()]
        fixed, dtype = tuple(d if isinstance(d, int) else 1 for d in shape), DTYPES[numpy_name(value.dtype)]
        batched = bool(shape) and not isinstance(shape[0], int)
        layer = runtime.State(fixed, str(dtype).removeprefix("torch."), batched, (name, output))
        path = self.states[name] = self._free_path(dotted(name))
        self._attach(self.root, path, layer)
        return cast(Tensor, self.tracer.create_proxy("call_module", path, (self.first_input,), {}))

    def keep(self, name: str, value: Tensor) -> None:
        """Leave a state for the next call."""
        self.tracer.create_proxy("call_module", self.states[name], (self.first_input, value), {})

    def _weight(self, const: Const, *, buffer: bool = False) -> torch.Tensor:
        """The one torch tensor of a weight seen through its steps: ties stay tied, independent weights independent."""
        key = (const.weight or f"constant:{const.name}", const.steps)
        known = self._tensors.get(key) if const.weight or const.name else None  # what has no name is nothing else's
        if known is None:
            if const.value.dtype.kind in "OSU":
                raise UnknownAtConversion("torch has no strings")
            data = to_tensor(const.value)  # the one copy that a weight goes through
            role = "buffer" if buffer or const.weight is None else const.role or self._roles(const.weight)
            learned = role in PARAMETERS and data.dtype.is_floating_point
            known = self._tensors[key] = nn.Parameter(data, role != "frozen") if learned else data
        return known

    def _link(self, const: Const, path: str, tensor: torch.Tensor) -> None:
        self._paths.setdefault(tensor, path)
        if const.weight is None:
            return
        self._seen.setdefault(const.weight, const)
        self._links.append(WeightLink(const.weight, path, const.steps))

    def _layer_path(self, weights: dict[str, Const]) -> str:
        for attribute, const in weights.items():
            if const.name.endswith(f".{attribute}") and const.weight is not None:
                return dotted(const.name[: -len(attribute) - 1])
        first = next((c.name for c in weights.values() if c.weight is not None), None)
        assert self.node is not None
        return dotted(first or self.node.name or self.node.op_type.lower())

    def _free_path(self, path: str) -> str:
        """``path``, or it with the first number behind it that makes it new."""
        *folders, last = path.split(".")
        for depth in range(len(folders), 0, -1):
            if isinstance(lookup(self.root, ".".join(folders[:depth])), torch.Tensor):
                # Nothing can stand below a tensor.
                path = ".".join([*folders[: depth - 1], "_".join([*folders[depth - 1 :], last])])
                break
        candidate, number = path, 0
        while lookup(self.root, candidate) is not None:
            number += 1
            candidate = f"{path}_{number}"
        return candidate

    @staticmethod
    def _attach(root: nn.Module, path: str, thing: nn.Module | torch.Tensor) -> None:
        *folders, name = path.split(".")
        for folder in folders:
            if folder not in root._modules:
                root.add_module(folder, nn.Module())
            root = cast(nn.Module, root._modules[folder])
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


def _permutation(first: tuple[Step, ...], second: tuple[Step, ...]) -> tuple[int, ...] | None:
    """How the axes of a weight seen through ``first`` are permuted to see it through ``second``, if that is all it takes."""
    if not all(len(steps) <= 1 and all(isinstance(s, Transpose) for s in steps) for steps in (first, second)):
        return None
    perms = [step.perm for steps in (first, second) for step in steps if isinstance(step, Transpose)]
    axes = tuple(range(len(perms[0]))) if perms else ()
    there, wanted = (perms[0] if first else axes), (perms[-1] if second else axes)
    return tuple(there.index(axis) for axis in wanted)


def ints_of(value: Value) -> Ints | None:
    """A value as integers known at conversion, ``None`` where it is none."""
    if isinstance(value, Const) and value.value.dtype.kind in "iub":
        return Ints(int(v) for v in value.value.reshape(-1))
    if isinstance(value, Sizes):
        return Ints(v if isinstance(v, fx.Proxy) else int(v) for v in value.array.reshape(-1))
    return None
