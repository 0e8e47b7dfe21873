"""What a module gives, as a flat list of tensors with names: nested tuples, lists, dicts and dataclasses are taken apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from mlconverter.errors import SignatureError

Path = tuple[str | int, ...]


def flatten(results: Any) -> list[torch.Tensor]:
    """The tensors of a module's result, in order; a ``None`` inside a container counts as left out.

    Raises:
        SignatureError: something in the result is no tensor.
    """
    return [tensor for _, tensor in _leaves(results, ())]


def output_names(results: Any) -> tuple[str, ...]:
    """Names of the tensors of a module's result.

    One alone is ``output``, several in tuples and lists are ``output_0`` and so on; keys and fields are names themselves,
    and what lies deeper has the way to it in its name: ``boxes.0``.

    Raises:
        SignatureError: something in the result is no tensor, or there is nothing in it.
    """
    paths = [path for path, _ in _leaves(results, ())]
    if not paths:
        raise SignatureError(f"The module returns {_shown(results)}: no tensor that could be an output.")
    if not any(isinstance(step, str) for path in paths for step in path):
        return ("output",) if len(paths) == 1 else tuple(f"output_{i}" for i in range(len(paths)))
    return tuple(("output_" if isinstance(path[0], int) else "") + ".".join(map(str, path)) for path in paths)


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized:
            raise SignatureError(f"The module returns a {value.layout} tensor{_place(path)}; only plain tensors can be outputs.")
        yield path, value
        return
    children = _children(value)
    if children is None:
        raise SignatureError(f"The module returns {_shown(value)}{_place(path)}: only tensors can be outputs.")
    for step, child in children:
        if child is not None:
            yield from _leaves(child, (*path, step))


def _children(value: Any) -> list[tuple[str | int, Any]] | None:
    """What is in a container, ``None`` where this is none."""
    if isinstance(value, Mapping):  # also the outputs of transformers, which are dataclasses as well
        return [(str(key), child) for key, child in value.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    return list(enumerate(value)) if isinstance(value, (tuple, list)) else None


def _place(path: Path) -> str:
    return f" at {'.'.join(map(str, path))}" if path else ""


def _shown(value: Any) -> str:
    if value is None:
        return "None"
    text = repr(value) if isinstance(value, (int, float, complex, str, tuple, list, dict)) else ""
    return f"a {type(value).__name__}" + (f" ({text})" if 0 < len(text) <= 40 else "")


class Flat(nn.Module):
    """A module as exporters want it: called with tensors by position, giving one tuple of tensors."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors of the module's result, in order."""
        return tuple(flatten(self.module(*inputs)))
