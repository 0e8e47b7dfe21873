"""What words are made into before a network sees them: here they are numbers already."""

from __future__ import annotations

import numpy as np

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Tensor
from mlconverter.hub.nodes import Call


def _check_tf_idf(call: Call) -> str | None:
    weights, places = call.attributes.get("weights"), call.attributes["ngram_indexes"]
    if call.attributes.get("pool_strings"):
        return "torch has no strings"
    if weights and call.attributes["mode"] != "TF" and [weights[p] for p in places if p < len(weights)] != weights:
        return "weights stand in the order of the n-grams in the specification, and of the output in its implementations"
    return None


@translates("TfIdfVectorizer", 9, check=_check_tf_idf)
def tf_idf_vectorizer(
    g: Builder,
    x: Tensor,
    *,
    mode: str,
    ngram_counts: list[int],
    ngram_indexes: list[int],
    pool_int64s: list[int],
    min_gram_length: int,
    max_gram_length: int,
    max_skip_count: int,
    weights: list[float] | None = None,
) -> Tensor:
    """TfIdfVectorizer → comparisons of every window with every n-gram, counted by x.index_add."""
    pools, places, seen = [], [], 0
    ends = [*ngram_counts[1:], len(pool_int64s)]
    size, scale = max(ngram_indexes) + 1, None
    for length, (start, end) in enumerate(zip(ngram_counts, ends, strict=True), start=1):
        count = (end - start) // length
        if count and min_gram_length <= length <= max_gram_length:
            pools.append(g.table(f"grams_{length}", np.array(pool_int64s[start:end], np.int64).reshape(count, length)))
            places.append(g.table(f"places_{length}", np.array(ngram_indexes[seen : seen + count], np.int64)))
        seen += count
    if weights and mode != "TF":
        scale = np.zeros(size, np.float32)
        scale[ngram_indexes] = weights
    scaled = None if scale is None else g.table("weights", scale)
    return g.call(runtime.n_grams, x, pools, places, size, max_skip_count, scaled, mode == "IDF")
