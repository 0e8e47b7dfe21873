"""Fused layers: convolutions and products with what follows them, activations with a bias, normalisations with a sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from mlconverter.hub.fused.writer import Writer, rank_of, writes_out
from mlconverter.hub.nodes import Call

_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    # the attributes that the parameters of a fused activation are
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}


def _activated(w: Writer, x: ir.Value, activation: str | None, parameters: Sequence[float]) -> ir.Value:
    if not activation:
        return x
    if activation == "Clip":
        return w("Clip", x, *(w.number(p) for p in parameters))
    return w(activation, x, **dict(zip(_ACTIVATIONS[activation], parameters, strict=False)))


def _check_activation(activation: str | None, parameters: Sequence[float]) -> str | None:
    if activation and activation != "Clip" and activation not in _ACTIVATIONS:
        return f"the fused activation {activation}"
    needed = 0 if not activation else 2 if activation == "Clip" else len(_ACTIVATIONS[activation])
    return None if len(parameters) >= needed else f"the fused activation {activation} without its parameters"


# -- convolutions and products -----------------------------------------------------------------------------------------


def _check_conv(call: Call) -> str | None:
    return _check_activation(call.attributes.get("activation"), call.attributes.get("activation_params") or ())


@writes_out("com.microsoft::FusedConv", 1, check=_check_conv)
def fused_conv(
    w: Writer,
    x: ir.Value,
    weight: ir.Value,
    bias: ir.Value | None = None,
    z: ir.Value | None = None,
    *,
    activation: str | None = None,
    activation_params: Sequence[float] = (),
    **attributes: Any,
) -> ir.Value:
    """FusedConv → Conv (+ Add) (+ activation)."""
    y = w("Conv", x, weight, bias, **attributes) if bias is not None else w("Conv", x, weight, **attributes)
    y = y if z is None else w("Add", y, z)
    return _activated(w, y, activation, activation_params)


def _check_matmul(call: Call) -> str | None:
    batched = call.attributes.get("transBatchA") or call.attributes.get("transBatchB")
    return "transBatchA and transBatchB move the axes of the batch" if batched else None


@writes_out("com.microsoft::FusedMatMul", 1, check=_check_matmul)
@writes_out("com.microsoft::TransposeMatMul", 1)
def fused_matmul(
    w: Writer,
    a: ir.Value,
    b: ir.Value,
    *,
    alpha: float,
    transA: int,
    transB: int,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> ir.Value:
    """FusedMatMul → MatMul of transposed operands (+ Mul)."""
    # A vector is never transposed.
    left = w.transposed(a) if transA and rank_of(a) > 1 else a
    right = w.transposed(b) if transB and rank_of(b) > 1 else b
    y = w("MatMul", left, right)
    return y if alpha == 1 else w("Mul", y, w.number(alpha))


def _check_gemm(call: Call) -> str | None:
    return _check_activation(call.attributes.get("activation"), _scales(call.attributes))


def _scales(attributes: dict[str, Any]) -> list[float]:
    given = (attributes.get(f"activation_{letter}") for letter in ("alpha", "beta"))
    return [scale for scale in given if scale is not None]


@writes_out("com.microsoft::FusedGemm", 1, check=_check_gemm)
def fused_gemm(
    w: Writer,
    a: ir.Value,
    b: ir.Value,
    c: ir.Value | None = None,
    *,
    alpha: float,
    beta: float,
    transA: int,
    transB: int,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
) -> ir.Value:
    """FusedGemm → Gemm (+ activation)."""
    operands = (a, b) if c is None else (a, b, c)
    y = w("Gemm", *operands, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return _activated(w, y, activation, _scales({"activation_alpha": activation_alpha, "activation_beta": activation_beta}))


# -- activations -------------------------------------------------------------------------------------------------------


@writes_out("com.microsoft::Gelu", 1)
def gelu(w: Writer, x: ir.Value) -> ir.Value:
    """Gelu → Gelu of the specification."""
    return w("Gelu", x)


@writes_out("com.microsoft::BiasGelu", 1)
def bias_gelu(w: Writer, x: ir.Value, bias: ir.Value) -> ir.Value:
    """BiasGelu → Add, Gelu."""
    return w("Gelu", w("Add", x, bias))


@writes_out("com.microsoft::FastGelu", 1)
def fast_gelu(w: Writer, x: ir.Value, bias: ir.Value | None = None) -> ir.Value:
    """FastGelu → (Add,) Gelu by tanh."""
    return w("Gelu", x if bias is None else w("Add", x, bias), approximate="tanh")


@writes_out("com.microsoft::QuickGelu", 1)
def quick_gelu(w: Writer, x: ir.Value, *, alpha: float) -> ir.Value:
    """QuickGelu → x * Sigmoid(alpha * x)."""
    return w("Mul", x, w("Sigmoid", w("Mul", x, w.number(alpha))))


# -- normalisation -----------------------------------------------------------------------------------------------------


def _check_stash(call: Call) -> str | None:
    return "stash_type other than float32" if call.attributes.get("stash_type", 1) != 1 else None


@writes_out("com.microsoft::LayerNormalization", 1, check=_check_stash)
def layer_normalization(
    w: Writer,
    x: ir.Value,
    scale: ir.Value,
    bias: ir.Value | None = None,
    *,
    axis: int,
    epsilon: float,
    stash_type: int,
) -> Sequence[ir.Value]:
    """LayerNormalization → that of the specification, where it stands in the default domain before opset 17."""
    operands = (x, scale) if bias is None else (x, scale, bias)
    return w.several("LayerNormalization", _outputs(w), *operands, axis=axis, epsilon=epsilon, stash_type=stash_type)


def _outputs(w: Writer) -> int:
    """How many of a normalisation's outputs are read: with its mean and deviation, all of them."""
    return 3 if w.is_read(1) or w.is_read(2) else 1


