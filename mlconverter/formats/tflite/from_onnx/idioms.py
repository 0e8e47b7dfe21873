"""Operators that exporters write out in parts, and that LiteRT has as one."""

from __future__ import annotations

import math

import onnx_ir as ir
import onnx_ir.passes.common as passes

from mlconverter.hub.nodes import DEFAULT_DOMAINS, call_of, opset_of, version_of

NEWEST = 22
"""Opset in which the operators that are put in are written."""


def recognise(model: ir.Model) -> None:
    """Put single operators in the place of their parts, in a normalised graph."""
    found = False
    for node in list(model.graph):
        if node.domain in DEFAULT_DOMAINS:
            if node.op_type == "Clip":
                found |= _hard_swish(model, node)
            elif node.op_type == "HardSigmoid":
                found |= _hard_swish_of_sigmoid(model, node)
            elif node.op_type == "Erf":
                found |= _gelu(node)
    if found:
        passes.RemoveUnusedNodesPass()(model)


def _hard_swish(model: ir.Model, clip: ir.Node) -> bool:
    """``x * clip(x + 3, 0, 6) / 6`` → HardSwish."""
    call = call_of(clip, opset_of(clip, model.opset_imports), version_of(clip, model.opset_imports) or 0)
    bounds = [_number(i) if isinstance(i, ir.Value) else None if i is None else float(i) for i in call.inputs[1:]]
    moved = _producer(clip.inputs[0], "Add")
    if bounds != [0, 6] or moved is None or _sole_reader(moved.outputs[0]) is None:
        return False
    x = _other(moved, 3)
    return x is not None and _replace_product(clip, x, "HardSwish", 1 / 6)


def _hard_swish_of_sigmoid(model: ir.Model, sigmoid: ir.Node) -> bool:
    """``x * HardSigmoid(x)`` with a slope of 1/6 and an offset of 1/2 → HardSwish."""
    call = call_of(sigmoid, opset_of(sigmoid, model.opset_imports), version_of(sigmoid, model.opset_imports) or 0)
    if abs(call.attributes["alpha"] - 1 / 6) > 1e-6 or call.attributes["beta"] != 0.5 or sigmoid.inputs[0] is None:
        return False
    return _replace_product(sigmoid, sigmoid.inputs[0], "HardSwish", 1)


def _gelu(erf: ir.Node) -> bool:
    """``0.5 * x * (1 + erf(x / sqrt(2)))`` → Gelu."""
    inner = None if erf.inputs[0] is None else erf.inputs[0].producer()
    if inner is None or _sole_reader(inner.outputs[0]) is None:
        return False
    x = inner.inputs[0] if inner.op_type == "Div" and _is(inner.inputs[1], math.sqrt(2)) else None
    if inner.op_type == "Mul":
        x = _other(inner, math.sqrt(0.5))
    plus = _sole_reader(erf.outputs[0])
    if x is None or plus is None or plus.op_type != "Add" or _other(plus, 1) is not erf.outputs[0]:
        return False
    return _replace_product(plus, x, "Gelu", 0.5)


def _replace_product(node: ir.Node, x: ir.Value, op: str, factor: float) -> bool:
    """Replace the product of a node's output, ``x`` and a factor, in whatever order they are multiplied."""
    current, seen, left = node.outputs[0], False, factor
    for _ in range(3):
        reader = _sole_reader(current)
        if reader is None or reader.op_type not in ("Mul", "Div") or reader.domain not in DEFAULT_DOMAINS:
            return False
        if reader.op_type == "Div":
            divisor = _number(reader.inputs[1]) if reader.inputs[0] is current else None
            if not divisor:
                return False
            left *= divisor
        else:
            other = reader.inputs[1] if reader.inputs[0] is current else reader.inputs[0]
            number = _number(other)
            scaled = _producer(other, "Mul")
            if number:
                left /= number
            elif other is x and not seen:
                seen = True
            elif scaled is not None and not seen and (share := _share(scaled, x)):
                seen, left = True, left / share
            else:
                return False
        current = reader.outputs[0]
        if seen and abs(left - 1) < 1e-5:
            return _put(reader, x, op)
    return False


def _put(last: ir.Node, x: ir.Value, op: str) -> bool:
    old = last.outputs[0]
    made = ir.Node("", op, [x], version=NEWEST, name=last.name)
    new = made.outputs[0]
    new.type, new.shape = old.type, old.shape
    assert last.graph is not None
    last.graph.insert_before(last, made)
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    new.name, old.name = old.name, None
    return True


def _sole_reader(value: ir.Value) -> ir.Node | None:
    uses = list(value.uses())
    return uses[0].node if len(uses) == 1 and not value.is_graph_output() else None


def _producer(value: ir.Value | None, op: str) -> ir.Node | None:
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == op and node.domain in DEFAULT_DOMAINS else None


def _number(value: ir.Value | None) -> float | None:
    if value is None or value.const_value is None or value.const_value.size != 1:
        return None
    return float(value.const_value.numpy().reshape(-1)[0])


def _is(value: ir.Value | None, number: float) -> bool:
    found = _number(value)
    return found is not None and abs(found - number) < 1e-5


def _other(node: ir.Node, number: float) -> ir.Value | None:
    """The operand beside a constant number."""
    a, b = node.inputs
    return a if _is(b, number) else b if _is(a, number) else None


def _share(product: ir.Node, x: ir.Value) -> float | None:
    """The number by which ``x`` is multiplied."""
    a, b = product.inputs
    return _number(b) if a is x else _number(a) if b is x else None
