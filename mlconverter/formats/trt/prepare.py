"""The graph that TensorRT's parser gets: in a form that it takes, and in the precision that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from mlconverter.errors import ConversionError, SignatureError
from mlconverter.hub.model import HubModel
from mlconverter.hub.normalise import normalise
from mlconverter.hub.walk import graphs
from mlconverter.options import ConvertOptions, Samples
from mlconverter.signature import IOSignature

_HALVES = {"fp16": ir.DataType.FLOAT16, "bf16": ir.DataType.BFLOAT16}
_EIGHTS = {"int8": ir.DataType.INT8, "fp8": ir.DataType.FLOAT8E4M3FN}


def prepared(hub: HubModel, options: ConvertOptions) -> tuple[ir.Model, tuple[str, ...]]:
    """A copy of a graph for TensorRT, and notes for the report.

    Raises:
        SignatureError: ``int8`` or ``fp8`` without inputs to calibrate on, or with such that do not fit.
        ConversionError: the graph cannot be put into that precision.
    """
    from mlconverter.formats.trt.forms import parser_form

    model, said = parser_form(normalise(hub.model))
    notes: tuple[str, ...] = ()
    if options.precision in _HALVES:
        from mlconverter.formats.trt.half import to_half

        _refuse_other_half(model, options.precision)
        notes = to_half(model, _HALVES[options.precision])
    elif options.precision in _EIGHTS and not (options.calibration is None and _is_quantised(model)):
        from mlconverter.formats.trt.quantise import quantise

        notes = quantise(model, _named(options.calibration, hub.signature, options.precision), _EIGHTS[options.precision])
        if not _is_quantised(model):
            raise ConversionError(
                f"Nothing of the model would be computed in {options.precision}: only convolutions and products with constant "
                "matrices in single precision are, with samples that are not all zero."
            )
    _name_outputs(model, hub.signature.output_names)
    return model, (*said, *notes)


def _name_outputs(model: ir.Model, names: Sequence[str]) -> None:
    """Have every output computed under its name, in place: an engine has names alone, and one value may be two outputs."""
    outputs, taken = model.graph.outputs, set[ir.Value]()
    for position, (value, name) in enumerate(zip(tuple(outputs), names, strict=True)):
        if value.name == name and value not in taken and value.producer() is not None:
            taken.add(value)
            continue
        copy = ir.node("Identity", [value])
        made = copy.outputs[0]
        made.name, made.type, made.shape = name, value.type, value.shape
        model.graph.append(copy)
        outputs[position] = made


def _refuse_other_half(model: ir.Model, precision: str) -> None:
    """Refuse what computes in another half than the one that is asked for.

    Raises:
        ConversionError: it does.
    """
    found = {
        v.dtype for graph in graphs(model) for node in graph if node.op_type != "Cast" for v in (*node.inputs, *node.outputs) if v
    }
    other = next((dtype for name, dtype in _HALVES.items() if name != precision and dtype in found), None)
    if other is not None:
        raise ConversionError(
            f"The model computes in {other.name.lower()} itself; an engine in {precision} needs it in single precision."
        )


def _is_quantised(model: ir.Model) -> bool:
    """Whether a model says itself what is computed in integers, in a way that TensorRT does it."""
    return any(node.op_type == "QuantizeLinear" for graph in graphs(model) for node in graph)


def _named(samples: Samples | None, signature: IOSignature, precision: str) -> list[Mapping[str, Any]]:
    """Inputs to calibrate on, by name.

    Raises:
        SignatureError: there are none, or more or fewer in one than the model takes.
    """
    if samples is None or not samples.inputs:
        raise SignatureError(
            f"An engine in {precision} needs calibration=[…], inputs on which the ranges of its values are measured: some "
            "hundred of those that it will be given."
        )
    names = signature.input_names
    for sample in samples.inputs:
        if isinstance(sample, tuple) and len(sample) != len(names):
            raise SignatureError(f"A sample to calibrate on has {len(sample)} inputs; the model takes {', '.join(names)}.")
    return [s if isinstance(s, Mapping) else dict(zip(names, s, strict=True)) for s in samples.inputs]
