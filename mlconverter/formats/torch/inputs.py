"""Example inputs of a module from what a person gives as ``input_shape``."""

from __future__ import annotations

import inspect
import math
import operator
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from mlconverter.errors import SignatureError
from mlconverter.formats.torch.arrays import to_tensor
from mlconverter.formats.torch.dtypes import DTYPES
from mlconverter.formats.torch.state import device_of
from mlconverter.signature import Dim, IOSignature, Layout, TensorSpec
from mlconverter.verification.shapes import Role, concrete_shapes

SIZES: Mapping[Role, int] = {"batch": 2, "spatial": 64, "channels": 3, "other": 16}
"""Sizes of free dimensions in example inputs: an export takes a 1 for fixed, and deep networks lose few pixels altogether."""

_HOW = "a shape is a tuple such as (1, 3, 224, 224) or ('batch', 3, 224, 224)"


@dataclass(frozen=True)
class ExampleInput:
    """One input of a module.

    Attributes:
        name: as ``forward`` calls it.
        shape: dimensions; names and ``None`` are free.
        example: a tensor of that shape.
    """

    name: str
    shape: tuple[Dim, ...]
    example: torch.Tensor


@dataclass(frozen=True)
class _Wanted:
    """An input before there is a tensor for it."""

    name: str
    shape: tuple[Dim, ...]
    dtype: torch.dtype
    example: torch.Tensor | None = None
    layout: Layout | None = None


def example_inputs(module: nn.Module, given: Any, names: tuple[str, ...] | None = None) -> list[ExampleInput]:
    """The inputs of a module.

    Args:
        module: whose ``forward`` names them.
        given: one shape; several shapes in a list; a dict by name; or example tensors or arrays in any of these places.
            A shape may come with a dtype: ``((1, 16), "int64")``. A dimension that is ``None`` or a name is free.
        names: other names than ``forward`` has.

    Raises:
        SignatureError: nothing was given, or it does not fit ``forward``, or memory.
    """
    forward = _Forward.of(module)
    if given is None:
        raise SignatureError(
            "A torch module does not say which shapes it takes: give input_shape, for example (1, 3, 224, 224). "
            f"Its inputs: {forward}."
        )
    by_name = forward.by_name(given)
    if names is not None and len(names) != len(by_name):
        raise SignatureError(f"input_names has {len(names)} names for {len(by_name)} inputs.")
    usual = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    wanted = [_wanted(name, item, usual) for name, item in zip(names or by_name, by_name.values(), strict=True)]
    specs = tuple(TensorSpec(w.name, w.shape, str(w.dtype), w.layout) for w in wanted)
    sizes = concrete_shapes(IOSignature(specs, ()), defaults=SIZES)
    _refuse_too_much(wanted, sizes)
    device = device_of(module)
    return [ExampleInput(w.name, w.shape, _made(w, sizes[w.name]).to(device)) for w in wanted]


def described(given: Any) -> str:
    """What was given as inputs, as text; of tensors shape and dtype count."""
    if isinstance(given, (torch.Tensor, np.ndarray)):
        return f"{tuple(given.shape)}:{given.dtype}"
    if isinstance(given, Mapping):
        return f"{{{', '.join(f'{name}: {described(item)}' for name, item in given.items())}}}"
    if isinstance(given, (tuple, list)):
        return f"({', '.join(map(described, given))})"
    return str(given)


@dataclass(frozen=True)
class _Forward:
    """What a ``forward`` takes by position.

    Attributes:
        names: of its inputs.
        needed: how many of them have no default.
        more: whether it takes any number of others.
    """

    names: tuple[str, ...]
    needed: int = 0
    more: bool = False

    @classmethod
    def of(cls, module: nn.Module) -> _Forward:
        try:
            parameters = list(inspect.signature(module.forward).parameters.values())
        except (TypeError, ValueError):  # code that Python cannot look into
            return cls((), more=True)
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        only = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        if only:
            raise SignatureError(f"Inputs are passed by position; forward() takes {only} by keyword only.")
        needed = sum(p.default is p.empty for p in positional)
        return cls(tuple(p.name for p in positional), needed, any(p.kind is p.VAR_POSITIONAL for p in parameters))

    def by_name(self, given: Any) -> dict[str, Any]:
        """What was given for each input, in order."""
        if isinstance(given, Mapping):
            others = [name for name in given if name not in self.names]
            if others and not self.more:
                raise SignatureError(f"forward() has no input {others}; it takes {self}.")
            by_name = {name: given[name] for name in (*self.names, *others) if name in given}
        else:
            items = self._items(given)
            if len(items) > len(self.names) and not self.more:
                raise SignatureError(f"{len(items)} inputs were given, forward() takes {self}.")
            others = [f"input_{i}" for i in range(len(self.names), len(items))]
            by_name = dict(zip((*self.names, *others), items, strict=False))
        skipped = [name for name in self.names[: max(self.needed, len(by_name))] if name not in by_name]
        if skipped and len(by_name) >= self.needed:
            raise SignatureError(f"Inputs go by position: '{skipped[0]}' comes before some that were given, so give it too.")
        if skipped:
            raise SignatureError(f"forward() takes {self}; {skipped} were not given.")
        return by_name

    def _items(self, given: Any) -> Any:
        if not self.names and not self.more and isinstance(given, (tuple, list)) and not given:
            return []
        items = [given] if _is_one(given) else given
        if not isinstance(items, (tuple, list)):
            raise SignatureError(f"input_shape is {given!r}; {_HOW}, several are a list of those or a dict by name.")
        return items

    def __str__(self) -> str:
        return f"{[*self.names, *(['*'] if self.more else [])]}"


