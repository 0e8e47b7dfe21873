"""Torch → ONNX through torch's own exporter, with parameter names kept and nothing folded into the weights."""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import onnx_ir as ir
import torch
from torch import nn

from mlconverter.errors import ConversionError, MissingDependencyError, SignatureError
from mlconverter.formats.torch.inputs import ExampleInput
from mlconverter.formats.torch.observed import output_names, run_examples
from mlconverter.formats.torch.state import evaluating
from mlconverter.hub.io import signature_of
from mlconverter.hub.model import BATCH, ROLE_KEY, HubModel
from mlconverter.hub.normalise import mark_weights, normalise
from mlconverter.options import ConvertOptions


def export(module: nn.Module, inputs: list[ExampleInput], options: ConvertOptions) -> HubModel:
    """The ONNX graph of a module in ``eval()`` mode.

    The batch, the first axis of all inputs, is free where the module lets it be (``dynamic_batch``); other
    dimensions are free where the shape that was given says so.

    Raises:
        ConversionError: no exporter takes the module; the message has the reason of each.
        MissingDependencyError: the exporter's package is missing.
    """
    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("onnxscript", "torch", "Exporting torch models") from error
    free = options.dynamic_batch is not False and all(i.example.dim() > 0 for i in inputs)
    if options.dynamic_batch is True and not free:
        raise ConversionError("The batch cannot be free: an input is a single number, which has no batch.")
    reasons = []
    with evaluating(module), torch.no_grad():
        outputs = run_examples(module, inputs)
        for batch in [True, False] if free else [False]:
            if batch:
                free_inputs = [_with_free_batch(i) for i in inputs]
                shapes = _dynamic_shapes(free_inputs)
            else:
                free_inputs, shapes = inputs, _dynamic_shapes(inputs)
            try:
                model = _dynamo(module, free_inputs, shapes, options)
                if batch and any(isinstance(v.shape[0], int) for v in model.graph.inputs if v.shape):
                    raise ConversionError("the module fixes it to the size of the example")
            except Exception as error:
                reasons.append(f"with a {'free' if batch else 'fixed'} batch: {_first_line(error)}")
                if options.dynamic_batch is True:
                    raise ConversionError(f"The module cannot be exported {reasons[0]}") from error
                continue
            notes = tuple(f"The batch stays fixed; export {reason}" for reason in reasons)
            return _finished(module, model, free_inputs, len(outputs), options, notes)
    raise ConversionError("torch.onnx.export does not take the module:\n" + "\n".join(f"  {r}" for r in reasons))


def _with_free_batch(given: ExampleInput) -> ExampleInput:
    example = given.example
    if example.shape[0] == 1:  # an export from a batch of 1 would take the 1 for fixed
        example = torch.cat([example, example.flip(-1) if example.dim() > 1 else example])
    return replace(given, shape=(BATCH, *given.shape[1:]), example=example)


def _dynamic_shapes(inputs: list[ExampleInput]) -> tuple[Any, ...] | None:
    """What ``torch.export`` takes: for each input, its free axes by position; the same name is the same dimension."""
    dims: dict[str, Any] = {}
    shapes = []
    for given in inputs:
        axes: dict[int, Any] = {}
        for axis, dim in enumerate(given.shape):
            if dim is None:
                axes[axis] = torch.export.Dim.DYNAMIC
            elif isinstance(dim, str):
                axes[axis] = dims.setdefault(dim, torch.export.Dim(dim))
        shapes.append(axes)
    return tuple(shapes) if any(shapes) else None


def _dynamo(module: nn.Module, inputs: list[ExampleInput], shapes: tuple[Any, ...] | None, options: ConvertOptions) -> ir.Model:
    with _silent():
        program = torch.onnx.export(
            module,
            tuple(i.example for i in inputs),
            dynamo=True,
            optimize=False,  # the optimiser folds BatchNorm and attention projections into weights without names
            verbose=False,
            dynamic_shapes=shapes,
            opset_version=options.opset,
        )
    assert program is not None
    made = program.model.opset_imports[""]
    if options.opset not in (None, made):
        raise ConversionError(f"the exporter writes opset {made}, not {options.opset}")
    return program.model


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep the exporter's progress and advice, which is for its own callers, off the terminal."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _finished(
    module: nn.Module, model: ir.Model, inputs: list[ExampleInput], outputs: int, options: ConvertOptions, notes: tuple[str, ...]
) -> HubModel:
    """Say what is a parameter, tidy up, and put the names at the border in place."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    for value in model.graph.initializers.values():
        value.metadata_props[ROLE_KEY] = "parameter" if value.name in parameters else "buffer"
    mark_weights(model)
    model = normalise(model)
    _without_traces(model)
    for value in model.graph.initializers.values():
        value.metadata_props.setdefault(ROLE_KEY, "buffer")  # computed by the graph itself, so nothing to train
    if len(model.graph.outputs) != outputs:
        raise ConversionError(f"The exporter gives {len(model.graph.outputs)} outputs, the module {outputs}.")
    names = output_names(outputs, inputs, options)
    _name_border(model.graph, [*(i.name for i in inputs), *names])
    signature = signature_of(model)
    return HubModel(model, signature.laid_out("channels_first"), notes=notes)


def _without_traces(model: ir.Model) -> None:
    """Drop the exporter's own records: lines of source text with the paths of whoever exported, and its view of each value."""
    for graph in model.graphs():
        nodes = list(graph)
        values = (*graph.inputs, *graph.initializers.values(), *(v for node in nodes for v in node.outputs))
        holders: tuple[ir.Model | ir.Graph | ir.Node | ir.Value, ...] = (model, graph, *nodes, *values)
        for properties in (holder.metadata_props for holder in holders):
            for key in [k for k in properties if k.startswith("pkg.")]:
                del properties[key]


def _name_border(graph: ir.Graph, names: list[str]) -> None:
    """Give inputs and outputs, in this order, their names; whatever else has one of them makes way.

    Raises:
        SignatureError: two of them would have the same name.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SignatureError(f"Inputs and outputs need names of their own; {twice} are there more than once in {names}.")
    for position, value in enumerate(graph.outputs):
        # An output that is an input, a weight, or the same value as another output, has no name of its own to give.
        if value.producer() is None or value in graph.outputs[:position]:
            copy = ir.Node("", "Identity", [value], num_outputs=1)
            copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
            graph.append(copy)
            graph.outputs[position] = copy.outputs[0]
    border = [*graph.inputs, *graph.outputs]
    values = [*(v for node in graph for v in node.outputs), *graph.inputs, *graph.initializers.values()]
    used = {*names, *(v.name for v in values)}
    for value in values:
        if value.name in names:
            number = next(n for n in itertools.count() if f"{value.name}_inner{n}" not in used)
            value.name = f"{value.name}_inner{number}"
            used.add(value.name)
    for value, name in zip(border, names, strict=True):
        value.name = name


def _first_line(error: BaseException) -> str:
    """The message that the exporter's wrapped errors end in."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"
