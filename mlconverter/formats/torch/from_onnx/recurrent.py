"""Recurrence: ``nn.LSTM``, ``nn.GRU`` and ``nn.RNN`` where they mean the same, step by step elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.moved import Elements
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Moved, Tensor, fixed, length
from mlconverter.hub.recurrent import GATES, Recurrence, check_recurrence, recurrence_of

LAYERS: dict[str, Any] = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}
ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""Which gate of ONNX is each gate of torch: i, o, f, c there and i, f, c, o here; z, r, h there and r, z, h here."""

Weight = Const | Moved | Tensor
Lengths = Const | Tensor


@dataclass(frozen=True)
class _Run:
    """A node without its weights.

    Attributes:
        how: what its attributes say.
        x: the sequences.
        lengths: of each sequence, ``None`` where all are as long as the input.
        states: the first ones, ``None`` where they are zero.
    """

    how: Recurrence
    x: Tensor
    lengths: Lengths | None
    states: tuple[Tensor | None, ...]

    @property
    def time(self) -> int:
        """The axis along which a sequence goes on."""
        return int(self.how.batch_first)


@translates("LSTM", 1, 7, 14, 22, check=check_recurrence)
def lstm(
    g: Builder,
    x: Tensor,
    w: Weight,
    r: Weight,
    b: Weight | None = None,
    lengths: Lengths | None = None,
    hidden: Tensor | None = None,
    cell: Tensor | None = None,
    p: Tensor | None = None,
    *,
    input_forget: int,
    hidden_size: int | None = None,
    output_sequence: int = 0,
    **attributes: Any,
) -> Any:
    """LSTM → nn.LSTM; step by step with peepholes, clipping, coupled gates, other activations or computed weights."""
    run = _Run(recurrence_of("LSTM", attributes), x, _needed(lengths, x, attributes), (hidden, cell))
    weights = None if p is not None or input_forget or not run.how.is_usual else _weights("LSTM", w, r, b)
    if weights is not None:
        return _layer(g, run, weights)
    return _steps(g, run, (w, r, b), runtime.lstm, [p], [bool(input_forget)])


@translates("GRU", 1, 3, 7, 14, 22, check=check_recurrence)
def gru(
    g: Builder,
    x: Tensor,
    w: Weight,
    r: Weight,
    b: Weight | None = None,
    lengths: Lengths | None = None,
    hidden: Tensor | None = None,
    *,
    linear_before_reset: int = 0,
    hidden_size: int | None = None,
    output_sequence: int = 0,
    **attributes: Any,
) -> Any:
    """GRU → nn.GRU with linear_before_reset=1; step by step elsewhere, with clipping, other activations or computed weights."""
    run = _Run(recurrence_of("GRU", attributes), x, _needed(lengths, x, attributes), (hidden,))
    weights = _weights("GRU", w, r, b) if linear_before_reset and run.how.is_usual else None
    if weights is not None:
        return _layer(g, run, weights)
    return _steps(g, run, (w, r, b), runtime.gru, [], [bool(linear_before_reset)])


@translates("RNN", 1, 7, 14, 22, check=check_recurrence)
def rnn(
    g: Builder,
    x: Tensor,
    w: Weight,
    r: Weight,
    b: Weight | None = None,
    lengths: Lengths | None = None,
    hidden: Tensor | None = None,
    *,
    hidden_size: int | None = None,
    output_sequence: int = 0,
    **attributes: Any,
) -> Any:
    """RNN → nn.RNN with tanh or relu; step by step with clipping, other activations or computed weights."""
    run = _Run(recurrence_of("RNN", attributes), x, _needed(lengths, x, attributes), (hidden,))
    functions = run.how.names
    weights = _weights("RNN", w, r, b) if run.how.clip is None and functions in ({("tanh",)}, {("relu",)}) else None
    if weights is not None:
        return _layer(g, run, weights, nonlinearity=next(iter(functions))[0])
    return _steps(g, run, (w, r, b), runtime.rnn, [], [])


def _needed(lengths: Lengths | None, x: Tensor, attributes: dict[str, Any]) -> Lengths | None:
    """The lengths, ``None`` where they say nothing."""
    steps = fixed(x, int(bool(attributes.get("layout", 0))))
    full = isinstance(lengths, Const) and steps is not None and bool((lengths.value == steps).all())
    return None if full else lengths


# -- layers of torch ---------------------------------------------------------------------------------------------------


