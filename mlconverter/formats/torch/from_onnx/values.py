"""The three kinds of value that a translator meets: run-time tensors, constants, and sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import fx

from mlconverter.formats.torch.dtypes import DTYPES
from mlconverter.hub.weights import Step, simplify

Array = npt.NDArray[Any]

class UnknownAtConversion(Exception):
    """A translator asked for something that only the run time knows; the message says what."""


class Tensor(fx.Proxy):  # type: ignore[misc]
    """A run-time tensor while the graph is recorded, with what is known of it beforehand.

    Translators use it as they would a ``torch.Tensor``: whatever they do with it is recorded. Of a value of the
    ONNX graph dtype, rank and fixed sizes are known; of a translator's own intermediate results they are not.
    """

    _known_shape: tuple[int | None, ...] | None = None
    _known_dtype: torch.dtype | None = None
    _sizes: dict[int, Any]

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
        """Size along ``axis``: an integer where the model fixes it, else a recorded read."""
        axis %= max(self.ndim, 1)
        known = self.fixed(axis)
        if known is not None:
            return known
        sizes = self.__dict__.setdefault("_sizes", {})
        if axis not in sizes:
            sizes[axis] = self.size(axis)
        return sizes[axis]

    def fixed(self, axis: int) -> int | None:
        """Size along ``axis`` where the model fixes it."""
        return None if self._known_shape is None else self._known_shape[axis]

    def is_floating_point(self) -> bool:
        """Whether elements are real numbers."""
        return self.dtype.is_floating_point


class Tracer(fx.proxy.GraphAppendingTracer):  # type: ignore[misc]
    """Records into a graph and hands out :class:`Tensor`."""

    def proxy(self, node: fx.Node) -> Tensor:
        """The value of a node."""
        return Tensor(node, self)


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
        role: ``"parameter"`` or ``"buffer"`` where the source says so.
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


Value = Tensor | Const | Sizes

__all__ = ["DTYPES", "Array", "Const", "Ints", "Sizes", "Tensor", "Tracer", "UnknownAtConversion", "Value"]
