"""Strict comparison of tensors: shape, dtype, finite mask, values, in this order, and nothing is made to fit.

No broadcasting, no transposing, no casting of one side to the other's type. Differences are taken in float64
(integers: exactly), so that neither uint8 wraps around nor float16 overflows on the way to a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mlconverter.signature import Quantization
from mlconverter.verification.dtypes import Array, dtype_name, kind_of
from mlconverter.verification.tolerance import FEWEST, SMALL_FACTOR, SMALL_PARTS, STEPPED_PART, Tolerance, Tolerances

Reals = npt.NDArray[np.float64]

Check = Literal["name", "shape", "dtype", "finite", "values", "parts"]
"""The checks in the order in which they are made; the last is of the smaller values by their own measure."""


@dataclass(frozen=True)
class TensorComparison:
    """One tensor of the target held against the source's; true where it passed.

    Attributes:
        name: the tensor's name.
        shape: shape that was expected.
        dtype: name of the element type that was expected.
        failed: the first check that failed, ``None`` where all passed.
        reason: what failed, in words; empty where nothing did.
        max_abs_error: largest ``|got - want|`` over the finite elements (quantised integers: in steps); infinite
            where the tensors cannot be subtracted, and for text.
        max_want: largest finite ``|want|`` (quantised integers: in steps from the zero point).
        rtol: relative tolerance that was used.
        tolerance: largest difference that passes: ``rtol * max_want + atol``.
        rtol_needed: smallest relative tolerance that would have passed; infinite where none would.
        worst: index of the worst element, ``None`` where there is none.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    failed: Check | None = None
    reason: str = ""
    max_abs_error: float = 0.0
    max_want: float = 0.0
    rtol: float = 0.0
    tolerance: float = 0.0
    rtol_needed: float = 0.0
    worst: tuple[int, ...] | None = None

    def __bool__(self) -> bool:
        """Whether every check passed."""
        return self.failed is None

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        verdict = f"off by at most {self.max_abs_error:.3g}, allowed {self.tolerance:.3g}" if self else self.reason
        return f"{self.name}: {self.dtype}[{shape}] {verdict}"


def compare_outputs(
    got: Mapping[str, Array],
    want: Mapping[str, Array],
    tolerances: Tolerances,
    quantizations: Mapping[str, Quantization | None] | None = None,
) -> tuple[TensorComparison, ...]:
    """Compare what a target computed with what its source computed.

    Args:
        got: the target's outputs by name.
        want: the source's outputs by name.
        tolerances: how far they may be apart.
        quantizations: for integers that stand for real numbers, how.

    Returns:
        One comparison an output of the source, in its order, and a failed one for every output that only the target has.
    """
    compared = [
        compare_tensors(name, got[name], value, tolerances, (quantizations or {}).get(name))
        if name in got
        else _refused(name, value, "name", f"output '{name}' is missing; there are {list(got)}")
        for name, value in want.items()
    ]
    extra = [
        _refused(name, value, "name", f"output '{name}' is not one of the source's {list(want)}")
        for name, value in got.items()
        if name not in want
    ]
    return (*compared, *extra)


def compare_tensors(
    name: str, got: Array, want: Array, tolerances: Tolerances, quantization: Quantization | None = None
) -> TensorComparison:
    """Compare two tensors.

    Args:
        name: what to call them.
        got: the target's tensor, of any shape and dtype.
        want: the source's tensor.
        tolerances: how far they may be apart.
        quantization: how integers stand for real numbers, ``None`` where they do not.
    """
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return _refused(name, want, "shape", f"shape is {got.shape}, not {want.shape}")
    dtype, other = dtype_name(want.dtype), dtype_name(got.dtype)
    if dtype != other:
        return _refused(name, want, "dtype", f"dtype is {other}, not {dtype}")
    tolerance = tolerances.of(dtype, quantized=quantization is not None)
    kind = kind_of(dtype)
    if kind == "text":
        return _compare_text(name, got, want)
    if kind in ("float", "complex"):
        return _compare_real(name, _as_real(got), _as_real(want), want, tolerance, _small_values_off)
    if tolerance.exact:
        return _compare_exact(name, got, want, tolerance)
    assert quantization is not None
    origin = _zero_point(quantization, want.ndim)
    return _compare_real(name, _as_real(got) - origin, _as_real(want) - origin, want, tolerance, _steps_off)


