"""What a module takes and gives, found out by running it: no export is needed to run a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from mlconverter.errors import SignatureError
from mlconverter.formats.torch.dtypes import NAMES
from mlconverter.formats.torch.inputs import ExampleInput
from mlconverter.formats.torch.runner import flatten
from mlconverter.formats.torch.state import evaluating
from mlconverter.hub.model import BATCH
from mlconverter.options import ConvertOptions
from mlconverter.signature import Dim, IOSignature, TensorSpec


def observed_signature(module: nn.Module, inputs: Sequence[ExampleInput], options: ConvertOptions) -> IOSignature:
    """The signature of a module in ``eval()`` mode.

    The module is run twice, the second time with every free dimension one larger: what changes in the outputs is free.
    The batch counts as free where the options leave that open and the module takes another.

    Raises:
        SignatureError: the module does not run on the inputs, or has another number of outputs than names were given for.
    """
    with evaluating(module), torch.no_grad():
        first = run_examples(module, inputs)
        for free_batch in (True, False) if options.dynamic_batch is not False and _have_batch(inputs) else (False,):
            taken = [replace(i, shape=(BATCH, *i.shape[1:])) if free_batch else i for i in inputs]
            try:
                second = run_examples(module, [_enlarged(i) for i in taken])
                break
            except SignatureError:
                second = None
    names = output_names(len(first), inputs, options)
    if second is not None and [t.dim() for t in first] != [t.dim() for t in second]:
        raise SignatureError("The number or the rank of the module's outputs depends on the sizes of its inputs.")
    shapes = _shapes(first, second) if second is not None else [tuple(t.shape) for t in first]
    outputs = tuple(TensorSpec(n, s, NAMES[t.dtype]) for n, s, t in zip(names, shapes, first, strict=True))
    specs = tuple(TensorSpec(i.name, i.shape, NAMES[i.example.dtype]) for i in (taken if second is not None else inputs))
    return IOSignature(specs, outputs).laid_out("channels_first")


def run_examples(module: nn.Module, inputs: Sequence[ExampleInput]) -> list[torch.Tensor]:
    """The tensors that a module gives for example inputs.

    Raises:
        SignatureError: it does not run on them.
    """
    try:
        return flatten(module(*[i.example for i in inputs]))
    except Exception as error:  # whatever somebody's forward raises
        shapes = ", ".join(f"{i.name}: {tuple(i.example.shape)}" for i in inputs)
        reason = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        raise SignatureError(f"The module does not run on inputs of these shapes ({shapes}): {reason}") from error


def output_names(count: int, inputs: Sequence[ExampleInput], options: ConvertOptions) -> tuple[str, ...]:
    """The names of a module's outputs: those that were asked for, else ``output`` or ``output_0`` …, none of them an input's.

    Raises:
        SignatureError: there are more or fewer outputs than names.
    """
    if options.output_names is not None:
        if len(options.output_names) != count:
            raise SignatureError(f"output_names has {len(options.output_names)} names for {count} outputs.")
        return options.output_names
    taken = {i.name for i in inputs}
    default = ("output",) if count == 1 else tuple(f"output_{i}" for i in range(count))
    return tuple(f"{name}_out" if name in taken else name for name in default)


def _have_batch(inputs: Sequence[ExampleInput]) -> bool:
    return all(i.example.dim() > 0 for i in inputs)


def _enlarged(given: ExampleInput) -> ExampleInput:
    """The same input with every free dimension one larger."""
    example = given.example
    for axis, dim in enumerate(given.shape):
        if not isinstance(dim, int):
            example = torch.cat([example, example.narrow(axis, 0, 1)], axis)
    return replace(given, example=example)


def _shapes(first: list[torch.Tensor], second: list[torch.Tensor]) -> list[tuple[Dim, ...]]:
    """The shapes of outputs: what two runs have alike is fixed; a first dimension that grew with the batch is the batch."""
    shapes: list[tuple[Dim, ...]] = []
    for a, b in zip(first, second, strict=True):
        dims: list[Dim] = [m if m == n else None for m, n in zip(a.shape, b.shape, strict=True)]
        if dims and dims[0] is None and b.shape[0] == a.shape[0] + 1:
            dims[0] = BATCH
        shapes.append(tuple(dims))
    return shapes
