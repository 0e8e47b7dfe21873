"""Composite operators: names for a part of the model, which the file holds as a subgraph of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mlconverter.formats.tflite.structure import Model, Operator, Subgraph, Tensor

COMPOSITE = "STABLEHLO_COMPOSITE"


def inlined(model: Model, subgraph: Subgraph) -> Subgraph:
    """The subgraph with the operators in place that its composites stand for.

    A composite stays where its part hands a value through or calls itself; nothing translates it then.
    """
    if all(operator.op != COMPOSITE for operator in subgraph.operators):
        return subgraph
    tensors = list(subgraph.tensors)
    operators = [o for operator in subgraph.operators for o in _expanded(model, operator, tensors, ())]
    return replace(subgraph, tensors=tuple(tensors), operators=tuple(replace(o, index=i) for i, o in enumerate(operators)))


def _expanded(model: Model, operator: Operator, tensors: list[Tensor], around: tuple[int, ...]) -> Iterator[Operator]:
    number = operator.options.decompositionSubgraphIndex if operator.op == COMPOSITE else -1
    part = model.subgraphs[number] if 0 < number < len(model.subgraphs) and number not in around else None
    if part is None or not _stands_for(part, operator):
        yield operator
        return
    known = dict(zip((*part.inputs, *part.outputs), (*operator.inputs, *operator.outputs), strict=True)) | {-1: -1}
    for tensor in part.tensors:
        if tensor.index not in known:
            known[tensor.index] = len(tensors)
            tensors.append(replace(tensor, index=len(tensors)))
    for inner in part.operators:
        inputs, outputs = (tuple(known[i] for i in indices) for indices in (inner.inputs, inner.outputs))
        yield from _expanded(model, replace(inner, inputs=inputs, outputs=outputs), tensors, (*around, number))


def _stands_for(part: Subgraph, operator: Operator) -> bool:
    """Whether a part has the operator's inputs and outputs, and computes each output in itself and once."""
    computed = {i for inner in part.operators for i in inner.outputs}
    distinct = set(part.outputs) <= computed and len(set(part.outputs)) == len(part.outputs)
    return distinct and (len(part.inputs), len(part.outputs)) == (len(operator.inputs), len(operator.outputs))
