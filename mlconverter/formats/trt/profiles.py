"""The sizes between which free dimensions may be: an engine is built for a range of shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlconverter.errors import SignatureError
from mlconverter.signature import IOSignature
from mlconverter.verification.shapes import Role, batch_dims, concrete_shapes

Shape = tuple[int, ...]
Range = tuple[Shape, Shape, Shape]
"""The smallest, the usual and the largest shape of an input."""

Profile = Mapping[str, Range]
"""Inputs with free dimensions, by name."""

SIZES: tuple[Mapping[Role, int], ...] = (
    {"batch": 1, "spatial": 32, "channels": 3, "other": 1},
    {"batch": 1, "spatial": 224, "channels": 3, "other": 128},
    {"batch": 16, "spatial": 1024, "channels": 3, "other": 512},
)
"""Smallest, usual and largest sizes of free dimensions that nobody gives a range."""


def profile_of(signature: IOSignature, given: tuple[tuple[str, tuple[Any, Any, Any]], ...] | None = None) -> Profile:
    """The range of every input that has a free dimension.

    Args:
        signature: the inputs. A dimension that several of them share has one range.
        given: smallest, usual and largest size of a free dimension by its name, or smallest, usual and largest shape of
            an input by the input's name.

    Raises:
        SignatureError: a name is neither, a range is none, or two ranges of one dimension differ.
    """
    free = {spec.name: spec for spec in signature.inputs if spec.free_axes or spec.shape is None}
    sizes: list[dict[str, int]] = [{}, {}, {}]
    for name, bounds in given or ():
        if name in free:
            _take_shapes(sizes, signature, name, bounds)
        else:
            _take(sizes, name, bounds, f"dimension '{name}'")
    batches = batch_dims(signature)
    made = [
        concrete_shapes(signature, sizes={**dict.fromkeys(batches, defaults["batch"]), **known}, defaults=defaults)
        for known, defaults in zip(_ordered(sizes), SIZES, strict=True)
    ]
    return {name: (made[0][name], made[1][name], made[2][name]) for name in free}


def fixed_dims(signature: IOSignature, profile: Profile) -> dict[str, int]:
    """Free dimensions whose range is one size, by name."""
    found = {}
    for spec in signature.inputs:
        for axis in spec.free_axes if spec.name in profile else ():
            low, _, high = profile[spec.name]
            dim = spec.shape[axis] if spec.shape is not None else None
            if isinstance(dim, str) and low[axis] == high[axis]:
                found[dim] = low[axis]
    return found


def guessed(signature: IOSignature, given: tuple[tuple[str, Any], ...] | None) -> str:
    """What to say of ranges that nobody gave, besides that of the batch."""
    said, batches = {name for name, _ in given or ()}, batch_dims(signature)
    free = {
        dim if isinstance(dim, str) else f"{spec.name}:{axis}"
        for spec in signature.inputs
        if spec.name not in said
        for axis, dim in enumerate(spec.shape or ())
        if not isinstance(dim, int)
    }
    left = sorted(free - batches - said)
    if not left:
        return ""
    return f"the range of {', '.join(left)} was guessed, which dynamic_shapes={{'{left[0]}': (smallest, usual, largest)}} can say"


def _ordered(sizes: list[dict[str, int]]) -> list[dict[str, int]]:
    for name in sizes[0]:
        low, usual, high = (s[name] for s in sizes)
        if not 1 <= low <= usual <= high:
            raise SignatureError(f"The range of '{name}' has to rise from at least 1: ({low}, {usual}, {high}).")
    return sizes


def _take(sizes: list[dict[str, int]], name: str, bounds: Any, what: str) -> None:
    """Take the range of one dimension."""
    if (
        not isinstance(bounds, tuple)
        or len(bounds) != 3
        or not all(isinstance(b, int) and not isinstance(b, bool) for b in bounds)
    ):
        raise SignatureError(f"The range of {what} is (smallest, usual, largest), not {bounds!r}.")
    for known, bound in zip(sizes, bounds, strict=True):
        if known.setdefault(name, bound) != bound:
            raise SignatureError(f"Dimension '{name}' is one size wherever it stands, and has got two ranges.")


def _take_shapes(sizes: list[dict[str, int]], signature: IOSignature, name: str, shapes: Any) -> None:
    """Take the ranges of an input's free dimensions."""
    spec = next(s for s in signature.inputs if s.name == name)
    rank = None if spec.shape is None else len(spec.shape)
    if not isinstance(shapes, tuple) or len(shapes) != 3 or any(not isinstance(s, tuple) or len(s) != rank for s in shapes):
        raise SignatureError(f"The range of input {spec} is (smallest, usual, largest), each a shape of its rank: {shapes!r}.")
    for axis, dim in enumerate(spec.shape or ()):
        bounds = tuple(shape[axis] for shape in shapes)
        if not isinstance(dim, int):
            _take(sizes, dim if isinstance(dim, str) else f"{name}:{axis}", bounds, f"axis {axis} of input {spec}")
        elif set(bounds) != {dim}:
            raise SignatureError(f"Axis {axis} of input {spec} is {dim}, not {bounds}.")
