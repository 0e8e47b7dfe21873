"""A state dict into a module: all of it or none, whatever wrappers have put before its names."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from mlconverter.errors import SignatureError

_WRAPPERS = re.compile(r"(?:(?:module|_orig_mod)\.)+")
"""What ``DataParallel``, ``torch.compile`` and averages of weights put before names."""

_OF_WRAPPERS = frozenset({"n_averaged"})
"""What wrappers have themselves: how many states ``AveragedModel`` has averaged."""

MOST_LISTED = 5


def load_state(module: nn.Module, state: Mapping[str, Any], what: str, *, within: bool = False) -> None:
    """Load a state dict into a module; where it does not fit, nothing of the module has changed.

    Args:
        module: the module.
        state: tensors by name, perhaps behind the prefix of a wrapper.
        what: what to call the weights in an error.
        within: whether the state may be a larger module's, in which this one has another prefix.

    Raises:
        SignatureError: the state does not fit; the message lists what.
    """
    own = module.state_dict()
    wrong = _odd_keys(state)
    if not wrong:
        state = _with_ties(_without_prefix(state, own.keys(), what, within), own)
        wrong = _odd_values(state, own)
    if wrong:
        raise _misfit(what, wrong)
    _rehearse(module, state, what)
    module.load_state_dict(state)


def _odd_keys(state: Mapping[Any, Any]) -> list[str]:
    return [f"{key!r} is no name but a {type(key).__name__}" for key in state if not isinstance(key, str)]


def _without_prefix(state: Mapping[str, Any], names: Any, what: str, within: bool) -> Mapping[str, Any]:
    """The part of a state behind the one prefix under which it has exactly these names; the state itself where that is none."""
    wanted = {name for name in names if not name.endswith("_extra_state")}
    if not wanted or wanted <= state.keys():
        return state
    last = max(wanted, key=len)
    prefixes = sorted(name.removesuffix(last) for name in state if name.endswith(f".{last}"))
    fitting = {}
    for prefix in prefixes:
        inner = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        others = {name for name in state if not name.startswith(prefix)}
        wrapper = _WRAPPERS.fullmatch(prefix) and others <= _OF_WRAPPERS
        if wanted <= inner.keys() and (wrapper or (within and inner.keys() <= set(names))):
            fitting[prefix] = inner
    if len(fitting) > 1:
        raise SignatureError(f"{what} have the names of the module under several prefixes: {', '.join(fitting)}.")
    return next(iter(fitting.values()), state)


def _with_ties(state: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state with tensors that are one in the module under each of their names: some files have them once."""
    missing = [name for name in own if name not in state]
    found = dict(state)
    for name in missing:
        twin = next((other for other in own if other in state and _is_tied(own[name], own[other])), None)
        if twin is not None:
            found[name] = state[twin]
    return found if missing else state


def _is_tied(a: Any, b: Any) -> bool:
    if not all(isinstance(t, torch.Tensor) and not is_lazy(t) and not t.is_meta and t.numel() for t in (a, b)):
        return False
    return bool(a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride())


def _odd_values(state: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """Values that loading would take or convert although they are not what the module has."""
    wrong = []
    for name, value in state.items():
        if name.endswith("_extra_state"):
            continue
        there = own.get(name)
        if not isinstance(value, torch.Tensor):
            wrong.append(f"'{name}' is no tensor but a {type(value).__name__}")
        elif value.is_meta:
            wrong.append(f"'{name}' is on the meta device and has no values")
        elif isinstance(there, torch.Tensor) and _kind(value.dtype) != _kind(there.dtype):
            wrong.append(f"'{name}' is {value.dtype}, not {there.dtype}")
    return wrong


def _kind(dtype: torch.dtype) -> str:
    if dtype is torch.bool:
        return "bool"
    return "float" if dtype.is_floating_point else "complex" if dtype.is_complex else "int"


def _rehearse(module: nn.Module, state: Mapping[str, Any], what: str) -> None:
    """Load a state into a copy of the module without values, which says what does not fit.

    Raises:
        SignatureError: something does not.
    """
    hollow: dict[int, Any] = {}
    for tensor in (*module.parameters(), *module.buffers()):
        if not is_lazy(tensor):
            empty = torch.empty_like(tensor, device="meta")
            hollow[id(tensor)] = nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
    try:
        twin = copy.deepcopy(module, hollow)
    except Exception as error:
        raise SignatureError(
            "The module cannot be copied, so nothing can tell beforehand whether weights fit it "
            f"({type(error).__name__}: {error}). Load them yourself and give the module alone."
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nothing is copied into a tensor without values, which is what is wanted here
            twin.load_state_dict(state)
    except Exception as error:  # a module may have loading hooks of its own
        first, *lines = str(error).splitlines() or [type(error).__name__]
        raise _misfit(what, [line.strip().rstrip(".") for line in lines or [first]]) from error


def _misfit(what: str, wrong: list[str]) -> SignatureError:
    more = f" and {len(wrong) - MOST_LISTED} more" if len(wrong) > MOST_LISTED else ""
    return SignatureError(f"{what} do not fit the module: {'; '.join(wrong[:MOST_LISTED])}{more}.")
