"""Puts what was collected into a file: numbers for tensors, one buffer for equal constants, names at the border."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mlconverter.formats.tflite.from_onnx.values import Array, Dims, Operation, Wire
from mlconverter.formats.tflite.structure import Model, Operator, SignatureDef, Subgraph, Tensor
from mlconverter.formats.tflite.writer import options, write
from mlconverter.signature import IOSignature

LONGEST_KEY = 64
"""Bytes of a constant by which candidates for being equal are found."""


def file_of(operations: Sequence[Operation], inputs: Sequence[Wire], outputs: Sequence[Wire], signature: IOSignature) -> Model:
    """The file.

    Args:
        operations: in order of execution; those that no output needs are left out.
        inputs: one tensor for each input of the signature.
        outputs: one tensor for each output of the signature.
        signature: the names under which they are known.
    """
    tensors = _Tensors(*inputs, *outputs)
    operators = []
    for index, operation in enumerate(_needed(operations, outputs)):
        operators.append(
            Operator(
                index=index,
                op=operation.op,
                custom=False,
                version=operation.version,
                inputs=tuple(-1 if i is None else tensors.number(i) for i in operation.inputs),
                outputs=tuple(map(tensors.number, operation.outputs)),
                options=options(operation.op, **operation.options),
            )
        )
    taken, given = (tuple(map(tensors.number, wires)) for wires in (inputs, outputs))
    names = dict(zip(signature.input_names, taken, strict=True)), dict(zip(signature.output_names, given, strict=True))
    graph = Subgraph("main", tuple(tensors.listed), tuple(operators), taken, given)
    return write(graph, tensors.buffers, SignatureDef(signature.key, 0, *names))


def _needed(operations: Sequence[Operation], outputs: Iterable[Wire]) -> list[Operation]:
    """The operators that the outputs depend on."""
    wanted = set(outputs)
    needed = []
    for operation in reversed(operations):
        if not wanted.isdisjoint(operation.outputs):
            wanted.update(i for i in operation.inputs if i is not None)
            needed.append(operation)
    return needed[::-1]


class _Tensors:
    """The tensors of the file, in the order in which they are first met, after those of the border."""

    def __init__(self, *border: Wire) -> None:
        self.listed: list[Tensor] = []
        self.buffers: list[Array | Callable[[], Array]] = []
        self._numbers: dict[Wire, int] = {}
        self._names: set[str] = set()
        self._alike: dict[tuple[Any, ...], list[tuple[int, Array]]] = {}
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
                    buffer=0 if wire.data is None else self._buffer(wire.data),
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

    def _buffer(self, data: Array | Callable[[], Array]) -> int:
        """The buffer of a constant, that of an equal one where there is one; no buffer holds nothing."""
        if callable(data):
            self.buffers.append(data)
            return len(self.buffers)
        if not data.size:
            return 0
        key = (data.dtype.str, data.nbytes, data.flat[: LONGEST_KEY // data.itemsize].tobytes())
        alike = self._alike.setdefault(key, [])
        for number, other in alike:
            if other.shape == data.shape and _same_bits(other, data):
                return number
        self.buffers.append(data)
        alike.append((len(self.buffers), data))
        return len(self.buffers)


def _same_bits(a: Array, b: Array) -> bool:
    """Whether two constants are stored alike; as bits, since NaN is no number and zero has two signs."""
    if a is b:
        return True
    bits = f"u{a.itemsize}" if a.itemsize in (1, 2, 4, 8) else a.dtype
    return bool(np.array_equal(np.ascontiguousarray(a).view(bits), np.ascontiguousarray(b).view(bits)))


def _signature(dims: Dims) -> tuple[int, ...]:
    return tuple(-1 if d is None else d for d in dims)
