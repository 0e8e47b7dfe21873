"""A module that keeps something from call to call, as exporters want it: its states are inputs and outputs."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import nn

from mlconverter.formats.torch.inputs import ExampleInput
from mlconverter.formats.torch.outputs import Flat
from mlconverter.formats.torch.states import states_of

if TYPE_CHECKING:
    from mlconverter.formats.torch.from_onnx.runtime import State


@dataclass(eq=False)
class _Call:
    """What goes into the states of one call and comes out of them. No module, so that exporters leave it alone."""

    given: dict[str, torch.Tensor] = field(default_factory=dict)
    left: dict[str, torch.Tensor] = field(default_factory=dict)


class _Handed(nn.Module):
    """In the place of a state: reads what a call is given for it, and hands over what is to be kept."""

    def __init__(self, name: str, call: _Call) -> None:
        super().__init__()
        self._name, self._call = name, call

    def forward(self, x: torch.Tensor, new: torch.Tensor | None = None) -> torch.Tensor:
        """As :class:`~mlconverter.formats.torch.from_onnx.runtime.State` does it."""
        if new is None:
            return self._call.given[self._name]
        self._call.left[self._name] = new
        return new


class Carried(Flat):
    """A copy of a module, called with its states behind its inputs; gives the next ones behind its outputs.

    Args:
        module: it is left as it is.

    Attributes:
        states: those of the copy.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__(copy.deepcopy(module))
        self.states = states_of(self.module)
        self._handed = _Call()
        places = {id(s): _Handed(s.names[0], self._handed) for s in self.states}
        for part in list(self.module.modules()):
            for name, layer in part._modules.items():
                part._modules[name] = places.get(id(layer), layer)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The tensors of the module's result, in order, and the next states."""
        count = len(inputs) - len(self.states)
        names = [state.names[0] for state in self.states]
        self._handed.given = dict(zip(names, inputs[count:], strict=True))
        results = super().forward(*inputs[:count])
        return (*results, *(self._handed.left[name] for name in names))


def state_input(state: State, beside: ExampleInput) -> ExampleInput:
    """A state as an input, with as many items as the one beside it has."""
    name, _ = state.names
    if not state.batched:
        return ExampleInput(name, state.shape, state.initial)
    example = state.initial.expand(beside.example.shape[0], *state.shape[1:]).clone()
    return ExampleInput(name, (beside.shape[0], *state.shape[1:]), example)
