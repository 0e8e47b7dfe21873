"""States as variables: what comes in from the call before is read from one, what the next call is given is assigned to it."""

from __future__ import annotations

from collections.abc import Mapping

from mlconverter.errors import ConversionError, TranslationError
from mlconverter.formats.tflite.from_onnx.values import Array, Graph, Operation, Wire
from mlconverter.hub.dims import rename_dims
from mlconverter.hub.model import HubModel
from mlconverter.options import ConvertOptions
from mlconverter.signature import IOSignature

MOST_AXES = 6
"""Of a variable: its default kernels refuse to read more, and with that the whole file."""


def of_fixed_size(hub: HubModel, options: ConvertOptions) -> HubModel:
    """The model with states of one size: where they have a free one, that is 1 everywhere, since they start at some value.

    Args:
        hub: the model.
        options: whether somebody insists on a free batch.

    Raises:
        ConversionError: somebody does.
    """
    states = {name for name, _ in hub.signature.states}
    free = {d for spec in hub.signature.inputs if spec.name in states for d in spec.shape or () if isinstance(d, str)}
    if not free:
        return hub
    reason = "states that the model keeps from call to call are of a fixed size"
    if options.dynamic_batch is True:
        raise ConversionError(f"The batch cannot be free: {reason}.")
    fixed = rename_dims(hub, dict.fromkeys(free, 1))
    return fixed.noting(*(f"The free dimension '{name}' is fixed at 1: {reason}." for name in sorted(free)))


def with_variables(graph: Graph, signature: IOSignature, initial: Mapping[str, Array]) -> Graph:
    """The graph with a variable in the place of each state's input and output.

    Args:
        graph: the model, with one input and one output for each of the signature.
        signature: names the states.
        initial: what they are before the first call, by the names of their inputs.

    Raises:
        TranslationError: a state has more axes than LiteRT keeps.
    """
    if not signature.states:
        return graph
    came = dict(zip(signature.input_names, graph.inputs, strict=True))
    goes = dict(zip(signature.output_names, graph.outputs, strict=True))
    first: list[Operation] = []
    before: list[Operation] = []
    after: list[Operation] = []
    for name, output in signature.states:
        value = came[name]
        if value.rank > MOST_AXES:
            raise TranslationError(name, "graph", f"LiteRT keeps states of at most {MOST_AXES} axes, not {value.rank}")
        constant = Wire(f"{name}/initial", initial[name].shape, value.dtype, initial[name], quantization=value.quantization)
        once, handle = _handle(name), _handle(name)
        first += [once, Operation("ASSIGN_VARIABLE", [once.outputs[0], constant], [])]
        before += [handle, Operation("READ_VARIABLE", [handle.outputs[0]], [value])]
        after.append(Operation("ASSIGN_VARIABLE", [handle.outputs[0], goes[output]], []))
    call = Operation("CALL_ONCE", [], [], graphs={"initSubgraphIndex": Graph("initial", first, [], [])})
    kept = signature.without_states
    inputs, outputs = [came[n] for n in kept.input_names], [goes[n] for n in kept.output_names]
    # All are read before any is assigned: a call sees what the call before has left, whatever its operators' order.
    return Graph(graph.name, [call, *before, *graph.operations, *after], inputs, outputs)


def _handle(name: str) -> Operation:
    return Operation("VAR_HANDLE", [], [Wire(f"{name}/handle", (), "resource")], {"sharedName": name.encode()})
