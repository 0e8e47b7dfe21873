"""What a TFLite file promises beside its signature."""

from __future__ import annotations

import hashlib
from typing import Any

from mlconverter.formats.tflite.metadata import about_file
from mlconverter.formats.tflite.structure import Model


def features_of(model: Model) -> dict[str, Any]:
    """The features of a file, in types that JSON has.

    How weights are stored is told of those with several elements: scalars and settings are as the converter likes.
    """
    about = about_file(model)
    constants = [t for graph in model.subgraphs for t in graph.tensors if t.size > 1 and model.is_constant(t)]
    return {
        "schema": model.version,
        "description": about.description,
        "metadata": {name: _digest(content) for name, content in sorted(about.entries.items())},
        "associated_files": {name: _digest(content) for name, content in sorted(about.files.items())},
        "signatures": {(s.key or ""): {"inputs": sorted(s.inputs), "outputs": sorted(s.outputs)} for s in model.signatures},
        "variables": model.keeps_state,
        "half_precision_weights": any(t.dtype == "float16" for t in constants),
        "sparse_weights": any(t.sparsity is not None for t in constants),
        "quantised_weights": sorted({t.dtype for t in constants if t.grid is not None}),
        "custom_operators": sorted({o.op for graph in model.subgraphs for o in graph.operators if o.custom}),
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