def _refused(name: str, want: Array, check: Check, reason: str) -> TensorComparison:
    return TensorComparison(name, want.shape, dtype_name(want.dtype), check, reason, max_abs_error=math.inf, rtol_needed=math.inf)


def _as_real(array: Array) -> Reals:
    """In float64; complex numbers as pairs along a new last axis, so that each part keeps its own NaN and sign."""
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], axis=-1).astype(np.float64)
    return array.astype(np.float64)


def _zero_point(quantization: Quantization, rank: int) -> Reals:
    points = np.asarray(quantization.zero_point, dtype=np.float64)
    if points.size == 1 or quantization.axis is None:
        return points[:1].reshape(()) if points.size else np.zeros(())
    along = [1] * rank
    along[quantization.axis] = -1
    return points.reshape(along)


def _compare_real(
    name: str, got: Reals, want: Reals, original: Array, tolerance: Tolerance, graded: Callable[[Reals, Reals, Tolerance], str]
) -> TensorComparison:
    """Compare values with a tolerance: first where they are finite, then how far they are apart there."""
    dtype = dtype_name(original.dtype)
    finite = np.isfinite(want)
    max_want = float(np.max(np.abs(want), where=finite, initial=0.0))
    bound = tolerance.bound(max_want)
    # Nearly all tensors are finite throughout; only the others are worth a closer look.
    apart = np.zeros((), bool) if finite.all() and np.isfinite(got).all() else np.asarray(_species(got) != _species(want))
    if apart.any():
        worst = _position(apart, original)
        reason = (
            f"{int(apart.sum())} of {want.size} values differ in being finite: at {worst} it is "
            f"{_value(got, apart):.6g}, not {_value(want, apart):.6g}"
        )
        return TensorComparison(
            name, original.shape, dtype, "finite", reason, math.inf, max_want, tolerance.rtol, bound, math.inf, worst
        )
    with np.errstate(over="ignore"):  # the difference of two huge float64 may be infinite, and then it is too large
        errors = np.abs(np.subtract(got, want, where=finite, out=np.zeros_like(want)))
    max_error = float(errors.max(initial=0.0))
    needed = tolerance.rtol_needed(max_error, max_want)
    worst_at = None
    failed: Check | None = None
    reason = ""
    if errors.size and max_error > 0.0:
        peak = errors == max_error
        worst_at = _position(peak, original)
        if not max_error <= bound:
            failed = "values"
            reason = (
                f"{int((errors > bound).sum())} of {want.size} values are off by more than {bound:.3g}: at {worst_at} it is "
                f"{_value(got, peak):.6g}, not {_value(want, peak):.6g} (off by {max_error:.3g}; an rtol of {needed:.3g} passes)"
            )
        elif tolerance.graded and want.size >= FEWEST:
            reason = graded(errors[finite], want[finite], tolerance)
            failed = "parts" if reason else None
    return TensorComparison(
        name, original.shape, dtype, failed, reason, max_error, max_want, tolerance.rtol, bound, needed, worst_at
    )


def _small_values_off(errors: Reals, want: Reals, tolerance: Tolerance) -> str:
    """In what the smaller values are off though a tensor's largest lets them pass; empty where they are not.

    Scores beside coordinates, or logits beside those that are masked by -1e4: errors as large as the small values
    themselves would be nothing beside the large ones.
    """
    sizes = np.abs(want)
    for part in SMALL_PARTS if float(errors.max(initial=0.0)) > tolerance.atol else ():
        largest = float(np.quantile(sizes, part, method="lower"))
        typical = float(np.median(errors[sizes <= largest]))
        bound = SMALL_FACTOR * tolerance.rtol * largest + tolerance.atol
        if typical > bound:
            return f"{part:.0%} of the values are at most {largest:.3g}, and half of those are off by {typical:.3g} or more"
    return ""


