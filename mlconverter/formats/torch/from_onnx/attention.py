"""Attention that keeps a state or a cache."""

from __future__ import annotations

from typing import Any

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Tensor
from mlconverter.hub.nodes import Call


@translates("TensorScatter", 24)
def tensor_scatter(g: Builder, past: Tensor, update: Tensor, starts: Tensor | None = None, *, axis: int, mode: str) -> Tensor:
    """TensorScatter → x.scatter along the sequence, modulo its length with mode="circular"."""
    return g.call(runtime.tensor_scatter, past, update, starts, axis, mode == "circular")


def _check_linear_attention(call: Call) -> str | None:
    rule = call.attributes["update_rule"]
    given = [position < len(call.inputs) and call.inputs[position] is not None for position in (4, 5)]
    if given != [rule in ("gated", "gated_delta"), rule in ("delta", "gated_delta")]:
        return f"decay or beta is there or absent against update_rule={rule}"
    return None


@translates("LinearAttention", 27, check=_check_linear_attention)
def linear_attention(
    g: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    scale: float,
    update_rule: str,
    chunk_size: int = 64,
) -> Any:
    """LinearAttention → a sum of outer products of keys and values, step by step."""
    y: Any = g.call(runtime.linear_attention, query, key, value, past, decay, beta, q_num_heads, kv_num_heads, scale)
    return y[0], y[1]
