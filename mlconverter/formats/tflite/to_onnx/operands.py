"""What translators are handed: the node, and its inputs as constants of the file or values of the graph."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlconverter.errors import TranslationError
from mlconverter.formats.tflite.layout import Order
from mlconverter.formats.tflite.structure import Array, Model, Operator, Subgraph, Tensor
from mlconverter.hub.weights import Dequantize, Reshape, Step, Transpose, WeightLink, simplify
from mlconverter.signature import Quantization

if TYPE_CHECKING:
    import onnx_ir as ir

Dims = tuple[int | None, ...]
"""A logical shape; ``None`` is a free dimension."""


class Stored(NamedTuple):
    """A value of the ONNX graph and the order in which it holds the axes of a TFLite tensor."""

    value: ir.Value
    order: Order


@dataclass(eq=False)
class Runtime:
    """A tensor that is computed, with every order in which the graph has it so far.

    A quantised tensor is the real numbers that it stands for; that they lie on its grid is for the graph to see to.

    Attributes:
        orders: the graph's values by order; the first is the one its operator gave.
        grid: how integers stand for the values, ``None`` where they are plain.
        whole: those integers, where the graph has them.
        stored_dtype: their dtype.
    """

    name: str
    dims: Dims
    dtype: str
    orders: dict[Order, ir.Value]
    grid: Quantization | None = None
    whole: Stored | None = None
    stored_dtype: str = ""

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.dims)

    @property
    def first(self) -> Stored:
        """The form that its operator gave."""
        order, value = next(iter(self.orders.items()))
        return Stored(value, order)

    def seen_inside(self) -> Runtime:
        """The same tensor for a graph of a node: what that makes of it is not there outside."""
        return replace(self, orders=dict(self.orders))


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor whose data are in the file, seen through a chain of steps that nothing has evaluated yet.

    Attributes:
        source: source key of its buffer.
        stored: the buffer's elements, as the file has them.
        dims: its logical shape.
        steps: from the stored elements to the value, or to the integers that stand for it.
        grid: how integers stand for the value, its axis being a logical one; ``None`` where it is plain.
        packed: the type of the integers, where it is one that a byte holds several of.
    """

    name: str
    source: str
    stored: Array
    dims: tuple[int, ...]
    dtype: str
    steps: tuple[Step, ...] = ()
    grid: Quantization | None = None
    packed: str = ""

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.dims)

    @cached_property
    def value(self) -> Array:
        """The elements, evaluated once; a view of the file's bytes wherever the steps allow it."""
        return self.whole if self.grid is None else _dequantizing(self.grid, self.whole, self.packed).get(self.whole)

    @cached_property
    def whole(self) -> Array:
        """The integers that stand for the value; the value itself where there are none."""
        return WeightLink(self.source, "", self.steps).get(self.stored)

    @property
    def real(self) -> Constant:
        """The constant with its integers turned into what they stand for, as a step of its chain."""
        if self.grid is None:
            return self
        return replace(self, steps=(*self.steps, _dequantizing(self.grid, self.whole, self.packed)), grid=None)

    def reshaped(self, dims: tuple[int, ...]) -> Constant:
        """The constant under another shape."""
        if dims == self.dims:
            return self
        if self.grid is None or self.grid.axis is None:
            return self.then(Reshape(dims), dims)
        axis = _same_axis(self.dims, dims, self.grid.axis)
        if axis is None:
            return self.real.then(Reshape(dims), dims)
        return replace(self.then(Reshape(dims), dims), grid=replace(self.grid, axis=axis))

    def transposed(self, perm: Order) -> Constant:
        """The constant with its axes in another order."""
        if perm == tuple(range(len(perm))):
            return self
        moved = self.then(Transpose(perm), tuple(self.dims[axis] for axis in perm))
        if self.grid is None or self.grid.axis is None:
            return moved
        return replace(moved, grid=replace(self.grid, axis=perm.index(self.grid.axis)))

    def then(self, step: Step, dims: tuple[int, ...] | None = None, dtype: str | None = None) -> Constant:
        """The constant seen through one more step, which gives it other dimensions or another dtype."""
        return replace(
            self,
            dims=self.dims if dims is None else dims,
            dtype=dtype or self.dtype,
            steps=simplify((*self.steps, step)),
        )


@dataclass(frozen=True)
class Variable:
    """A handle of a variable, by which operators read and assign it.

    Attributes:
        name: of the variable.
    """

    name: str
    dims: Dims = ()
    dtype: str = "resource"
    grid: Quantization | None = None

    @property
    def rank(self) -> int:
        """Number of axes, of which a handle has none."""
        return 0


Operand = Runtime | Constant


def _dequantizing(grid: Quantization, whole: Array, packed: str) -> Dequantize:
    """The step from integers to what they stand for."""
    return Dequantize(grid.scale, grid.zero_point, grid.axis, packed or whole.dtype.name, whole.shape)


