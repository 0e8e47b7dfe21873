"""What a module takes and gives, found out by running it: no export is needed to run a module."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from mlconverter.errors import SignatureError
from mlconverter.formats.torch.dtypes import name_of
from mlconverter.formats.torch.free_batch import with_free_batch
from mlconverter.formats.torch.inputs import ExampleInput
from mlconverter.formats.torch.outputs import flatten, output_names
from mlconverter.formats.torch.state import evaluating
from mlconverter.formats.torch.states import as_before
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
        results = result_of(module, inputs)
        names = border_names(output_names(results), inputs, options)
        first = flatten(results)
        taken, shapes = _freed(module, inputs, first, options)
    outputs = tuple(TensorSpec(n, s, name_of(t.dtype)) for n, s, t in zip(names, shapes, first, strict=True))
    specs = tuple(TensorSpec(i.name, i.shape, name_of(i.example.dtype)) for i in taken)
    return IOSignature(specs, outputs).laid_out("channels_first")


def _freed(
    module: nn.Module, inputs: Sequence[ExampleInput], first: list[torch.Tensor], options: ConvertOptions
) -> tuple[list[ExampleInput], list[tuple[Dim, ...]]]:
    """The inputs with the dimensions that may have other sizes, and the shapes of the outputs then."""
    given = list(inputs)
    for taken in (with_free_batch(inputs) if options.dynamic_batch is not False else None, given):
        if taken is None or all(isinstance(d, int) for i in taken for d in i.shape):
            continue
        with contextlib.suppress(SignatureError):  # it does not take another size, or not just any
            return taken, _shapes(taken, *(flatten(result_of(module, examples)) for examples in (taken, _enlarged(taken))))
    fixed = all(isinstance(d, int) for i in given for d in i.shape)
    return given, [tuple(t.shape) if fixed else (None,) * t.dim() for t in first]


def result_of(module: nn.Module, inputs: Sequence[ExampleInput]) -> Any:
    """What a module gives for example inputs.

    Raises:
        SignatureError: it does not run on them.
    """
    try:
        with as_before(module):
            return module(*[i.example.clone() for i in inputs])  # a forward may write into what it is given
    except Exception as error:  # whatever somebody's forward raises
        shapes = ", ".join(f"{i.name}: {tuple(i.example.shape)}" for i in inputs)
        reason = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        raise SignatureError(f"The module does not run on inputs of these shapes ({shapes}): {reason}") from error


def border_names(names: tuple[str, ...], inputs: Sequence[ExampleInput], options: ConvertOptions) -> tuple[str, ...]:
    """The names of a module's outputs: those that were asked for, else its own, none of them an input's.

    Raises:
        SignatureError: there are more or fewer outputs than names.
    """
    if options.output_names is not None:
        if len(options.output_names) != len(names):
            raise SignatureError(f"output_names has {len(options.output_names)} names for {len(names)} outputs.")
        return options.output_names
    taken = {i.name for i in inputs}
    return tuple(f"{name}_out" if name in taken else name for name in names)


def _enlarged(inputs: Sequence[ExampleInput]) -> list[ExampleInput]:
    """The same inputs with every free dimension one larger."""
    larger = []
    for given in inputs:
        example = given.example
        for axis, dim in enumerate(given.shape):
            if not isinstance(dim, int):
                example = torch.cat([example, example.narrow(axis, 0, 1)], axis)
        larger.append(replace(given, example=example))
    return larger


def _shapes(inputs: Sequence[ExampleInput], first: list[torch.Tensor], second: list[torch.Tensor]) -> list[tuple[Dim, ...]]:
    """The shapes of outputs: what two runs have alike is fixed; a first dimension that grew as the inputs' did is the batch.

    Raises:
        SignatureError: not only sizes differ.
    """
    if [t.dim() for t in first] != [t.dim() for t in second]:
        raise SignatureError("The number or the rank of the module's outputs depends on the sizes of its inputs.")
    batches = {i.shape[0] for i in inputs if i.shape}
    batch = batches.pop() if len(batches) == 1 else None
    shapes: list[tuple[Dim, ...]] = []
    for a, b in zip(first, second, strict=True):
        dims: list[Dim] = [m if m == n else None for m, n in zip(a.shape, b.shape, strict=True)]
        if dims and dims[0] is None and b.shape[0] == a.shape[0] + 1 and a.shape[0] == inputs[0].example.shape[0]:
            dims[0] = batch
        shapes.append(tuple(dims))
    return shapes
