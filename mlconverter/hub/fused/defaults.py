"""Operators that ONNX Runtime adds to the specification, which has no schema of them: their defaults."""

from __future__ import annotations

from typing import Any

DEFAULTS: dict[str, dict[str, Any]] = {
    "Attention": {"unidirectional": 0},
    "EmbedLayerNormalization": {"epsilon": 1e-12},
    "FusedConv": {"auto_pad": "NOTSET", "group": 1},
    "FusedGemm": {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0},
    "FusedMatMul": {"alpha": 1.0, "transA": 0, "transB": 0, "transBatchA": 0, "transBatchB": 0},
    "LayerNormalization": {"axis": -1, "epsilon": 1e-5, "stash_type": 1},
    "MultiHeadAttention": {"unidirectional": 0},
    "QGemm": {"alpha": 1.0, "transA": 0, "transB": 0},
    "QLinearAveragePool": {"auto_pad": "NOTSET", "ceil_mode": 0, "channels_last": 0, "count_include_pad": 0},
    "QLinearGlobalAveragePool": {"channels_last": 0},
    "QLinearLeakyRelu": {"alpha": 0.01},
    "QLinearSoftmax": {"axis": -1},
    "QuickGelu": {"alpha": 1.702},
    "SimplifiedLayerNormalization": {"axis": -1, "epsilon": 1e-5, "stash_type": 1},
    "SkipLayerNormalization": {"epsilon": 1e-12},
    "SkipSimplifiedLayerNormalization": {"epsilon": 1e-12},
    "TransposeMatMul": {"alpha": 1.0, "transA": 0, "transB": 0},
    "Trilu": {"upper": 1},
}
"""By operator: what its attributes are where a node does not say; the others have none that a schema states."""
