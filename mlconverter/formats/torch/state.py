"""The state of a module: its mode, its values, and a digest of them."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from mlconverter.errors import SignatureError
from mlconverter.formats.torch.arrays import to_tensor
from mlconverter.hub.weights import Array

Module = TypeVar("Module", bound=nn.Module)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module and all in it into the mode that ``eval()`` sets, and each back into its own mode afterwards.

    ``eval()`` itself is not called: modules that do more than that in theirs would not be as they were.
    """
    modes = [(part, part.training) for part in module.modules()]
    try:
        for part, _ in modes:
            part.training = False
        yield
    finally:
        for part, training in modes:
            part.training = training


def state_hash(module: nn.Module) -> str:
    """A digest of the values of all parameters and buffers; version counters of tensors miss writes to ``.data``."""
    digest = hashlib.blake2b(digest_size=20)
    for name, tensor in (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)):
        digest.update(f"{name}:{tuple(tensor.shape)}:{tensor.dtype}".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    return digest.hexdigest()


_INTERNAL = frozenset(vars(nn.Module()))
"""Attributes that every module has: its tables of parameters and hooks, and its mode."""


def structure_hash(module: nn.Module) -> str:
    """A digest of what a module computes apart from its values: classes with their source text, plain attributes, hooks, code.

    Where something cannot be told by its text (a class without source, an object as attribute) its identity counts,
    which is never the same in another process.
    """
    digest = hashlib.blake2b(digest_size=20)
    for name, part in module.named_modules(remove_duplicate=False):
        hooks = (*part._forward_hooks.values(), *part._forward_pre_hooks.values())
        own = sorted((k, _told(v)) for k, v in vars(part).items() if k not in _INTERNAL)
        kind: Any = type(part)
        code = part.code if isinstance(part, torch.fx.GraphModule) else _text_of(kind)
        digest.update(f"{name} {kind.__module__}.{kind.__qualname__} {own} {[_told(h) for h in hooks]} {code}".encode())
    return digest.hexdigest()


def _told(value: Any) -> str:
    if isinstance(value, (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(_told, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{_told(k)}: {_told(v)}' for k, v in value.items())})"
    if isinstance(value, torch.Tensor):
        return hashlib.blake2b(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data).hexdigest()
    routine: Any = value if inspect.isroutine(value) or inspect.isclass(value) else None
    return f"{type(value).__qualname__} {id(value)}" if routine is None else _text_of(routine)


@lru_cache(maxsize=4096)
def _text_of(thing: Any) -> str:
    """The source text of a class or function; of a function also what it closes over is another thing, so its identity counts."""
    if getattr(thing, "__closure__", None):
        return f"{thing.__qualname__} {id(thing)}"
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        place = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', repr(thing))}"
        return place if inspect.isbuiltin(thing) else f"{place} {id(thing)}"


def state_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """All parameters and buffers of a module by name, those that are not saved with it included."""
    return dict((*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)))


def dtypes_of(module: nn.Module) -> dict[str, str]:
    """The dtypes of all parameters and buffers, under numpy's names."""
    return {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in state_of(module).items()}


def device_of(module: nn.Module) -> torch.device:
    """Where a module computes: where its first parameter or buffer is."""
    return next((tensor.device for tensor in state_of(module).values()), torch.device("cpu"))


def put_values(module: Module, values: Mapping[str, Array]) -> Module:
    """Write values into parameters and buffers by name; the module itself is returned."""
    state = state_of(module)
    with torch.no_grad():
        for name, value in values.items():
            state[name].copy_(to_tensor(value))
    return module


def refuse_other(model: Any) -> None:
    """Raise for what is no module.

    Raises:
        SignatureError: it is none.
    """
    if not isinstance(model, nn.Module):
        raise SignatureError(f"A torch model is an nn.Module, not {type(model).__name__}.")


def refuse_unready(module: nn.Module) -> None:
    """Raise where a module has no values to convert.

    Raises:
        SignatureError: parameters or buffers are not initialised, lie on the ``meta`` device, or are no plain tensors.
    """
    for name, tensor in state_of(module).items():
        if is_lazy(tensor):
            raise SignatureError(f"'{name}' is not initialised yet: run the module once on an example, which sets its shape.")
        if tensor.is_meta:
            raise SignatureError(
                f"'{name}' is on the meta device and has no values: to_empty() and load_state_dict() give it some."
            )
        if tensor.layout is not torch.strided or tensor.is_quantized:
            kind = "quantised" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
            raise SignatureError(f"'{name}' is a {kind} tensor, which cannot be exported; make it a plain one.")
