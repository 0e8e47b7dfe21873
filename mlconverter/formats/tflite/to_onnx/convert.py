"""TFLite to ONNX: what is refused, what is translated, and the graph that comes out."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from mlconverter.errors import UnsupportedOp, UnsupportedOpsError
from mlconverter.formats.tflite.metadata import about_file, say
from mlconverter.formats.tflite.schema import load
from mlconverter.formats.tflite.signature import Border, border_of
from mlconverter.formats.tflite.structure import NUMPY_DTYPES, PACKED, Model, Tensor
from mlconverter.formats.tflite.to_onnx import quantised
from mlconverter.formats.tflite.to_onnx.builder import IR_VERSION, SIXTEEN_BITS, Builder
from mlconverter.formats.tflite.to_onnx.operands import Op
from mlconverter.formats.tflite.to_onnx.ops import ACTIVATIONS, IGNORED_ACTIVATIONS, RECURRENT, translates
from mlconverter.formats.tflite.to_onnx.pairs import keep_pairs
from mlconverter.formats.tflite.to_onnx.spectra import TAKES_APART
from mlconverter.formats.tflite.to_onnx.translate import File, Translation
from mlconverter.formats.tflite.to_onnx.variables import HANDLING, State, states_of
from mlconverter.hub.model import HubModel
from mlconverter.hub.states import say_states
from mlconverter.hub.walk import drop_unused
from mlconverter.signature import IOSignature

FAMILIES = (
    "activations",
    "bits",
    "boxes",
    "control",
    "conv",
    "custom",
    "detection",
    "elementwise",
    "joining",
    "lstm",
    "lstm_basic",
    "matmul",
    "padding",
    "places",
    "pool",
    "recurrent",
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
    "svdf",
    "variables",
)
"""The modules that register translators."""

for _family in FAMILIES:
    importlib.import_module(f"mlconverter.formats.tflite.to_onnx.{_family}")


_REASONS = {
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
    "STABLEHLO_CUSTOM_CALL": "a function that the file names and does not hold",
    "DELEGATE": "a part of the model that only the delegate which made it can run",
}
"""Why operators have no translator, where that says more than that they have none."""


_CONTRADICTIONS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError)
"""What a translator raises for an operator whose options and tensors contradict each other."""


def convert(source: Any, signature: str | None = None, *, whole: bool = False) -> HubModel:
    """The ONNX graph of a TFLite file.

    Args:
        source: the file's bytes, or the model that was read from them.
        signature: which of the file's signatures to take.
        whole: write every activation, also one that quantising its result would see to.

    Raises:
        SignatureError: the file has no such signature.
        CorruptModelError: the bytes are no TFLite file, or a damaged one.
        UnsupportedOpsError: operators that cannot be translated, all of them; nothing was translated then.
        TranslationError: an operator could not be translated.
    """
    model = source if isinstance(source, Model) else load(source)
    border = border_of(model, signature)
    file = File(model, border.free_batch, border.free_sizes, whole)
    refused = unsupported(op for number in file.reached(border.subgraph) for op in file.ops(number))
    if refused:
        raise UnsupportedOpsError(translates.route, refused)
    return _built(file, border)


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
        return _REASONS.get(op.key, reason)
    for tensor in (*op.inputs, *op.outputs):
        if tensor is not None and (reason := _tensor_refusal(op, tensor)):
            return reason
    activation = getattr(op.options, "fusedActivationFunction", 0)
    if activation not in ACTIVATIONS and op.key not in RECURRENT:
        return f"fused activation {IGNORED_ACTIVATIONS.get(activation, activation)}, which LiteRT's kernels do not compute"
    if reason := quantised.refusal(op):
        return reason
    translator = translates.find(op.key, op.version)
    assert translator is not None
    try:
        refusal: str | None = translator.check(op) if translator.check else None
    except _CONTRADICTIONS as error:
        return f"its options do not fit its tensors ({type(error).__name__}: {error})"
    return refusal


def _tensor_refusal(op: Op, tensor: Tensor) -> str | None:
    if tensor.dtype == "resource" and op.key in HANDLING:
        return None
    if tensor.quantization_details is not None:
        return f"{tensor.quantization_details} of '{tensor.name}'"
    if tensor.dtype in PACKED:
        fits = tensor.grid is not None and op.model.is_constant(tensor)
        return None if fits else f"{tensor.dtype} tensors that are no quantised weights"
    if tensor.dtype not in NUMPY_DTYPES or (tensor.dtype.startswith("complex") and op.key not in {"RFFT2D", *TAKES_APART}):
        return f"{tensor.dtype} tensors"
    if tensor.grid is not None and tensor.grid.axis is not None and not op.model.is_constant(tensor):
        return f"'{tensor.name}', which is computed, has a scale for each index of an axis"
    return None


def _built(file: File, border: Border) -> HubModel:
    """The graph of a file whose operators are all known."""
    names = (*border.signature.input_names, *border.signature.output_names)
    b = Builder(names)
    walk = Translation(file, border.subgraph, b)
    inputs = [walk.input(spec, index) for spec, index in zip(border.signature.inputs, border.inputs, strict=True)]
    states = states_of(file, border.subgraph, b)
    inputs += [walk.state(state) for state in states]
    walk.run()
    outputs = [walk.output(spec, index) for spec, index in zip(border.signature.outputs, border.outputs, strict=True)]
    outputs += [walk.next_state(state) for state in states]
    graph = ir.Graph(
        inputs,
        outputs,
        nodes=b.nodes,
        initializers=b.initializers,
        opset_imports={"": b.opset},
        name=file.model.subgraphs[border.subgraph].name or "main",
    )
    model = ir.Model(graph, ir_version=IR_VERSION, producer_name="mlconverter")
    drop_unused(model)  # real numbers that stand for integers which are only moved
    if b.opset >= SIXTEEN_BITS:
        keep_pairs(model)
    say(about_file(file.model), model)
    hub = HubModel(model, _with_states(border, states), b.links)
    say_states(model, hub.signature, {state.input.name: state.initial for state in states})
    others = [s.key for s in file.model.signatures if s.key != border.key]
    if others:
        return hub.noting(f"Of the file's signatures '{border.key}' was converted; left out: {', '.join(others)}.")
    return hub


def _with_states(border: Border, states: Sequence[State]) -> IOSignature:
    return replace(
        border.signature,
        inputs=(*border.signature.inputs, *(state.input for state in states)),
        outputs=(*border.signature.outputs, *(state.output for state in states)),
        states=tuple((state.input.name, state.output.name) for state in states),
    )
