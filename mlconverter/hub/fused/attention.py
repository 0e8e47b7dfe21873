"""Fused attention, and what stands before it: written out as products, a softmax, and moved axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from mlconverter.hub.fused.writer import Unknown, Writer, rank_of, writes_out
from mlconverter.hub.io import dim_of
from mlconverter.hub.nodes import Call

_FILTER = -10000.0
"""What is added to the scores of what is masked, where a node does not say."""

_LAST = 1 << 31
"""Behind the end of every axis."""

_MERGED = (0, 2, 1, 3)
"""Batch, sequence, heads and features to batch, heads, sequence and features, and back."""


def _has(call: Call, *positions: int) -> bool:
    return any(position < len(call.inputs) and call.inputs[position] is not None for position in positions)


def _rank(call: Call, position: int) -> int | None:
    value = call.inputs[position] if _has(call, position) else None
    return len(value.shape) if isinstance(value, ir.Value) and value.shape is not None else None


def _check_attention(call: Call) -> str | None:
    if call.attributes.get("do_rotary"):
        return "do_rotary"
    if _has(call, 6) or call.attributes.get("past_present_share_buffer"):
        return "a buffer that past and present share"
    if _rank(call, 3) == 4:
        return "a mask of rank 4"
    return _check_lengths(call, 3)


def _check_lengths(call: Call, position: int) -> str | None:
    """A mask of rank 1 has to be one number an item: there are others of two and of three."""
    if _rank(call, position) != 1:
        return None
    mask, x = call.inputs[position], call.inputs[0]
    assert isinstance(mask, ir.Value) and isinstance(x, ir.Value) and mask.shape is not None
    batch = None if x.shape is None else dim_of(x.shape[0])
    return None if batch is not None and dim_of(mask.shape[0]) == batch else "a mask of rank 1 that is not one length an item"


@writes_out("com.microsoft::Attention", 1, check=_check_attention)
def attention(
    w: Writer,
    x: ir.Value,
    weights: ir.Value,
    bias: ir.Value | None = None,
    mask: ir.Value | None = None,
    past: ir.Value | None = None,
    attention_bias: ir.Value | None = None,
    *,
    num_heads: int,
    unidirectional: int,
    qkv_hidden_sizes: Sequence[int] = (),
    scale: float | None = None,
    mask_filter_value: float = _FILTER,
    do_rotary: int = 0,
    rotary_embedding_dim: int = 0,
    past_present_share_buffer: int = 0,
) -> Sequence[ir.Value | None]:
    """Attention → MatMul of all three projections, Slice, and attention by MatMul and Softmax."""
    sizes = list(qkv_hidden_sizes) or [_fixed(weights, 1) // 3] * 3
    projected = w("MatMul", x, weights)
    projected = projected if bias is None else w("Add", projected, bias)
    starts = [0, sizes[0], sizes[0] + sizes[1]]
    parts = [
        w("Slice", projected, w.ints(start), w.ints(start + size), w.ints(2)) for start, size in zip(starts, sizes, strict=True)
    ]
    q, k, v = (_heads(w, part, num_heads, size) for part, size in zip(parts, sizes, strict=True))
    present = None
    if past is not None:
        k, v = (w("Concat", _picked(w, past, i), part, axis=2) for i, part in enumerate((k, v)))
    if w.is_read(1):
        present = w("Concat", *(w("Unsqueeze", part, w.ints(0)) for part in (k, v)), axis=0)
    scale = scale or 1 / math.sqrt(sizes[0] // num_heads)
    masks = [_mask(w, mask, q, k, mask_filter_value), _causal(w, q, k) if unidirectional else None, attention_bias]
    return _attend(w, q, k, v, scale, masks, sizes[2]), present


def _check_multi_head(call: Call) -> str | None:
    if not _has(call, 1):
        return "queries, keys and values packed into one input"
    if not _has(call, 2):
        return "keys and values packed into one input"
    if _has(call, 8, 9):
        return "a buffer that past and present share"
    if _rank(call, 0) != 3 or _rank(call, 1) not in (3, 4):
        return "inputs of an unknown rank" if None in (_rank(call, 0), _rank(call, 1)) else "inputs of another rank than 3"
    return _check_lengths(call, 4)


@writes_out("com.microsoft::MultiHeadAttention", 1, check=_check_multi_head)
def multi_head_attention(
    w: Writer,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    bias: ir.Value | None = None,
    mask: ir.Value | None = None,
    attention_bias: ir.Value | None = None,
    past_key: ir.Value | None = None,
    past_value: ir.Value | None = None,
    *,
    num_heads: int,
    unidirectional: int,
    scale: float | None = None,
    mask_filter_value: float = _FILTER,
) -> Sequence[ir.Value | None]:
    """MultiHeadAttention → attention by MatMul and Softmax."""
    given = [query, key, value]
    sizes = [_fixed(x, 2) if rank_of(x) == 3 else num_heads * _fixed(x, 3) for x in given]
    start, parts = 0, []
    for x, size in zip(given, sizes, strict=True):
        if rank_of(x) == 4:  # in heads already
            parts.append(x)
            continue
        if bias is not None:
            x = w("Add", x, w("Slice", bias, w.ints(start), w.ints(start + size), w.ints(0)))
        parts.append(_heads(w, x, num_heads, size))
        start += size
    q, k, v = parts
    if past_key is not None and past_value is not None:
        k, v = w("Concat", past_key, k, axis=2), w("Concat", past_value, v, axis=2)
    scale = scale or 1 / math.sqrt(sizes[0] // num_heads)
    masks = [_mask(w, mask, q, k, mask_filter_value), _causal(w, q, k) if unidirectional else None, attention_bias]
    return _attend(w, q, k, v, scale, masks, sizes[2]), k, v


# -- what both are made of ---------------------------------------------------------------------------------------------


def _fixed(x: ir.Value, axis: int) -> int:
    size = None if x.shape is None else dim_of(x.shape[axis])
    if not isinstance(size, int):
        raise Unknown(f"axis {axis} of '{x.name}' has no fixed length")
    return size


def _heads(w: Writer, x: ir.Value, heads: int, size: int) -> ir.Value:
    return w("Transpose", w("Reshape", x, w.ints(0, 0, heads, size // heads)), perm=_MERGED)


def _picked(w: Writer, x: ir.Value, index: int) -> ir.Value:
    return w("Gather", x, w.integer(index), axis=0)


def _attend(
    w: Writer, q: ir.Value, k: ir.Value, v: ir.Value, scale: float, masks: Sequence[ir.Value | None], size: int
) -> ir.Value:
    scores = w("Mul", w("MatMul", q, w("Transpose", k, perm=[0, 1, 3, 2])), w.number(scale))
    for mask in masks:
        scores = scores if mask is None else w("Add", scores, mask)
    y = w("MatMul", w("Softmax", scores, axis=-1), v)
    return w("Reshape", w("Transpose", y, perm=_MERGED), w.ints(0, 0, size))


def _mask(w: Writer, mask: ir.Value | None, q: ir.Value, k: ir.Value, filtered: float) -> ir.Value | None:
    """What is added to the scores: for lengths, or for a mask of keys or of queries and keys that is 0 where it hides."""
    if mask is None:
        return None
    rank = rank_of(mask)
    if rank == 1:  # one length an item
        steps = w("Range", w.integer(0), w.size(k, 2), w.integer(1))
        ends = w("Cast", w("Unsqueeze", mask, w.ints(1, 2, 3)), to=ir.DataType.INT64.value)
        seen = w("Less", steps, ends)
    else:
        seen = w("Greater", w("Unsqueeze", mask, w.ints(*([1, 2] if rank == 2 else [1]))), w.number(0, mask))
    return w("Where", seen, w.number(0), w.number(filtered))


def _causal(w: Writer, q: ir.Value, k: ir.Value) -> ir.Value:
    """What is added to the scores so that no query sees keys behind it; the last query stands at the last key."""
    queries, keys = w.size(q, 2), w.size(k, 2)
    rows = w("Add", w("Range", w.integer(0), queries, w.integer(1)), w("Sub", keys, queries))
    ahead = w("Greater", w("Range", w.integer(0), keys, w.integer(1)), w("Unsqueeze", rows, w.ints(1)))
    return w("Where", ahead, w.number(float(w.dtype.min)), w.number(0))


# -- rotary positions --------------------------------------------------------------------------------------------------


def _check_rotary(call: Call) -> str | None:
    if call.attributes.get("is_packed_batching"):
        return "is_packed_batching"
    if call.attributes.get("scale", 1.0) != 1.0:
        return "a scale"
    return None if _rank(call, 1) in (1, 2) and _rank(call, 0) in (3, 4) else "inputs of an unknown rank"


@writes_out("com.microsoft::RotaryEmbedding", 1, check=_check_rotary)
def rotary_embedding(
    w: Writer,
    x: ir.Value,
    positions: ir.Value,
    cos: ir.Value,
    sin: ir.Value,
    *,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    interleaved: int = 0,
    scale: float = 1.0,
    is_packed_batching: int = 0,
) -> ir.Value:
    """RotaryEmbedding → Gather of both tables, and pairs of features turned by Mul, Sub and Add."""
    in_rows = rank_of(x) == 3  # batch, sequence, heads × features; with four axes the heads stand before the sequence
    turned = rotary_embedding_dim or 2 * _fixed(cos, 1)
    if in_rows:
        size = _fixed(x, 2)
        x = w("Reshape", x, w.ints(0, 0, *((num_heads, size // num_heads) if num_heads else (size // turned, turned))))
    if rank_of(positions) == 1:  # that of the first step
        steps = w.size(x, 1 if in_rows else 2)
        positions = w("Unsqueeze", w("Add", w("Range", w.integer(0), steps, w.integer(1)), positions), w.ints(0))
    c, s = (w("Unsqueeze", w("Gather", table, positions, axis=0), w.ints(2 if in_rows else 1)) for table in (cos, sin))
    half = turned // 2
    step, ends = (2, ((0, turned), (1, turned))) if interleaved else (1, ((0, half), (half, turned)))
    first, second = (w("Slice", x, w.ints(start), w.ints(end), w.ints(3), w.ints(step)) for start, end in ends)
    real = w("Sub", w("Mul", c, first), w("Mul", s, second))
    imaginary = w("Add", w("Mul", s, first), w("Mul", c, second))
    if interleaved:
        pairs = w("Concat", w("Unsqueeze", real, w.ints(4)), w("Unsqueeze", imaginary, w.ints(4)), axis=4)
        parts = [w("Reshape", pairs, w.ints(0, 0, 0, turned))]
    else:
        parts = [real, imaginary]
    parts.append(w("Slice", x, w.ints(turned), w.ints(_LAST), w.ints(3)))
    y = w("Concat", *parts, axis=3)
    return w("Reshape", y, w.ints(0, 0, size)) if in_rows else y
