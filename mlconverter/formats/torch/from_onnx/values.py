"""The kinds of value that a translator meets: run-time tensors, constants, sizes, and constants that the graph moves about."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import fx

from mlconverter.formats.torch.dtypes import CARRIED
from mlconverter.formats.torch.dtypes import DTYPES as TORCH_DTYPES
from mlconverter.hub.nodes import Call
from mlconverter.hub.weights import Step, simplify

Array = npt.NDArray[Any]

DTYPES: dict[str, torch.dtype] = {
    **TORCH_DTYPES,
    **CARRIED,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e4m3fnuz": torch.float8_e4m3fnuz,
    "float8_e5m2": torch.float8_e5m2,
    "float8_e5m2fnuz": torch.float8_e5m2fnuz,
    "float8_e8m0fnu": torch.float8_e8m0fnu,
}
"""The dtypes of tensors by numpy's name of the element type."""


class Integer(NamedTuple):
    """An integer type: its width, and the numbers it holds."""

    bits: int
    low: int
    high: int


INTEGERS = {
    f"{sign}int{bits}": Integer(bits, 0 if sign else -(1 << bits - 1), (1 << (bits if sign else bits - 1)) - 1)
    for sign in ("", "u")
    for bits in (2, 4, 8, 16, 32, 64)
}
"""Integer types by numpy's name."""


class UnknownAtConversion(Exception):
    """A translator asked for something that only the run time knows; the message says what."""