@writes_out("com.microsoft::SimplifiedLayerNormalization", 1, check=_check_stash)
def simplified(w: Writer, x: ir.Value, scale: ir.Value, *, axis: int, epsilon: float, stash_type: int) -> Sequence[ir.Value]:
    """SimplifiedLayerNormalization → RMSNormalization; it stands in the default domain."""
    y = w("RMSNormalization", x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)
    return (y, _inverse_root(w, x, axis, epsilon)) if w.is_read(1) else (y,)


def _inverse_root(w: Writer, x: ir.Value, axis: int, epsilon: float) -> ir.Value:
    rank = rank_of(x)
    axes = list(range(axis % rank, rank))
    mean = w("Div", w("ReduceSum", w("Mul", x, x), w.ints(*axes), keepdims=1), w("Cast", _count(w, x, axes), to=w.dtype.value))
    return w("Reciprocal", w("Sqrt", w("Add", mean, w.number(epsilon))))


def _count(w: Writer, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    first, *others = (w.size(x, axis) for axis in axes)
    for other in others:
        first = w("Mul", first, other)
    return first


@writes_out("com.microsoft::SkipLayerNormalization", 1)
def skip_layer_normalization(
    w: Writer,
    x: ir.Value,
    skip: ir.Value,
    gamma: ir.Value,
    beta: ir.Value | None = None,
    bias: ir.Value | None = None,
    *,
    epsilon: float,
) -> Sequence[ir.Value | None]:
    """SkipLayerNormalization → Add, LayerNormalization."""
    total = _sum(w, x, skip, bias)
    operands = (total, gamma) if beta is None else (total, gamma, beta)
    y, *statistics = w.several("LayerNormalization", _outputs(w), *operands, axis=-1, epsilon=epsilon)
    return (y, *(statistics or (None, None)), total)


@writes_out("com.microsoft::SkipSimplifiedLayerNormalization", 1)
def skip_simplified(
    w: Writer, x: ir.Value, skip: ir.Value, gamma: ir.Value, bias: ir.Value | None = None, *, epsilon: float
) -> Sequence[ir.Value | None]:
    """SkipSimplifiedLayerNormalization → Add, RMSNormalization."""
    total = _sum(w, x, skip, bias)
    y = w("RMSNormalization", total, gamma, axis=-1, epsilon=epsilon)
    return y, None, _inverse_root(w, total, -1, epsilon) if w.is_read(2) else None, total


def _sum(w: Writer, x: ir.Value, skip: ir.Value, bias: ir.Value | None) -> ir.Value:
    total = w("Add", x, skip)
    return total if bias is None else w("Add", total, bias)


def _check_embedding(call: Call) -> str | None:
    return "mask_index_type" if call.attributes.get("mask_index_type", 1) != 1 else None


@writes_out("com.microsoft::EmbedLayerNormalization", 1, check=_check_embedding)
def embed_layer_normalization(
    w: Writer,
    ids: ir.Value,
    segments: ir.Value | None,
    words: ir.Value,
    positions: ir.Value,
    kinds: ir.Value | None,
    gamma: ir.Value,
    beta: ir.Value,
    mask: ir.Value | None = None,
    position_ids: ir.Value | None = None,
    *,
    epsilon: float,
    mask_index_type: int | None = None,
) -> Sequence[ir.Value | None]:
    """EmbedLayerNormalization → Gather of each table, Add, LayerNormalization; the mask's index counts what it leaves."""
    if position_ids is None:
        length = w("Unsqueeze", w.size(ids, 1), w.ints(0))
        placed = w("Slice", positions, w.ints(0), length, w.ints(0))
    else:
        placed = w("Gather", positions, position_ids, axis=0)
    total = w("Add", w("Gather", words, ids, axis=0), placed)
    if segments is not None and kinds is not None:
        total = w("Add", total, w("Gather", kinds, segments, axis=0))
    y = w("LayerNormalization", total, gamma, beta, axis=-1, epsilon=epsilon)
    index = None
    if w.is_read(1):
        counted = ids if mask is None else mask
        ones = w("Cast", w("Equal", counted, w.number(1, counted)), to=ir.DataType.INT32.value)
        index = w("ReduceSum", ones if mask is not None else w("Sub", ones, ones), w.ints(1), keepdims=0)
    return y, index, total


# -- others ------------------------------------------------------------------------------------------------------------


@writes_out("com.microsoft::Trilu", 1)
def trilu(w: Writer, x: ir.Value, k: ir.Value | None = None, *, upper: int) -> ir.Value:
    """Trilu → Trilu of the specification."""
    return w("Trilu", x, upper=upper) if k is None else w("Trilu", x, k, upper=upper)
