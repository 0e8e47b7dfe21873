"""Exact arithmetic of integers for which LiteRT has no kernel."""

from __future__ import annotations

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.values import Dims, Wire, broadcast_dims

ROUNDS = 3
"""Each finds the next 22 bits of a quotient of 64."""


def quotient(b: Builder, left: Wire, right: Wire, dims: Dims) -> Wire:
    """Integers divided and rounded towards zero; LiteRT's DIV lacks 64 bits, and 32 without a sign."""
    if left.dtype == "uint32":
        a, d = (b.cast(w, "int64") for w in (left, right))
        return b.cast(_exact_quotient(b, a, d, floor_mod(b, a, d, dims), dims), "uint32")
    if left.dtype == "uint64":
        return _unsigned_quotient(b, left, right, dims)
    rest = floor_mod(b, left, right, dims)
    # It has the sign of the divisor; towards zero is the other one where the signs of the two differ.
    signs = [b.emit("LESS", w, b.scalar(0, w.dtype), dims=w.dims, dtype="bool") for w in (left, right)]
    negative = b.emit("NOT_EQUAL", *signs, dims=dims, dtype="bool")
    inexact = b.emit("NOT_EQUAL", rest, b.scalar(0, rest.dtype), dims=dims, dtype="bool")
    other = b.emit("LOGICAL_AND", negative, inexact, dims=dims)
    rest = b.emit("SELECT_V2", other, b.emit("SUB", rest, right, dims=dims), rest, dims=dims, dtype=rest.dtype)
    return _exact_quotient(b, left, right, rest, dims)


def remainder(b: Builder, left: Wire, right: Wire, dims: Dims) -> Wire:
    """Remainders of unsigned 64-bit integers."""
    product = b.compute("MUL", _unsigned_quotient(b, left, right, dims), right, dims=dims)
    return b.compute("SUB", left, product, dims=dims)


def floor_mod(b: Builder, left: Wire, right: Wire, dims: Dims) -> Wire:
    """Remainders with the sign of the divisor.

    The lowest integer divided by -1 is none, and the attempt ends the process; what it leaves is nothing, as by 1.
    """
    if right.dtype in ("int32", "int64"):
        if right.data is not None:
            right = b.array(np.where(right.array == -1, 1, right.array).astype(right.dtype))
        else:
            odd = b.emit("EQUAL", right, b.scalar(-1, right.dtype), dims=right.dims, dtype="bool")
            right = b.emit("SELECT_V2", odd, b.scalar(1, right.dtype), right, dims=right.dims, dtype=right.dtype)
    return b.compute("FLOOR_MOD", left, right, dims=dims)


def _exact_quotient(b: Builder, left: Wire, right: Wire, rest: Wire, dims: Dims) -> Wire:
    """Signed integers without a rest divided.

    The division comes out even. Single precision finds its quotient but for an error in the last
    bits; what the error leaves comes out even again, and is smaller by a factor of 2²² each time.
    """
    exact = b.emit("SUB", left, rest, dims=dims)
    divisor = b.cast(right, "float32")
    total: Wire | None = None
    for turn in range(ROUNDS):
        part = b.cast(b.emit("ROUND", b.emit("DIV", b.cast(exact, "float32"), divisor, dims=dims), dims=dims), "int64")
        total = part if total is None else b.emit("ADD", total, part, dims=dims)
        if turn + 1 < ROUNDS:
            exact = b.emit("SUB", exact, b.emit("MUL", part, right, dims=dims), dims=dims)
    assert total is not None
    return total


