"""What a line of the table says about a model. Nothing here imports TensorFlow: only building needs it."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Mode = Literal["float", "float16", "dynamic", "int8", "int16"]

MODES: dict[Mode, str] = {
    "float": "single precision",
    "float16": "weights in half precision",
    "dynamic": "8-bit weights, activations quantised on the fly",
    "int8": "8 bits throughout",
    "int16": "16-bit activations, 8-bit weights",
}

ALL: tuple[Mode, ...] = tuple(MODES)
PLAIN: tuple[Mode, ...] = ("float", "int8", "int16")
"""Of what has no weights."""

REAL: tuple[Mode, ...] = ("float",)
"""Of what has no quantised kernels, or nothing but integers."""

Kind = Literal["keras", "keras2", "function", "module"]


class Lazy:
    """A module that is imported when somebody asks for what is in it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


tf, keras, L, K2 = Lazy("tensorflow"), Lazy("keras"), Lazy("keras.layers"), Lazy("tf_keras.layers")


@dataclass(frozen=True)
class Input:
    """One input; floats are drawn evenly between the bounds, integers too, with both ends.

    Attributes:
        shape: sizes, ``None`` for a free one.
        dtype: numpy's name of the element type.
        low: lower bound.
        high: upper bound.
    """

    shape: tuple[int | None, ...]
    dtype: str = "float32"
    low: float = -2.0
    high: float = 2.0

    def sample(self, rng: np.random.Generator, batch: int = 1) -> np.ndarray:
        """Random values."""
        shape = tuple(batch if d is None else d for d in self.shape)
        if self.dtype == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        if self.dtype.startswith("float"):
            return rng.uniform(self.low, self.high, shape).astype(self.dtype)
        return rng.integers(int(self.low), int(self.high) + 1, shape).astype(self.dtype)


@dataclass(frozen=True)
class Entry:
    """One model, in several modes.

    Attributes:
        name: the model's name, also that of its files.
        inputs: what it takes, called ``x0``, ``x1`` …
        make: for Keras, gives symbolic outputs for symbolic inputs; a function that computes; or what makes a ``tf.Module``.
        kind: which of those.
        modes: in which it is converted.
    """

    name: str
    inputs: tuple[Input, ...]
    make: Callable[..., Any]
    kind: Kind
    modes: tuple[Mode, ...]

    @property
    def seed(self) -> int:
        """A number of its own."""
        return zlib.crc32(self.name.encode())

    def feeds(self, number: int = 0, batch: int = 1) -> dict[str, np.ndarray]:
        """Inputs to try it on."""
        rng = np.random.default_rng([self.seed, number])
        return {f"x{i}": given.sample(rng, batch) for i, given in enumerate(self.inputs)}


def floats(*shape: int | None, low: float = -2.0, high: float = 2.0) -> Input:
    """An input of floats."""
    return Input(shape, "float32", low, high)


def ints(*shape: int | None, low: int = 0, high: int = 9, dtype: str = "int32") -> Input:
    """An input of integers."""
    return Input(shape, dtype, low, high)


def bools(*shape: int | None) -> Input:
    """An input of bools."""
    return Input(shape, "bool")


def layer(name: str, inputs: Input | Sequence[Input], make: Callable[..., Any], modes: tuple[Mode, ...] = ALL) -> Entry:
    """A model of Keras layers."""
    return Entry(name, _several(inputs), make, "keras", modes)


def layer2(name: str, inputs: Input | Sequence[Input], make: Callable[..., Any], modes: tuple[Mode, ...] = ALL) -> Entry:
    """A model of layers of Keras 2, whose recurrent ones become fused operators."""
    return Entry(name, _several(inputs), make, "keras2", modes)


def function(name: str, inputs: Input | Sequence[Input], make: Callable[..., Any], modes: tuple[Mode, ...] = PLAIN) -> Entry:
    """A function of TensorFlow's operations."""
    return Entry(name, _several(inputs), make, "function", modes)


def module(name: str, inputs: Input | Sequence[Input], make: Callable[..., Any], modes: tuple[Mode, ...] = REAL) -> Entry:
    """A ``tf.Module``, with variables or several signatures."""
    return Entry(name, _several(inputs), make, "module", modes)


def weight(*shape: int, scale: float = 0.5, shift: float = 0.0) -> np.ndarray:
    """Constants for functions."""
    return (np.random.default_rng(sum(shape)).normal(0, scale, shape) + shift).astype(np.float32)


def _several(inputs: Input | Sequence[Input]) -> tuple[Input, ...]:
    return (inputs,) if isinstance(inputs, Input) else tuple(inputs)
