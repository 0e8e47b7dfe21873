"""The kinds of value that a translator meets: constants, sizes, and tensors that are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlconverter.formats.tflite.from_onnx.ops import Refused
from mlconverter.formats.tflite.layout import Order
from mlconverter.hub.sizes import never_negative
from mlconverter.signature import Quantization

Array = npt.NDArray[Any]

Dims = tuple[int | None, ...]
"""A shape; ``None`` is a dimension that only the run time knows."""


@dataclass(frozen=True, eq=False)
class Meaning:
    """How quantised values were computed.

    Attributes:
        grid: what the integers stand for.
        other: of integers the real numbers that they were made of, of real numbers the integers.
    """

    grid: Quantization
    other: Wire


@dataclass(eq=False)
class Wire:
    """A tensor of the TFLite graph.

    Attributes:
        name: a wish; the file makes it unique.
        dims: as stored.
        dtype: as stored.
        data: for constants the elements, or a function that makes them when they are written.
        is_weight: whether the constant may be stored in half precision.
        quantization: what the file says that integers stand for.
        meaning: of what was quantised or dequantised.
    """

    name: str
    dims: Dims
    dtype: str
    data: Array | Callable[[], Array] | None = None
    is_weight: bool = False
    quantization: Quantization | None = None
    meaning: Meaning | None = None

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.dims)

    @property
    def array(self) -> Array:
        """The elements of a constant."""
        assert self.data is not None
        return self.data() if callable(self.data) else self.data


class Stored(NamedTuple):
    """A tensor of the TFLite graph and the order in which it holds the axes of an ONNX value."""

    wire: Wire
    order: Order


@dataclass(eq=False)
class Runtime:
    """A value that is computed, with every order in which the TFLite graph has it so far.

    Attributes:
        dims: logical shape.
        dtype: of the ONNX value; half precision is computed in single precision.
        orders: tensors by order; the first is the one that its operator gave.
        sole: one node alone reads it, and it is no output of the graph.
        parts: the vectors that it joins, where it is a vector that joins others.
    """

    name: str
    dims: Dims
    dtype: str
    orders: dict[Order, Wire]
    sole: bool = False
    parts: tuple[Value, ...] = ()

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.dims)

    @property
    def first(self) -> Stored:
        """The form that its operator gave."""
        order, wire = next(iter(self.orders.items()))
        return Stored(wire, order)

    def length(self, axis: int) -> int | Size:
        """The size along an axis, a number where the model fixes it."""
        known = self.dims[axis]
        return Size("length", (self, axis % self.rank)) if known is None else known

    @property
    def sizes(self) -> list[int | Size]:
        """The size along every axis."""
        return [self.length(axis) for axis in range(self.rank)]


@dataclass(frozen=True, eq=False)
class Constant:
    """A value that is known at conversion.

    Attributes:
        value: a view of the model's own memory wherever possible.
        is_weight: whether it is a weight, which may be stored in half precision.
    """

    value: Array
    name: str = ""
    is_weight: bool = False

    @property
    def dims(self) -> tuple[int, ...]:
        """Logical shape."""
        return self.value.shape

    @property
    def rank(self) -> int:
        """Number of axes."""
        return self.value.ndim

    @property
    def dtype(self) -> str:
        """Numpy's name of the element type."""
        return self.value.dtype.name

    def number(self) -> float | int | bool:
        """The only element as a Python number."""
        value: float | int | bool = self.value.reshape(-1)[0].item()
        return value


Operand = Runtime | Constant


