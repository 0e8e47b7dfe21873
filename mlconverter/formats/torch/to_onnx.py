"""Torch → ONNX through torch's own exporters, with parameter names kept and nothing folded into the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from mlconverter.errors import ConversionError, MissingDependencyError, SignatureError
from mlconverter.formats.torch.exporters import Exported, by_export, by_tracing
from mlconverter.formats.torch.graph_names import name_border, name_sizes
from mlconverter.formats.torch.inputs import ExampleInput
from mlconverter.formats.torch.module import as_stored
from mlconverter.formats.torch.outputs import Flat, output_names
from mlconverter.formats.torch.state import evaluating
from mlconverter.formats.torch.trace_check import trace_failure
from mlconverter.hub.io import signature_of
from mlconverter.hub.model import BATCH, ROLE_KEY, HubModel
from mlconverter.hub.normalise import mark_weights, normalise
from mlconverter.options import ConvertOptions

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


def export(module: nn.Module, inputs: list[ExampleInput], options: ConvertOptions) -> HubModel:
    """The ONNX graph of a module in ``eval()`` mode.

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
        names = output_names(_result(module, inputs))
        flat = Flat(as_stored(module))
        for attempt in _attempts(inputs, options):
            try:
                hub = _exported(attempt, flat, names, options)
            except ConversionError as error:
                failed.append((attempt, str(error)))
            else:
                return hub.noting(*_notes(attempt, failed))
    reasons = "\n".join(f"  {attempt}: {reason}" for attempt, reason in failed)
    raise ConversionError(f"The module cannot be exported by torch.onnx:\n{reasons}")


def _exported(attempt: _Attempt, flat: Flat, names: tuple[str, ...], options: ConvertOptions) -> HubModel:
    """The graph that one attempt gives.

    Raises:
        ConversionError: it gives none, or one that is not right.
    """
    try:
        exported = attempt.exporter(flat, attempt.inputs, options.opset)
    except ConversionError:
        raise
    except Exception as error:  # exporters raise whatever goes wrong inside them
        raise ConversionError(_first_line(error)) from error
    hub = _finished(flat.module, exported, attempt.inputs, names, options)
    reason = trace_failure(flat, hub) if attempt.exporter is by_tracing else None
    if reason is not None:
        raise ConversionError(reason)
    return hub


def _attempts(inputs: list[ExampleInput], options: ConvertOptions) -> Iterator[_Attempt]:
    free = None if options.dynamic_batch is False else _with_free_batch(inputs)
    if free is None and options.dynamic_batch is True:
        raise ConversionError(
            "The batch cannot be free: an input is a single number, which has no batch, or the first axes differ in size."
        )
    for exporter in (by_export, by_tracing):
        if free is not None:
            yield _Attempt(exporter, free, "free")
        if options.dynamic_batch is not True and free is not inputs:
            yield _Attempt(exporter, inputs, "fixed")


def _with_free_batch(inputs: list[ExampleInput]) -> list[ExampleInput] | None:
    """The inputs with a free first axis, under the name that was given where one was; ``None`` where that is no batch."""
    if not all(i.shape for i in inputs) or len({i.shape[0] for i in inputs if isinstance(i.shape[0], int)}) > 1:
        return None
    if not any(isinstance(i.shape[0], int) for i in inputs):
        return inputs
    return [_freed(i) if isinstance(i.shape[0], int) else i for i in inputs]


def _freed(given: ExampleInput) -> ExampleInput:
    example = given.example
    if example.shape[0] == 1:  # an export from a batch of 1 would take the 1 for fixed
        example = torch.cat([example, example.flip(-1) if example.dim() > 1 else example])
    return replace(given, shape=(BATCH, *given.shape[1:]), example=example)


def _result(module: nn.Module, inputs: list[ExampleInput]) -> Any:
    """What the module gives for the example inputs."""
    try:
        return module(*[i.example.clone() for i in inputs])
    except Exception as error:
        shapes = ", ".join(f"{i.name}: {tuple(i.example.shape)}" for i in inputs)
        raise SignatureError(f"The module does not run on inputs of these shapes ({shapes}): {_first_line(error)}") from error


def _notes(attempt: _Attempt, failed: list[tuple[_Attempt, str]]) -> Iterator[str]:
    if attempt.batch == "fixed" and len(failed) and failed[0][0].batch == "free":
        yield from (f"The batch stays fixed; export {a}: {reason}." for a, reason in failed if a.batch == "free")
    if attempt.exporter is by_tracing:
        reasons = "; ".join(reason for a, reason in failed if a.exporter is by_export)
        yield (
            f"torch.onnx.export(dynamo=True) does not take the module ({reasons}), so the older exporter recorded one run of it. "
            "The record gave what the module gives on other inputs, sizes and signs; nothing proves it for every input."
        )


def _finished(
    module: nn.Module, exported: Exported, inputs: list[ExampleInput], names: tuple[str, ...], options: ConvertOptions
) -> HubModel:
    """Say what is a parameter, tidy up, and put the names at the border in place."""
    model = exported.model
    if len(model.graph.inputs) != len(inputs) or len(model.graph.outputs) != len(names):
        raise ConversionError(f"the exporter gives {len(model.graph.inputs)} inputs and {len(model.graph.outputs)} outputs")
    same = name_sizes(model.graph, [i.shape for i in inputs])
    parameters = dict(module.named_parameters(remove_duplicate=False))
    for value in model.graph.initializers.values():
        value.metadata_props[ROLE_KEY] = "parameter" if value.name in parameters else "buffer"
    mark_weights(model)
    model = normalise(model)
    for value in model.graph.initializers.values():
        value.metadata_props.setdefault(ROLE_KEY, "buffer")  # computed by the graph itself, so nothing to train
    taken = {i.name for i in inputs}
    default = tuple(f"{name}_out" if name in taken else name for name in names)
    wanted = default if options.output_names is None else options.output_names
    if len(wanted) != len(names):
        raise SignatureError(f"output_names has {len(wanted)} names for {len(names)} outputs.")
    name_border(model.graph, [*(i.name for i in inputs), *wanted])
    signature = signature_of(model).laid_out("channels_first")
    return HubModel(model, signature, notes=(*exported.notes, *same))


def _first_line(error: BaseException) -> str:
    """The message that the exporter's wrapped errors end in."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}".rstrip(" .:")
