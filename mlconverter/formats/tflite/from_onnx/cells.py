"""One step of a recurrence: what RNN, GRU and LSTM compute from their last states, and the functions that they use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mlconverter.formats.tflite.from_onnx import activation as functions
from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.elementwise import kept
from mlconverter.formats.tflite.from_onnx.values import Runtime, Stored, Wire, broadcast_dims
from mlconverter.formats.tflite.layout import logical
from mlconverter.hub.recurrent import Activation

States = list[Wire]
"""The hidden state first; each with an axis of size 1 in front."""


def with_two(b: Builder, op: str, x: Wire, y: Wire) -> Wire:
    """An operator on two tensors that are broadcast against each other."""
    return b.emit(op, x, y, dims=broadcast_dims(x.dims, y.dims))


def linear(b: Builder, x: Wire, matrix: Wire, bias: Wire | None) -> Wire:
    """Vectors along the last of three axes, times a matrix of shape (out, in), or (1, out, in) where it is computed."""
    dims = (*x.dims[:-1], matrix.dims[-2])
    if matrix.data is None:
        product = b.emit("BATCH_MATMUL", x, matrix, dims=dims, adjY=True)
        return product if bias is None else with_two(b, "ADD", product, bias)
    terms = b.array(np.zeros(matrix.dims[-2] or 0, np.float32)) if bias is None else bias
    if terms.data is None:
        return with_two(b, "ADD", linear(b, x, matrix, None), terms)
    return b.emit("FULLY_CONNECTED", x, matrix, terms, dims=dims, version=5, keepNumDims=True)


def parts(b: Builder, x: Wire, sizes: Sequence[int]) -> list[Wire]:
    """A tensor cut along its last axis."""
    outputs = [((*x.dims[:-1], size), None) for size in sizes]
    if len(set(sizes)) == 1:
        return b.emit_several("SPLIT", b.scalar(x.rank - 1, "int32"), x, outputs=outputs, numSplits=len(sizes))
    return b.emit_several("SPLIT_V", x, b.ints(sizes), b.scalar(x.rank - 1, "int32"), outputs=outputs, numSplits=len(sizes))


def _one_minus(b: Builder, x: Wire) -> Wire:
    return b.emit("SUB", b.scalar(1, x.dtype), x, dims=x.dims)


# -- functions ---------------------------------------------------------------------------------------------------------


def _affine(b: Builder, x: Wire, alpha: float, beta: float) -> Wire:
    return b.emit("ADD", b.emit("MUL", x, b.scalar(alpha, x.dtype), dims=x.dims), b.scalar(beta, x.dtype), dims=x.dims)


def _scaled_tanh(b: Builder, x: Wire, alpha: float, beta: float) -> Wire:
    inner = b.emit("TANH", b.emit("MUL", x, b.scalar(beta, x.dtype), dims=x.dims), dims=x.dims)
    return b.emit("MUL", inner, b.scalar(alpha, x.dtype), dims=x.dims)


def _as_operator(translate: Callable[..., Stored], *names: str) -> Callable[[Builder, Wire, float, float], Wire]:
    """The function as the ONNX operator of the same name is translated."""

    def function(b: Builder, x: Wire, alpha: float, beta: float) -> Wire:
        value: Runtime = kept(Stored(x, logical(x.rank)))
        return translate(b, value, **{n: v for n, v in (("alpha", alpha), ("beta", beta)) if n in names}).wire

    return function


_FUNCTIONS: dict[str, Callable[[Builder, Wire, float, float], Wire]] = {
    "affine": _affine,
    "elu": _as_operator(functions.elu, "alpha"),
    "hardsigmoid": _as_operator(functions.hard_sigmoid, "alpha", "beta"),
    "leakyrelu": _as_operator(functions.leaky_relu, "alpha"),
    "relu": _as_operator(functions.relu),
    "scaledtanh": _scaled_tanh,
    "sigmoid": _as_operator(functions.sigmoid),
    "softplus": _as_operator(functions.softplus),
    "softsign": _as_operator(functions.softsign),
    "tanh": _as_operator(functions.tanh),
    "thresholdedrelu": _as_operator(functions.thresholded_relu, "alpha"),
}


def activated(b: Builder, x: Wire, activation: Activation, clip: float | None) -> Wire:
    """An activation function of a value that is clipped before."""
    if clip is not None:
        above = b.emit("MAXIMUM", x, b.scalar(-clip, x.dtype), dims=x.dims)
        x = b.emit("MINIMUM", above, b.scalar(clip, x.dtype), dims=x.dims)
    name, alpha, beta = activation
    return _FUNCTIONS[name](b, x, alpha, beta)


# -- cells -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One direction of a recurrence without its sequence.

    Attributes:
        matrices: what the hidden state is multiplied by, one below the other for gates that are computed together.
        biases: of those products, ``None`` for zeros.
        activations: in the order of the specification.
        clip: what the inputs of activation functions are clipped to.
    """

    matrices: tuple[Wire, ...]
    biases: tuple[Wire | None, ...]
    activations: tuple[Activation, ...]
    clip: float | None

    def step(self, b: Builder, given: Wire, states: States) -> States:
        """The next states.

        Args:
            b: the builder.
            given: the step's part of the sequence, times its matrix, biases added.
            states: the last ones.
        """
        raise NotImplementedError

    def _activated(self, b: Builder, x: Wire, number: int) -> Wire:
        return activated(b, x, self.activations[number], self.clip)

    def _product(self, b: Builder, x: Wire, number: int = 0) -> Wire:
        return linear(b, x, self.matrices[number], self.biases[number])


