"""ONNX Runtime's own operators on quantised values: dequantised, computed, quantised anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.hub.fused.writer import Unknown, Writer, rank_of, writes_out
from mlconverter.hub.nodes import Call

Given = ir.Value | None


def dequantised(w: Writer, x: ir.Value, scale: ir.Value, zero: Given, axis: int | None = None) -> ir.Value:
    """What integers stand for; several scales lie along an axis."""
    inputs = (x, scale) if zero is None else (x, scale, zero)
    return w("DequantizeLinear", *inputs, axis=axis if axis is not None and rank_of(scale) and scale.shape != (1,) else None)


def quantised(w: Writer, y: ir.Value, scale: ir.Value, zero: Given, like: ir.Value) -> ir.Value:
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
        y = w(becomes, dequantised(w, a, a_scale, a_zero), dequantised(w, b, b_scale, b_zero))
        return quantised(w, y, scale, zero, a)

    translator.__doc__ = f"{op} → DequantizeLinear, {becomes}, QuantizeLinear."
    writes_out(f"com.microsoft::{op}", 1)(translator)


_binary("QLinearAdd", "Add")
_binary("QLinearMul", "Mul")


def _unary(op: str, becomes: str, *, check: Any = None, drop: Sequence[str] = ()) -> None:
    def translator(
        w: Writer, x: ir.Value, x_scale: ir.Value, x_zero: Given, scale: ir.Value, zero: Given = None, **attributes: Any
    ) -> ir.Value:
        kept = {name: value for name, value in attributes.items() if name not in drop}
        return quantised(w, w(becomes, dequantised(w, x, x_scale, x_zero), **kept), scale, zero, x)

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
    real, axes = dequantised(w, x, x_scale, x_zero), w.ints(axis)
    # Softmax itself meant something else before opset 13.
    powers = w("Exp", w("Sub", real, w("ReduceMax", real, axes, keepdims=1)))
    return quantised(w, w("Div", powers, w("ReduceSum", powers, axes, keepdims=1)), scale, zero, x)


@writes_out("com.microsoft::QLinearConcat", 1)
def qlinear_concat(w: Writer, scale: ir.Value, zero: ir.Value, *parts: Given, axis: int) -> ir.Value:
    """QLinearConcat → DequantizeLinear of each, Concat, QuantizeLinear."""
    given = [*parts, *[None] * (-len(parts) % 3)]
    reals = []
    for x, x_scale, x_zero in zip(given[::3], given[1::3], given[2::3], strict=True):
        if x is None or x_scale is None:
            raise Unknown("a part without a scale")
        reals.append(dequantised(w, x, x_scale, x_zero))
    return quantised(w, w("Concat", *reals, axis=axis), scale, zero, zero)


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
    return quantised(
        w, w("Where", condition, dequantised(w, x, x_scale, x_zero), dequantised(w, y, y_scale, y_zero)), scale, zero, x
    )


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
    left, right = dequantised(w, a, a_scale, a_zero), dequantised(w, b, b_scale, b_zero, axis=0 if transB else 1)
    sums = None
    if c is not None:
        if a_scale.const_value is None or b_scale.const_value is None:
            raise Unknown("the scale of the bias is computed while the model runs")
        # The bias is added to sums of products of integers, before alpha.
        sums = dequantised(w, c, w.constant(np.float32(alpha) * product(a_scale, b_scale)), None, axis=rank_of(c) - 1)
    terms = (left, right) if sums is None else (left, right, sums)
    y = w("Gemm", *terms, alpha=alpha, beta=1.0, transA=transA, transB=transB)
    return y if scale is None else quantised(w, y, scale, zero, a)


def product(a: ir.Value, b: ir.Value) -> np.ndarray[Any, Any]:
    """One scale times others, the grid of sums of products; both are known beforehand."""
    assert a.const_value is not None and b.const_value is not None
    return np.asarray(a.const_value.numpy().reshape(()) * b.const_value.numpy(), np.float32)
