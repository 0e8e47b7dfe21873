"""Torch → ONNX through torch's own exporters, with parameter names kept and nothing folded into the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx_ir as ir
import torch
from torch import nn

from mlconverter.errors import ConversionError, MissingDependencyError
from mlconverter.formats.torch.arrays import to_numpy
from mlconverter.formats.torch.carried import Carried, state_input
from mlconverter.formats.torch.exporters import Exported, by_export, by_tracing
from mlconverter.formats.torch.free_batch import with_free_batch
from mlconverter.formats.torch.graph_names import name_border, name_sizes
from mlconverter.formats.torch.inputs import ExampleInput
from mlconverter.formats.torch.module import as_stored
from mlconverter.formats.torch.observed import border_names, result_of
from mlconverter.formats.torch.outputs import Flat, output_names
from mlconverter.formats.torch.quantised_export import Form, quantised_form
from mlconverter.formats.torch.state import evaluating
from mlconverter.formats.torch.states import states_of
from mlconverter.formats.torch.trace_check import trace_failure
from mlconverter.hub.io import signature_of
from mlconverter.hub.model import ROLE_KEY, HubModel
from mlconverter.hub.normalise import mark_weights, normalise
from mlconverter.hub.states import say_states, with_states
from mlconverter.hub.walk import graphs
from mlconverter.hub.whole_weights import make_weights_whole
from mlconverter.options import ConvertOptions

if TYPE_CHECKING:
    from mlconverter.formats.torch.from_onnx.runtime import State

Exporter = Callable[[Flat, list[ExampleInput], int | None], Exported]


@dataclass(frozen=True)
class _Attempt:
    """One way to export a module.

    Attributes:
        exporter: which of torch's exporters.
        inputs: with the dimensions that are to be free.
        batch: what becomes of the batch, in words.
    """

    exporter: Exporter
    inputs: list[ExampleInput]
    batch: str

    def __str__(self) -> str:
        return f"with a {self.batch} batch" + (", by tracing" if self.exporter is by_tracing else "")


def export(module: nn.Module, inputs: list[ExampleInput], options: ConvertOptions) -> tuple[HubModel, bool]:
    """The ONNX graph of a module in ``eval()`` mode, and whether nothing in it but the weights comes from their values.

    The batch, the first axis of all inputs, is free where the module lets it be (``dynamic_batch``); other
    dimensions are free where the shape that was given says so. ``torch.onnx.export(dynamo=True)`` goes first. What it
    refuses goes to the older exporter, which records one run: the record is taken only if it gives what the module
    gives on many other inputs, see :mod:`~mlconverter.formats.torch.trace_check`.

    Raises:
        ConversionError: no exporter takes the module; the message has the reason of each.
        MissingDependencyError: the exporter's package is missing.
        SignatureError: the module does not run on the inputs, or what it gives are no tensors.
    """
    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("onnxscript", "torch", "Exporting torch models") from error
    failed: list[tuple[_Attempt, str]] = []
    with evaluating(module), torch.no_grad():
        names = border_names(output_names(result_of(module, inputs)), inputs, options)
        flat = (Carried if states_of(module) else Flat)(as_stored(module))
        plain = Form(flat, options.opset)
        forms: dict[Exporter, Form] = {by_tracing: plain, by_export: quantised_form(module, plain)}
        for attempt in _attempts(inputs, options):
            try:
                hub = _exported(attempt, forms[attempt.exporter], names)
            except ConversionError as error:
                failed.append((attempt, str(error)))
            else:
                # One run that is recorded may have decided by them, and rounded ones are not the module's.
                free = attempt.exporter is by_export and not forms[by_export].grids and flat.module is module
                return hub.noting(*_notes(attempt, failed)), free
    reasons = "\n".join(f"  {attempt}: {reason}" for attempt, reason in failed)
    raise ConversionError(f"The module cannot be exported by torch.onnx:\n{reasons}")


def _exported(attempt: _Attempt, form: Form, names: tuple[str, ...]) -> HubModel:
    """The graph that one attempt gives.

    Raises:
        ConversionError: it gives none, or one that is not right.
    """
    flat = form.module
    states = flat.states if isinstance(flat, Carried) else []
    inputs = [*attempt.inputs, *(state_input(state, attempt.inputs[0]) for state in states)]
    try:
        exported = attempt.exporter(flat, inputs, form.opset)
    except ConversionError:
        raise
    except Exception as error:  # exporters raise whatever goes wrong inside them
        raise ConversionError(_first_line(error)) from error
    hub = _finished(form, exported, inputs, (*names, *(state.names[1] for state in states)))
    hub = _with_states(hub, states) if states else hub
    reason = trace_failure(flat, hub) if attempt.exporter is by_tracing else None
    if reason is not None:
        raise ConversionError(reason)
    return hub


def _attempts(inputs: list[ExampleInput], options: ConvertOptions) -> Iterator[_Attempt]:
    free = None if options.dynamic_batch is False else with_free_batch(inputs)
    if free is None and options.dynamic_batch is True:
        raise ConversionError(
            "The batch cannot be free: an input is a single number, which has no batch, or the first axes differ in size."
        )
    for exporter in (by_export, by_tracing):
        if free is not None:
            yield _Attempt(exporter, free, "free")
        if options.dynamic_batch is not True and free is not inputs:
            yield _Attempt(exporter, inputs, "fixed")


def _notes(attempt: _Attempt, failed: list[tuple[_Attempt, str]]) -> Iterator[str]:
    if attempt.batch == "fixed" and len(failed) and failed[0][0].batch == "free":
        yield from (f"The batch stays fixed; export {a}: {reason}." for a, reason in failed if a.batch == "free")
    if attempt.exporter is by_tracing:
        reasons = "; ".join(reason for a, reason in failed if a.exporter is by_export)
        yield (
            f"torch.onnx.export(dynamo=True) does not take the module ({reasons}), so the older exporter recorded one run of it. "
            "The record gave what the module gives on other inputs, sizes and signs; nothing proves it for every input."
        )


def _finished(form: Form, exported: Exported, inputs: list[ExampleInput], names: tuple[str, ...]) -> HubModel:
    """Say what is a parameter, tidy up, and put the names at the border in place."""
    model = exported.model
    if len(model.graph.inputs) != len(inputs) or len(model.graph.outputs) != len(names):
        raise ConversionError(f"the exporter gives {len(model.graph.inputs)} inputs and {len(model.graph.outputs)} outputs")
    same = name_sizes(model.graph, [i.shape for i in inputs])
    parameters = dict(form.module.module.named_parameters(remove_duplicate=False))
    for value in model.graph.initializers.values():
        value.metadata_props[ROLE_KEY] = _role(parameters, value.name or "")
    make_weights_whole(model, form.grids)
    mark_weights(model)
    model = normalise(model)
    _without_traces(model)
    for value in model.graph.initializers.values():
        value.metadata_props.setdefault(ROLE_KEY, "buffer")  # computed by the graph itself, so nothing to train
    name_border(model.graph, [*(i.name for i in inputs), *names])
    signature = signature_of(model).laid_out("channels_first")
    return HubModel(model, signature, notes=(*exported.notes, *same))


def _with_states(hub: HubModel, states: list[State]) -> HubModel:
    """The model with a note of which inputs and outputs are states, and what those are before the first call."""
    signature = replace(hub.signature, states=tuple(state.names for state in states))
    say_states(hub.model, signature, {state.names[0]: to_numpy(state.initial) for state in states})
    return replace(hub, signature=with_states(signature, hub.model.metadata_props))


def _role(parameters: Mapping[str, nn.Parameter], name: str) -> str:
    """What a weight is in its module; one in which nothing is trained was meant for inference, and all of it is trainable."""
    if name not in parameters:
        return "buffer"
    alone = parameters[name].requires_grad or not any(p.requires_grad for p in parameters.values())
    return "parameter" if alone else "frozen"


def _without_traces(model: ir.Model) -> None:
    """Drop the exporter's own records: lines of source text with the paths of whoever exported, and its view of each value."""
    for graph in graphs(model):
        nodes = list(graph)
        values = (*graph.inputs, *graph.initializers.values(), *(v for node in nodes for v in node.outputs))
        holders: tuple[ir.Model | ir.Graph | ir.Node | ir.Value, ...] = (model, graph, *nodes, *values)
        for properties in (holder.metadata_props for holder in holders):
            for key in [k for k in properties if k.startswith("pkg.")]:
                del properties[key]


def _first_line(error: BaseException) -> str:
    """The message that the exporter's wrapped errors end in."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}".rstrip(" .:")