@dataclass(frozen=True)
class Size:
    """An integer that the run time knows: the length of an axis, an element of a tensor, and arithmetic on such.

    Attributes:
        op: ``"length"``, ``"element"``, or the TFLite operator that computes it.
        args: a value and its axis, a tensor and a position in it, or the operands.
    """

    op: str
    args: tuple[Any, Any]

    def __add__(self, other: Any) -> Any:
        return self._with("ADD", self, other) if not _is(other, 0) else self

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __sub__(self, other: Any) -> Any:
        return 0 if other == self else self._with("SUB", self, other) if not _is(other, 0) else self

    def __rsub__(self, other: Any) -> Any:
        return self._with("SUB", other, self)

    def __mul__(self, other: Any) -> Any:
        return 0 if _is(other, 0) else self if _is(other, 1) else self._with("MUL", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __floordiv__(self, other: Any) -> Any:
        if _is(other, 1):
            return self
        if self.op == "MUL" and self.args[1] == other:
            return self.args[0]
        return self._with("FLOOR_DIV", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with("FLOOR_DIV", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._with("FLOOR_MOD", self, other)

    def towards_zero(self, divisor: int) -> Any:
        """Divided by a positive number, towards zero: what is above zero and what is below, each rounded down."""
        above, below = (Size("MAXIMUM", (part, 0)) for part in (self, 0 - self))
        return above // divisor - below // divisor

    def never_negative(self) -> bool:
        """Whether it is the length of an axis, or made of such by nothing that goes below zero."""
        keeps_sign = self.op in ("ADD", "MUL", "FLOOR_DIV", "FLOOR_MOD")
        return self.op == "length" or (keeps_sign and all(never_negative(a) for a in self.args))

    @staticmethod
    def _with(op: str, a: Any, b: Any) -> Any:
        if not all(isinstance(x, (int, np.integer, Size)) for x in (a, b)):
            return NotImplemented
        return Size(op, (a if isinstance(a, Size) else int(a), b if isinstance(b, Size) else int(b)))


def _is(value: Any, number: int) -> bool:
    return isinstance(value, (int, np.integer)) and value == number


@dataclass(frozen=True)
class Sizes:
    """Shape arithmetic that stays out of the graph: an object array of integers and sizes."""

    array: Array
    dtype: str = "int64"


class Ints(list[Any]):
    """Integers known at conversion; some may be sizes that the run time knows."""

    def fixed(self, what: str) -> list[int]:
        """The integers, none of them a size that is only known at run time.

        Raises:
            Refused: one of them is.
        """
        if not all(isinstance(i, int) for i in self):
            raise Refused(f"{what} depends on the size of an input")
        return list(self)


Value = Runtime | Constant | Sizes


@dataclass(eq=False)
class Operation:
    """An operator of the TFLite graph.

    Attributes:
        inputs: ``None`` for an optional input that is left out.
        options: fields of its options table; of a custom operator its code and its options.
        graphs: the subgraphs that it runs, by the field of its options that names each.
    """

    op: str
    inputs: list[Wire | None]
    outputs: list[Wire]
    options: dict[str, Any] = field(default_factory=dict)
    version: int = 1
    graphs: dict[str, Graph] = field(default_factory=dict)


@dataclass(eq=False)
class Graph:
    """A graph of the file: the model itself, a branch, or a part of a loop.

    Attributes:
        operations: in order of execution; they may read tensors of the graph around it, which have to be inputs in the end.
    """

    name: str
    operations: list[Operation]
    inputs: list[Wire]
    outputs: list[Wire]

    def needed(self) -> list[Operation]:
        """The operators that the outputs depend on, and those that give nothing, since they do something."""
        wanted = set(self.outputs)
        found = []
        for operation in reversed(self.operations):
            if not operation.outputs or not wanted.isdisjoint(operation.outputs):
                wanted.update(i for i in operation.inputs if i is not None)
                found.append(operation)
        return found[::-1]

    def outside(self) -> list[Wire]:
        """The tensors that it reads and that nothing in it gives, in the order in which they are first met."""
        given = set(self.inputs)
        found: dict[Wire, None] = {}
        for operation in self.needed():
            found.update((i, None) for i in operation.inputs if i is not None and i.data is None and i not in given)
            given.update(operation.outputs)
        found.update((o, None) for o in self.outputs if o.data is None and o not in given)
        return list(found)


def known(dims: Sequence[int | Size]) -> Dims:
    """Sizes as a shape."""
    return tuple(d if isinstance(d, int) else None for d in dims)


def broadcast_dims(*shapes: Dims) -> Dims:
    """The shape that shapes are broadcast to."""
    rank = max(map(len, shapes))
    result: list[int | None] = []
    for axis in range(-rank, 0):
        sizes = [s[axis] for s in shapes if len(s) >= -axis]
        fixed = [s for s in sizes if s not in (1, None)]
        result.append(fixed[0] if fixed else None if None in sizes else 1)
    return tuple(result)
