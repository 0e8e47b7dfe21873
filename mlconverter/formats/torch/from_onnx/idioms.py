"""What torch has as one call and ONNX graphs write out in parts: attention, and two kinds of normalisation.

An idiom is recognised at its last node, looking back: all that it needs is recorded by then, and parts that nothing else
reads are left out as dead code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F
from torch import nn

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.values import Const, Tensor, Value
from mlconverter.hub.io import dim_of
from mlconverter.hub.model import is_weight
from mlconverter.hub.nodes import DEFAULT_DOMAINS, Call

_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


class Walk(Protocol):
    """A walk over a graph, as far as idioms need it."""

    builder: Builder

    def value(self, value: ir.Value) -> Value:
        """The translated value."""

    def call(self, node: ir.Node) -> Call:
        """A node in the calling form of the newest opset."""


def recognise(walk: Walk, node: ir.Node) -> Any:
    """The result of an idiom that ends with a node, ``None`` where none does."""
    idiom = _IDIOMS.get(node.op_type) if node.domain in DEFAULT_DOMAINS else None
    known = idiom is not None and node.outputs[0].dtype in _FLOATS and node.outputs[0].shape is not None
    return idiom(walk, node) if idiom is not None and known else None


# -- attention ---------------------------------------------------------------------------------------------------------


def _attention(walk: Walk, node: ir.Node) -> Any:
    """``softmax(q kᵀ · scale + mask) v`` → F.scaled_dot_product_attention."""
    (softmax, guarded), v = _softmax(node.inputs[0]), node.inputs[1]
    if softmax is None or v is None or v.shape is None:
        return None
    call = walk.call(softmax)
    rank = len(v.shape)
    if call.version < 13 or call.attributes["axis"] not in (-1, rank - 1) or rank < 3:
        return None
    scores, mask = softmax.inputs[0], None
    added = _made_by(scores, "Add")
    if added is not None:
        scores, mask = _either(added, lambda value: _made_by(_unscaled(value)[0], "MatMul") is not None)
    scores, scale = _unscaled(scores)
    product = _made_by(scores, "MatMul")
    if product is None:
        return None
    (q, by_q), (k, by_k) = map(_unscaled, product.inputs)
    shapes = [_dims(i) for i in (q, k, v)]
    if q is None or k is None or any(s is None or len(s) != rank for s in shapes):
        return None
    if mask is not None and (mask.dtype != q.dtype or mask.shape is None or not 2 <= len(mask.shape) <= rank):
        return None
    if mask is not None and not (guarded or _leaves_something(mask)):
        return None  # a row that is masked whole is NaN here, and zero in torch
    tensor = walk.builder.tensor
    keys, settings = _swapped(walk, k), {"scale": scale * by_q * by_k}
    if mask is not None:
        settings["attn_mask"] = tensor(walk.value(mask))
    # Where nobody knows before whether axes are the same, or broadcast, the run time looks.
    fronts = {s[:-2] for s in shapes if s is not None}
    whole = _dims(softmax.inputs[0])
    alike = len(fronts) == 1 and None not in next(iter(fronts)) and whole is not None and whole == _dims(product.outputs[0])
    alike = alike and (mask is None or None not in whole)  # type: ignore[operator]
    attend = F.scaled_dot_product_attention if alike else runtime.attention
    return walk.builder.call(attend, tensor(walk.value(q)), keys, tensor(walk.value(v)), **settings)


def _softmax(value: ir.Value | None) -> tuple[ir.Node | None, bool]:
    """The softmax that a value is, and whether what is no number in it is set to zero."""
    chosen = _made_by(value, "Where")
    if chosen is None:
        return _made_by(value, "Softmax"), False
    test, zero, kept = chosen.inputs
    tested = _made_by(test, "IsNaN")
    if tested is None or tested.inputs[0] is not kept or _number(zero) != 0:
        return None, False
    return _made_by(kept, "Softmax"), True


def _leaves_something(mask: ir.Value) -> bool:
    """Whether a mask is known to hide no row whole."""
    return mask.const_value is not None and bool((mask.const_value.numpy() > -np.inf).any(-1).all())


def _swapped(walk: Walk, value: ir.Value) -> Tensor:
    """A value with its last two axes swapped: what it was before it was transposed, where that is what was done."""
    dims = _dims(value)
    source = _made_by(value, "Transpose")
    outer = _made_by(value, "Reshape")  # torch's exporter swaps in three dimensions
    inner = source if outer is None else _made_by(outer.inputs[0], "Transpose")
    before = None if inner is None else inner.inputs[0] if outer is None else _source_of_reshape(inner.inputs[0])
    wanted = None if dims is None else (*dims[:-2], dims[-1], dims[-2])
    # Of two shapes with as many elements, one size that nobody knows is the same if all others are.
    if before is not None and inner is not None and wanted is not None and wanted.count(None) <= 1 and _dims(before) == wanted:
        perm = list(walk.call(inner).attributes.get("perm") or ())
        middle = _dims(inner.inputs[0])
        if perm == [*range(len(perm) - 2), len(perm) - 1, len(perm) - 2] and middle is not None and middle[-2:] == wanted[-2:]:
            return walk.builder.tensor(walk.value(before))  # type: ignore[no-any-return]
    return walk.builder.tensor(walk.value(value)).transpose(-2, -1)  # type: ignore[no-any-return]


def _source_of_reshape(value: ir.Value | None) -> ir.Value | None:
    node = _made_by(value, "Reshape")
    return None if node is None else node.inputs[0]


# -- normalisation -----------------------------------------------------------------------------------------------------


def _rms_norm(walk: Walk, node: ir.Node) -> Any:
    """``x / sqrt(mean(x²) + ε) · weight`` → nn.RMSNorm."""
    for scaled, weight in (node.inputs, node.inputs[::-1]):
        x, epsilon = _over_root(walk, scaled)
        constant = _weight(walk, weight, x)
        if x is not None and epsilon is not None and constant is not None and _centred(walk, x) is None:
            with torch.device("meta"):
                layer = nn.RMSNorm(constant.value.shape, eps=epsilon)
            return walk.builder.layer(layer, walk.builder.tensor(walk.value(x)), weight=constant)
    return None


def _layer_norm(walk: Walk, node: ir.Node) -> Any:
    """``(x - mean) / sqrt(mean((x - mean)²) + ε) · weight + bias`` → nn.LayerNorm."""
    for product, bias in (node.inputs, node.inputs[::-1]):
        scaled = _made_by(product, "Mul")
        for normal, weight in () if scaled is None else (scaled.inputs, scaled.inputs[::-1]):
            centred, epsilon = _over_root(walk, normal)
            x = _centred(walk, centred)
            constants = _weight(walk, weight, x), _weight(walk, bias, x)
            if x is None or epsilon is None or not all(constants):
                continue
            with torch.device("meta"):
                layer = nn.LayerNorm(constants[0].value.shape, eps=epsilon)  # type: ignore[union-attr]
            given = walk.builder.tensor(walk.value(x))
            return walk.builder.layer(layer, given, weight=constants[0], bias=constants[1])
    return None


def _centred(walk: Walk, value: ir.Value | None) -> ir.Value | None:
    """What a value is, apart from having its mean taken off."""
    difference = _made_by(value, "Sub")
    x = None if difference is None else difference.inputs[0]
    return x if difference is not None and x is not None and _mean_of(walk, difference.inputs[1]) is x else None


def _over_root(walk: Walk, value: ir.Value | None) -> tuple[ir.Value | None, float | None]:
    """``x`` and ``ε`` of ``x / sqrt(mean(x²) + ε)``, nothing where a value is no such thing."""
    quotient, product = _made_by(value, "Div"), _made_by(value, "Mul")
    pairs: list[tuple[ir.Value | None, ir.Value | None]] = []
    if quotient is not None:
        pairs = [(quotient.inputs[0], quotient.inputs[1])]
    elif product is not None:
        inverses = [(_made_by(i, "Reciprocal"), product.inputs[1 - n]) for n, i in enumerate(product.inputs)]
        pairs = [(x, inverse.inputs[0]) for inverse, x in inverses if inverse is not None]
    for x, root in pairs:
        squared = _made_by(root, "Sqrt")
        added = None if squared is None else _made_by(squared.inputs[0], "Add")
        for mean, epsilon in () if added is None else (added.inputs, added.inputs[::-1]):
            number, square = _number(epsilon), _mean_of(walk, mean)
            if number is not None and x is not None and _is_square(square, x):
                return x, number
    return None, None


def _mean_of(walk: Walk, value: ir.Value | None) -> ir.Value | None:
    """What a value is the mean of, over the last axis, which is kept."""
    node = _made_by(value, "ReduceMean")
    source = None if node is None else node.inputs[0]
    if node is None or source is None or source.shape is None:
        return None
    call = walk.call(node)
    axes = call.inputs[1] if len(call.inputs) > 1 else None
    axes = axes.const_value.numpy() if isinstance(axes, ir.Value) and axes.const_value is not None else axes
    if axes is None or isinstance(axes, ir.Value) or not call.attributes.get("keepdims", 1):
        return None
    return source if [int(a) % len(source.shape) for a in axes.reshape(-1)] == [len(source.shape) - 1] else None


def _is_square(value: ir.Value | None, x: ir.Value) -> bool:
    power, product = _made_by(value, "Pow"), _made_by(value, "Mul")
    if power is not None:
        return power.inputs[0] is x and _number(power.inputs[1]) == 2
    return product is not None and all(i is x for i in product.inputs)


def _weight(walk: Walk, value: ir.Value | None, x: ir.Value | None) -> Const | None:
    """A weight for each element of the last axis."""
    if value is None or x is None or x.shape is None or value.const_value is None:
        return None
    constant = walk.value(value)
    fits = isinstance(constant, Const) and constant.weight is not None and constant.value.shape == (_dims(x) or (None,))[-1:]
    return constant if fits and isinstance(constant, Const) else None


# -- graphs ------------------------------------------------------------------------------------------------------------


def _made_by(value: ir.Value | None, op: str) -> ir.Node | None:
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == op and node.domain in DEFAULT_DOMAINS else None


def _dims(value: ir.Value | None) -> tuple[Any, ...] | None:
    return None if value is None or value.shape is None else tuple(map(dim_of, value.shape))


def _number(value: ir.Value | None) -> float | None:
    """A constant number; one that is trained is none."""
    constant = None if value is None or is_weight(value) else value.const_value
    return float(constant.numpy().reshape(-1)[0]) if constant is not None and constant.size == 1 else None


def _unscaled(value: ir.Value | None) -> tuple[ir.Value | None, float]:
    """A value without the number that it was multiplied with or divided by, and that number."""
    product, quotient = _made_by(value, "Mul"), _made_by(value, "Div")
    if quotient is not None and (number := _number(quotient.inputs[1])):
        return quotient.inputs[0], 1 / number
    for kept, one in () if product is None else (product.inputs, product.inputs[::-1]):
        if (number := _number(one)) is not None:
            return kept, number
    return value, 1.0


def _either(node: ir.Node, test: Callable[[ir.Value | None], bool]) -> tuple[ir.Value | None, ir.Value | None]:
    """The operand that passes a test, and the other one."""
    first, second = node.inputs
    return (first, second) if test(first) else (second, first)


_IDIOMS: dict[str, Callable[[Walk, ir.Node], Any]] = {"MatMul": _attention, "Mul": _rms_norm, "Add": _layer_norm}
