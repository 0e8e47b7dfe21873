"""Recurrence step by step, for what the layers of torch cannot say, and sequences of different lengths for those that can."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

Activation = tuple[str, float, float]
States = tuple[torch.Tensor, ...]
Step = Callable[[torch.Tensor, States], States]
Result = tuple[torch.Tensor, ...]

ACTIVATIONS: dict[str, Callable[[torch.Tensor, float, float], torch.Tensor]] = {
    "affine": lambda x, alpha, beta: x * alpha + beta,
    "elu": lambda x, alpha, beta: F.elu(x, alpha),
    "hardsigmoid": lambda x, alpha, beta: torch.clamp(x * alpha + beta, 0, 1),
    "leakyrelu": lambda x, alpha, beta: F.leaky_relu(x, alpha),
    "relu": lambda x, alpha, beta: F.relu(x),
    "scaledtanh": lambda x, alpha, beta: torch.tanh(x * beta) * alpha,
    "sigmoid": lambda x, alpha, beta: torch.sigmoid(x),
    "softplus": lambda x, alpha, beta: F.softplus(x, threshold=40),
    "softsign": lambda x, alpha, beta: F.softsign(x),
    "tanh": lambda x, alpha, beta: torch.tanh(x),
    "thresholdedrelu": lambda x, alpha, beta: torch.where(x >= alpha, x, torch.zeros_like(x)),
}


def packed(x: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> PackedSequence:
    """Sequences without what stands behind their ends; of an empty one the first step stays, for torch takes none."""
    return pack_padded_sequence(x, lengths.cpu().to(torch.int64).clamp(min=1), batch_first, enforce_sorted=False)


def unpacked(y: PackedSequence, lengths: torch.Tensor, steps: int, batch_first: bool) -> torch.Tensor:
    """What a layer gave for :func:`packed` sequences, zero from the end of each sequence on."""
    padded, _ = pad_packed_sequence(y, batch_first, total_length=steps)
    return unless_empty(padded, lengths, 0 if batch_first else 1)


def unless_empty(x: torch.Tensor, lengths: torch.Tensor, axis: int) -> torch.Tensor:
    """Zero for empty sequences, which stand along ``axis``."""
    shape = [-1 if a == axis else 1 for a in range(x.dim())]
    return torch.where(lengths.reshape(shape) > 0, x, torch.zeros_like(x))


def lstm(
    x: torch.Tensor,
    w: torch.Tensor,
    r: torch.Tensor,
    b: torch.Tensor | None,
    lengths: torch.Tensor | None,
    states: Sequence[torch.Tensor | None],
    p: torch.Tensor | None,
    backwards: Sequence[bool],
    activations: Sequence[Sequence[Activation]],
    clip: float | None,
    couple: bool,
) -> Result:
    """ONNX ``LSTM``: all states, the last ones, the last cells; the gates stand in the order i, o, f, c.

    The cell itself is not clipped, as ONNX Runtime has it.
    """

    def step_of(d: int) -> Step:
        f, g, h = (_function(a) for a in activations[d])
        peepholes = (None, None, None) if p is None else p[d].chunk(3)

        def seen(gate: torch.Tensor, cell: torch.Tensor, gate_number: int) -> torch.Tensor:
            peephole = peepholes[gate_number]
            return _clipped(gate if peephole is None else gate + peephole * cell, clip)

        def step(gates: torch.Tensor, state: States) -> States:
            hidden, cell = state
            i, o, forget, c = (gates + hidden @ r[d].t()).chunk(4, -1)
            i = f(seen(i, cell, 0))
            forget = 1 - i if couple else f(seen(forget, cell, 2))
            cell = forget * cell + i * g(_clipped(c, clip))
            return f(seen(o, cell, 1)) * h(cell), cell

        return step

    bias = None if b is None else b[:, : r.shape[1]] + b[:, r.shape[1] :]
    return _run(x, w, bias, lengths, _states(x, r, states), backwards, step_of)


def gru(
    x: torch.Tensor,
    w: torch.Tensor,
    r: torch.Tensor,
    b: torch.Tensor | None,
    lengths: torch.Tensor | None,
    states: Sequence[torch.Tensor | None],
    backwards: Sequence[bool],
    activations: Sequence[Sequence[Activation]],
    clip: float | None,
    linear_before_reset: bool,
) -> Result:
    """ONNX ``GRU``: all states, the last ones; the gates stand in the order z, r, h."""
    size = r.shape[2]

    def step_of(d: int) -> Step:
        f, g = (_function(a) for a in activations[d])
        matrices, hidden_bias = (r[d, : 2 * size].t(), r[d, 2 * size :].t()), x.new_zeros(size)
        gate_bias = x.new_zeros(2 * size)
        if b is not None:
            gate_bias, hidden_bias = b[d, 3 * size : 5 * size], b[d, 5 * size :]

        def step(gates: torch.Tensor, state: States) -> States:
            (hidden,) = state
            given, candidate = gates[:, : 2 * size], gates[:, 2 * size :]
            z, reset = f(_clipped(given + hidden @ matrices[0] + gate_bias, clip)).chunk(2, -1)
            if linear_before_reset:
                candidate = candidate + reset * (hidden @ matrices[1] + hidden_bias)
            else:
                candidate = candidate + (reset * hidden) @ matrices[1] + hidden_bias
            return ((1 - z) * g(_clipped(candidate, clip)) + z * hidden,)

        return step

    return _run(x, w, None if b is None else b[:, : 3 * size], lengths, _states(x, r, states), backwards, step_of)


def rnn(
    x: torch.Tensor,
    w: torch.Tensor,
    r: torch.Tensor,
    b: torch.Tensor | None,
    lengths: torch.Tensor | None,
    states: Sequence[torch.Tensor | None],
    backwards: Sequence[bool],
    activations: Sequence[Sequence[Activation]],
    clip: float | None,
) -> Result:
    """ONNX ``RNN``: all states, the last ones."""

    def step_of(d: int) -> Step:
        f = _function(activations[d][0])
        return lambda gates, state: (f(_clipped(gates + state[0] @ r[d].t(), clip)),)

    bias = None if b is None else b[:, : r.shape[1]] + b[:, r.shape[1] :]
    return _run(x, w, bias, lengths, _states(x, r, states), backwards, step_of)


def _run(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    lengths: torch.Tensor | None,
    states: States,
    backwards: Sequence[bool],
    step_of: Callable[[int], Step],
) -> Result:
    """All directions; what does not depend on the state is computed for all steps at once."""
    outputs, lasts = [], []
    for d, back in enumerate(backwards):
        gates = F.linear(x, w[d], None if bias is None else bias[d])
        y, last = _scan(gates, lengths, tuple(s[d] for s in states), step_of(d), back)
        outputs.append(y)
        lasts.append(last)
    return torch.stack(outputs, 1), *(torch.stack(kind) for kind in zip(*lasts, strict=True))


def _scan(
    gates: torch.Tensor, lengths: torch.Tensor | None, state: States, step: Step, back: bool
) -> tuple[torch.Tensor, States]:
    """One direction: a state stays what it was where a sequence has ended, or has not begun yet from its end."""
    outputs = []
    for t in reversed(range(len(gates))) if back else range(len(gates)):
        new = step(gates[t], state)
        if lengths is None:
            state, output = new, new[0]
        else:
            inside = (lengths > t).unsqueeze(1)
            state = tuple(torch.where(inside, n, s) for n, s in zip(new, state, strict=True))
            output = torch.where(inside, new[0], torch.zeros_like(new[0]))
        outputs.append(output)
    if back:
        outputs.reverse()
    return torch.stack(outputs), state if lengths is None else tuple(unless_empty(s, lengths, 0) for s in state)


def _states(x: torch.Tensor, r: torch.Tensor, states: Sequence[torch.Tensor | None]) -> States:
    return tuple(x.new_zeros(r.shape[0], x.shape[1], r.shape[2]) if s is None else s for s in states)


def _function(activation: Activation) -> Callable[[torch.Tensor], torch.Tensor]:
    name, alpha, beta = activation
    return lambda x: ACTIVATIONS[name](x, alpha, beta)


def _clipped(x: torch.Tensor, clip: float | None) -> torch.Tensor:
    return x if clip is None else x.clamp(-clip, clip)
