"""TFLite to ONNX: what is refused, what is translated, and the graph that comes out."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
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
from mlconverter.formats.tflite.to_onnx.builder import IR_VERSION, OPSET, Builder, onnx_type
from mlconverter.formats.tflite.to_onnx.composites import inlined
from mlconverter.formats.tflite.to_onnx.operands import Constant, Op, Operand, Runtime, Stored
from mlconverter.formats.tflite.to_onnx.ops import ACTIVATIONS, IGNORED_ACTIVATIONS, translates
from mlconverter.formats.tflite.to_onnx.spectra import TAKES_APART
from mlconverter.hub.model import HubModel
from mlconverter.hub.weights import Densify

FAMILIES = (
    "activations",
    "bits",
    "boxes",
    "conv",
    "elementwise",
    "joining",
    "matmul",
    "padding",
    "places",
    "pool",
    "reduce",
    "reduce_window",
    "resize",
    "segments",
    "shapes",
    "slicing",
    "space",
    "spectra",
    "stablehlo",
    "stablehlo_places",
    "stablehlo_products",
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
    "QUANTIZE": "quantised activations",
    "RANDOM_STANDARD_NORMAL": "random numbers, which no other runtime draws alike",
    "RANDOM_UNIFORM": "random numbers, which no other runtime draws alike",
    "MULTINOMIAL": "random numbers, which no other runtime draws alike",
    "STABLEHLO_RNG_BIT_GENERATOR": "random numbers, which no other runtime draws alike",
    "HASHTABLE": "a table that outlives a call",
    "HASHTABLE_FIND": "a table that outlives a call",
    "HASHTABLE_IMPORT": "a table that outlives a call",
    "HASHTABLE_SIZE": "a table that outlives a call",
    "LSH_PROJECTION": "hashes of bytes, for which ONNX has no operator",
    "SKIP_GRAM": "text, for which ONNX has no such operator",
    "CONCAT_EMBEDDINGS": "an operator that LiteRT has no kernel for, and no description tells what it computes",
    "STABLEHLO_COMPOSITE": "a part of the model that hands values through, or that calls itself",
    "STABLEHLO_CUSTOM_CALL": "a function that the file names and does not hold",
    "DELEGATE": "a part of the model that only the delegate which made it can run",
}
"""Why operators have no translator, where that says more than that they have none."""


_CONTRADICTIONS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError)
"""What a translator raises for an operator whose options and tensors contradict each other."""


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
    subgraph = inlined(model, model.subgraphs[border.subgraph])
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
    try:
        return translator.check(op) if translator.check else None
    except _CONTRADICTIONS as error:
        return f"its options do not fit its tensors ({type(error).__name__}: {error})"


def _tensor_refusal(op: Op, tensor: Tensor) -> str | None:
    constant = op.model.is_constant(tensor)
    if tensor.is_variable:
        return "a variable tensor (state between calls)"
    if tensor.quantization_details is not None:
        return f"{tensor.quantization_details} of '{tensor.name}'"
    if tensor.dtype not in NUMPY_DTYPES or (tensor.dtype.startswith("complex") and op.key not in {"RFFT2D", *TAKES_APART}):
        return f"{tensor.dtype} tensors"
    if tensor.quantization is not None and not tensor.dtype.startswith("float") and not (constant and op.key == "DEQUANTIZE"):
        return f"quantised {'weights' if constant else 'activations'} ({tensor.dtype})"
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
            opset_imports={"": OPSET},
            name=self._subgraph.name or "main",
        )
        model = ir.Model(graph, ir_version=IR_VERSION, producer_name="mlconverter")
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
        self._operands[tensor.index] = Runtime(tensor.name, dims, tensor.dtype, {layout.logical(len(dims)): value})
        self._named.add(id(value))
        return value

    def _output(self, number: int) -> ir.Value:
        spec = self._border.signature.outputs[number]
        self._b.enter(spec.name)
        value = self._b.ask(self._operand(self._border.outputs[number]))
        if value.producer() is None or value.name in self._border.signature.output_names:
            value = self._b.emit("Identity", value)
        value.name = spec.name
        value.shape, value.type = ir.Shape(spec.shape or ()), onnx_type(spec.dtype)
        return value

    def _translate(self, op: Op) -> None:
        self._b.enter(op.name)
        translator = translates.find(op.key, op.version)
        assert translator is not None
        operands = [None if t is None else self._operand(t.index) for t in op.inputs]
        while operands and operands[-1] is None:
            operands.pop()
        try:
            results = translator.function(self._b, op, *operands)
        except _CONTRADICTIONS as error:
            raise TranslationError(op.name, op.key, f"{type(error).__name__}: {error}") from error
        for tensor, result in zip(op.outputs, results if isinstance(results, list) else [results], strict=True):
            self._operands[tensor.index] = self._bound(op, tensor, result)

    def _bound(self, op: Op, tensor: Tensor, result: Operand | Stored) -> Operand:
        if not isinstance(result, Stored):
            return result
        dims = op.dims(tensor)
        value, order = result
        if len(order) != len(dims):
            raise TranslationError(op.name, op.key, f"its output has rank {len(dims)} in the file, not {len(order)}")
        if id(value) not in self._named:
            self._named.add(id(value))
            value.name = self._b.unique(tensor.name)
            value.shape, value.type = ir.Shape(layout.arranged(order, dims)), onnx_type(tensor.dtype)
        return Runtime(tensor.name, dims, tensor.dtype, {order: value})

    def _tensor(self, index: int) -> Tensor:
        return self._subgraph.tensors[index]

    def _operand(self, index: int) -> Operand:
        if index not in self._operands:
            self._operands[index] = self._constant(self._tensor(index))
        return self._operands[index]

    def _constant(self, tensor: Tensor) -> Constant:
        if tensor.shape == (0,) and not tensor.is_variable:
            return Constant(tensor.name, source_key(tensor.buffer), np.zeros(0, tensor.dtype), (0,), tensor.dtype)
        if not self._model.is_constant(tensor):
            raise TranslationError(tensor.name, "tensor", "it is used before any operator has computed it")
        owner = self._model.owners[tensor.buffer]
        if owner.dtype != tensor.dtype or (owner.sparsity is None) != (tensor.sparsity is None):
            owner = tensor
        constant = Constant(tensor.name, source_key(tensor.buffer), self._model.view(owner), owner.shape, tensor.dtype)
        if tensor.sparsity is not None:
            step = self._densify.get(tensor.buffer)
            if step is None:
                step = self._densify[tensor.buffer] = Densify(tensor.shape, flat_positions(tensor.sparsity, tensor.shape))
            constant = constant.then(step, tensor.shape)
        return constant.reshaped(tensor.shape)
