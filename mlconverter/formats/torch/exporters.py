"""Torch's two exporters to ONNX, called alike."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
from torch.jit._trace import TracerWarning

from mlconverter.errors import ConversionError
from mlconverter.formats.torch.corrections import corrections
from mlconverter.formats.torch.graph_names import without_prefix
from mlconverter.formats.torch.inputs import ExampleInput
from mlconverter.formats.torch.outputs import Flat
from mlconverter.formats.torch.quantised_export import names_of, translations
from mlconverter.hub.io import load_model
from mlconverter.hub.model import PADDING_KEY
from mlconverter.hub.naming import Names

PREFIX = "module."
"""What :class:`~mlconverter.formats.torch.outputs.Flat` puts before the names of weights."""

MOST_PLACES = 3


@dataclass(frozen=True)
class Exported:
    """A graph as an exporter made it; weights bear the names that they have in the module.

    Attributes:
        model: the graph.
        notes: for the report.
    """

    model: ir.Model
    notes: tuple[str, ...] = ()


def by_export(module: Flat, inputs: list[ExampleInput], opset: int | None) -> Exported:
    """``torch.onnx.export(dynamo=True)``: the module is understood, and what cannot be is refused.

    Raises:
        ConversionError: the exporter writes another opset.
        Exception: whatever the exporter refuses with.
    """
    free = dynamic_shapes(inputs)
    with _silent():
        program = torch.onnx.export(
            module,
            tuple(i.example for i in inputs),
            dynamo=True,
            optimize=False,  # the optimiser folds BatchNorm and attention projections into weights without names
            verbose=False,
            dynamic_shapes=(free,) if free else None,
            opset_version=opset,
            custom_translation_table={**corrections(), **translations()},
        )
    assert program is not None
    _keep_padding(program)
    _name_integers(program)
    return Exported(_checked(program.model, opset))


def dynamic_shapes(inputs: Sequence[ExampleInput]) -> tuple[dict[int, Any], ...] | None:
    """The free dimensions of inputs, as ``torch.export`` is told of them, ``None`` where none is.

    Which of them are equal the export finds out; naming them would say so beforehand.
    """
    free = tuple({a: torch.export.Dim.DYNAMIC for a, dim in enumerate(i.shape) if not isinstance(dim, int)} for i in inputs)
    return free if any(free) else None


def by_tracing(module: Flat, inputs: list[ExampleInput], opset: int | None) -> Exported:
    """``torch.onnx.export(dynamo=False)``: one run of the module is recorded, and what Python decides in it is fixed.

    Raises:
        ConversionError: the exporter writes another opset.
        Exception: whatever the exporter refuses with.
    """
    # Names that people give may be no words; these are put in their place afterwards.
    free = {
        f"input_{n}": {axis: dim or f"input_{n}_{axis}" for axis, dim in enumerate(i.shape) if not isinstance(dim, int)}
        for n, i in enumerate(inputs)
    }
    # The exporter ties weights of equal values where the root is in eval mode; all parts of it keep their own modes.
    module.training = True
    with _silent(), warnings.catch_warnings(record=True) as caught, tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("always")
        file = Path(folder) / "traced.onnx"
        torch.onnx.export(
            module,
            tuple(i.example.clone() for i in inputs),
            file,
            dynamo=False,
            verbose=False,
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
            input_names=list(free),
            dynamic_axes={name: axes for name, axes in free.items() if axes},
            opset_version=opset,
        )
        model = load_model(file)
    fixed = [w for w in caught if issubclass(w.category, TracerWarning)]
    places = list(dict.fromkeys(f"{Path(w.filename).name}, line {w.lineno}" for w in fixed))
    more = " and elsewhere" if len(places) > MOST_PLACES else ""
    said = (f"What the module decides at {'; '.join(places[:MOST_PLACES])}{more} is decided for all inputs as for the example.",)
    return Exported(_checked(model, opset), said if places else ())


def _keep_padding(program: Any) -> None:
    """Say of embeddings which row is padding; what they compute does not depend on it, only how they train."""
    embeddings = {
        f"{node.name}: aten.embedding.default": _padding_index(*node.args, **node.kwargs)
        for node in program.exported_program.graph.nodes
        if node.target is torch.ops.aten.embedding.default
    }
    for node in program.model.graph if embeddings else ():
        index = embeddings.get(node.metadata_props.get("namespace", "").rpartition("/")[2], -1)
        if node.op_type == "Gather" and index >= 0:
            node.metadata_props[PADDING_KEY] = str(index)


def _name_integers(program: Any) -> None:
    """Call integers as they are called in the graph that a module was made of; what is taken, or there twice, stays as it is."""
    known = names_of(program.exported_program)
    names = Names(program.model)
    for node in program.model.graph if known else ():
        name = known.get(node.metadata_props.get("namespace", "").rpartition("/")[2], "")
        if node.op_type == "QuantizeLinear" and name and not node.outputs[0].is_graph_output():
            node.outputs[0].name = names.new(name)


def _padding_index(weight: Any, indices: Any, padding_idx: int = -1, *_: Any, **more: Any) -> int:
    return padding_idx


def _checked(model: ir.Model, opset: int | None) -> ir.Model:
    made = model.opset_imports[""]
    if opset not in (None, made):
        raise ConversionError(f"the exporter writes opset {made}, not {opset}")
    without_prefix(model.graph, PREFIX)
    return model


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
