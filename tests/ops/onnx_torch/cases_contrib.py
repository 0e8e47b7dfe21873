"""Operators of ONNX Runtime's own: every optional input and attribute, given or not."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tests.ops.onnx_torch.cases import Case
from tests.ops.onnx_torch.models import FLOAT, INT64, N, weight

INT32 = onnx.TensorProto.INT32
DOMAIN = "com.microsoft"


@dataclass(frozen=True)
class Contrib(Case):
    """One node of ONNX Runtime's own domain."""

    opset: int = 17
    domain: str = DOMAIN


X, ROWS = (N, 4, 6), (N, 5, 8)
IMAGE = (N, 3, 7, 6)
W = weight(4, 3, 3, 3)
ACTIVATIONS: list[dict[str, Any]] = [
    {"activation": "Relu"},
    {"activation": "Tanh"},
    {"activation": "Sigmoid"},
    {"activation": "LeakyRelu", "activation_params": [0.2]},
    {"activation": "Clip", "activation_params": [-0.5, 1.5]},
    {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
]


def _layers() -> list[Contrib]:
    cases = [Contrib("FusedConv", (IMAGE, W, weight(4)), {**a, "pads": [1] * 4}) for a in ACTIVATIONS]
    cases += [
        Contrib("FusedConv", (IMAGE, W), {"activation": "Relu", "strides": [2, 2]}, opset=10),
        Contrib(
            "FusedConv", (IMAGE, weight(1, 3, 1, 1), weight(1)), {"activation": "Clip", "activation_params": [0.0, 1.0]}, opset=9
        ),
        Contrib("FusedConv", (IMAGE, W, weight(4), (N, 4, 7, 6)), {"activation": "Relu", "auto_pad": "SAME_UPPER"}),
        Contrib("FusedConv", (IMAGE, W, weight(4), (N, 4, 5, 4)), {"kernel_shape": [3, 3]}),
        Contrib("FusedConv", (IMAGE, W, None, (N, 4, 5, 4)), {"activation": "Relu"}),
        Contrib("FusedMatMul", (X, (N, 6, 3))),
        Contrib("FusedMatMul", (X, weight(6, 3)), {"alpha": 0.3}),
        Contrib("FusedMatMul", (X, weight(3, 6)), {"alpha": 0.3, "transB": 1}),
        Contrib("FusedMatMul", ((N, 6, 4), (N, 6, 3)), {"transA": 1}),
        Contrib("FusedMatMul", ((N, 6, 4), (N, 3, 6)), {"transA": 1, "transB": 1, "alpha": 2.0}),
        Contrib("FusedMatMul", ((N, 2, 4, 6), (N, 2, 3, 6)), {"transB": 1, "alpha": 0.125}),
        Contrib("FusedMatMul", ((N, 6), weight(6, 1)), {"alpha": 0.5}),
        Contrib("TransposeMatMul", (X, weight(3, 6)), {"alpha": 0.3, "transB": 1}),
        Contrib("FusedGemm", ((N, 6), weight(6, 3), weight(3)), {"activation": "Relu"}),
        Contrib("FusedGemm", ((N, 6), weight(3, 6), weight(3)), {"activation": "Tanh", "transB": 1}),
        Contrib("FusedGemm", ((N, 6), weight(6, 3)), {"activation": "LeakyRelu", "activation_alpha": 0.3, "alpha": 0.5}),
        Contrib(
            "FusedGemm",
            ((6, N), weight(6, 3), weight(3)),
            {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.6, "transA": 1, "beta": 2.0},
        ),
        Contrib("Gelu", (X,)),
        Contrib("Gelu", (X,), opset=20),
        Contrib("BiasGelu", (X, weight(6))),
        Contrib("FastGelu", (X,)),
        Contrib("FastGelu", (X, weight(6))),
        Contrib("QuickGelu", (X,)),
        Contrib("QuickGelu", (X,), {"alpha": 0.7}),
        Contrib("Inverse", ((N, 3, 3),)),
        Contrib("Inverse", ((3, 3),)),
        Contrib("Trilu", ((N, 4, 4),)),
        Contrib("Trilu", ((N, 4, 5), np.array(1, np.int64)), {"upper": 0}),
    ]
    return cases


def _norms() -> list[Contrib]:
    three = (FLOAT,) * 3
    last = (FLOAT, None, None, FLOAT)
    scale, bias = weight(6), weight(6, seed=1)
    cases = [
        Contrib("LayerNormalization", (X, scale, bias), opset=opset, domain="", outputs=outputs)
        for opset in (11, 17)
        for outputs in ((FLOAT,), three)
    ]
    cases += [
        Contrib("LayerNormalization", (X, scale), {"epsilon": 1e-2, "axis": -1}, opset=13, domain=""),
        Contrib("LayerNormalization", (X, weight(4, 6), weight(4, 6, seed=2)), {"axis": 1}, opset=13, domain=""),
        Contrib("SimplifiedLayerNormalization", (X, scale), domain=""),
        Contrib("SimplifiedLayerNormalization", (X, scale), {"epsilon": 1e-2}, domain="", opset=12),
        Contrib("SkipLayerNormalization", (X, X, scale, bias)),
        Contrib("SkipLayerNormalization", (X, X, scale)),
        Contrib("SkipLayerNormalization", (X, X, scale, bias, weight(6, seed=2)), {"epsilon": 1e-2}),
        Contrib("SkipLayerNormalization", (X, X, scale, None, weight(6, seed=2)), outputs=last),
        Contrib("SkipLayerNormalization", (X, weight(1, 4, 6), scale, bias), outputs=last),
        Contrib("SkipLayerNormalization", (X, weight(4, 6), scale, bias), opset=11),
        Contrib("SkipSimplifiedLayerNormalization", (X, X, scale)),
        Contrib("SkipSimplifiedLayerNormalization", (X, X, scale, weight(6, seed=2)), {"epsilon": 1e-2}, outputs=last),
    ]
    tables = weight(9, 6), weight(7, 6, seed=1)
    kinds = weight(3, 6, seed=2)
    small = {"low": 0, "high": 2}
    narrow = (INT32, (N, 5))
    cases += [
        Contrib("EmbedLayerNormalization", (narrow, narrow, *tables, kinds, scale, bias), outputs=(FLOAT, INT32), **small),
        Contrib("EmbedLayerNormalization", (narrow, None, *tables, None, scale, bias), outputs=(FLOAT, INT32), **small),
        Contrib(
            "EmbedLayerNormalization",
            (narrow, narrow, *tables, kinds, scale, bias, narrow),
            {"epsilon": 1e-3},
            outputs=(FLOAT, INT32, FLOAT),
            low=0,
            high=1,
        ),
        Contrib(
            "EmbedLayerNormalization",
            (narrow, narrow, *tables, kinds, scale, bias, narrow, narrow),
            outputs=(FLOAT, INT32),
            low=0,
            high=1,
        ),
        Contrib(
            "EmbedLayerNormalization",
            (narrow, narrow, *tables, kinds, scale, bias, narrow),
            outputs=(FLOAT, INT32),
            opset=11,
            low=0,
            high=1,
        ),
    ]
    return cases


def _attention() -> list[Contrib]:
    packed, bias = weight(8, 24, scale=0.5), weight(24, seed=1)
    heads = {"num_heads": 2}
    mask = (INT32, (N, 5))
    both = (FLOAT, FLOAT)
    query, key = (N, 5, 8), (N, 7, 8)
    cases = [
        Contrib("Attention", (ROWS, packed, bias), heads),
        Contrib("Attention", (ROWS, packed, bias), {**heads, "scale": 0.2}),
        Contrib("Attention", (ROWS, packed, bias), {**heads, "unidirectional": 1}),
        Contrib("Attention", (ROWS, packed, bias), heads, opset=11),
        *(Contrib("Attention", (ROWS, packed, bias, mask), heads, opset=opset, low=0, high=1) for opset in (9, 11)),
        Contrib("Attention", (ROWS, packed, bias), {**heads, "unidirectional": 1}, opset=11),
        Contrib("Attention", (ROWS, packed, bias), heads, outputs=both),
        Contrib("Attention", (ROWS, weight(8, 28, scale=0.5), weight(28)), {**heads, "qkv_hidden_sizes": [8, 8, 12]}),
        Contrib("Attention", (ROWS, packed, bias, mask), heads, low=0, high=1),
        Contrib("Attention", (ROWS, packed, bias, mask), {**heads, "unidirectional": 1}, low=0, high=1),
        Contrib("Attention", (ROWS, packed, bias, mask), {**heads, "mask_filter_value": -3.0}, low=0, high=1),
        Contrib("Attention", (ROWS, packed, bias, (INT32, (N, 5, 5))), heads, low=0, high=1),
        Contrib("Attention", (ROWS, packed, bias, (INT32, (N,))), heads, low=1, high=5),
        Contrib("Attention", (ROWS, packed, bias, None, None, (N, 2, 5, 5)), heads),
        Contrib("Attention", (ROWS, packed, bias, None, None, weight(1, 2, 5, 5)), heads),
        Contrib("Attention", (ROWS, packed, bias, None, (2, N, 2, 3, 4)), heads, outputs=both),
        Contrib("Attention", (ROWS, packed, bias, None, (2, N, 2, 3, 4)), {**heads, "unidirectional": 1}, outputs=both),
        Contrib("Attention", (ROWS, packed, bias, (INT32, (N, 8)), (2, N, 2, 3, 4)), heads, outputs=both, low=0, high=1),
        Contrib("MultiHeadAttention", (query, key, key), heads),
        Contrib("MultiHeadAttention", (query, key, (N, 7, 12)), heads),
        Contrib("MultiHeadAttention", (query, key, key, bias), heads),
        Contrib("MultiHeadAttention", (query, key, key, bias), {**heads, "scale": 0.3}, outputs=(FLOAT,) * 3),
        Contrib("MultiHeadAttention", (query, query, query, bias), {**heads, "unidirectional": 1}),
        Contrib("MultiHeadAttention", (query, key, key, None, (INT32, (N, 7))), heads, low=0, high=1),
        Contrib("MultiHeadAttention", (query, key, key, bias, (INT32, (N, 5, 7))), heads, low=0, high=1),
        Contrib("MultiHeadAttention", (query, key, key, None, (INT32, (N,))), heads, low=1, high=7),
        Contrib("MultiHeadAttention", (query, key, key, None, None, (N, 2, 5, 7)), heads),
        Contrib("MultiHeadAttention", (query, key, key, None, None, (1, 1, 5, 7)), heads),
        Contrib("MultiHeadAttention", (query, (N, 2, 7, 4), (N, 2, 7, 4)), heads),
        Contrib(
            "MultiHeadAttention", (query, query, query, bias, None, None, (N, 2, 3, 4), (N, 2, 3, 4)), heads, outputs=(FLOAT,) * 3
        ),
    ]
    cos, sin = weight(9, 2, seed=3), weight(9, 2, seed=4)
    first, places = (INT64, (1,)), (INT64, (N, 5))
    small = {"low": 0, "high": 4}
    for more in ({}, {"interleaved": 1}):
        cases += [
            Contrib("RotaryEmbedding", (query, first, cos, sin), more, **small),
            Contrib("RotaryEmbedding", (query, places, cos, sin), {**more, "num_heads": 2}, **small),
            Contrib("RotaryEmbedding", ((N, 2, 5, 4), places, cos, sin), more, **small),
            Contrib("RotaryEmbedding", ((N, 2, 5, 4), first, cos, sin), more, opset=23, **small),
        ]
    partial = {"num_heads": 2, "rotary_embedding_dim": 4}
    cases.append(Contrib("RotaryEmbedding", ((N, 5, 12), places, cos, sin), partial, **small))
    return cases


CASES = [*_layers(), *_norms(), *_attention()]
