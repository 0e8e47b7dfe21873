"""Writes the ONNX graph: nodes, constants, and values in the axis order that an operator asks for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.layout import Order
from mlconverter.formats.tflite.structure import Array, Tensor
from mlconverter.formats.tflite.to_onnx.operands import Constant, Dims, Operand, Runtime, Stored
from mlconverter.formats.tflite.to_onnx.weights import WeightTable
from mlconverter.hub.weights import WeightLink
from mlconverter.signature import Quantization

OPSET = 20
"""The ONNX operator set that is written: the first with Gelu, after Resize learned axes and reductions axes as inputs."""

SIXTEEN_BITS = 21
"""The first operator set that quantises to 16 bits."""

IR_VERSION = 10

LARGEST_WHOLE = 2147483520
"""The largest 32-bit integer that single precision has."""

INT64_MAX = int(np.iinfo(np.int64).max)

UNLIMITED = (-np.inf, np.inf)


class Builder:
    """Collects the nodes and initializers of one graph.

    Args:
        reserved: names that no value inside the graph may take: those of its inputs and outputs.

    Attributes:
        variables: what variables are at present, by name, or by number where a tensor is one.
        inline: translates a subgraph of the file into a builder and gives its results.
        handed_out: values that are outputs already.
        limits: between which the results of the operator at hand are quantised.
    """

    inline: Callable[[Builder, int, Sequence[Any]], list[Any]]

    def __init__(self, reserved: Iterable[str]) -> None:
        self.nodes: list[ir.Node] = []
        self.variables: dict[str | int, Operand] = {}
        self.handed_out: set[ir.Value] = set()
        self._named: set[ir.Value] = set()
        self._root = self
        self.initializers: list[ir.Value] = []
        self._names = set(reserved)
        self._node_names: set[str] = set()
        self._prefix = ""
        self._constants: dict[tuple[str, tuple[int, ...], bytes], ir.Value] = {}
        self._weights = WeightTable(self)
        self._dequantized: dict[tuple[ir.Value, Quantization], ir.Value] = {}
        self.limits = UNLIMITED
        self.opset = OPSET

    @property
    def links(self) -> tuple[WeightLink, ...]:
        """How the initializers that are weights come from the file."""
        return tuple(self._weights.links)

    def enter(self, name: str, limits: tuple[float, float] = UNLIMITED) -> None:
        """Name the nodes that follow after an operator of the file, whose results are quantised within limits."""
        self._prefix, self.limits = name, limits

    def nested(self) -> Builder:
        """A builder of a graph of a node: constants stand in the outermost graph, names are its own nowhere."""
        inner = copy.copy(self)
        inner.nodes, inner.handed_out = [], set()
        inner.variables, inner._dequantized = dict(self.variables), {}
        return inner

    def closed(self, inputs: Sequence[ir.Value], outputs: Iterable[ir.Value]) -> ir.Graph:
        """The graph of a node; what it gives has to be computed in it, and once."""
        given = []
        for value in outputs:
            again = value if self.has_made(value) and value not in self.handed_out else self.emit("Identity", value)
            self.handed_out.add(again)
            given.append(again)
        return ir.Graph(inputs, given, nodes=self.nodes, name=self._prefix)

    def has_made(self, value: ir.Value) -> bool:
        """Whether a value is computed in this graph."""
        return value.producer() is not None and value.producer() in self.nodes

    # Nodes

    def emit(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Append a node with one output."""
        return self.emit_several(op_type, 1, *inputs, **attributes)[0]

    def emit_several(self, op_type: str, count: int, *inputs: ir.Value | None, **attributes: Any) -> Sequence[ir.Value]:
        """Append a node with several outputs."""
        node = ir.Node(
            "",
            op_type,
            inputs,
            ir.convenience.convert_attributes(attributes),
            num_outputs=count,
            name=self._unique(f"{self._prefix}/{op_type}", self._node_names),
        )
        for value in node.outputs:
            value.name = self.unique(f"{self._prefix}/{op_type}")
        self.nodes.append(node)
        return node.outputs

    def quantize(self, stored: Stored, grid: Quantization, dtype: str) -> Stored:
        """The integers that stand for real numbers."""
        if dtype == "int16":
            self._root.opset = SIXTEEN_BITS
        if dtype != "int32":
            return Stored(self.emit("QuantizeLinear", stored.value, *self._settings(grid, dtype)), stored.order)
        # There is no QuantizeLinear to 32 bits.
        steps = self.emit("Round", self.emit("Div", stored.value, self.scalar(float(np.float32(grid.scale[0])), "float32")))
        whole = self.emit("Add", steps, self.scalar(grid.zero_point[0], "float32")) if grid.zero_point[0] else steps
        bounds = (self.scalar(sign * LARGEST_WHOLE, "float32") for sign in (-1, 1))
        return Stored(self.cast(self.emit("Clip", whole, *bounds), dtype), stored.order)

    def dequantize(self, whole: ir.Value, grid: Quantization, dtype: str) -> ir.Value:
        """The real numbers that integers stand for; a grid's axis is a stored one."""
        key = (whole, grid)
        if key not in self._dequantized:
            if dtype == "int16":
                self._root.opset = SIXTEEN_BITS
            attributes = {} if grid.axis is None else {"axis": grid.axis}
            self._dequantized[key] = self.emit("DequantizeLinear", whole, *self._settings(grid, dtype), **attributes)
        return self._dequantized[key]

    def _settings(self, grid: Quantization, dtype: str) -> list[ir.Value]:
        values = (np.asarray(grid.scale, np.float32), np.asarray(grid.zero_point, dtype))
        scale, zero = (v.reshape(()) if grid.axis is None else v for v in values)
        return [self.array(scale, "scale"), *([] if dtype == "int32" else [self.array(zero, "zero_point")])]

    def held(self, tensor: Tensor, dims: Dims, value: ir.Value, order: Order | None = None) -> Runtime:
        """A tensor of which the graph has what the file has; of integers the real numbers that they stand for are seen."""
        order = layout.logical(len(dims)) if order is None else order
        self._named.add(value)
        if tensor.grid is None:
            return Runtime(tensor.name, dims, tensor.dtype, {order: value})
        real = self.dequantize(value, tensor.grid, tensor.dtype)
        return Runtime(tensor.name, dims, "float32", {order: real}, tensor.grid, Stored(value, order), tensor.dtype)

    def given(self, operand: Operand) -> ir.Value:
        """What the file has of an operand, in its own order."""
        value, order = self.whole(operand)
        if order == layout.logical(operand.rank):
            return value
        return self.emit("Transpose", value, perm=list(layout.permutation(order, layout.logical(operand.rank))))

    def name(self, stored: Stored, name: str, dims: Dims, dtype: str) -> None:
        """Name a value after the tensor of the file that it is; one that is another tensor, too, keeps its name."""
        value, order = stored
        if value not in self._named:
            self._named.add(value)
            value.name = self.unique(name)
            value.shape, value.type = ir.Shape(layout.arranged(order, dims)), onnx_type(dtype)

    def whole(self, operand: Operand) -> Stored:
        """The integers that stand for an operand, or itself where it is plain."""
        if isinstance(operand, Constant):
            return Stored(self.array(operand.whole, operand.name), layout.logical(operand.rank))
        if operand.grid is None:
            return operand.first
        if operand.whole is None:
            operand.whole = self.quantize(operand.first, operand.grid, operand.stored_dtype)
        return operand.whole

    def cast(self, value: ir.Value, dtype: str) -> ir.Value:
        """The value converted to another dtype."""
        return self.emit("Cast", value, to=onnx_number(dtype))

    def unique(self, name: str) -> str:
        """A name for a value that no other has."""
        return self._unique(name, self._names)

    @staticmethod
    def _unique(name: str, taken: set[str]) -> str:
        name = name or "value"
        result, number = name, 1
        while result in taken:
            number += 1
            result = f"{name}__{number}"
        taken.add(result)
        return result

    # Small constants, which are no weights

    def array(self, values: Array, name: str = "") -> ir.Value:
        """An initializer that is no weight; equal ones are one."""
        key = (values.dtype.name, values.shape, values.tobytes())
        if key not in self._constants:
            self._constants[key] = self.initializer(name or "constant", values)
        return self._constants[key]

    def ints(self, values: Iterable[int]) -> ir.Value:
        """A one-dimensional int64 initializer."""
        return self.array(np.asarray(list(values), np.int64))

    def scalar(self, value: float | int | bool, dtype: str) -> ir.Value:
        """A rank-0 initializer."""
        return self.array(np.asarray(value, dtype))

    def initializer(self, name: str, values: Array) -> ir.Value:
        """A new initializer; the array is taken as it is, not copied."""
        value = ir.Value(name=self.unique(name), shape=ir.Shape(values.shape), type=onnx_type(values.dtype.name))
        value.const_value = ir.Tensor(values, name=value.name)
        self.initializers.append(value)
        return value

    # Operands in the order that is asked for

    def ask(self, operand: Operand, order: Order | None = None, *, weight: bool = False) -> ir.Value:
        """The operand in an order, by default the file's own.

        A constant is permuted now, which costs nothing at run time. For a computed value a Transpose is written the
        first time that an order is asked for in which the graph does not have it.

        Args:
            operand: a constant or a computed value.
            order: the order in which its axes shall be stored.
            weight: the operand is a weight by its place in the operator, even where it has a single element.
        """
        order = layout.logical(operand.rank) if order is None else order
        if isinstance(operand, Constant):
            return self._constant(operand.transposed(order), weight=weight)
        if order not in operand.orders:
            source = operand.first
            operand.orders[order] = self.emit("Transpose", source.value, perm=list(layout.permutation(source.order, order)))
        return operand.orders[order]

    def as_is(self, operand: Operand) -> Stored:
        """The operand in the order that is there."""
        if isinstance(operand, Constant):
            return Stored(self.ask(operand), layout.logical(operand.rank))
        return operand.first

    def together(self, *operands: Operand) -> tuple[Order, list[ir.Value]]:
        """Operands that are broadcast against each other, in one order and with their axes aligned."""
        rank = max(o.rank for o in operands)
        available = [tuple(o.orders) for o in operands if isinstance(o, Runtime) and o.rank == rank]
        order = layout.most_common(available) if available else layout.logical(rank)
        return order, [self.broadcast(o, order) for o in operands]

    def broadcast(self, operand: Operand, order: Order, *, weight: bool = False) -> ir.Value:
        """An operand of the same or a lower rank, ready to be broadcast against a value that is stored as ``order``.

        Ranks are aligned as numpy does it for the logical axes, before anything is permuted.
        """
        own = layout.trailing(order, operand.rank)
        gaps = layout.broadcast_gaps(order, operand.rank)
        if not gaps:
            return self.ask(operand, own, weight=weight)
        # Leading axes of size 1 are left away, so positions count from the first axis that the operand has.
        left_away = len(order) - operand.rank - len(gaps)
        axes = [gap - left_away for gap in gaps]
        if isinstance(operand, Runtime):
            return self.emit("Unsqueeze", self.ask(operand, own), self.ints(axes))
        shape = list(layout.arranged(own, operand.dims))
        for axis in axes:
            shape.insert(axis, 1)
        return self._constant(operand.transposed(own).reshaped(tuple(shape)), weight=weight)

    def _constant(self, constant: Constant, *, weight: bool) -> ir.Value:
        if not constant.dtype.startswith("float") or (constant.whole.size <= 1 and not weight):
            return self.array(constant.value, constant.name)
        if constant.grid is None or constant.whole.dtype == np.int64:  # which ONNX does not dequantise
            return self._weights.value(constant.real)
        return self._root.dequantize(self._weights.value(constant), constant.grid, constant.whole.dtype.name)


def onnx_type(dtype: str) -> ir.TensorType:
    """The ONNX tensor type of a numpy dtype's name."""
    return ir.TensorType(ir.DataType.from_numpy(np.dtype(dtype)))


def onnx_number(dtype: str) -> int:
    """The number of a dtype in ONNX, as ``Cast`` takes it."""
    return int(ir.DataType.from_numpy(np.dtype(dtype)))
