"""The names in an exported graph: those of weights, of inputs and outputs, and of free dimensions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from mlconverter.errors import ConversionError, SignatureError
from mlconverter.hub.model import BATCH
from mlconverter.signature import Dim

_WORD = re.compile(r"[A-Za-z_]\w*")


def without_prefix(graph: ir.Graph, prefix: str) -> None:
    """Take a prefix off the names of weights; whatever else has the name that is left makes way."""
    weights = [v for v in graph.initializers.values() if (v.name or "").startswith(prefix)]
    names = [(v.name or "").removeprefix(prefix) for v in weights]
    _rename(graph, weights, names)


def name_border(graph: ir.Graph, names: list[str]) -> None:
    """Give inputs and outputs, in this order, their names; whatever else has one of them makes way.

    Raises:
        SignatureError: two of them would have the same name.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SignatureError(f"Inputs and outputs need names of their own; {twice} are there more than once in {names}.")
    for position, value in enumerate(graph.outputs):
        # An output that is an input, a weight, or the same value as another output, has no name of its own to give.
        if value.producer() is None or value in graph.outputs[:position]:
            copy = ir.Node("", "Identity", [value], num_outputs=1)
            copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
            graph.append(copy)
            graph.outputs[position] = copy.outputs[0]
    _rename(graph, [*graph.inputs, *graph.outputs], names)


def _rename(graph: ir.Graph, renamed: Sequence[ir.Value], names: Sequence[str]) -> None:
    values = list(dict.fromkeys([*(v for node in graph for v in node.outputs), *graph.inputs, *graph.initializers.values()]))
    wanted, used = set(names), {*names, *(v.name for v in values)}
    for value in values:
        if value.name in wanted:
            number = next(n for n in itertools.count() if f"{value.name}_inner{n}" not in used)
            value.name = f"{value.name}_inner{number}"
            used.add(value.name)
    for value, name in zip(renamed, names, strict=True):
        value.name = name


def name_sizes(graph: ir.Graph, shapes: Sequence[tuple[Dim, ...]]) -> tuple[str, ...]:
    """Give free dimensions the names that were asked for, all over the graph; a first axis without one is the batch.

    Args:
        graph: its inputs have symbols for free dimensions, one for those that are always equal.
        shapes: of the inputs, as they were asked for.

    Returns:
        A note for each dimension that was given two names and turned out to be one.

    Raises:
        ConversionError: the graph fixes a dimension that has to be free.
    """
    asked: dict[str, list[str]] = {}
    first: list[str] = []
    for value, shape in zip(graph.inputs, shapes, strict=True):
        for axis, dim in enumerate(shape):
            if isinstance(dim, int):
                continue
            symbol = value.shape[axis] if value.shape is not None else None
            if not isinstance(symbol, ir.SymbolicDim) or symbol.value is None:
                raise ConversionError(f"the module fixes axis {axis} of '{value.name}' to the size of the example")
            asked.setdefault(symbol.value, []).extend([] if dim is None else [dim])
            first += [symbol.value] if axis == 0 else []
    names = {symbol: given[0] for symbol, given in asked.items() if given}
    unnamed = next((symbol for symbol in first if symbol not in names), None)
    if unnamed is not None and BATCH not in names.values():
        names[unnamed] = BATCH
    others = [symbol for symbol in asked if symbol not in names]
    names |= {symbol: _free_name(symbol, names.values()) for symbol in others}
    for value in [*graph.inputs, *(v for node in ir.traversal.RecursiveGraphIterator(graph) for v in node.outputs)]:
        if value.shape is not None:
            value.shape = ir.Shape([_named(d, names) for d in value.shape])
    groups = [list(dict.fromkeys(given)) for given in asked.values()]
    return tuple(
        f"The dimensions {', '.join(map(repr, group))} are always equal in this module, and called '{group[0]}'."
        for group in groups
        if len(group) > 1
    )


def _free_name(symbol: str, taken: Iterable[str]) -> str:
    names = set(taken)
    return next(n for i in itertools.count() if (n := symbol + "_" * i) not in names)


def _named(dim: int | ir.SymbolicDim, names: Mapping[str, str]) -> int | str | None:
    if isinstance(dim, int) or dim.value is None:
        return dim if isinstance(dim, int) else None
    if dim.value in names:
        return names[dim.value]
    words = {w for w in _WORD.findall(dim.value) if w in names}
    if not all(names[w].isidentifier() for w in words):
        return None  # an expression of a name that is no word could not be read
    return _WORD.sub(lambda match: names.get(match[0], match[0]), dim.value)
