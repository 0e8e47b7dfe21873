"""What the attributes of LSTM, GRU and RNN say, with the defaults that the specification gives in prose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlconverter.hub.nodes import Call

Activation = tuple[str, float, float]
"""An activation function in small letters, with its alpha and beta."""

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
"""How many matrices stand one above the other in the weights of an operator."""

USUAL = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}
"""The activation functions of one direction where the node names none."""

_SCALES: dict[str, tuple[float, ...]] = {
    # alpha, and beta, of the functions that have them
    "affine": (math.nan, math.nan),
    "elu": (1.0,),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01,),
    "relu": (),
    "scaledtanh": (math.nan, math.nan),
    "sigmoid": (),
    "softplus": (),
    "softsign": (),
    "tanh": (),
    "thresholdedrelu": (math.nan,),
}
"""Where the node says nothing; the specification and ONNX Runtime do not agree on one where there is no number."""


@dataclass(frozen=True)
class Recurrence:
    """How a recurrent operator runs.

    Attributes:
        op: ``LSTM``, ``GRU`` or ``RNN``.
        backwards: for each direction, whether it starts at the end of a sequence.
        activations: for each direction, its activation functions.
        clip: what the inputs of activation functions are clipped to, ``None`` where they are not.
        batch_first: whether the batch stands before the sequence.
    """

    op: str
    backwards: tuple[bool, ...]
    activations: tuple[tuple[Activation, ...], ...]
    clip: float | None
    batch_first: bool

    @property
    def names(self) -> set[tuple[str, ...]]:
        """The names of the activation functions of each direction."""
        return {tuple(name for name, _, _ in functions) for functions in self.activations}

    @property
    def is_usual(self) -> bool:
        """Whether the activation functions are the default ones and nothing is clipped."""
        return self.names == {USUAL[self.op]} and self.clip is None


def recurrence(
    op: str,
    *,
    direction: str,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    clip: float | None = None,
    layout: int = 0,
) -> Recurrence:
    """The attributes of a recurrent operator.

    Raises:
        ValueError: a direction or an activation function is none, or there are too few of them.
    """
    directions = {"forward": (False,), "foward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    if direction.lower() not in directions:  # "foward" is the default of GRU-1
        raise ValueError(f"'{direction}' is no direction")
    backwards = directions[direction.lower()]
    count = len(USUAL[op])
    named = [name.lower() for name in activations or USUAL[op] * len(backwards)]
    if len(named) < count * len(backwards):
        raise ValueError(f"{len(named)} activation functions, not {count * len(backwards)}")
    alphas, betas = iter(activation_alpha or ()), iter(activation_beta or ())
    functions: list[Activation] = []
    for name in named[: count * len(backwards)]:
        if name not in _SCALES:
            raise ValueError(f"'{name}' is no activation function")
        # The values are consumed in the order of the functions, by those that have a use for one.
        scales = [next(given, default) for given, default in zip((alphas, betas), _SCALES[name], strict=False)]
        if any(math.isnan(scale) for scale in scales):
            raise ValueError(f"'{name}' has no alpha or beta that everybody agrees on")
        alpha, beta = (*scales, 0.0, 0.0)[:2]
        functions.append((name, alpha, beta))
    grouped = tuple(tuple(functions[i : i + count]) for i in range(0, len(functions), count))
    return Recurrence(op, backwards, grouped, clip or None, bool(layout))


_SAID = ("direction", "activations", "activation_alpha", "activation_beta", "clip", "layout")


def recurrence_of(op: str, attributes: Mapping[str, Any]) -> Recurrence:
    """What the attributes of a node say; see :func:`recurrence`."""
    return recurrence(op, **{name: attributes[name] for name in _SAID if name in attributes})


def check_recurrence(call: Call) -> str | None:
    """Why no engine can run a node, ``None`` where its attributes make sense."""
    try:
        recurrence_of(call.op, call.attributes)
    except ValueError as error:
        return str(error)
    return None
