"""A size for every free dimension of a signature's inputs: which one is the batch, which ones span an image."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Literal

from mlconverter.errors import SignatureError
from mlconverter.signature import Dim, IOSignature, TensorSpec

Role = Literal["batch", "spatial", "channels", "other"]

SIZES: Mapping[Role, int] = {
    "batch": 1,
    # Detectors halve an image five times and join the scales again: a multiple of 32.
    "spatial": 64,
    "channels": 3,
    "other": 16,
}
"""Sizes of free dimensions that nobody gives a size."""

CHANNELS = (1, 3, 4)
"""Channel counts of images: grey, colour, colour with transparency."""

_BATCH_NAME = re.compile(r"^(n|b|bs)$|^unk__|batch", re.IGNORECASE)
_OTHER_NAME = re.compile(
    r"^[hwtcsl]$|seq|len|time|height|width|point|box|token|step|frame|channel|class|feature|past", re.IGNORECASE
)


def concrete_shapes(
    signature: IOSignature,
    *,
    batch: int | None = None,
    sizes: Mapping[str, int] | None = None,
    defaults: Mapping[Role, int] = SIZES,
) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs with every free dimension filled in; one name has one size everywhere.

    Args:
        signature: the inputs.
        batch: size of free batch dimensions, before ``sizes``; ``None`` for 1.
        sizes: sizes of free dimensions by name; one without a name is called ``"<input>:<axis>"``.
        defaults: sizes of those that are left, by what they are.

    Raises:
        SignatureError: an input has no known rank, a size is not positive, or ``sizes`` names nothing of the signature.
    """
    unranked = [s.name for s in signature.inputs if s.shape is None]
    if unranked:
        raise SignatureError(f"Nothing is known about the shape of {unranked}: give inputs of your own.")
    given = _checked_sizes(signature, batch, sizes or {})
    batches = batch_dims(signature)
    chosen: dict[str, int] = {}
    for spec in signature.inputs:
        for axis, dim in enumerate(spec.shape or ()):
            if isinstance(dim, int):
                continue
            key = _key(spec, axis, dim)
            if key in batches:
                chosen[key] = batch if batch is not None else given.get(key, defaults["batch"])
            else:
                # The first axis that is more than "other" decides for a name that several inputs share.
                fallback = defaults[_role(spec, axis)]
                chosen[key] = given.get(key, fallback if chosen.get(key, defaults["other"]) == defaults["other"] else chosen[key])
    known = {**chosen, **given}
    for key, size in chosen.items():
        if key not in given and key not in batches:
            chosen[key] = _evaluate(key, known, defaults["other"]) or size
    return {
        spec.name: tuple(d if isinstance(d, int) else chosen[_key(spec, i, d)] for i, d in enumerate(spec.shape or ()))
        for spec in signature.inputs
    }


def batch_dims(signature: IOSignature) -> frozenset[str]:
    """Names of the free dimensions that are the batch: first axes, unless their name says that they are something else."""
    found = set()
    for spec in signature.inputs:
        if not spec.shape or isinstance(spec.shape[0], int):
            continue
        dim = spec.shape[0]
        if dim is None:
            named = len(spec.shape) > 1
        else:
            # A single axis is a batch only where its name says so: a list of tokens has one axis, too.
            named = bool(_BATCH_NAME.search(dim)) or (len(spec.shape) > 1 and not _OTHER_NAME.search(dim))
            named = named and not _is_expression(dim)
        if named:
            found.add(_key(spec, 0, dim))
    return frozenset(found)


def batch_inputs(signature: IOSignature) -> tuple[str, ...]:
    """Names of the inputs whose first axis is a free batch."""
    dims = batch_dims(signature)
    return tuple(s.name for s in signature.inputs if s.shape and _key(s, 0, s.shape[0]) in dims)


def image_axes(spec: TensorSpec, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Axes of the height, the width and the channels of an image-like tensor, ``None`` for any other.

    Args:
        spec: says the layout, where it is known; else the channels are where 1, 3 or 4 of them are. Without a layout,
            three axes with one channel are no image: a batch of one sequence looks the same.
        shape: the tensor's concrete shape.
    """
    rank = len(shape)
    if rank not in (3, 4):
        return None
    first = (rank - 2, rank - 1, rank - 3)
    last = (rank - 3, rank - 2, rank - 1)
    orders = {"channels_first": (first,), "channels_last": (last,), None: (first, last)}[spec.layout]
    allowed = CHANNELS if rank == 4 or spec.layout else (3, 4)
    return next((axes for axes in orders if shape[axes[2]] in allowed), None)


def _role(spec: TensorSpec, axis: int) -> Role:
    shape = spec.shape or ()
    if len(shape) < 3:
        return "other"
    # Free dimensions stand for 0 here, so that they are never taken for a number of channels.
    axes = image_axes(spec, tuple(d if isinstance(d, int) else 0 for d in shape))
    if axes is None and spec.layout is not None and len(shape) == 4:
        channels = 1 if spec.layout == "channels_first" else 3
        return "channels" if axis == channels and not isinstance(shape[channels], int) else "spatial"
    return "spatial" if axes is not None and axis in axes[:2] else "other"


def _key(spec: TensorSpec, axis: int, dim: Dim) -> str:
    return dim if isinstance(dim, str) else f"{spec.name}:{axis}"


def _checked_sizes(signature: IOSignature, batch: int | None, sizes: Mapping[str, int]) -> dict[str, int]:
    known = {_key(s, i, d) for s in signature.inputs for i, d in enumerate(s.shape or ()) if not isinstance(d, int)}
    symbols = known | {name for key in known for name in re.findall(r"[A-Za-z_]\w*", key)}
    unknown = [n for n in sizes if n not in symbols]
    if unknown:
        raise SignatureError(f"Sizes are given for {unknown}; the free dimensions are {sorted(known)}.")
    wrong = {n: s for n, s in {**sizes, **({"batch": batch} if batch is not None else {})}.items() if s < 1}
    if wrong:
        raise SignatureError(f"Sizes have to be at least 1: {wrong}.")
    return dict(sizes)


def _is_expression(dim: str) -> bool:
    return any(sign in dim for sign in "+-*/") and _parse(dim) is not None


def _parse(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None


def _evaluate(text: str, sizes: Mapping[str, int], other: int) -> int | None:
    """Value of a dimension like ``"past + seq"``, ``None`` where it is no such expression or no positive number."""
    if not _is_expression(text):
        return None
    tree = _parse(text)
    value = None if tree is None else _value(tree, sizes, other)
    return value if value is not None and value >= 1 else None


def _value(node: ast.expr, sizes: Mapping[str, int], other: int) -> int | None:
    match node:
        case ast.Constant(value=int(number)):
            return int(number)
        case ast.Name(id=name):
            return sizes.get(name, other)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _value(left, sizes, other), _value(right, sizes, other)
            if a is None or b is None:
                return None
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv() | ast.Div():
                    return a // b if b else None
    return None
