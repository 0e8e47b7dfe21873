"""Puts what was collected into a file: numbers for tensors, one buffer for equal constants, names at the border."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlconverter.formats.tflite.from_onnx.values import Array, Dims, Graph, Wire
from mlconverter.formats.tflite.metadata import About
from mlconverter.formats.tflite.structure import Model, Operator, SignatureDef, Subgraph, Tensor
from mlconverter.formats.tflite.writer import options, write
from mlconverter.signature import IOSignature

LONGEST_KEY = 64
"""Bytes of a constant by which candidates for being equal are found."""


def file_of(graph: Graph, signature: IOSignature, about: About | None = None) -> Model:
    """The file.

    Args:
        graph: the model, with one input and one output for each of the signature; operators that no output needs are left out.
        signature: the names under which inputs and outputs are known.
        about: what the file says of itself.
    """
    buffers = _Buffers()
    subgraphs: list[Subgraph] = []
    _add(graph, subgraphs, buffers)
    taken, given = subgraphs[0].inputs, subgraphs[0].outputs
    names = dict(zip(signature.input_names, taken, strict=True)), dict(zip(signature.output_names, given, strict=True))
    return write(subgraphs, buffers.listed, SignatureDef(signature.key, 0, *names), about)


def _add(graph: Graph, subgraphs: list[Subgraph], buffers: _Buffers) -> int:
    """Write a graph behind the others, and behind it those that its operators run; its number."""
    number = len(subgraphs)
    tensors = _Tensors(buffers, [*graph.inputs, *graph.outputs])
    subgraphs.append(Subgraph(graph.name, (), (), (), ()))  # keeps the place
    operators = []
    for index, operation in enumerate(graph.needed()):
        parts = {field: _add(part, subgraphs, buffers) for field, part in operation.graphs.items()}
        custom = operation.op == "CUSTOM"
        operators.append(
            Operator(
                index=index,
                op=operation.options["code"] if custom else operation.op,
                custom=custom,
                version=operation.version,
                inputs=tuple(-1 if i is None else tensors.number(i) for i in operation.inputs),
                outputs=tuple(map(tensors.number, operation.outputs)),
                options=None if custom else options(operation.op, **operation.options, **parts),
                custom_options=operation.options["options"] if custom else b"",
            )
        )
    taken, given = (tuple(map(tensors.number, wires)) for wires in (graph.inputs, graph.outputs))
    subgraphs[number] = Subgraph(graph.name, tuple(tensors.listed), tuple(operators), taken, given)
    return number


class _Tensors:
    """The tensors of a graph, in the order in which they are first met, after those of the border."""

    def __init__(self, buffers: _Buffers, border: Sequence[Wire]) -> None:
        self.listed: list[Tensor] = []
        self._buffers = buffers
        self._numbers: dict[Wire, int] = {}
        self._names: set[str] = set()
        for wire in border:
            self._names.add(wire.name)
        for wire in border:
            self.number(wire, name=wire.name)

    def number(self, wire: Wire, name: str | None = None) -> int:
        """The number of a tensor."""
        found = self._numbers.get(wire)
        if found is None:
            found = self._numbers[wire] = len(self.listed)
            free = wire.data is None and None in wire.dims
            self.listed.append(
                Tensor(
                    index=found,
                    name=self._unique(wire.name) if name is None else name,
                    shape=tuple(1 if d is None else d for d in wire.dims),
                    shape_signature=_signature(wire.dims) if free else None,
                    dtype=wire.dtype,
                    buffer=0 if wire.data is None else self._buffers.number(wire.data),
                    quantization=wire.quantization,
                )
            )
        return found

    def _unique(self, name: str) -> str:
        result, number = name, 1
        while result in self._names:
            number += 1
            result = f"{name}__{number}"
        self._names.add(result)
        return result


class _Buffers:
    """The constants of the file, those of all its graphs."""

    def __init__(self) -> None:
        self.listed: list[Array | Callable[[], Array]] = []
        self._alike: dict[tuple[Any, ...], list[tuple[int, Array]]] = {}

    def number(self, data: Array | Callable[[], Array]) -> int:
        """The number of a constant, that of an equal one where there is one; no buffer holds nothing."""
        if callable(data):
            self.listed.append(data)
            return len(self.listed)
        if not data.size:
            return 0
        key = (data.dtype.str, data.nbytes, data.flat[: LONGEST_KEY // data.itemsize].tobytes())
        alike = self._alike.setdefault(key, [])
        for number, other in alike:
            if other.shape == data.shape and _same_bits(other, data):
                return number
        self.listed.append(data)
        alike.append((len(self.listed), data))
        return len(self.listed)


def _same_bits(a: Array, b: Array) -> bool:
    """Whether two constants are stored alike; as bits, since NaN is no number and zero has two signs."""
    if a is b:
        return True
    bits = f"u{a.itemsize}" if a.itemsize in (1, 2, 4, 8) else a.dtype
    return bool(np.array_equal(np.ascontiguousarray(a).view(bits), np.ascontiguousarray(b).view(bits)))


def _signature(dims: Dims) -> tuple[int, ...]:
    return tuple(-1 if d is None else d for d in dims)
