"""Example inputs of a module from what a person gives as ``input_shape``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from mlconverter.errors import SignatureError
from mlconverter.formats.torch.dtypes import DTYPES
from mlconverter.signature import Dim, TensorSpec

EXAMPLE_SIZE = 2
"""Size of free dimensions in example inputs; an export from 1 would take the 1 for fixed."""


@dataclass(frozen=True)
class ExampleInput:
    """One input of a module.

    Attributes:
        name: as ``forward`` calls it.
        shape: dimensions; names and ``None`` are free.
        example: a tensor of that shape, 2 for free dimensions.
    """

    name: str
    shape: tuple[Dim, ...]
    example: torch.Tensor


def example_inputs(module: nn.Module, given: Any, names: tuple[str, ...] | None = None) -> list[ExampleInput]:
    """The inputs of a module.

    Args:
        module: whose ``forward`` names them.
        given: one shape; several shapes in a list; a dict by name; or example tensors or arrays in any of these places.
            A shape may come with a dtype: ``((1, 16), "int64")``. A dimension that is ``None`` or a name is free.
        names: other names than ``forward`` has.

    Raises:
        SignatureError: nothing was given, or it does not fit ``forward``.
    """
    parameters = _parameters(module)
    if isinstance(given, (str, int)):
        raise SignatureError(f"input_shape is {given!r}; a shape is a tuple such as (1, 3, 224, 224).")
    if given is None:
        raise SignatureError(
            "A torch module does not say which shapes it takes: give input_shape, for example (1, 3, 224, 224). "
            f"Its inputs: {parameters}."
        )
    if isinstance(given, Mapping):
        unknown = sorted(set(given) - set(parameters))
        if unknown and parameters:
            raise SignatureError(f"forward() has no input {unknown}; it takes {parameters}.")
        by_name = {name: given[name] for name in parameters if name in given} or dict(given)
        if list(by_name) != parameters[: len(by_name)] and parameters:
            missing = next(name for name, other in zip(parameters, by_name, strict=False) if name != other)
            raise SignatureError(f"Inputs are passed by position: '{missing}' comes before some that were given, so give it too.")
    else:
        items = [given] if _is_one(given) else list(given)
        if len(items) > len(parameters):
            raise SignatureError(f"{len(items)} inputs were given, forward() takes {parameters}.")
        by_name = dict(zip(parameters, items, strict=False))
    if names is not None and len(names) != len(by_name):
        raise SignatureError(f"input_names has {len(names)} names for {len(by_name)} inputs.")
    return [_example(name, item, module) for name, item in zip(names or by_name, by_name.values(), strict=True)]


def described(given: Any) -> str:
    """What was given as inputs, as text; of tensors shape and dtype count."""
    if isinstance(given, (torch.Tensor, np.ndarray)):
        return f"{tuple(given.shape)}:{given.dtype}"
    if isinstance(given, Mapping):
        return f"{{{', '.join(f'{name}: {described(item)}' for name, item in given.items())}}}"
    if isinstance(given, (tuple, list)):
        return f"({', '.join(map(described, given))})"
    return str(given)


def _parameters(module: nn.Module) -> list[str]:
    kinds = inspect.Parameter
    parameters = inspect.signature(module.forward).parameters.values()
    found = [p.name for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
    return found or ([f"input_{i}" for i in range(16)] if variadic else [])


def _is_dims(item: Any) -> bool:
    return isinstance(item, (tuple, list)) and all(d is None or isinstance(d, (int, str)) for d in item)


def _is_one(given: Any) -> bool:
    """Whether this is one input: a tensor, a shape, or a shape with its dtype."""
    return isinstance(given, (torch.Tensor, np.ndarray, TensorSpec)) or _is_dims(given) or _with_dtype(given)


def _with_dtype(item: Any) -> bool:
    return isinstance(item, (tuple, list)) and len(item) == 2 and _is_dims(item[0]) and isinstance(item[1], (str, torch.dtype))


def _example(name: str, item: Any, module: nn.Module) -> ExampleInput:
    if isinstance(item, np.ndarray):
        item = torch.from_numpy(item)
    if isinstance(item, torch.Tensor):
        return ExampleInput(name, tuple(item.shape), item)
    if isinstance(item, TensorSpec):
        item = (item.shape or (), item.dtype)
    dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    if _with_dtype(item):
        item, wanted = item
        found = wanted if isinstance(wanted, torch.dtype) else DTYPES.get(wanted)
        if found is None:
            raise SignatureError(f"Input '{name}' has the unknown dtype {wanted!r}; known: {', '.join(DTYPES)}.")
        dtype = found
    if not _is_dims(item):
        raise SignatureError(f"Input '{name}' is given as {item!r}; a shape is a tuple such as (1, 3, 224, 224).")
    shape = tuple(item)
    sizes = [d if isinstance(d, int) else EXAMPLE_SIZE for d in shape]
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point or dtype.is_complex:
        return ExampleInput(name, shape, torch.rand(sizes, generator=generator).to(dtype))
    if dtype is torch.bool:
        return ExampleInput(name, shape, torch.ones(sizes, dtype=dtype))
    return ExampleInput(name, shape, torch.randint(0, 2, sizes, generator=generator).to(dtype))
