"""Element types by name, those included that numpy itself does not know (bfloat16, float8, int4)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mlconverter.errors import SignatureError

Array = npt.NDArray[Any]

Kind = Literal["float", "complex", "int", "bool", "text"]

TEXT = "str"
"""The one name of all text: numpy has fixed-width, variable-width and object arrays for it."""

_TEXT_NAMES = frozenset({"str", "string", "object", "bytes"})


def dtype_name(dtype: npt.DTypeLike) -> str:
    """The canonical name of an element type: ``"float32"``, ``"bfloat16"``, ``"str"`` for any text.

    Args:
        dtype: a numpy dtype, an ``ml_dtypes`` type or a name.

    Raises:
        SignatureError: nobody knows an element type of that name.
    """
    if isinstance(dtype, str):
        return TEXT if dtype in _TEXT_NAMES else as_dtype(dtype).name
    known = np.dtype(dtype)
    return TEXT if known.kind in "USTO" else known.name


def as_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of a name; text is held as Python objects.

    Raises:
        SignatureError: nobody knows an element type of that name.
    """
    if name in _TEXT_NAMES:
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        # A dependency of onnx; imported only where a model has such a type.
        import ml_dtypes

        extended = getattr(ml_dtypes, name, None)
        if not isinstance(extended, type):
            raise SignatureError(f"'{name}' is not an element type that numpy or ml_dtypes know.") from None
        return np.dtype(extended)


def kind_of(name: str) -> Kind:
    """What sort of values an element type holds.

    Raises:
        SignatureError: the type holds something that no model computes (dates, records).
    """
    if name in _TEXT_NAMES:
        return "text"
    # Not dtype.kind: the types of ml_dtypes say "V" there.
    for prefix, kind in _PREFIXES:
        if name.startswith(prefix):
            return kind
    raise SignatureError(f"Values of type '{name}' cannot be compared.")


_PREFIXES: tuple[tuple[str, Kind], ...] = (
    ("float", "float"),
    ("bfloat", "float"),
    ("complex", "complex"),
    ("int", "int"),
    ("uint", "int"),
    ("bool", "bool"),
)


def eps_of(name: str) -> float:
    """Distance from 1 to the next larger value of a float or complex type; 0 for types that are exact."""
    kind = kind_of(name)
    if kind not in ("float", "complex"):
        return 0.0
    dtype = as_dtype(name)
    if dtype.kind == "V" or "float8" in name:
        import ml_dtypes

        return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    return float(np.finfo(dtype).eps)


def int_range(name: str) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    signed, bits = not name.startswith("u"), int(name.lstrip("uint"))
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
