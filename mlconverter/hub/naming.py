"""Names for new values of a graph that no value has yet."""

from __future__ import annotations

import itertools

import onnx_ir as ir

from mlconverter.hub.walk import graphs


class Names:
    """The names that are taken in a model, nested graphs included.

    Args:
        model: whose values they are.
    """

    def __init__(self, model: ir.Model) -> None:
        self._taken: set[str] = set()
        for graph in graphs(model):
            values = (*graph.inputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs))
            self._taken.update(v.name for v in values if v.name)

    def new(self, wanted: str) -> str:
        """``wanted``, or it with the first number behind it that makes it new; it is taken from then on."""
        numbered = (f"{wanted}_{number}" for number in itertools.count(1))
        name = next(n for n in itertools.chain([wanted], numbered) if n not in self._taken)
        self._taken.add(name)
        return name