def _steps_off(errors: Reals, want: Reals, tolerance: Tolerance) -> str:
    """How many quantised values are a step off, if that is more than ties; those at either end could not go further."""
    inside = errors[(want > want.min()) & (want < want.max())]
    off = int((inside > 0).sum())
    return (
        f"{off} of {inside.size} values between the ends are a step off" if off > STEPPED_PART * max(inside.size, FEWEST) else ""
    )


def _species(values: Reals) -> npt.NDArray[np.uint8]:
    """0 for finite values, else 1 for NaN, 2 for infinity and 3 for minus infinity."""
    kinds = np.isnan(values) * 1 + np.isposinf(values) * 2 + np.isneginf(values) * 3
    return np.asarray(kinds, dtype=np.uint8)


def undecided(want: Array, again: Array, got: Array) -> Array:
    """``want`` with the elements of ``got`` that are like ``again`` in being finite, where the two of them differ in that."""
    if want.dtype.kind != "f" or not want.shape == again.shape == got.shape or want.dtype != got.dtype:
        return want
    kinds = [_species(np.asarray(v, np.float64)) for v in (want, again, got)]
    taken = (kinds[0] != kinds[1]) & (kinds[2] == kinds[1])
    return np.where(taken, again, want) if taken.any() else want


def _compare_exact(name: str, got: Array, want: Array, tolerance: Tolerance) -> TensorComparison:
    """Compare integers and bools, which have to be equal; the distance is exact up to 64 bits."""
    dtype = dtype_name(want.dtype)
    wide: npt.DTypeLike = np.uint64 if want.dtype == np.uint64 else np.int64
    got_wide, want_wide = got.astype(wide), want.astype(wide)
    apart = got_wide != want_wide
    max_want = float(np.max(np.abs(want_wide.astype(np.float64)), initial=0.0))
    if not apart.any():
        return TensorComparison(name, want.shape, dtype, max_want=max_want)
    # Modulo 2**64 the larger minus the smaller is their distance, though it may not fit a signed integer.
    distance = np.maximum(got_wide, want_wide).astype(np.uint64) - np.minimum(got_wide, want_wide).astype(np.uint64)
    largest = distance.max()
    peak = distance == largest
    worst = _position(peak, want)
    reason = (
        f"{int(apart.sum())} of {want.size} values are not equal: at {worst} it is "
        f"{_value(got_wide, peak)}, not {_value(want_wide, peak)}"
    )
    needed = tolerance.rtol_needed(float(largest), max_want)
    return TensorComparison(name, want.shape, dtype, "values", reason, float(largest), max_want, rtol_needed=needed, worst=worst)


def _compare_text(name: str, got: Array, want: Array) -> TensorComparison:
    """Compare strings, which have to be equal; bytes and their UTF-8 text are the same string."""
    pairs = [(_text(g), _text(w)) for g, w in zip(got.reshape(-1).tolist(), want.reshape(-1).tolist(), strict=True)]
    apart = np.array([g != w for g, w in pairs], dtype=bool).reshape(want.shape)
    dtype = dtype_name(want.dtype)
    if not apart.any():
        return TensorComparison(name, want.shape, dtype)
    worst = _position(apart, want)
    found, expected = pairs[int(np.argmax(apart))]
    reason = f"{int(apart.sum())} of {want.size} strings are not equal: at {worst} it is {found!r}, not {expected!r}"
    return TensorComparison(name, want.shape, dtype, "values", reason, math.inf, rtol_needed=math.inf, worst=worst)


def _text(value: object) -> object:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _position(mask: npt.NDArray[np.bool_], original: Array) -> tuple[int, ...]:
    """Index of the first hit, in the axes of the original (those of complex numbers have one more)."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))[: original.ndim]


def _value(values: npt.NDArray[Any], mask: npt.NDArray[np.bool_]) -> Any:
    return values.reshape(-1)[int(np.argmax(mask))].item()
