"""Integers that are not known yet: sizes of axes that stay free, and what is computed from them."""

from __future__ import annotations

from typing import Any

import numpy as np


class Free:
    """A size that is not known yet: whatever is computed from it is not known either, but for its sign.

    Args:
        negative: whether it may be below zero, as the difference of two sizes may.
        name: of the size of an axis; what is computed from it has none.
    """

    def __init__(self, negative: bool = False, name: str | None = None) -> None:
        self._negative = negative
        self.name = name

    def never_negative(self) -> bool:
        """Whether it is zero or more for certain."""
        return not self._negative

    def _with(self, other: Any) -> Free:
        return Free(not (never_negative(self) and never_negative(other)))

    def _minus(self, other: Any) -> Free:
        return Free(negative=True)

    __add__ = __radd__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _with
    __sub__ = __rsub__ = _minus


def never_negative(size: Any) -> bool:
    """Whether an integer is zero or more for certain; of a symbolic one, its class says so by a method of this name."""
    if isinstance(size, (int, np.integer)):
        return bool(size >= 0)
    says = getattr(type(size), "never_negative", None)
    return says is not None and bool(says(size))


def divided(a: Any, b: Any) -> Any:
    """One integer by another, towards zero as ONNX has it; Python's division goes down, which differs below zero.

    A symbolic integer whose class has a method ``towards_zero`` is divided so by a positive number.

    Raises:
        TypeError: what comes out depends on signs that are not known.
    """
    if never_negative(a) and never_negative(b):
        return a // b
    if isinstance(a, (int, np.integer)) and isinstance(b, (int, np.integer)):
        return abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1)
    if hasattr(type(a), "towards_zero") and isinstance(b, (int, np.integer)) and b > 0:
        return a.towards_zero(int(b))
    raise TypeError("a free size that may be negative is divided at run time")


def equal(a: Any, b: Any) -> bool:
    """Whether two integers are the same.

    Raises:
        TypeError: that is not known.
    """
    fixed, size = (a, b) if isinstance(a, (int, np.integer)) else (b, a)
    if isinstance(fixed, (int, np.integer)):
        if isinstance(size, (int, np.integer)):
            return bool(fixed == size)
        if fixed < 0 and never_negative(size):
            return False
    elif isinstance(a, Free) and isinstance(b, Free) and a.name is not None and a.name == b.name:
        return True
    raise TypeError("whether two free sizes are equal is known at run time only")