@dataclass(frozen=True)
class RNNCell(Cell):
    """A plain recurrence."""

    def step(self, b: Builder, given: Wire, states: States) -> States:
        """The next state."""
        return [self._activated(b, with_two(b, "ADD", given, self._product(b, states[0])), 0)]


@dataclass(frozen=True)
class GRUCell(Cell):
    """Gates z, r and h.

    Attributes:
        linear_before_reset: whether one matrix stands for all gates, and the reset gate comes behind it.
    """

    linear_before_reset: bool

    def step(self, b: Builder, given: Wire, states: States) -> States:
        """The next state."""
        (hidden,) = states
        size = (given.dims[-1] or 0) // 3
        gates, candidate = parts(b, given, [2 * size, size])
        if self.linear_before_reset:
            more, linear_part = parts(b, self._product(b, hidden), [2 * size, size])
        else:
            more = self._product(b, hidden)
        update, reset = parts(b, self._activated(b, with_two(b, "ADD", gates, more), 0), [size, size])
        if self.linear_before_reset:
            from_hidden = with_two(b, "MUL", reset, linear_part)
        else:
            from_hidden = self._product(b, with_two(b, "MUL", reset, hidden), 1)
        new = self._activated(b, with_two(b, "ADD", candidate, from_hidden), 1)
        return [with_two(b, "ADD", new, with_two(b, "MUL", update, with_two(b, "SUB", hidden, new)))]


@dataclass(frozen=True)
class LSTMCell(Cell):
    """Gates i, o, f and c; the cell itself is not clipped, as ONNX Runtime has it.

    Attributes:
        peepholes: by gate, from the cell to i, o and f; ``None`` where there are none.
        couple: whether the forget gate is what the input gate leaves.
    """

    peepholes: tuple[Wire, ...] | None
    couple: bool

    def step(self, b: Builder, given: Wire, states: States) -> States:
        """The next state and the next cell."""
        hidden, cell = states
        gates = with_two(b, "ADD", given, self._product(b, hidden))
        size = (gates.dims[-1] or 0) // 4
        i, o, forget, c = parts(b, gates, [size] * 4)
        entry = self._gate(b, i, cell, 0)
        keep = _one_minus(b, entry) if self.couple else self._gate(b, forget, cell, 2)
        kept_part = with_two(b, "MUL", keep, cell)
        cell = with_two(b, "ADD", kept_part, with_two(b, "MUL", entry, self._activated(b, c, 1)))
        # The output gate looks at the new cell, the others at the last one.
        exit_ = self._gate(b, o, cell, 1)
        return [with_two(b, "MUL", exit_, activated(b, cell, self.activations[2], None)), cell]

    def _gate(self, b: Builder, gate: Wire, cell: Wire, number: int) -> Wire:
        if self.peepholes is not None:
            gate = with_two(b, "ADD", gate, with_two(b, "MUL", cell, self.peepholes[number]))
        return self._activated(b, gate, 0)
