"""The walk over a subgraph: every operator is translated, and what it gives becomes the tensor of the file that it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from mlconverter.errors import CorruptModelError, TranslationError
from mlconverter.formats.tflite.buffers import source_key
from mlconverter.formats.tflite.sparsity import flat_positions
from mlconverter.formats.tflite.structure import PACKED, Model, Tensor
from mlconverter.formats.tflite.to_onnx.builder import UNLIMITED, Builder, onnx_type
from mlconverter.formats.tflite.to_onnx.moving import COPIES, operands_of
from mlconverter.formats.tflite.to_onnx.operands import Constant, Dims, Op, Operand, Runtime, Stored, Variable
from mlconverter.formats.tflite.to_onnx.ops import translates
from mlconverter.formats.tflite.to_onnx.variables import State
from mlconverter.hub.weights import Densify, Unpack
from mlconverter.signature import Quantization, TensorSpec

BIASES = dict.fromkeys("CONV_2D CONV_3D DEPTHWISE_CONV_2D FULLY_CONNECTED".split(), 2) | {"TRANSPOSE_CONV": 3}
"""Where operators have their biases."""


@dataclass(frozen=True)
class File:
    """A file that is being translated.

    Attributes:
        free_batch: some input of the model has a free first dimension.
        free_sizes: some input of the model has another free dimension.
        whole: whether every activation is written, also one that quantising its result would see to.
    """

    model: Model
    free_batch: bool
    free_sizes: bool
    whole: bool = False
    _dense: dict[int, Densify] = field(default_factory=dict)

    def ops(self, number: int) -> list[Op]:
        """The operators of a subgraph."""
        graph = self.model.subgraphs[number]
        return [Op(self.model, graph, operator, self.free_batch, self.free_sizes) for operator in graph.operators]

    def reached(self, number: int) -> list[int]:
        """A subgraph, and those that its operators run in every call."""
        found = [number]
        for graph in found:
            for op in self.ops(graph):
                if not all(0 <= n < len(self.model.subgraphs) for n in op.bodies):
                    raise CorruptModelError(f"'{op.name}' runs subgraph {max(op.bodies)} of {len(self.model.subgraphs)}.")
                found += [n for n in op.bodies if n not in found]
        return found

    def constant(self, tensor: Tensor) -> Constant:
        """A tensor whose data are in the file, or that has no elements."""
        if 0 in tensor.shape and not tensor.is_variable:
            nothing = np.zeros(tensor.shape, tensor.dtype)
            return Constant(tensor.name, source_key(tensor.buffer), nothing, tensor.shape, tensor.dtype)
        if not self.model.is_constant(tensor):
            raise TranslationError(tensor.name, "tensor", "it is used before any operator has computed it")
        owner = self.model.owners[tensor.buffer]
        if owner.dtype != tensor.dtype or (owner.sparsity is None) != (tensor.sparsity is None):
            owner = tensor
        key = source_key(tensor.buffer)
        constant = Constant(tensor.name, key, self.model.view(owner), owner.shape, tensor.real_dtype)
        if tensor.sparsity is not None:
            if tensor.buffer not in self._dense:
                self._dense[tensor.buffer] = Densify(tensor.shape, flat_positions(tensor.sparsity, tensor.shape))
            constant = constant.then(self._dense[tensor.buffer], tensor.shape)
        if tensor.dtype in PACKED:
            constant = constant.then(Unpack(PACKED[tensor.dtype], tensor.shape), tensor.shape)
        return replace(constant.reshaped(tensor.shape), grid=tensor.grid, packed=tensor.dtype if tensor.dtype in PACKED else "")


class Translation:
    """One walk over a subgraph.

    Args:
        file: the file.
        number: of the subgraph.
        builder: writes the graph, or the graph of a node.
        given: what the subgraph is called with, where it is not the model's own.
    """

    def __init__(self, file: File, number: int, builder: Builder, given: Sequence[Operand | Variable] = ()) -> None:
        self._file, self._b = file, builder
        self._number, self._subgraph = number, file.model.subgraphs[number]
        self._operands: dict[int, Operand | Variable] = dict(zip(self._subgraph.inputs, given, strict=False))
        builder.inline = self._inline

    def run(self) -> None:
        """Translate every operator."""
        for op in self._file.ops(self._number):
            self._translate(op)

    @property
    def results(self) -> list[Operand | Variable]:
        """What the subgraph gives."""
        return [self._operand(index) for index in self._subgraph.outputs]

    def _inline(self, b: Builder, number: int, given: Sequence[Operand | Variable]) -> list[Operand | Variable]:
        """Translate another subgraph into a builder."""
        walk = Translation(self._file, number, b, given)
        walk.run()
        return walk.results

    # The border of the model

    def input(self, spec: TensorSpec, index: int) -> ir.Value:
        """An input of the model."""
        tensor = self._subgraph.tensors[index]
        value = ir.Value(name=spec.name, shape=ir.Shape(spec.shape or ()), type=onnx_type(spec.dtype))
        self._b.enter(spec.name)
        self._operands[index] = self._b.held(tensor, _dims(spec), value)
        return value

    def output(self, spec: TensorSpec, index: int) -> ir.Value:
        """An output of the model."""
        return self._closed(spec, self._operand(index))

    def state(self, state: State) -> ir.Value:
        """The input by which a variable comes in."""
        value = ir.Value(name=state.input.name, shape=ir.Shape(state.input.shape or ()), type=onnx_type(state.input.dtype))
        self._b.enter(state.input.name)
        self._b.variables[state.key] = self._b.held(state.tensor, _dims(state.input), value)
        return value

    def next_state(self, state: State) -> ir.Value:
        """The output by which a variable goes out."""
        return self._closed(state.output, self._b.variables[state.key])

    def _closed(self, spec: TensorSpec, operand: Operand | Variable) -> ir.Value:
        assert not isinstance(operand, Variable)
        self._b.enter(spec.name)
        value = self._b.given(operand)
        if not self._b.has_made(value) or value in self._b.handed_out:
            value = self._b.emit("Identity", value)
        self._b.handed_out.add(value)
        value.name = spec.name
        value.shape, value.type = ir.Shape(spec.shape or ()), onnx_type(spec.dtype)
        return value

    # Operators

    def _translate(self, op: Op) -> None:
        grid = op.outputs[0].grid if op.outputs else None
        self._b.enter(op.name, UNLIMITED if grid is None or self._file.whole else _limits(grid, op.outputs[0].dtype))
        translator = translates.find(op.key, op.version)
        assert translator is not None
        operands = [None if t is None else self._operand_of(op, number, t) for number, t in enumerate(op.inputs)]
        while operands and operands[-1] is None:
            operands.pop()
        try:
            results = translator.function(self._b, op, *operands)
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError) as error:
            raise TranslationError(op.name, op.key, f"{type(error).__name__}: {error}") from error
        moved = [operands[i] for i in operands_of(op.key, len(operands))]
        grids = {None if o is None else o.grid for o in moved}
        source = grids.pop() if len(grids) == 1 else None
        for tensor, result in zip(op.outputs, results if isinstance(results, list) else [results], strict=True):
            self._operands[tensor.index] = self._bound(op, tensor, result, source)

    def _bound(
        self, op: Op, tensor: Tensor, result: Operand | Variable | Stored, source: Quantization | None
    ) -> Operand | Variable:
        """What an operator gives, as the tensor of the file that it is.

        Args:
            op: the operator.
            tensor: the tensor.
            result: what its translator gave.
            source: the grid that the elements stood on before they were moved, ``None`` where they were computed.
        """
        if isinstance(result, (Constant, Variable)):
            return result
        dims = op.dims(tensor)
        orders = {result.order: result.value} if isinstance(result, Stored) else result.orders
        first = next(Stored(value, order) for order, value in orders.items())
        if len(first.order) != len(dims):
            raise TranslationError(op.name, op.key, f"its output has rank {len(dims)} in the file, not {len(first.order)}")
        source = result.grid if isinstance(result, Runtime) and result.grid is not None else source
        if tensor.grid is not None and source != tensor.grid:
            # Integers are copied without a look at what they stand for; otherwise what was computed is rounded to them.
            grid = source if source is not None and op.key in COPIES else tensor.grid
            whole = self._b.quantize(first, grid, tensor.dtype)
            self._b.name(whole, tensor.label, dims, tensor.dtype)
            return self._b.held(tensor, dims, *whole)
        if isinstance(result, Runtime):
            return replace(result, name=tensor.name, grid=tensor.grid, stored_dtype=tensor.dtype)
        self._b.name(first, tensor.label, dims, tensor.real_dtype)
        return Runtime(tensor.name, dims, tensor.real_dtype, orders, tensor.grid, None, tensor.dtype)

    def _operand(self, index: int) -> Operand | Variable:
        if index not in self._operands:
            self._operands[index] = self._file.constant(self._subgraph.tensors[index])
        return self._operands[index]

    def _operand_of(self, op: Op, position: int, tensor: Tensor) -> Operand | Variable:
        """An input of an operator; integers among real numbers are what they stand for."""
        if tensor.is_variable:
            return self._b.variables[tensor.index]
        operand = self._operand(tensor.index)
        if not isinstance(operand, Constant):
            return operand
        if op.quantized and position == BIASES.get(op.key):
            return replace(operand, grid=_grid_of_sums(op), dtype="float32")
        return operand if op.quantized or op.bodies else operand.real


def _dims(spec: TensorSpec) -> Dims:
    return tuple(d if isinstance(d, int) else None for d in spec.shape or ())


def _grid_of_sums(op: Op) -> Quantization:
    """What the integers of a bias stand for: those of the sums that it is added to, whatever the file says of itself."""
    data, filters = (op.tensor(2 if op.key == "TRANSPOSE_CONV" else 0).grid, op.tensor(1).grid)
    if data is None or filters is None:
        raise TranslationError(op.name, op.key, "its bias is quantised, and its input or filters are not")
    scale = np.float32(data.scale[0]) * np.asarray(filters.scale, np.float32)
    return Quantization(tuple(map(float, scale)), (0,) * scale.size, None if scale.size == 1 else 0)


def _limits(grid: Quantization, dtype: str) -> tuple[float, float]:
    """The least and the largest number that integers can stand for."""
    limits, scale = np.iinfo(dtype), np.float32(grid.scale[0])
    return float((limits.min - grid.zero_point[0]) * scale), float((limits.max - grid.zero_point[0]) * scale)
