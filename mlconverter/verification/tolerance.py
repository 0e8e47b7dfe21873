"""How far a conversion may stray from its source: one table, by dtype and target format."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from mlconverter.verification.dtypes import eps_of, kind_of

ATOL = 1e-6
"""Absolute part of the tolerance of floats: a tensor of zeros has no scale of its own."""

QUANTIZED_STEPS = 1.0
"""Absolute part of the tolerance of quantised integers, in steps: two right kernels may round a tie apart."""

SMALL_PARTS = (0.25, 0.5)
"""Parts of a tensor, the smallest values first, whose errors are held against their own size as well."""

SMALL_FACTOR = 10.0
"""How much looser they are held: a small value may carry the rounding of the large ones that it comes from."""

STEPPED_PART = 0.25
"""Part of the quantised integers that may be a step apart: more are no ties."""

ROUNDED: Mapping[str, float] = {"float16": 5e-3, "fp16": 1e-2, "bf16": 5e-2, "int8": 1e-1, "fp8": 1e-1}
"""Relative tolerance of a target that was asked to round: to store its weights as float16, or to compute in a precision."""

NARROW = ("int8", "uint8", "int16", "uint16")
"""Types whose steps single precision tells apart."""

FEWEST = 16
"""Fewer values than these have no parts worth speaking of."""

EPS_FLOOR = 4.0
"""No relative tolerance is below that many eps of the dtype: it would ask more than the dtype can hold."""

OTHER = "*"
"""Row entry for the formats that have none of their own."""

RTOL: Mapping[str, Mapping[str, float]] = {
    # LiteRT's kernel sets differ from each other by up to 1.4e-3 on deep models; TensorRT multiplies float32 as TF32.
    "float64": {OTHER: 1e-6, "tflite": 1e-3, "trt": 5e-3},
    "float32": {OTHER: 1e-4, "tflite": 1e-3, "trt": 5e-3},
    "float16": {OTHER: 1e-2},
    "bfloat16": {OTHER: 5e-2},
    "complex128": {OTHER: 1e-6, "tflite": 1e-3, "trt": 5e-3},
    "complex64": {OTHER: 1e-4, "tflite": 1e-3, "trt": 5e-3},
    # Any other float (the 8, 6 and 4 bit ones) gets the floor; integers, bools and text have to be equal.
}
"""Relative tolerance, of the largest expected magnitude of a tensor."""


@dataclass(frozen=True)
class Tolerance:
    """``|got - want| <= rtol * max|want| + atol``.

    Attributes:
        rtol: part of the largest expected magnitude.
        atol: absolute part.
        exact: only equal values pass, whatever the rest says.
        graded: the smaller values have to be right by their own measure, too, and quantised ones mostly equal.
    """

    rtol: float
    atol: float
    exact: bool = False
    graded: bool = False

    def bound(self, max_want: float) -> float:
        """The largest difference that passes where the largest expected magnitude is ``max_want``."""
        return 0.0 if self.exact else self.rtol * max_want + self.atol

    def rtol_needed(self, max_abs_error: float, max_want: float) -> float:
        """The smallest relative tolerance that lets ``max_abs_error`` pass; infinite where none does."""
        if max_abs_error <= (0.0 if self.exact else self.atol):
            return 0.0
        if self.exact or max_want == 0.0 or not math.isfinite(max_abs_error):
            return math.inf
        # A hair more than the quotient: what is said to pass has to pass after rounding, too.
        return (max_abs_error - self.atol) / max_want * (1 + 1e-12) + 1e-15 * max_abs_error / max_want


@dataclass(frozen=True)
class Tolerances:
    """The tolerance of every tensor of one comparison.

    Attributes:
        target: name of the target format, which picks the column of the table.
        rtol: the caller's own relative tolerance, instead of the table's. It is all that then counts.
        rounded: what the target was asked to round to, empty where it was not.
    """

    target: str = OTHER
    rtol: float | None = None
    rounded: str = ""

    def __post_init__(self) -> None:
        """Refuse tolerances that would let anything pass."""
        if self.rtol is not None and not (math.isfinite(self.rtol) and self.rtol >= 0):
            raise ValueError(f"rtol has to be a finite number of at least 0, not {self.rtol}.")

    def of(self, dtype: str, *, quantized: bool = False) -> Tolerance:
        """The tolerance of a tensor.

        Args:
            dtype: name of its element type.
            quantized: its integers stand for real numbers.
        """
        kind = kind_of(dtype)
        if kind == "int" and quantized:
            own = 0.0 if dtype in NARROW else EPS_FLOOR * eps_of("float32")  # more steps than single precision tells apart
            return Tolerance(own if self.rtol is None else self.rtol, QUANTIZED_STEPS, graded=self.rtol is None and not own)
        if kind not in ("float", "complex"):
            return Tolerance(0.0, 0.0, exact=True)
        floor = EPS_FLOOR * eps_of(dtype)
        if self.rtol is not None:
            return Tolerance(max(self.rtol, floor), ATOL)
        if self.rounded:
            return Tolerance(max(self._listed(dtype), floor, ROUNDED[self.rounded]), ATOL)
        return Tolerance(max(self._listed(dtype), floor), ATOL, graded=True)

    def _listed(self, dtype: str) -> float:
        row = RTOL.get(dtype)
        return EPS_FLOOR * eps_of(dtype) if row is None else row.get(self.target, row[OTHER])
