"""Writes the TFLite graph: operators, constants, and values in the axis order that an operator asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.from_onnx.kernels import DATA_INPUT, KERNELS, ORDERS, STORED, fitting, refusal
from mlconverter.formats.tflite.from_onnx.ops import Refused
from mlconverter.formats.tflite.from_onnx.sizes import ints_of
from mlconverter.formats.tflite.from_onnx.values import (
    Array,
    Constant,
    Dims,
    Graph,
    Ints,
    Operand,
    Operation,
    Runtime,
    Size,
    Stored,
    Wire,
)
from mlconverter.formats.tflite.layout import Order
from mlconverter.hub.io import dim_of, numpy_name
from mlconverter.signature import Quantization

FAR = 2**31 - 1
"""From here on a bound means "all that there is"."""

Walk = Callable[["Builder", ir.Graph, Sequence[Operand]], list[Operand]]
"""Translates a graph of a node for the operands that are its inputs, and gives its outputs."""


def _nothing_to_translate(b: Builder, graph: ir.Graph, given: Sequence[Operand]) -> list[Operand]:
    raise Refused("a graph within a node that nothing translates")


class Builder:
    """Collects the operators of one graph.

    Attributes:
        operations: in order of execution.
        producers: which of them computes a tensor.
        shared: tensors of values that more than one node reads, or that are outputs of the graph.
        read: tensors whose elements an operator reads already.
        node: the ONNX node that is being translated.
        inputs: tensors that are handed to the graph.
        outer: what writes the graph around this one.
        grids: what constants were dequantised by, by their names.
    """

    def __init__(self, outer: Builder | None = None) -> None:
        self.outer = outer
        self.grids: dict[str, Quantization] = {} if outer is None else outer.grids
        self.inputs: set[Wire] = set()
        self.operations: list[Operation] = []
        self.producers: dict[Wire, Operation] = {}
        self.shared: set[Wire] = set()
        self.read: set[Wire] = set()
        self.node: ir.Node | None = None if outer is None else outer.node
        self.translate: Walk = _nothing_to_translate if outer is None else outer.translate
        self._forms: dict[tuple[Any, ...], Wire] = {}
        self._sizes: dict[Size | Wire, Wire] = {}

    # -- what the ONNX graph says of the node ------------------------------------------------------------------------

    def out_dims(self, position: int = 0, rank: int | None = None) -> Dims:
        """Logical shape of an output of the current node.

        Args:
            position: of the output.
            rank: what the translator knows of it, should shape inference know nothing.

        Raises:
            Refused: nobody knows the rank.
        """
        assert self.node is not None
        shape = self.node.outputs[position].shape
        if shape is None and rank is None:
            raise Refused("the rank of its result is only known at run time")
        if shape is None:
            return (None,) * (rank or 0)
        return tuple(d if isinstance(d := dim_of(dim), int) else None for dim in shape)

    def out_dtype(self, position: int = 0) -> str:
        """Element type of an output of the current node."""
        assert self.node is not None
        return numpy_name(self.node.outputs[position].dtype)

    def out_name(self) -> str:
        """Name of the first output of the current node."""
        assert self.node is not None
        return self.node.outputs[0].name or ""

    def is_read(self, position: int) -> bool:
        """Whether the current node has an output at a position, and anything uses it."""
        assert self.node is not None
        if position >= len(self.node.outputs):
            return False
        output = self.node.outputs[position]
        return bool(output.uses()) or output.is_graph_output()

    # -- operators ---------------------------------------------------------------------------------------------------

    def emit(self, op: str, *inputs: Wire | None, dims: Dims, dtype: str | None = None, version: int = 0, **options: Any) -> Wire:
        """Append an operator with one output.

        Args:
            op: the operator.
            *inputs: its inputs, ``None`` for optional ones that are left out.
            dims: shape of the output.
            dtype: element type of the output, that of the data by default.
            version: of the operator, where it is not the oldest.
            **options: fields of its options table.

        Raises:
            Refused: LiteRT has no kernel for such data.
        """
        return self.emit_several(op, *inputs, outputs=[(dims, dtype)], version=version, **options)[0]

    def emit_several(
        self,
        op: str,
        *inputs: Wire | None,
        outputs: Sequence[tuple[Dims, str | None]],
        version: int = 0,
        graphs: dict[str, Graph] | None = None,
        **options: Any,
    ) -> list[Wire]:
        """Append an operator with several outputs, and perhaps graphs that it runs; as :meth:`emit`."""
        data = inputs[DATA_INPUT.get(op, 0)]
        assert data is not None
        reason = refusal(op, data.dtype, max(data.rank, *(len(d) for d, _ in outputs)))
        if reason is not None:
            raise Refused(reason)
        made = [Wire(self._name(op), dims, dtype or data.dtype) for dims, dtype in outputs]
        operation = Operation(op, list(inputs), made, options, version or KERNELS[op].version, graphs or {})
        self.operations.append(operation)
        if op != "SHAPE":
            self.read.update(i for i in inputs if i is not None)
        for wire in made:
            self.producers[wire] = operation
        return made

    def emit_custom(self, code: str, inputs: Sequence[Wire | None], outputs: Sequence[Wire], options: bytes) -> None:
        """Append a custom operator, whose kernel nobody here knows."""
        operation = Operation("CUSTOM", list(inputs), list(outputs), {"code": code, "options": options})
        self.operations.append(operation)
        self.read.update(i for i in inputs if i is not None)
        self.producers.update(dict.fromkeys(outputs, operation))

    def compute(self, op: str, *inputs: Wire, dims: Dims, dtype: str | None = None, **options: Any) -> Wire:
        """An operator on inputs of one element type; where its kernel is missing for it, in a wider one and cut back.

        Raises:
            Refused: LiteRT has no kernel for such data, nor for the same in a wider type.
        """
        own = inputs[0].dtype
        if own == "uint64" and op in ORDERS:
            below = self.emit(op, *map(self._moved_below, inputs), dims=dims, dtype=dtype, **options)
            return below if dtype == "bool" else self._moved_below(below, back=True)
        fit = fitting(op, own)
        if fit is None or fit == own:
            return self.emit(op, *inputs, dims=dims, dtype=dtype, **options)
        result = self.emit(op, *(self.cast(i, fit) for i in inputs), dims=dims, dtype=dtype, **options)
        return self.cast(result, dtype or own)

    def move(self, op: str, data: Wire, *others: Wire, dims: Dims, **options: Any) -> Wire:
        """An operator that moves the elements of its first input, whatever its others are; as :meth:`compute`."""
        fit = fitting(op, data.dtype) or data.dtype
        return self.cast(self.emit(op, self.cast(data, fit), *others, dims=dims, **options), data.dtype)

    def cast(self, wire: Wire, dtype: str) -> Wire:
        """The tensor in another element type; at run time the elements of a constant are converted already."""
        if wire.dtype == dtype:
            return wire
        if wire.data is not None:
            return self.constant(wire.array.astype(dtype), wire.name)
        if "uint64" in (wire.dtype, dtype) and not any(d.startswith("float") for d in (wire.dtype, dtype)):
            return self.cast(self.bits(wire, "int64"), dtype) if dtype != "uint64" else self.bits(self.cast(wire, "int64"), dtype)
        return self.emit("CAST", wire, dims=wire.dims, dtype=dtype)

    def bits(self, wire: Wire, dtype: str) -> Wire:
        """The same bits read as another element type of the same width."""
        if wire.dtype == dtype:
            return wire
        if wire.data is not None:
            return self.constant(wire.array.view(dtype), wire.name)
        return self.emit("BITCAST", wire, dims=wire.dims, dtype=dtype)

    def parts(self, wire: Wire, dtype: str) -> Wire:
        """The bits of each element as several of a narrower type along one more axis, the lowest first."""
        count = np.dtype(wire.dtype).itemsize // np.dtype(dtype).itemsize
        if wire.data is not None:
            value = np.ascontiguousarray(wire.array)[..., None] if wire.rank else wire.array.reshape(1)
            return self.constant(value.view(dtype), wire.name)
        return self.emit("BITCAST", wire, dims=(*wire.dims, count), dtype=dtype)

    def joined(self, parts: Wire, dtype: str) -> Wire:
        """The way back of :meth:`parts`."""
        return self.emit("BITCAST", parts, dims=parts.dims[:-1], dtype=dtype)

    def _moved_below(self, wire: Wire, back: bool = False) -> Wire:
        """64 bits without a sign as signed numbers in the same order, or the way back."""
        wire = wire if back else self.bits(wire, "int64")
        moved = self.emit("ADD", wire, self.scalar(-(1 << 63), "int64"), dims=wire.dims)
        return self.bits(moved, "uint64") if back else moved

    def copy(self, wire: Wire) -> Wire:
        """The same elements in a tensor of its own."""
        if wire.rank <= KERNELS["STRIDED_SLICE"].rank and wire.rank:
            ends = self.ints([0] * wire.rank), self.ints([0] * wire.rank), self.ints([1] * wire.rank)
            every = (1 << wire.rank) - 1
            return self.emit("STRIDED_SLICE", wire, *ends, dims=wire.dims, beginMask=every, endMask=every)
        return self.emit("CAST", wire, dims=wire.dims)

    def _name(self, op: str) -> str:
        node = self.node
        return op if node is None else f"{node.outputs[0].name or node.name}/{op}"

    # -- constants ---------------------------------------------------------------------------------------------------

    def constant(self, value: Array, name: str = "", *, is_weight: bool = False) -> Wire:
        """A constant tensor; half precision becomes single precision.

        Raises:
            Refused: TFLite does not compute with its element type.
        """
        if value.dtype.name == "float16":
            value = value.astype(np.float32)
        if value.dtype.name not in STORED:
            raise Refused(f"TFLite does not compute with {value.dtype.name}")
        return Wire(name or "constant", value.shape, value.dtype.name, value, is_weight)

    def ints(self, values: Iterable[int], dtype: str = "int32") -> Wire:
        """A constant one-dimensional tensor; equal ones are one."""
        return self._shared(np.asarray(list(values), dtype))

    def scalar(self, value: float | int | bool, dtype: str) -> Wire:
        """A constant of rank 0; equal ones are one."""
        return self._shared(np.asarray(value, dtype))

    def array(self, value: Array) -> Wire:
        """A small constant tensor; equal ones are one."""
        return self._shared(value)

    def _shared(self, value: Array) -> Wire:
        key = (value.dtype.name, value.shape, value.tobytes())
        if key not in self._forms:
            self._forms[key] = self.constant(value)
        return self._forms[key]

    # -- operands in the order that is asked for ---------------------------------------------------------------------

    def ask(self, operand: Operand, order: Order | None = None) -> Wire:
        """The operand in an order, by default the model's own.

        A constant is permuted now. For a computed value a TRANSPOSE is written the first time that an order is asked
        for in which the graph does not have it.
        """
        order = layout.logical(operand.rank) if order is None else order
        if isinstance(operand, Constant):
            key = (operand, order)
            if key not in self._forms:
                value = operand.value if order == layout.logical(operand.rank) else operand.value.transpose(order)
                self._forms[key] = self.constant(value, operand.name, is_weight=operand.is_weight)
            return self._forms[key]
        if order not in operand.orders:
            wire, have = operand.first
            operand.orders[order] = self._home(wire).transpose(wire, layout.permutation(have, order))
        return operand.orders[order]

    def _home(self, wire: Wire) -> Builder:
        """The builder of the graph that a computed tensor is of: what is asked of it is best done there, and once."""
        if self.outer is None or wire in self.producers or wire in self.inputs:
            return self
        return self.outer._home(wire)

    def as_is(self, operand: Operand) -> Stored:
        """The operand in the order that is there."""
        if isinstance(operand, Constant):
            return Stored(self.ask(operand), layout.logical(operand.rank))
        return operand.first

    def with_last(self, operand: Operand, axis: int) -> Stored:
        """The operand in an order that stores one axis last."""
        axis %= operand.rank
        if isinstance(operand, Runtime):
            for order, wire in operand.orders.items():
                if order[-1] == axis:
                    return Stored(wire, order)
        order = layout.with_last(self.as_is(operand).order, axis)
        return Stored(self.ask(operand, order), order)

    def image(self, operand: Operand) -> Wire:
        """The operand with its second axis last."""
        return self.ask(operand, layout.channels_last(operand.rank))

    def together(self, *operands: Operand) -> tuple[Order, list[Wire]]:
        """Operands that are broadcast against each other, in one order and with their axes aligned."""
        rank = max(o.rank for o in operands)
        full = [o for o in operands if isinstance(o, Runtime) and o.rank == rank]
        order = layout.most_common([tuple(o.orders) for o in full]) if full else layout.logical(rank)
        return order, [self.broadcast(o, order, whole=not full and o.rank == rank) for o in operands]

    def broadcast(self, operand: Operand, order: Order, *, whole: bool = False) -> Wire:
        """An operand of the same or a lower rank, ready to be broadcast against a tensor that is stored as ``order``.

        Ranks are aligned as numpy does it for the logical axes, before anything is permuted. Leading axes of size 1
        that a constant has are left away, unless it has to be ``whole`` to give the result its rank.
        """
        own = layout.trailing(order, operand.rank)
        gaps = layout.broadcast_gaps(order, operand.rank)
        if isinstance(operand, Constant):
            aligned = operand.value.reshape((1,) * (len(order) - operand.rank) + operand.value.shape).transpose(order)
            lead = 0 if whole else next((i for i, size in enumerate(aligned.shape) if size != 1), aligned.ndim)
            key = (operand, "broadcast", order, whole)
            if key not in self._forms:
                self._forms[key] = self.constant(aligned.reshape(aligned.shape[lead:]), operand.name)
            return self._forms[key]
        wire = self.ask(operand, own)
        if gaps:
            # Leading axes of size 1 are left away, so positions count from the first axis that the operand has.
            left_away = len(order) - operand.rank - len(gaps)
            for gap in gaps:
                wire = self.expand_dims(wire, gap - left_away)
        return wire

    # -- moving axes -------------------------------------------------------------------------------------------------

    def transpose(self, wire: Wire, perm: Sequence[int]) -> Wire:
        """The tensor with its stored axes permuted; where only axes of size 1 move, a reshape."""
        if tuple(perm) == tuple(range(wire.rank)):
            return wire
        if wire.data is not None:
            return self.constant(wire.array.transpose(perm), wire.name, is_weight=wire.is_weight)
        dims = tuple(wire.dims[p] for p in perm)
        moved = [p for p in perm if wire.dims[p] != 1]
        if moved == sorted(moved) and dims.count(None) <= 1:
            return self.reshape(wire, dims)
        if wire.rank > KERNELS["TRANSPOSE"].rank and dims.count(None) <= 1:
            return self.reshape(self._transposed_in_runs(wire, perm), dims)
        return self.emit("TRANSPOSE", wire, self.ints(perm), dims=dims)

    def _transposed_in_runs(self, wire: Wire, perm: Sequence[int]) -> Wire:
        """A transpose of as few axes as do it: those that stay neighbours are one, and those of size 1 are none."""
        runs: list[list[int]] = []
        for p in (p for p in perm if wire.dims[p] != 1):
            between = range(runs[-1][-1] + 1, p) if runs and runs[-1][-1] < p else None
            if between is not None and all(wire.dims[axis] == 1 for axis in between):
                runs[-1].append(p)
            else:
                runs.append([p])
        merged = sorted(runs)
        flat = self.reshape(wire, [layout.product(wire.dims[p] for p in run) for run in merged])
        moved = [merged.index(run) for run in runs]
        return self.emit("TRANSPOSE", flat, self.ints(moved), dims=tuple(flat.dims[m] for m in moved))

    def reshape(self, wire: Wire, sizes: Sequence[int | Size | None]) -> Wire:
        """The tensor's elements under another shape.

        Args:
            wire: the tensor as stored.
            sizes: of the result; one of them may be ``None``, which follows from the others.
        """
        dims = tuple(s if isinstance(s, int) else None for s in sizes)
        if wire.data is not None and None not in dims:
            return self.constant(wire.array.reshape([d for d in dims if d is not None]), wire.name, is_weight=wire.is_weight)
        while wire in self.producers and (before := self.producers[wire]).op in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS"):
            assert before.inputs[0] is not None
            wire = before.inputs[0]  # what is reshaped once more need not have been before
        if dims == wire.dims and dims.count(None) <= 1:
            return wire
        if not dims:
            flat = self.reshape(wire, (1,)) if wire.rank != 1 else wire
            return self.emit("SQUEEZE", flat, dims=(), squeezeDims=[0])
        if dims.count(None) == 1 and 0 not in dims:
            return self.emit("RESHAPE", wire, self.ints(-1 if d is None else d for d in dims), dims=dims)
        if list(sizes).count(None) > 1:
            raise Refused("more than one size of the result is only known at run time")
        return self.emit("RESHAPE", wire, self.shape([-1 if s is None else s for s in sizes]), dims=dims)

    def expand_dims(self, wire: Wire, position: int) -> Wire:
        """The tensor with a stored axis of size 1 put in."""
        dims = (*wire.dims[:position], 1, *wire.dims[position:])
        if wire.dims.count(None) <= 1:
            return self.reshape(wire, dims)
        return self.emit("EXPAND_DIMS", wire, self.scalar(position, "int32"), dims=dims)

    def squeeze(self, wire: Wire, positions: Sequence[int]) -> Wire:
        """The tensor without some stored axes of size 1."""
        dims = tuple(d for i, d in enumerate(wire.dims) if i not in positions)
        if dims and dims.count(None) <= 1 and all(wire.dims[p] == 1 for p in positions):
            return self.reshape(wire, dims)
        return self.emit("SQUEEZE", wire, dims=dims, squeezeDims=list(positions)) if positions else wire

    # -- sizes at run time -------------------------------------------------------------------------------------------

    def shape(self, sizes: Sequence[int | Size], dtype: str = "int32") -> Wire:
        """Sizes as a one-dimensional tensor: a constant where all of them are numbers."""
        if all(isinstance(s, int) for s in sizes):
            return self.ints([s for s in sizes if isinstance(s, int)], dtype)
        parts: list[Wire] = []
        numbers: list[int] = []
        for size in [*sizes, None]:
            if isinstance(size, int):
                numbers.append(size)
                continue
            if numbers:
                parts.append(self.ints(numbers))
                numbers = []
            if size is not None:
                parts.append(self.size(size))
        joined = parts[0] if len(parts) == 1 else self.emit("CONCATENATION", *parts, dims=(len(sizes),), axis=0)
        return self.cast(joined, dtype)

    def size(self, size: int | Size) -> Wire:
        """One size as a tensor of one int32 element."""
        if isinstance(size, int):
            return self.ints([size])
        if size not in self._sizes:
            a, b = size.args
            if size.op == "length":
                self._sizes[size] = self._length(a, b)
            elif size.op == "element":
                home = self._home(a)
                if home is not self:
                    return home.size(size)
                bounds = [self.ints([b]), self.ints([b + 1]), self.ints([1])]
                self._sizes[size] = self.emit("STRIDED_SLICE", a, *bounds, dims=(1,))
            else:
                self._sizes[size] = self.emit(size.op, self.size(a), self.size(b), dims=(1,))
        return self._sizes[size]

    def setting(self, value: Runtime) -> Wire:
        """Integers that are computed, as LiteRT takes settings: 32 bits wide, and what is beyond those as far as they go."""
        key = ("setting", value)
        if key not in self._forms:
            wire = self.ask(value)
            for op, bound in (("MAXIMUM", -FAR), ("MINIMUM", FAR)) if wire.dtype == "int64" else ():
                wire = self.emit(op, wire, self.scalar(bound, "int64"), dims=wire.dims)
            self._forms[key] = self.cast(wire, "int32")
        return self._forms[key]

    def elements(self, value: Runtime) -> Ints:
        """Integers that are computed, one by one; those that were joined to them as what they were before.

        Raises:
            Refused: how many there are is only known at run time.
        """
        if value.parts:
            joined = Ints()
            for part in value.parts:
                ints = self.elements(part) if isinstance(part, Runtime) else ints_of(part)
                assert ints is not None
                joined.extend(ints)
            return joined
        (count,) = value.dims or (1,)
        if count is None:
            raise Refused("a vector whose length only the run time knows")
        wire = self.setting(value)
        return Ints(Size("element", (wire, i)) for i in range(count))

    def _length(self, value: Runtime, axis: int) -> Wire:
        wire, order = value.first
        home = self._home(wire)
        if home is not self:
            return home.size(Size("length", (value, axis)))
        if wire not in self._sizes:
            self._sizes[wire] = self.emit("SHAPE", wire, dims=(wire.rank,), dtype="int32", outType=2)
        start = order.index(axis)
        bounds = [self.ints([start]), self.ints([start + 1]), self.ints([1])]
        return self.emit("STRIDED_SLICE", self._sizes[wire], *bounds, dims=(1,))