def _unsigned_quotient(b: Builder, left: Wire, right: Wire, dims: Dims) -> Wire:
    """Through half of what is divided, which has room for a sign: twice that quotient is one too small at most."""
    a, d = b.bits(left, "int64"), b.bits(right, "int64")
    half = b.bits(quotient_by_powers(b, left, b.scalar(1, "int32")), "int64")
    large = b.emit("LESS", d, b.scalar(0, "int64"), dims=d.dims, dtype="bool")
    small = b.emit("SELECT_V2", large, b.scalar(1, "int64"), d, dims=d.dims, dtype="int64")
    q = _exact_quotient(b, half, small, b.emit("FLOOR_MOD", half, small, dims=dims), dims)
    twice = b.emit("ADD", q, q, dims=dims)
    over = b.emit("SUB", a, b.emit("MUL", twice, small, dims=dims), dims=dims)
    reached = b.compute("GREATER_EQUAL", b.bits(over, "uint64"), right, dims=dims, dtype="bool")
    found = b.emit("ADD", twice, b.cast(reached, "int64"), dims=dims)
    whole = b.cast(b.compute("GREATER_EQUAL", left, right, dims=dims, dtype="bool"), "int64")
    return b.bits(b.emit("SELECT_V2", large, whole, found, dims=dims, dtype="int64"), "uint64")


def quotient_by_powers(b: Builder, wire: Wire, steps: Wire) -> Wire:
    """64-bit integers shifted to the right by up to 64 bits, in halves of 32.

    Args:
        b: the builder.
        wire: the integers; those without a sign are filled up with zeros.
        steps: by how many bits, as ``int32``.
    """
    signed = wire.dtype == "int64"
    low, high = _halves(b, wire)
    dims = broadcast_dims(wire.dims, steps.dims)
    near = b.emit("MINIMUM", steps, b.scalar(32, "int32"), dims=steps.dims)
    far = b.emit("SUB", steps, near, dims=steps.dims)
    inside = b.emit("LESS", steps, b.scalar(32, "int32"), dims=steps.dims, dtype="bool")
    # What leaves the upper half enters the lower one from above; multiplied by 2³² nothing is left of it.
    powers = b.array(np.array([1 << i for i in range(32)] + [0], np.uint64).astype(np.int32))
    up = b.emit("SUB", b.scalar(32, "int32"), near, dims=near.dims)
    entering = b.emit("MUL", b.bits(high, "int32"), b.emit("GATHER", powers, up, dims=up.dims), dims=dims)
    lower = b.emit("ADD", b.bits(_shifted(b, low, near), "int32"), entering, dims=dims)
    beyond = b.bits(_shifted(b, high, far), "int32")
    lower = b.emit("SELECT_V2", inside, lower, beyond, dims=dims, dtype="int32")
    upper = b.bits(_shifted(b, high if signed else b.bits(high, "uint32"), near), "int32")
    pair = [b.reshape(w, [*w.dims, 1]) if w.dims.count(None) <= 1 else b.expand_dims(w, w.rank) for w in (lower, upper)]
    return b.joined(b.emit("CONCATENATION", *pair, dims=(*dims, 2), axis=len(dims)), wire.dtype)


def _halves(b: Builder, wire: Wire) -> tuple[Wire, Wire]:
    """The lower half, which has no sign, and the upper one."""
    words = b.parts(wire, "uint32")
    taken = []
    for place in (0, 1):
        one = b.move("GATHER", words, b.scalar(place, "int32"), dims=wire.dims, axis=wire.rank)
        taken.append(one)
    return taken[0], b.bits(taken[1], "int32") if wire.dtype == "int64" else taken[1]


def _shifted(b: Builder, wire: Wire, steps: Wire) -> Wire:
    """32-bit integers shifted by up to 32 bits; LiteRT shifts by 31 at most."""
    dims = broadcast_dims(wire.dims, steps.dims)
    most = b.emit("MINIMUM", steps, b.scalar(31, "int32"), dims=steps.dims)
    rest = b.emit("SUB", steps, most, dims=steps.dims)
    once = b.emit("RIGHT_SHIFT", wire, b.bits(most, wire.dtype), dims=dims)
    return b.emit("RIGHT_SHIFT", once, b.bits(rest, wire.dtype), dims=dims)