def _same_axis(before: tuple[int, ...], after: tuple[int, ...], axis: int) -> int | None:
    """Where an axis is found in another shape of the same elements, ``None`` where it was merged or split."""
    offset = prod(before[:axis])
    places = (i for i, size in enumerate(after) if size == before[axis] and prod(after[:i]) == offset)
    return next(places, None)


_BODIES = {
    "CALL": ("subgraph",),
    "STABLEHLO_COMPOSITE": ("decompositionSubgraphIndex",),
    "IF": ("thenSubgraphIndex", "elseSubgraphIndex"),
    "WHILE": ("condSubgraphIndex", "bodySubgraphIndex"),
}
"""Options that name the subgraphs which an operator runs in every call."""


@dataclass(frozen=True, eq=False)
class Op:
    """One operator of the file, with its tensors at hand.

    Attributes:
        free_batch: some input of the model has a free first dimension.
        free_sizes: some input of the model has another free dimension.
    """

    model: Model = field(repr=False)
    subgraph: Subgraph = field(repr=False)
    operator: Operator
    free_batch: bool = False
    free_sizes: bool = False

    @property
    def key(self) -> str:
        """The operator's name in the registry."""
        return f"custom::{self.operator.op}" if self.operator.custom else self.operator.op

    @property
    def version(self) -> int:
        """Version of the operator's schema."""
        return self.operator.version

    @property
    def name(self) -> str:
        """A name for the node: TFLite nodes have none, so its first output's."""
        return (self.outputs[0].name if self.operator.outputs else "") or f"{self.operator.op}_{self.operator.index}"

    @property
    def options(self) -> Any:
        """The schema's options object."""
        return self.operator.options

    @cached_property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """The input tensors, ``None`` for those left out."""
        return tuple(None if i < 0 else self.subgraph.tensors[i] for i in self.operator.inputs)

    @cached_property
    def quantized(self) -> bool:
        """Whether it computes with integers that stand for real numbers."""
        return any(t.grid is not None for t in self.outputs)

    @property
    def bodies(self) -> list[int]:
        """Numbers of the subgraphs that it runs in every call."""
        return [getattr(self.options, name) for name in _BODIES.get(self.key, ())]

    def of(self, number: int) -> list[Op]:
        """The operators of a subgraph of the file."""
        graph = self.model.subgraphs[number]
        return [replace(self, subgraph=graph, operator=operator) for operator in graph.operators]

    def dtype(self, index: int = 0) -> str:
        """The dtype of what an input stands for."""
        return self.tensor(index).real_dtype

    @cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        """The output tensors."""
        return tuple(self.subgraph.tensors[i] for i in self.operator.outputs)

    def input(self, index: int) -> Tensor | None:
        """One input tensor, ``None`` where there is none."""
        return self.inputs[index] if index < len(self.inputs) else None

    def constant(self, index: int) -> Array | None:
        """The data of an input that the file holds, ``None`` where it is computed or left out."""
        tensor = self.input(index)
        if tensor is None:
            return None
        if self.model.is_constant(tensor):
            return self.model.view(tensor)
        return np.zeros(0, tensor.dtype) if self._is_empty(tensor) else None

    def _is_empty(self, tensor: Tensor) -> bool:
        """Whether a tensor that nothing computes is a list without elements, for which a file holds no bytes."""
        if tensor.shape != (0,) or tensor.is_variable or tensor.index in self.subgraph.inputs:
            return False
        return all(tensor.index not in operator.outputs for operator in self.subgraph.operators)

    def parameter(self, index: int) -> Array:
        """The data of an input that the operator's check has found in the file."""
        values = self.constant(index)
        if values is None:
            raise TranslationError(self.name, self.key, f"input {index} is only known at run time")
        return values

    def tensor(self, index: int) -> Tensor:
        """One input tensor that the operator cannot do without."""
        tensor = self.input(index)
        if tensor is None:
            raise TranslationError(self.name, self.key, f"input {index} is missing")
        return tensor

    def dims(self, tensor: Tensor) -> Dims:
        """The logical shape of a tensor, with ``None`` for what the file leaves free or does not tell.

        Where the model's inputs have free dimensions and a tensor has no shape signature, its shape is only what
        it was for inputs of size 1.
        """
        if tensor.shape_signature is not None:
            return tuple(None if d < 0 else d for d in tensor.shape_signature)
        if self.model.is_constant(tensor) or tensor.index in self.model.stored_otherwise[id(self.subgraph)]:
            return tensor.shape
        if self.free_sizes:
            return (None,) * tensor.rank
        if self.free_batch and tensor.shape[:1] == (1,):
            return (None, *tensor.shape[1:])
        return tensor.shape

    @property
    def out_dims(self) -> Dims:
        """The logical shape of the first output."""
        return self.dims(self.outputs[0])
