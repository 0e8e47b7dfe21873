"""Operators on quantised values: dequantised, computed, quantised anew, which is how the specification has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.hub.fused.writer import Unknown, Writer, rank_of, replace, writes_out
from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import DEFAULT_DOMAINS, Call, attributes_of
from mlconverter.hub.walk import graphs

Given = ir.Value | None


def _real(w: Writer, x: ir.Value, scale: ir.Value, zero: Given, axis: int | None = None) -> ir.Value:
    """What integers stand for; several scales lie along an axis."""
    inputs = (x, scale) if zero is None else (x, scale, zero)
    return w("DequantizeLinear", *inputs, axis=axis if axis is not None and rank_of(scale) and scale.shape != (1,) else None)


def _quantised(w: Writer, y: ir.Value, scale: ir.Value, zero: Given, like: ir.Value) -> ir.Value:
    """The integers that stand for real numbers, of the type of the zero point, or of others where there is none."""
    if zero is None:
        if like.dtype is None:
            raise Unknown(f"the element type of '{like.name}' is not known before the model runs")
        zero = w.constant(np.zeros((), like.dtype.numpy()))
    return w("QuantizeLinear", y, scale, zero)


def _check_layout(call: Call) -> str | None:
    return "channels_last=1" if call.attributes.get("channels_last") else None


def _binary(op: str, becomes: str) -> None:
    def translator(
        w: Writer,
        a: ir.Value,
        a_scale: ir.Value,
        a_zero: Given,
        b: ir.Value,
        b_scale: ir.Value,
        b_zero: Given,
        scale: ir.Value,
        zero: Given = None,
    ) -> ir.Value:
        y = w(becomes, _real(w, a, a_scale, a_zero), _real(w, b, b_scale, b_zero))
        return _quantised(w, y, scale, zero, a)

    translator.__doc__ = f"{op} → DequantizeLinear, {becomes}, QuantizeLinear."
    writes_out(f"com.microsoft::{op}", 1)(translator)


_binary("QLinearAdd", "Add")
_binary("QLinearMul", "Mul")


def _unary(op: str, becomes: str, *, check: Any = None, drop: Sequence[str] = ()) -> None:
    def translator(
        w: Writer, x: ir.Value, x_scale: ir.Value, x_zero: Given, scale: ir.Value, zero: Given = None, **attributes: Any
    ) -> ir.Value:
        kept = {name: value for name, value in attributes.items() if name not in drop}
        return _quantised(w, w(becomes, _real(w, x, x_scale, x_zero), **kept), scale, zero, x)

    translator.__doc__ = f"{op} → DequantizeLinear, {becomes}, QuantizeLinear."
    writes_out(f"com.microsoft::{op}", 1, check=check)(translator)


_unary("QLinearSigmoid", "Sigmoid")
_unary("QLinearLeakyRelu", "LeakyRelu")
_unary("QLinearAveragePool", "AveragePool", check=_check_layout, drop=["channels_last"])
_unary("QLinearGlobalAveragePool", "GlobalAveragePool", check=_check_layout, drop=["channels_last"])


def _check_softmax(call: Call) -> str | None:
    return None if int(call.attributes["opset"]) >= 13 else "a softmax over all axes behind one"


@writes_out("com.microsoft::QLinearSoftmax", 1, check=_check_softmax)
def qlinear_softmax(
    w: Writer, x: ir.Value, x_scale: ir.Value, x_zero: Given, scale: ir.Value, zero: ir.Value, *, axis: int, opset: int
) -> ir.Value:
    """QLinearSoftmax → DequantizeLinear, Exp of the distance to the largest, ReduceSum, QuantizeLinear."""
    real, axes = _real(w, x, x_scale, x_zero), w.ints(axis)
    # Softmax itself meant something else before opset 13.
    powers = w("Exp", w("Sub", real, w("ReduceMax", real, axes, keepdims=1)))
    return _quantised(w, w("Div", powers, w("ReduceSum", powers, axes, keepdims=1)), scale, zero, x)


@writes_out("com.microsoft::QLinearConcat", 1)
def qlinear_concat(w: Writer, scale: ir.Value, zero: ir.Value, *parts: Given, axis: int) -> ir.Value:
    """QLinearConcat → DequantizeLinear of each, Concat, QuantizeLinear."""
    given = [*parts, *[None] * (-len(parts) % 3)]
    reals = []
    for x, x_scale, x_zero in zip(given[::3], given[1::3], given[2::3], strict=True):
        if x is None or x_scale is None:
            raise Unknown("a part without a scale")
        reals.append(_real(w, x, x_scale, x_zero))
    return _quantised(w, w("Concat", *reals, axis=axis), scale, zero, zero)


@writes_out("com.microsoft::QLinearWhere", 1)
def qlinear_where(
    w: Writer,
    condition: ir.Value,
    x: ir.Value,
    x_scale: ir.Value,
    x_zero: ir.Value,
    y: ir.Value,
    y_scale: ir.Value,
    y_zero: ir.Value,
    scale: ir.Value,
    zero: ir.Value,
) -> ir.Value:
    """QLinearWhere → DequantizeLinear, Where, QuantizeLinear."""
    return _quantised(w, w("Where", condition, _real(w, x, x_scale, x_zero), _real(w, y, y_scale, y_zero)), scale, zero, x)


@writes_out("com.microsoft::QGemm", 1)
def qgemm(
    w: Writer,
    a: ir.Value,
    a_scale: ir.Value,
    a_zero: ir.Value,
    b: ir.Value,
    b_scale: ir.Value,
    b_zero: ir.Value,
    c: Given = None,
    scale: Given = None,
    zero: Given = None,
    *,
    alpha: float,
    transA: int,
    transB: int,
) -> ir.Value:
    """QGemm → DequantizeLinear, Gemm (+ Add of the bias on the grid of the sums), QuantizeLinear where a scale says so."""
    left, right = _real(w, a, a_scale, a_zero), _real(w, b, b_scale, b_zero, axis=0 if transB else 1)
    sums = None
    if c is not None:
        if a_scale.const_value is None or b_scale.const_value is None:
            raise Unknown("the scale of the bias is computed while the model runs")
        # The bias is added to sums of products of integers, before alpha.
        sums = _real(w, c, w.constant(np.float32(alpha) * _product(a_scale, b_scale)), None, axis=rank_of(c) - 1)
    terms = (left, right) if sums is None else (left, right, sums)
    y = w("Gemm", *terms, alpha=alpha, beta=1.0, transA=transA, transB=transB)
    return y if scale is None else _quantised(w, y, scale, zero, a)


# -- the specification's own, for engines that have kernels for what they are made of ----------------------------------


def spell_out_quantised(model: ir.Model) -> bool:
    """Write operators on integers as those on the real numbers that they stand for, in place; whether there were any.

    These are QLinearConv and QLinearMatMul with constant filters, and what moves elements of what was quantised.
    """
    names, spelled = Names(model), False
    for graph in graphs(model):
        grids: dict[ir.Value, ir.Node] = {}  # integers, and what quantised them
        for node in graph:
            known = node.domain in DEFAULT_DOMAINS
            if known and node.op_type in _SPELLED and all(v is None or v.const_value is not None for v in node.inputs[1:]):
                writer = Writer(model, node, names)
                results = [_SPELLED[node.op_type](writer, *node.inputs, **attributes_of(node, 10))]
            elif known and node.op_type in _MOVING and _share_grid(node, grids):
                writer = Writer(model, node, names)
                results = _moved(writer, node, grids)
            else:
                results = []
                if known and node.op_type == "QuantizeLinear" and _is_constant(node):
                    grids[node.outputs[0]] = node
            if results:
                replace(writer, node, results)
                makers = [result.producer() for result in results]
                grids.update((m.outputs[0], m) for m in makers if m is not None and _is_constant(m))
                spelled = True
    return spelled


def _is_constant(quantize: ir.Node) -> bool:
    """Whether there is one scale, known beforehand."""
    return all(v is not None and v.const_value is not None and v.const_value.size == 1 for v in quantize.inputs[1:])


def _share_grid(node: ir.Node, grids: Mapping[ir.Value, ir.Node]) -> bool:
    makers = [None if value is None else grids.get(value) for value in _data(node)]
    return None not in makers and len({_grid(m) for m in makers if m is not None}) == 1


def _grid(quantize: ir.Node) -> tuple[float, ...]:
    return tuple(v.const_value.numpy().item() for v in quantize.inputs[1:] if v is not None and v.const_value is not None)


def _data(node: ir.Node) -> Sequence[Given]:
    return node.inputs if node.op_type == "Concat" else node.inputs[:1]


def _moved(w: Writer, node: ir.Node, grids: Mapping[ir.Value, ir.Node]) -> list[ir.Value]:
    data = list(_data(node))
    scale, *zero = grids[data[0]].inputs[1:]  # type: ignore[index]
    reals = [w("DequantizeLinear", value, scale, *zero) for value in data]
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    moved = w.several(node.op_type, len(node.outputs), *reals, *node.inputs[len(data) :], **attributes)
    return [w("QuantizeLinear", value, scale, *zero) for value in moved]


def _conv(
    w: Writer,
    x: ir.Value,
    x_scale: ir.Value,
    x_zero: ir.Value,
    filters: ir.Value,
    filter_scale: ir.Value,
    filter_zero: ir.Value,
    scale: ir.Value,
    zero: ir.Value,
    bias: Given = None,
    **attributes: Any,
) -> ir.Value:
    terms = [_real(w, x, x_scale, x_zero), _real(w, filters, filter_scale, filter_zero, axis=0)]
    if bias is not None:
        terms.append(_real(w, bias, w.constant(_product(x_scale, filter_scale)), None, axis=0))
    return _quantised(w, w("Conv", *terms, **attributes), scale, zero, x)


def _matmul(
    w: Writer,
    x: ir.Value,
    x_scale: ir.Value,
    x_zero: ir.Value,
    y: ir.Value,
    y_scale: ir.Value,
    y_zero: ir.Value,
    scale: ir.Value,
    zero: ir.Value,
) -> ir.Value:
    columns = rank_of(y) - 1
    product = w("MatMul", _real(w, x, x_scale, x_zero), _real(w, y, y_scale, y_zero, axis=columns))
    return _quantised(w, product, scale, zero, x)


def _product(a: ir.Value, b: ir.Value) -> np.ndarray[Any, Any]:
    assert a.const_value is not None and b.const_value is not None
    return np.asarray(a.const_value.numpy().reshape(()) * b.const_value.numpy(), np.float32)


_MOVING = frozenset("Concat Flatten MaxPool Reshape Slice Split Squeeze Transpose Unsqueeze".split())
"""Operators that move the elements of their first input, of all for Concat, or pick the largest."""

_SPELLED: dict[str, Callable[..., ir.Value]] = {"QLinearConv": _conv, "QLinearMatMul": _matmul}
