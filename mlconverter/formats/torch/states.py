"""The layers of a converted module that keep something from call to call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch import fx, nn

if TYPE_CHECKING:
    from mlconverter.formats.torch.from_onnx.runtime import State


def states_of(module: nn.Module) -> list[State]:
    """Those layers of a module, and of the modules in it."""
    if not any(isinstance(part, fx.GraphModule) for part in module.modules()):
        return []
    from mlconverter.formats.torch.from_onnx.runtime import State

    return [part for part in module.modules() if isinstance(part, State)]


def reset_states(module: nn.Module) -> None:
    """Let the next call of a module be the first one."""
    for state in states_of(module):
        state.reset()


@contextmanager
def as_before(module: nn.Module) -> Iterator[list[State]]:
    """The states of a module, which are afterwards what they were before, whatever calls of it leave in them."""
    states = states_of(module)
    before = [state.value for state in states]
    try:
        for state in states:
            state.value = state.value.clone()  # what is kept is written in its place
        yield states
    finally:
        for state, value in zip(states, before, strict=True):
            state.value = value