class Recorded(fx.Proxy):
    """A run-time tensor while the graph is recorded, with what is known of it beforehand.

    Translators use it as they would a ``torch.Tensor``: whatever they do with it is recorded. Of a value of the
    ONNX graph dtype, rank and fixed sizes are known; of a translator's own intermediate results they are not.
    """

    _known_shape: tuple[int | None, ...] | None = None
    _known_dtype: torch.dtype | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # numpy asks for its own protocols, which are nothing to record
        return super().__getattr__(name)

    @property
    def ndim(self) -> int:
        """Rank.

        Raises:
            UnknownAtConversion: shape inference could not tell.
        """
        if self._known_shape is None:
            raise UnknownAtConversion(f"the rank of '{self.node.name}' is not known before the model runs")
        return len(self._known_shape)

    @property
    def dtype(self) -> torch.dtype:
        """Element type.

        Raises:
            UnknownAtConversion: shape inference could not tell.
        """
        if self._known_dtype is None:
            raise UnknownAtConversion(f"the dtype of '{self.node.name}' is not known before the model runs")
        return self._known_dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes: integers where the model fixes them, recorded reads of the run-time size elsewhere."""
        return tuple(self.length(axis) for axis in range(self.ndim))

    def length(self, axis: int) -> Any:
        """See :func:`length`."""
        axis %= max(self.ndim, 1)
        known = None if self._known_shape is None else self._known_shape[axis]
        if known is not None:
            return known
        sizes = self.__dict__.setdefault("_sizes", {})
        if axis not in sizes:
            sizes[axis] = self.size(axis)
        return sizes[axis]

    def is_floating_point(self) -> bool:
        """Whether elements are real numbers."""
        return self.dtype.is_floating_point

    def never_negative(self) -> bool:
        """Whether this is the length of an axis, or made of such by nothing that goes below zero."""
        return _never_negative(self.node)


_KEEPS_SIGN = (operator.add, operator.mul, operator.floordiv, operator.mod)


def _never_negative(node: Any) -> bool:
    if isinstance(node, int):
        return node >= 0
    if not isinstance(node, fx.Node):
        return False
    if node.op == "call_method":
        return node.target == "size"
    return node.op == "call_function" and node.target in _KEEPS_SIGN and all(map(_never_negative, node.args))


if TYPE_CHECKING:
    # A translator is ordinary torch code, and is checked as such.
    from torch import Tensor as Tensor  # noqa: PLC0414 - what is said twice is exported
else:
    Tensor = Recorded


def length(x: Tensor, axis: int) -> Any:
    """Size along ``axis``: an integer where the model fixes it, else a recorded read, always the same one."""
    return cast(Recorded, x).length(axis)


def fixed(x: Tensor, axis: int) -> int | None:
    """Size along ``axis`` where the model fixes it."""
    known = cast(Recorded, x)._known_shape
    return None if known is None else known[axis]


def is_length(size: Any, x: Tensor, axis: int) -> bool:
    """Whether a size is the size of ``x`` along ``axis``, whatever it will be."""
    if isinstance(size, int):
        return fixed(x, axis) == size
    recorded = cast(Recorded, x)
    return recorded._known_shape is not None and size is recorded.__dict__.get("_sizes", {}).get(axis)


def rank_of(x: Tensor) -> int | None:
    """Rank where it is known."""
    known = cast(Recorded, x)._known_shape
    return None if known is None else len(known)


def shape_of(x: Tensor) -> tuple[int | None, ...] | None:
    """Sizes as far as the model fixes them, ``None`` where not even the rank is known."""
    return cast(Recorded, x)._known_shape


def dtype_of(x: Tensor) -> torch.dtype | None:
    """Element type where it is known."""
    return cast(Recorded, x)._known_dtype


def know(tensor: Tensor | fx.Proxy, shape: tuple[int | None, ...] | None, dtype: torch.dtype | None) -> Tensor:
    """Say what is known of a recorded tensor; what was said first stays."""
    recorded = cast(Recorded, tensor)
    if recorded._known_shape is None:
        recorded._known_shape = shape
    if recorded._known_dtype is None:
        recorded._known_dtype = dtype
    return cast("Tensor", recorded)


class Tracer(fx.proxy.GraphAppendingTracer):
    """Records into a graph and hands out :class:`Recorded`."""

    def proxy(self, node: fx.Node) -> Recorded:
        """The value of a node."""
        return Recorded(node, self)


class Ints(list[Any]):
    """Integers known at conversion; some may be recorded reads of a run-time size."""

    def fixed(self, what: str) -> list[int]:
        """The integers, none of them a run-time size.

        Raises:
            UnknownAtConversion: one of them is.
        """
        if not all(isinstance(i, int) for i in self):
            raise UnknownAtConversion(f"{what} depends on the size of an input")
        return list(self)


@dataclass(frozen=True)
class Sizes:
    """Shape arithmetic that stays out of tensors: an object array of integers and recorded sizes."""

    array: Array
    dtype: str = "int64"


@dataclass(frozen=True, eq=False)
class Const:
    """A constant, perhaps a weight seen through steps.

    Attributes:
        value: the array as the operator sees it.
        name: the ONNX value's name.
        weight: name under which the weight's links know it, ``None`` for constants that are no weight.
        steps: from the initializer to ``value``.
        role: ``"parameter"``, ``"frozen"`` or ``"buffer"`` where the source says so.
    """

    value: Array
    name: str
    weight: str | None = None
    steps: tuple[Step, ...] = ()
    role: str | None = None

    def seen(self, *steps: Step) -> Const:
        """The same constant seen through more steps; nothing is copied."""
        value = self.value
        for step in steps:
            value = step.get(value)
        return replace(self, value=value, steps=simplify((*self.steps, *steps)))

    @property
    def is_number(self) -> bool:
        """Whether this is one plain number that code can spell out."""
        return self.weight is None and self.value.size == 1 and self.value.dtype.kind in "fiub"

    def number(self) -> float | int | bool:
        """The only element as a Python number."""
        value: float | int | bool = np.asarray(self.value).reshape(-1)[0].item()
        return value


@dataclass(frozen=True, eq=False)
class Moved:
    """What moving the elements of constants gives; it is recorded only where something computes with it.

    Attributes:
        call: the node that moves them.
        inputs: of that node.
        output: which of its outputs this is.
        outputs: how many it has.
        record: gives the value as a tensor.
    """

    call: Call
    inputs: tuple[Const | Moved | None, ...]
    output: int
    outputs: int
    record: Callable[[], Tensor]


Value = Tensor | Const | Sizes | Moved
