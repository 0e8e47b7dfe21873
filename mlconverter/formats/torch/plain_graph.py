"""A graph of torch.fx as plain values, which can be saved: nodes refer to one another by position."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from torch import fx
from torch.fx.node import map_aggregate

_NOTES = "mlconverter."
"""What the keys of a node's ``meta`` begin with that this package wrote; the values are text."""

_mapped: Any = map_aggregate  # which is typed for what a graph may hold, and maps anything


@dataclass(frozen=True)
class Position:
    """A node, by its place among the nodes of its graph."""

    index: int


@dataclass(frozen=True)
class Function:
    """A function by where it is found: some of torch's are defined inside others and cannot be saved themselves."""

    module: str
    name: str

    @classmethod
    def of(cls, target: Any) -> Any:
        """What stands for the target of a node: itself, wherever it can be saved."""
        if "<locals>" not in getattr(target, "__qualname__", ""):
            return target
        found = cls(target.__module__, target.__name__)
        return found if found.target is target else target

    @property
    def target(self) -> Any:
        """The function."""
        return getattr(importlib.import_module(self.module), self.name, None)


@dataclass(frozen=True)
class PlainGraph:
    """The nodes of a graph.

    Saving code instead, as ``fx.GraphModule`` does, would mean to trace it again, which not all of it survives.

    Attributes:
        nodes: operation, name, target, arguments and keyword arguments of each, in order.
        notes: what else this package noted of each.
    """

    nodes: tuple[tuple[str, str, Any, Any, Any], ...]
    notes: tuple[dict[str, str], ...]

    @classmethod
    def of(cls, graph: fx.Graph) -> PlainGraph:
        """The nodes of ``graph``."""
        positions = {node: Position(i) for i, node in enumerate(graph.nodes)}

        def plain(arguments: Any) -> Any:
            return _mapped(arguments, lambda a: positions[a] if isinstance(a, fx.Node) else a)

        nodes = tuple((n.op, n.name, Function.of(n.target), plain(n.args), plain(n.kwargs)) for n in graph.nodes)
        return cls(nodes, tuple({k: v for k, v in n.meta.items() if k.startswith(_NOTES)} for n in graph.nodes))

    def graph(self) -> fx.Graph:
        """A graph of these nodes."""
        graph = fx.Graph()
        made: list[fx.Node] = []

        def joined(arguments: Any) -> Any:
            return _mapped(arguments, lambda a: made[a.index] if isinstance(a, Position) else a)

        for (op, name, target, args, kwargs), notes in zip(self.nodes, self.notes, strict=True):
            what = target.target if isinstance(target, Function) else target
            made.append(graph.create_node(op, what, joined(args), joined(kwargs), name))
            made[-1].meta.update(notes)
        return graph
