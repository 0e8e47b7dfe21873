"""Attention."""

from tests.tf.entry import PLAIN, L, bools, floats, function, layer, tf

LINE = floats(None, 7, 24)
QUERY, VALUE = floats(None, 5, 12), floats(None, 7, 12)


def _heads(queries, values, **call):
    return L.MultiHeadAttention(4, 12)(queries, values, **call)


ENTRIES = [
    layer("mha-self", LINE, lambda x: _heads(x, x)),
    layer("mha-self-batch1", floats(1, 7, 24), lambda x: _heads(x, x)),
    layer("mha-cross", [LINE, floats(None, 5, 24)], lambda x, y: _heads(x, y)),
    layer("mha-causal", LINE, lambda x: _heads(x, x, use_causal_mask=True)),
    layer("mha-mask", [LINE, bools(None, 7, 7)], lambda x, m: _heads(x, x, attention_mask=m), ("float", "dynamic", "float16")),
    layer("mha-scores", LINE, lambda x: _heads(x, x, return_attention_scores=True)),
    layer("mha-value-dim", LINE, lambda x: L.MultiHeadAttention(2, 16, value_dim=24, output_shape=20)(x, x)),
    layer("mha-no-bias", LINE, lambda x: L.MultiHeadAttention(4, 12, use_bias=False)(x, x)),
    layer("mha-images", floats(None, 4, 5, 24), lambda x: L.MultiHeadAttention(4, 12, attention_axes=(1, 2))(x, x)),
    layer("gqa", LINE, lambda x: L.GroupQueryAttention(12, 4, 2)(x, x)),
    layer("attention", [QUERY, VALUE], lambda q, v: L.Attention()([q, v]), PLAIN),
    layer("attention-scaled", [QUERY, VALUE], lambda q, v: L.Attention(use_scale=True)([q, v]), PLAIN),
    layer("attention-concat", [QUERY, VALUE], lambda q, v: L.Attention(score_mode="concat")([q, v]), PLAIN),
    layer("attention-causal", [LINE], lambda x: L.Attention()([x, x], use_causal_mask=True), PLAIN),
    layer("additive-attention", [QUERY, VALUE], lambda q, v: L.AdditiveAttention()([q, v]), PLAIN),
    function(
        "dot-product-attention",
        [floats(1, 2, 5, 8), floats(1, 2, 6, 8), floats(1, 2, 6, 8)],
        lambda q, k, v: tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 8**0.5), v),
    ),
    function(
        "linear-attention",
        [floats(2, 5, 8), floats(2, 6, 8), floats(2, 6, 4)],
        lambda q, k, v: tf.matmul(tf.nn.elu(q) + 1.0, tf.matmul(tf.nn.elu(k) + 1.0, v, transpose_a=True)),
    ),
    function(
        "banded-softmax",
        floats(2, 6, 6),
        lambda x: tf.nn.softmax(x + (1.0 - tf.linalg.band_part(tf.ones((6, 6)), -1, 0)) * -1e4),
        ("float",),
    ),
]
