"""Weights in half precision: stored as float16, and dequantised when the model is loaded."""

from __future__ import annotations

import numpy as np

from mlconverter.formats.tflite.from_onnx.values import Graph, Operation, Wire

LARGEST = float(np.finfo(np.float16).max)


def halved(graph: Graph) -> tuple[Graph, tuple[str, ...]]:
    """The graph with filters and matrices in half precision, and notes for the report.

    Vectors stay as they are: they take no room, and a bias is added to sums of many products.
    """
    stored: dict[Wire, Wire] = {}
    before: list[Operation] = []
    kept: list[str] = []
    for operation in graph.operations:
        for wire in operation.inputs:
            if wire is None or wire in stored or not _is_matrix(wire):
                continue
            values = wire.array
            if float(np.abs(values).max(initial=0)) > LARGEST:
                kept.append(wire.name)
                stored[wire] = wire
                continue
            half = Wire(wire.name, wire.dims, "float16", values.astype(np.float16))
            stored[wire] = Wire(f"{wire.name}/DEQUANTIZE", wire.dims, "float32")
            before.append(Operation("DEQUANTIZE", [half], [stored[wire]]))
    notes = [f"'{name}' stays in single precision: it has values beyond the range of half precision." for name in kept]
    after = []
    for o in graph.operations:
        parts = {field: halved(part) for field, part in o.graphs.items()}
        inputs = [None if i is None else stored.get(i, i) for i in o.inputs]
        after.append(Operation(o.op, inputs, o.outputs, o.options, o.version, {f: part for f, (part, _) in parts.items()}))
        notes += [note for _, more in parts.values() for note in more]
    return Graph(graph.name, [*before, *after], graph.inputs, graph.outputs), tuple(dict.fromkeys(notes))


def _is_matrix(wire: Wire) -> bool:
    return wire.is_weight and wire.data is not None and wire.dtype == "float32" and wire.rank > 1
