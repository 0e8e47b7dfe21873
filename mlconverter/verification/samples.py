"""Inputs to try a model on: like a photograph, at the edges of the range, or plain noise; the same for the same seed."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from mlconverter.signature import IOSignature, TensorSpec
from mlconverter.verification.dtypes import Array, Kind, as_dtype, dtype_name, int_range, kind_of
from mlconverter.verification.field import photograph
from mlconverter.verification.shapes import concrete_shapes, image_axes

SampleKind = Literal["natural", "edge", "noise"]

LIMIT = 1 << 24
"""Elements that are drawn for one tensor; a larger one repeats them, which bounds time and memory."""

EDGE_VALUES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1e-3, -1e-3, 3.0, -3.0, 6.0, -6.0, 10.0, -10.0, 20.0, -20.0)
"""Floats at which kernels change their mind: zeros, both signs, the ends of relu6 and hard-swish, large ones."""

EDGE_LARGEST_NARROW = 10.0
"""Largest edge value of floats under 32 bits: sums of larger ones overflow float16 in either model."""

_WORDS = ("", "a", "Zürich", "hello world", "0", "the quick brown fox")

_MASK = re.compile("mask", re.IGNORECASE)

_INT_HINTS: tuple[tuple[re.Pattern[str], int, int], ...] = (
    (_MASK, 1, 1),
    *(
        (re.compile(pattern, re.IGNORECASE), low, high)
        for pattern, low, high in (
            (r"type|segment", 0, 1),
            (r"len|size|count|num", 1, 8),
            (r"token|ids?$|ids?[^a-z]|word", 0, 99),
        )
    ),
)
"""Ranges (both ends included) of plain integers whose name says what they are."""

_INT_RANGE = (0, 3)
"""Range of other plain integers: valid as an index of nearly anything."""


def sample_inputs(
    signature: IOSignature,
    *,
    kind: SampleKind = "natural",
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    batch: int | None = None,
    factor: float = 1.0,
) -> dict[str, Array]:
    """Make one array an input.

    Args:
        signature: names, shapes, dtypes, layouts and quantisation of the inputs.
        kind: ``"natural"``: images are smooth, in [0, 1] (8-bit and quantised ones over their whole range), other
            floats N(0, 1), plain integers small and not negative, so that they can be indices, lengths or tokens.
            ``"edge"``: zeros, extremes, negative and large values mixed in each tensor. ``"noise"``: as natural,
            and images N(0, 1), too.
        seed: the same seed gives the same values, whatever the other inputs are.
        sizes: sizes of free dimensions by name; one without a name is called ``"<input>:<axis>"``.
        batch: size of free batch dimensions, ``None`` for 1.
        factor: what floats are multiplied with.

    Raises:
        SignatureError: the shape of an input cannot be told, or ``sizes`` names nothing of the signature.
        ValueError: there is no such ``kind``.
    """
    if kind not in ("natural", "edge", "noise"):
        raise ValueError(f"Samples are 'natural', 'edge' or 'noise', not {kind!r}.")
    shapes = concrete_shapes(signature, batch=batch, sizes=sizes)
    made = {s.name: _sample(s, shapes[s.name], kind, _generator(s.name, kind, seed)) for s in signature.inputs}
    return made if factor == 1.0 else {s.name: _scaled(s, made[s.name], factor) for s in signature.inputs}


def _generator(name: str, kind: str, seed: int) -> np.random.Generator:
    # Not hash(): it differs between processes. By name: another input that comes or goes changes nothing here.
    return np.random.default_rng([seed, zlib.crc32(f"{kind}:{name}".encode())])


def _scaled(spec: TensorSpec, value: Array, factor: float) -> Array:
    floats = kind_of(dtype_name(spec.dtype)) in ("float", "complex")
    return np.asarray(value * np.asarray(factor, value.dtype)) if floats else value


def _sample(spec: TensorSpec, shape: tuple[int, ...], kind: SampleKind, rng: np.random.Generator) -> Array:
    name = dtype_name(spec.dtype)
    makers: dict[Kind, Callable[[], Array]] = {
        "float": lambda: _floats(spec, name, shape, kind, rng),
        "complex": lambda: _floats(spec, name, shape, kind, rng) + 1j * _floats(spec, name, shape, kind, rng),
        "int": lambda: _ints(spec, name, shape, kind, rng),
        "bool": lambda: _drawn(shape, lambda n: rng.integers(0, 2, n)),
        "text": lambda: _drawn(shape, lambda n: np.array(_WORDS, dtype=object)[rng.integers(0, len(_WORDS), n)]),
    }
    return makers[kind_of(name)]().astype(as_dtype(name))


def _drawn(shape: tuple[int, ...], draw: Callable[[int], Array]) -> Array:
    """An array of ``shape`` out of a function that draws so many values; beyond the limit they repeat."""
    count = math.prod(shape)
    values = draw(min(count, LIMIT))
    return values.reshape(shape) if count <= LIMIT else np.resize(values, shape)


def _floats(spec: TensorSpec, name: str, shape: tuple[int, ...], kind: SampleKind, rng: np.random.Generator) -> Array:
    axes = image_axes(spec, shape)
    if kind == "natural" and axes is not None:
        return photograph(shape, axes, rng, LIMIT)
    if kind == "edge":
        narrow = as_dtype(name).itemsize < 4
        values = np.array([v for v in EDGE_VALUES if not narrow or abs(v) <= EDGE_LARGEST_NARROW], dtype=np.float32)
        return _drawn(shape, lambda n: _mixed(values, n, rng))
    return _drawn(shape, lambda n: rng.standard_normal(n, dtype=np.float32))


def _ints(spec: TensorSpec, name: str, shape: tuple[int, ...], kind: SampleKind, rng: np.random.Generator) -> Array:
    lowest, highest = int_range(name)
    axes = image_axes(spec, shape)
    picture = axes is not None and name in ("uint8", "int8")
    if spec.quantization is None and not picture:
        low, high = _plain_range(spec.name, math.prod(shape))
        high = min(high, highest)
        if kind == "edge":
            # Mostly ones in a mask: where all is masked, a softmax has nothing to share out.
            ends = np.array([0, 1, 1, 1] if _MASK.search(spec.name) else [low, high])
            return _drawn(shape, lambda n: _mixed(ends, n, rng))
        return _drawn(shape, lambda n: rng.integers(low, high, n, endpoint=True))
    if kind == "edge":
        # The middle too: it is (about) where the zero point of symmetric quantisation is.
        ends = np.array([lowest, highest, (lowest + highest + 1) // 2, lowest + 1, highest - 1], dtype=as_dtype(name))
        return _drawn(shape, lambda n: _mixed(ends, n, rng))
    if kind == "natural" and axes is not None and as_dtype(name).itemsize <= 4:  # float64 holds 32 bits exactly
        span = photograph(shape, axes, rng, LIMIT).astype(np.float64) * (highest - lowest)
        return np.clip(np.rint(span + lowest), lowest, highest)
    wide: type[np.uint64] | type[np.int64] = np.uint64 if name == "uint64" else np.int64
    return _drawn(shape, lambda n: rng.integers(lowest, highest, n, dtype=wide, endpoint=True))


def _plain_range(name: str, count: int) -> tuple[int, int]:
    for pattern, low, high in _INT_HINTS:
        if pattern.search(name):
            return low, high
    # A single number is more often a length or a position than an index, and 0 is no length.
    return (1, _INT_RANGE[1]) if count == 1 else _INT_RANGE


def _mixed(values: Array, count: int, rng: np.random.Generator) -> Array:
    """So many of the values, each as often as the others, in random order."""
    return rng.permutation(np.resize(rng.permutation(values), count))
