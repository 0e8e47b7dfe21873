"""Activations that exporters write out in parts, and that targets have as one operator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx_ir as ir
from numpy.polynomial import Polynomial

from mlconverter.hub.model import is_weight
from mlconverter.hub.nodes import DEFAULT_DOMAINS, call_of, opset_of, version_of
from mlconverter.hub.walk import drop_unused, graphs

_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
"""Types in which the parts and the whole are the same but for rounding; shorter ones round each part visibly."""

_DEEPEST = 6
_CLOSE = 1e-5


@dataclass(frozen=True)
class _Form:
    """``x · factor · f(inner(x))``, where ``f`` is an operator, or one more than it.

    Attributes:
        op: the operator that the whole is.
        opset: in which that is written.
        inner: coefficients of the polynomial that ``f`` is applied to, from the lowest.
        factor: the product's constant factor.
        plus_one: whether one is added to what ``f`` gives.
        attributes: of the operator that the whole is.
    """

    op: str
    opset: int
    inner: tuple[float, ...] = (0, 1)
    factor: float = 1
    plus_one: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


_ROOT = math.sqrt(2 / math.pi)
_FORMS = {
    "Clip": _Form("HardSwish", 22, inner=(3, 1), factor=1 / 6),
    "HardSigmoid": _Form("HardSwish", 22),
    "Sigmoid": _Form("Swish", 24),
    "Erf": _Form("Gelu", 22, inner=(0, math.sqrt(0.5)), factor=0.5, plus_one=True),
    "Tanh": _Form("Gelu", 22, (0, _ROOT, 0, _ROOT * 0.044715), 0.5, plus_one=True, attributes={"approximate": "tanh"}),
}


def recognise_activations(model: ir.Model) -> None:
    """Put HardSwish, Swish and Gelu in the place of their parts, in a normalised graph."""
    found = False
    for graph in graphs(model):
        for node in list(graph):
            form = _FORMS.get(node.op_type) if node.domain in DEFAULT_DOMAINS else None
            if form is not None and node.outputs[0].dtype in _FLOATS and _is_plain(model, node):
                found |= _replace(node, form)
    if found:
        drop_unused(model)


def _is_plain(model: ir.Model, node: ir.Node) -> bool:
    """Whether a node has the bounds, or the slope, of the activations above."""
    if node.op_type not in ("Clip", "HardSigmoid"):
        return True
    call = call_of(node, opset_of(node, model.opset_imports), version_of(node, model.opset_imports) or 0)
    if node.op_type == "Clip":
        return [_number(i) if isinstance(i, ir.Value) else None if i is None else float(i) for i in call.inputs[1:]] == [0, 6]
    slope, offset = float(call.attributes["alpha"]), float(call.attributes["beta"])
    return abs(slope - 1 / 6) < _CLOSE and offset == 0.5


def _replace(node: ir.Node, form: _Form) -> bool:
    """Replace the product that a node is the function of, where its form is the one."""
    value = node.outputs[0]
    if form.plus_one:
        added = _sole_reader(value)
        if added is None or added.op_type != "Add" or 1 not in map(_number, added.inputs):
            return False
        value = added.outputs[0]
    for last, x, factor in _products(value):
        fits = abs(factor / form.factor - 1) < _CLOSE and _rank(x) == _rank(last.outputs[0])
        inner = _polynomial(node.inputs[0], x) if fits else None
        if inner is not None and abs((inner - Polynomial(form.inner)).coef).max() < _CLOSE:
            _put(last, x, form)
            return True
    return False


def _products(value: ir.Value) -> Iterator[tuple[ir.Node, ir.Value, float]]:
    """The nodes that end a product of a value, another one and numbers, with that other value and those numbers' product."""
    current, x, factor = value, None, 1.0
    for _ in range(3):
        reader = _sole_reader(current)
        if reader is None or reader.op_type not in ("Mul", "Div"):
            return
        first, second = reader.inputs
        other = second if first is current else first
        number = _number(other)
        if number:
            if reader.op_type == "Div" and second is current:
                return
            factor *= number if reader.op_type == "Mul" else 1 / number
        elif x is None and reader.op_type == "Mul" and other is not None and other is not current:
            x = other
        else:
            return
        current = reader.outputs[0]
        if x is not None:
            yield reader, x, factor
            inner, share = _unscaled(x)
            if inner is not None:
                yield reader, inner, factor * share


def _polynomial(value: ir.Value | None, x: ir.Value, depth: int = 0) -> Polynomial | None:
    """A value as a polynomial in another one; ``None`` where it is none."""
    if value is x:
        return Polynomial([0, 1])
    number = _number(value)
    if number is not None:
        return Polynomial([number])
    node = None if value is None else value.producer()
    if node is None or node.domain not in DEFAULT_DOMAINS or depth == _DEEPEST:
        return None
    if node.op_type not in ("Add", "Mul", "Div", "Pow"):
        return None
    left = _polynomial(node.inputs[0], x, depth + 1)
    right = _polynomial(node.inputs[1], x, depth + 1)
    if left is None or right is None or left.degree() > 3 or right.degree() > 3:
        return None
    if node.op_type == "Add":
        return left + right
    if node.op_type == "Mul":
        return left * right
    if right.degree():
        return None
    constant = float(right.coef[0])
    if node.op_type == "Div":
        return left / constant if constant else None
    return left ** int(constant) if constant in (2, 3) else None


def _rank(value: ir.Value) -> int | None:
    return None if value.shape is None else len(value.shape)


def _put(last: ir.Node, x: ir.Value, form: _Form) -> None:
    old = last.outputs[0]
    made = ir.node(form.op, [x], dict(form.attributes), version=form.opset, name=last.name)
    new = made.outputs[0]
    new.type, new.shape = old.type, old.shape
    assert last.graph is not None
    last.graph.insert_before(last, made)
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    new.name, old.name = old.name, None


def _sole_reader(value: ir.Value) -> ir.Node | None:
    uses = list(value.uses())
    if len(uses) != 1 or value.is_graph_output() or uses[0].node.domain not in DEFAULT_DOMAINS:
        return None
    return uses[0].node if uses[0].node.graph is value.producer().graph else None  # type: ignore[union-attr]


def _number(value: ir.Value | None) -> float | None:
    """A constant number; one that is trained is none."""
    constant = None if value is None or is_weight(value) else value.const_value
    return float(constant.numpy().reshape(-1)[0]) if constant is not None and constant.size == 1 else None


def _unscaled(product: ir.Value) -> tuple[ir.Value | None, float]:
    """The value that a product with a number is of, and the number; no value where it is no such product."""
    node = product.producer()
    if node is None or node.domain not in DEFAULT_DOMAINS or node.op_type not in ("Mul", "Div"):
        return None, 1
    first, second = node.inputs
    if number := _number(second):
        return first, number if node.op_type == "Mul" else 1 / number
    number = _number(first) if node.op_type == "Mul" else None
    return (second, number) if number else (None, 1)