def _weights(op: str, w: Weight, r: Weight, b: Weight | None) -> dict[str, Const] | None:
    """The parameters of torch's layer by name, ``None`` where one of them is not a part of one constant."""
    found: dict[str, Const] = {}
    for value, names in ((w, ("weight_ih",)), (r, ("weight_hh",)), (b, ("bias_ih", "bias_hh"))):
        if value is None:
            continue
        if not isinstance(value, (Const, Moved)):
            return None
        try:
            elements = Elements(value)
        except TypeError:
            return None
        for direction, positions in enumerate(elements.positions):
            rows = positions.reshape(len(names), GATES[op], -1, *positions.shape[1:])[:, list(ORDER[op])]
            for name, part in zip(names, rows, strict=True):
                const = elements.const(part.reshape(-1, *positions.shape[1:]))
                if const is None:
                    return None
                attribute = f"{name}_l0{'_reverse' if direction else ''}"
                found[attribute] = replace(const, name=_named(const.name, attribute))
    return found


def _named(name: str, attribute: str) -> str:
    """The name of a weight of a torch module with several layers, which become layers of their own."""
    torchs = re.fullmatch(r"(.+)\.(?:weight|bias)_[ih]h_l(\d+)(?:_reverse)?", name)
    if torchs is None:
        return name
    stem, number = torchs.groups()
    return f"{stem}.{attribute}" if number == "0" else f"{stem}_l{number}.{attribute}"


def _layer(g: Builder, run: _Run, weights: dict[str, Const], **choices: Any) -> list[Tensor]:
    how, x = run.how, run.x
    gates, inputs = weights["weight_ih_l0"].value.shape
    with torch.device("meta"):
        layer = LAYERS[how.op](
            inputs,
            gates // GATES[how.op],
            bias="bias_ih_l0" in weights,
            batch_first=how.batch_first,
            bidirectional=len(how.backwards) > 1,
            **choices,
        )
    alone = how.backwards == (True,)  # torch goes backwards beside going forward only
    lengths = None if run.lengths is None else g.tensor(run.lengths)
    x = _backwards(g, run, x, lengths) if alone else x
    if lengths is not None:
        x = g.call(runtime.packed, x, lengths, how.batch_first)
    result: Any = g.layer(layer, x, *_first_states(run), **weights)
    y, lasts = result[0], [result[1]] if how.op != "LSTM" else [result[1][0], result[1][1]]
    if lengths is not None:
        y = g.call(runtime.unpacked, y, lengths, length(run.x, run.time), how.batch_first)
        lasts = [g.call(runtime.unless_empty, last, lengths, 1) for last in lasts]
    y = _backwards(g, run, y, lengths) if alone else y
    y = y.unflatten(-1, (len(how.backwards), gates // GATES[how.op]))
    return _laid_out(how, y if how.batch_first else y.permute(0, 2, 1, 3), lasts)


def _backwards(g: Builder, run: _Run, x: Tensor, lengths: Tensor | None) -> Tensor:
    """Sequences from their ends to their starts."""
    if lengths is None:
        return x.flip(run.time)
    return g.call(runtime.reverse_sequence, x, lengths, 1 - run.time, run.time)


def _first_states(run: _Run) -> list[Any]:
    """The argument with the first states, none where all are zero."""
    given = [s for s in run.states if s is not None]
    if not given:
        return []
    states = [torch.zeros_like(given[0]) if s is None else s for s in run.states]
    states = [s.permute(1, 0, 2).contiguous() for s in states] if run.how.batch_first else states
    return [tuple(states) if len(states) > 1 else states[0]]


def _laid_out(how: Recurrence, y: Tensor, lasts: Sequence[Tensor]) -> list[Tensor]:
    return [y, *(last.permute(1, 0, 2) for last in lasts)] if how.batch_first else [y, *lasts]


# -- step by step ------------------------------------------------------------------------------------------------------


def _steps(
    g: Builder,
    run: _Run,
    weights: Sequence[Weight | None],
    function: Callable[..., Any],
    inputs: list[Tensor | None],
    choices: list[bool],
) -> list[Tensor]:
    how = run.how
    x, states = run.x, run.states
    if how.batch_first:
        x, states = x.permute(1, 0, 2), tuple(s if s is None else s.permute(1, 0, 2) for s in states)
    tensors = [None if v is None else g.tensor(v) for v in (*weights, run.lengths)]
    settings = (how.backwards, how.activations, how.clip, *choices)
    result: Any = g.call(function, x, *tensors, states, *inputs, *settings)
    y, *lasts = [result[i] for i in range(1 + len(states))]
    return _laid_out(how, y.permute(2, 0, 1, 3) if how.batch_first else y, lasts)