def _is_one(given: Any) -> bool:
    """Whether this is one input: a tensor, a shape, or a shape with its dtype."""
    return isinstance(given, (torch.Tensor, np.ndarray, TensorSpec)) or _is_shape(given) or _with_dtype(given)


def _is_shape(item: Any) -> bool:
    """Whether this was meant to be a shape: nothing in it is an input by itself."""
    inputs = (tuple, list, Mapping, torch.Tensor, np.ndarray, TensorSpec)
    return isinstance(item, (tuple, list)) and not any(isinstance(d, inputs) for d in item)


def _with_dtype(item: Any) -> bool:
    kinds = (str, torch.dtype, np.dtype, type)
    return isinstance(item, (tuple, list)) and len(item) == 2 and _is_shape(item[0]) and isinstance(item[1], kinds)


def _wanted(name: str, item: Any, usual: torch.dtype) -> _Wanted:
    layout: Layout | None = None
    if isinstance(item, np.ndarray):
        try:
            item = to_tensor(item)
        except TypeError as error:
            raise SignatureError(f"Input '{name}' is given as an array of {item.dtype}, which torch does not have.") from error
    if isinstance(item, torch.Tensor):
        if item.is_meta or item.layout is not torch.strided or item.is_quantized:
            raise SignatureError(f"Input '{name}' is given as a tensor that is not a plain one with values.")
        return _Wanted(name, _dims(name, tuple(item.shape)), item.dtype, item.detach())
    if isinstance(item, TensorSpec):
        if item.shape is None:
            raise SignatureError(f"Nothing is known about the shape of input '{name}'.")
        layout, item = item.layout, (item.shape, item.dtype)
    dtype = usual
    if _with_dtype(item):
        item, dtype = item[0], _dtype(name, item[1])
    if not _is_shape(item):
        raise SignatureError(f"Input '{name}' is given as {item!r}; {_HOW}.")
    return _Wanted(name, _dims(name, item), dtype, layout=layout)


def _dtype(name: str, wanted: Any) -> torch.dtype:
    if isinstance(wanted, torch.dtype):
        return wanted
    try:
        known = DTYPES.get(wanted if isinstance(wanted, str) and wanted in DTYPES else np.dtype(wanted).name)
    except TypeError:
        known = None
    if known is None:
        raise SignatureError(f"Input '{name}' has the unknown dtype {wanted!r}; known: {', '.join(DTYPES)}.")
    return known


def _dims(name: str, shape: Any) -> tuple[Dim, ...]:
    return tuple(_dim(name, axis, dim) for axis, dim in enumerate(shape))


def _dim(name: str, axis: int, dim: Any) -> Dim:
    if dim is None or (isinstance(dim, str) and dim.strip()):
        return dim
    try:
        size = None if isinstance(dim, (bool, np.bool_)) else operator.index(dim)
    except TypeError:
        size = None
    if size is None or size < 1:
        raise SignatureError(
            f"Axis {axis} of input '{name}' is given as {dim!r}; sizes are integers of at least 1, free ones None or a name."
        )
    return size


def _refuse_too_much(wanted: list[_Wanted], sizes: Mapping[str, tuple[int, ...]]) -> None:
    needed, there = sum(math.prod(sizes[w.name]) * w.dtype.itemsize for w in wanted), _memory()
    if needed > there:
        shapes = ", ".join(f"{name}: {shape}" for name, shape in sizes.items())
        raise SignatureError(
            f"Inputs of these shapes ({shapes}) need {needed / 2**30:.1f} GB of memory; there are {there / 2**30:.1f} GB."
        )


def _memory() -> int:
    """Bytes of memory that can be had."""
    try:
        found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text("ascii"))
    except OSError:
        found = None
    if found is not None:
        return int(found[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**40


def _made(wanted: _Wanted, sizes: tuple[int, ...]) -> torch.Tensor:
    if wanted.example is not None:
        return wanted.example
    generator = torch.Generator().manual_seed(0)
    if wanted.dtype.is_floating_point or wanted.dtype.is_complex:
        return torch.rand(sizes, generator=generator).to(wanted.dtype)
    if wanted.dtype is torch.bool:
        return torch.ones(sizes, dtype=wanted.dtype)
    return torch.randint(0, 2, sizes, generator=generator).to(wanted.dtype)
