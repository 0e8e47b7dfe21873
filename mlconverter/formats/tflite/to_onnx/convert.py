"""TFLite to ONNX: what is refused, what is translated, and the graph that comes out."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.errors import TranslationError, UnsupportedOp, UnsupportedOpsError
from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.buffers import source_key
from mlconverter.formats.tflite.metadata import about_file, say
from mlconverter.formats.tflite.schema import load
from mlconverter.formats.tflite.signature import Border, border_of
from mlconverter.formats.tflite.sparsity import flat_positions
from mlconverter.formats.tflite.structure import NUMPY_DTYPES, Model, Subgraph, Tensor
from mlconverter.formats.tflite.to_onnx.builder import IR_VERSION, UNLIMITED, Builder, onnx_type
from mlconverter.formats.tflite.to_onnx.moving import COPIES, operands_of
from mlconverter.formats.tflite.to_onnx.operands import Constant, Dims, Op, Operand, Runtime, Stored
from mlconverter.formats.tflite.to_onnx.ops import ACTIVATIONS, IGNORED_ACTIVATIONS, translates
from mlconverter.hub.model import HubModel
from mlconverter.hub.walk import drop_unused
from mlconverter.hub.weights import Densify
from mlconverter.signature import Quantization

FAMILIES = (
    "activations",
    "conv",
    "elementwise",
    "joining",
    "matmul",
    "padding",
    "pool",
    "reduce",
    "resize",
    "shapes",
    "slicing",
    "space",
    "storage",
)
"""The modules that register translators."""

for _family in FAMILIES:
    importlib.import_module(f"mlconverter.formats.tflite.to_onnx.{_family}")


_LATER = {
    "IF": "control flow",
    "WHILE": "control flow",
    "CALL_ONCE": "control flow",
    "VAR_HANDLE": "a variable (state between calls)",
    "READ_VARIABLE": "a variable (state between calls)",
    "ASSIGN_VARIABLE": "a variable (state between calls)",
}
"""Why operators have no translator, where that says more than that they have none."""


def convert(source: Any) -> HubModel:
    """The ONNX graph of a TFLite file.

    Args:
        source: the file's bytes, or the model that was read from them.

    Raises:
        CorruptModelError: the bytes are no TFLite file, or a damaged one.
        UnsupportedOpsError: operators that cannot be translated, all of them; nothing was translated then.
        TranslationError: an operator could not be translated.
    """
    model = source if isinstance(source, Model) else load(source)
    border = border_of(model)
    subgraph = model.subgraphs[border.subgraph]
    ops = [Op(model, subgraph, operator, border.free_batch, border.free_sizes) for operator in subgraph.operators]
    refused = unsupported(ops)
    if refused:
        raise UnsupportedOpsError(translates.route, refused)
    return _Graph(model, subgraph, border).build(ops)


def unsupported(ops: Iterable[Op]) -> list[UnsupportedOp]:
    """Every operator that cannot be translated, one entry for each operator and reason."""
    found: dict[tuple[str, int, str], list[str]] = {}
    for op in ops:
        reason = _refusal(op)
        if reason is not None:
            found.setdefault((op.key, op.version, reason), []).append(op.name)
    return [UnsupportedOp(key, version, len(names), names[0], reason) for (key, version, reason), names in found.items()]


def _refusal(op: Op) -> str | None:
    reason = translates.refusal(op.key, op.version)
    if reason is not None:
        return _LATER.get(op.key, reason)
    for tensor in (*op.inputs, *op.outputs):
        if tensor is not None and (reason := _tensor_refusal(op, tensor)):
            return reason
    activation = getattr(op.options, "fusedActivationFunction", 0)
    if activation not in ACTIVATIONS:
        return f"fused activation {IGNORED_ACTIVATIONS.get(activation, activation)}, which LiteRT's kernels do not compute"
    translator = translates.find(op.key, op.version)
    assert translator is not None
    return translator.check(op) if translator.check else None


def _tensor_refusal(op: Op, tensor: Tensor) -> str | None:
    if tensor.is_variable:
        return "a variable tensor (state between calls)"
    if tensor.quantization_details is not None:
        return f"{tensor.quantization_details} of '{tensor.name}'"
    if tensor.dtype not in NUMPY_DTYPES or tensor.dtype.startswith("complex"):
        return f"{tensor.dtype} tensors"
    if tensor.grid is not None and tensor.grid.axis is not None and not op.model.is_constant(tensor):
        return f"'{tensor.name}', which is computed, has a scale for each index of an axis"
    return None


class _Graph:
    def __init__(self, model: Model, subgraph: Subgraph, border: Border) -> None:
        self._model, self._subgraph, self._border = model, subgraph, border
        names = (*border.signature.input_names, *border.signature.output_names)
        self._b = Builder(names)
        self._operands: dict[int, Operand] = {}
        self._densify: dict[int, Densify] = {}
        self._named: set[int] = set()

    def build(self, ops: Sequence[Op]) -> HubModel:
        """Translate every operator and close the graph."""
        inputs = [self._input(number) for number in range(len(self._border.inputs))]
        for op in ops:
            self._translate(op)
        outputs = [self._output(number) for number in range(len(self._border.outputs))]
        graph = ir.Graph(
            inputs,
            outputs,
            nodes=self._b.nodes,
            initializers=self._b.initializers,
            opset_imports={"": self._b.opset},
            name=self._subgraph.name or "main",
        )
        model = ir.Model(graph, ir_version=IR_VERSION, producer_name="mlconverter")
        drop_unused(model)  # real numbers that stand for integers which are only moved
        say(about_file(self._model), model)
        hub = HubModel(model, self._border.signature, self._b.links)
        others = [s.key for s in self._model.signatures if s.key != self._border.key]
        if others:
            return hub.noting(f"Of the file's signatures '{self._border.key}' was converted; left out: {', '.join(others)}.")
        return hub

    def _input(self, number: int) -> ir.Value:
        spec, tensor = self._border.signature.inputs[number], self._tensor(self._border.inputs[number])
        value = ir.Value(name=spec.name, shape=ir.Shape(spec.shape or ()), type=onnx_type(spec.dtype))
        dims = tuple(d if isinstance(d, int) else None for d in spec.shape or ())
        stored = Stored(value, layout.logical(len(dims)))
        self._b.enter(spec.name)
        self._operands[tensor.index] = (
            self._plain(tensor, dims, stored) if tensor.grid is None else self._real(tensor, dims, stored)
        )
        self._named.add(id(value))
        return value

    @staticmethod
    def _plain(tensor: Tensor, dims: Dims, stored: Stored) -> Runtime:
        return Runtime(tensor.name, dims, tensor.dtype, {stored.order: stored.value})

    def _real(self, tensor: Tensor, dims: Dims, whole: Stored) -> Runtime:
        """A tensor of integers as the real numbers that they stand for."""
        assert tensor.grid is not None
        real = self._b.dequantize(whole.value, tensor.grid, tensor.dtype)
        return Runtime(tensor.name, dims, "float32", {whole.order: real}, tensor.grid, whole, tensor.dtype)

    def _output(self, number: int) -> ir.Value:
        spec = self._border.signature.outputs[number]
        self._b.enter(spec.name)
        value = self._given(self._operand(self._border.outputs[number]))
        if value.producer() is None or value.name in self._border.signature.output_names:
            value = self._b.emit("Identity", value)
        value.name = spec.name
        value.shape, value.type = ir.Shape(spec.shape or ()), onnx_type(spec.dtype)
        return value

    def _given(self, operand: Operand) -> ir.Value:
        """What the file has of an operand, in its own order."""
        value, order = self._b.whole(operand)
        if order == layout.logical(operand.rank):
            return value
        return self._b.emit("Transpose", value, perm=list(layout.permutation(order, layout.logical(operand.rank))))

    def _translate(self, op: Op) -> None:
        grid = op.outputs[0].grid if op.outputs else None
        self._b.enter(op.name, UNLIMITED if grid is None else _limits(grid, op.outputs[0].dtype))
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

    def _bound(self, op: Op, tensor: Tensor, result: Operand | Stored, source: Quantization | None) -> Operand:
        """What an operator gives, as the tensor of the file that it is.

        Args:
            op: the operator.
            tensor: the tensor.
            result: what its translator gave.
            source: the grid that the elements stood on before they were moved, ``None`` where they were computed.
        """
        if isinstance(result, Constant):
            return result
        dims = op.dims(tensor)
        orders = {result.order: result.value} if isinstance(result, Stored) else result.orders
        first = Stored(*next((value, order) for order, value in orders.items()))
        if len(first.order) != len(dims):
            raise TranslationError(op.name, op.key, f"its output has rank {len(dims)} in the file, not {len(first.order)}")
        if tensor.grid is not None and source != tensor.grid:
            # Integers are copied without a look at what they stand for; otherwise what was computed is rounded to them.
            grid = source if source is not None and op.key in COPIES else tensor.grid
            whole = self._b.quantize(first, grid, tensor.dtype)
            self._name(whole, tensor, dims, tensor.dtype)
            return self._real(tensor, dims, whole)
        if isinstance(result, Stored):
            self._name(first, tensor, dims, tensor.real_dtype)
        return Runtime(tensor.name, dims, tensor.real_dtype, orders, tensor.grid, None, tensor.dtype)

    def _name(self, stored: Stored, tensor: Tensor, dims: Dims, dtype: str) -> None:
        value, order = stored
        if id(value) not in self._named:
            self._named.add(id(value))
            value.name = self._b.unique(tensor.name)
            value.shape, value.type = ir.Shape(layout.arranged(order, dims)), onnx_type(dtype)

    def _tensor(self, index: int) -> Tensor:
        return self._subgraph.tensors[index]

    def _operand(self, index: int) -> Operand:
        if index not in self._operands:
            self._operands[index] = self._constant(self._tensor(index))
        return self._operands[index]

    def _operand_of(self, op: Op, position: int, tensor: Tensor) -> Operand:
        """An input of an operator; integers among real numbers are what they stand for."""
        operand = self._operand(tensor.index)
        if not isinstance(operand, Constant):
            return operand
        if op.quantized and position == BIASES.get(op.key):
            return replace(operand, grid=_grid_of_sums(op), dtype="float32")
        return operand if op.quantized else operand.real

    def _constant(self, tensor: Tensor) -> Constant:
        if not self._model.is_constant(tensor):
            raise TranslationError(tensor.name, "tensor", "it is used before any operator has computed it")
        owner = self._model.owners[tensor.buffer]
        if owner.dtype != tensor.dtype or (owner.sparsity is None) != (tensor.sparsity is None):
            owner = tensor
        key = source_key(tensor.buffer)
        constant = Constant(tensor.name, key, self._model.view(owner), owner.shape, tensor.real_dtype, grid=tensor.grid)
        if tensor.sparsity is not None:
            step = self._densify.get(tensor.buffer)
            if step is None:
                step = self._densify[tensor.buffer] = Densify(tensor.shape, flat_positions(tensor.sparsity, tensor.shape))
            constant = constant.then(step, tensor.shape)
        return constant.reshaped(tensor.shape)


BIASES = dict.fromkeys("CONV_2D CONV_3D DEPTHWISE_CONV_2D FULLY_CONNECTED".split(), 2) | {"TRANSPOSE_CONV": 3}
"""Where operators have their biases."""


def _grid_of_sums(op: Op) -> Quantization:
    """What the integers of a bias stand for: those of the sums that it is added to, whatever the file says of itself."""
    data, filters = (
        t.grid for t in ((op.tensor(2), op.tensor(1)) if op.key == "TRANSPOSE_CONV" else (op.tensor(0), op.tensor(1)))
    )
    if data is None or filters is None:
        raise TranslationError(op.name, op.key, "its bias is quantised, and its input or filters are not")
    scale = np.float32(data.scale[0]) * np.asarray(filters.scale, np.float32)
    return Quantization(tuple(map(float, scale)), (0,) * scale.size, None if scale.size == 1 else 0)


def _limits(grid: Quantization, dtype: str) -> tuple[float, float]:
    """The least and the largest number that integers can stand for."""
    limits = np.iinfo(dtype)
    return tuple(float(np.float32((end - grid.zero_point[0]) * np.float32(grid.scale[0]))) for end in (limits.min, limits.max))
