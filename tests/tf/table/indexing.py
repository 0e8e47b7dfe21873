"""Functions that pick, put and choose by index."""

from tests.tf.entry import PLAIN, REAL, bools, floats, function, ints, tf

X2, X3 = floats(5, 6), floats(2, 5, 6)
QUANTISED = ("float", "int8")

ENTRIES = [
    function("gather", X3, lambda x: tf.gather(x, [1, 0, 1])),
    function("gather-axis1", X3, lambda x: tf.gather(x, [4, 0, 2, 2], axis=1)),
    function("gather-last", X3, lambda x: tf.gather(x, [[5, 0], [3, 1]], axis=-1)),
    function("gather-scalar", X3, lambda x: tf.gather(x, 3, axis=1)),
    function("gather-computed", [X3, ints(4, high=4)], lambda x, i: tf.gather(x, i, axis=1), QUANTISED),
    function("gather-int64", [X3, ints(4, high=4, dtype="int64")], lambda x, i: tf.gather(x, i, axis=1), REAL),
    function("gather-batch-dims", [X3, ints(2, 3, high=4)], lambda x, i: tf.gather(x, i, axis=1, batch_dims=1), QUANTISED),
    function("gather-batch-dims-last", [X3, ints(2, 5, 2, high=5)], lambda x, i: tf.gather(x, i, batch_dims=2), REAL),
    function("gather-free-batch", floats(None, 5, 6), lambda x: tf.gather(x, [0, 3], axis=2)),
    function("gather-nd", [X3, ints(4, 2, high=1)], lambda x, i: tf.gather_nd(x, i), QUANTISED),
    function("gather-nd-constant", X3, lambda x: tf.gather_nd(x, [[0, 4, 5], [1, 0, 3]]), PLAIN),
    function("gather-nd-batch-dims", [X3, ints(2, 3, 1, high=4)], lambda x, i: tf.gather_nd(x, i, batch_dims=1), REAL),
    function("scatter-nd", [floats(3, 6)], lambda x: tf.scatter_nd([[4], [0], [2]], x, [5, 6]), REAL),
    function("scatter-nd-duplicates", floats(4), lambda x: tf.scatter_nd([[1], [3], [1], [0]], x, [5]), REAL),
    function("scatter-nd-computed", [ints(3, 1, high=4), floats(3, 6)], lambda i, x: tf.scatter_nd(i, x, [5, 6]), REAL),
    function("tensor-scatter-update", [X2, floats(2, 6)], lambda x, u: tf.tensor_scatter_nd_update(x, [[3], [1]], u), REAL),
    function(
        "tensor-scatter-update-elements", [X2, floats(2)], lambda x, u: tf.tensor_scatter_nd_update(x, [[3, 2], [1, 5]], u), REAL
    ),
    function("tensor-scatter-add", [X2, floats(2, 6)], lambda x, u: tf.tensor_scatter_nd_add(x, [[3], [3]], u), REAL),
    function("where-select", [bools(2, 5), floats(2, 5), floats(2, 5)], lambda c, x, y: tf.where(c, x, y), QUANTISED),
    function("where-broadcast", [X3, floats(6)], lambda x, y: tf.where(x > 0.0, x, y), REAL),
    function("where-constant", X3, lambda x: tf.where(x > 0.5, x, -1.0), REAL),
    function("where-indices", X2, lambda x: tf.where(x > 0.5), REAL),
    function("boolean-mask", X2, lambda x: tf.boolean_mask(x, [True, False, True, True, False]), REAL),
    function("argmax", X3, lambda x: tf.argmax(x, -1), QUANTISED),
    function("argmax-axis1-int32", X3, lambda x: tf.argmax(x, 1, output_type=tf.int32), QUANTISED),
    function("argmin", X3, lambda x: tf.argmin(x, 2), QUANTISED),
    function("argmax-free-batch", floats(None, 9), lambda x: tf.argmax(x, 1), QUANTISED),
    function("top-k", X2, lambda x: tuple(tf.math.top_k(x, 3)), REAL),
    function("top-k-3d", X3, lambda x: tuple(tf.math.top_k(x, 2)), REAL),
    function("top-k-int8", X2, lambda x: tf.math.top_k(x, 3)[0], PLAIN),
    function("in-top-k-like", [X2, ints(5, high=5)], lambda x, t: tf.reduce_any(tf.math.top_k(x, 2)[1] == t[:, None], 1), REAL),
    function("sort", X2, lambda x: tf.sort(x, axis=-1), REAL),
    function("argsort-descending", X2, lambda x: tf.argsort(x, direction="DESCENDING"), REAL),
    function("one-hot", ints(2, 3, high=4), lambda i: tf.one_hot(i, 5), REAL),
    function("one-hot-values", ints(2, 3, low=-1, high=4), lambda i: tf.one_hot(i, 5, 0.9, 0.1), REAL),
    function("one-hot-axis", ints(2, 3, high=4), lambda i: tf.one_hot(i, 5, axis=1), REAL),
    function("one-hot-bool", ints(4, high=4), lambda i: tf.one_hot(i, 5, on_value=True, off_value=False, dtype=tf.bool), REAL),
    function("segment-sum", X2, lambda x: tf.math.segment_sum(x, [0, 0, 1, 2, 2]), REAL),
    function("unsorted-segment-sum", [X2, ints(5, high=2)], lambda x, i: tf.math.unsorted_segment_sum(x, i, 3), REAL),
    function("unsorted-segment-max", [X2, ints(5, high=2)], lambda x, i: tf.math.unsorted_segment_max(x, i, 3), REAL),
    function("unsorted-segment-prod", [X2, ints(5, high=2)], lambda x, i: tf.math.unsorted_segment_prod(x, i, 3), REAL),
    function("unsorted-segment-min", [X2, ints(5, high=2)], lambda x, i: tf.math.unsorted_segment_min(x, i, 3), REAL),
    function("unique", ints(8, high=3), lambda x: tuple(tf.unique(x)), REAL),
    function("bucketize", X2, lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 0.5, 1.5]), REAL),
    function("sequence-mask", ints(3, low=1, high=5), lambda n: tf.sequence_mask(n, 5), REAL),
    function(
        "non-max-suppression",
        [floats(8, 4, low=0, high=1), floats(8, low=0, high=1)],
        lambda boxes, scores: tf.image.non_max_suppression(_corners(boxes), scores, 5, 0.5),
        REAL,
    ),
    function(
        "non-max-suppression-padded",
        [floats(8, 4, low=0, high=1), floats(8, low=0, high=1)],
        lambda boxes, scores: tuple(
            tf.raw_ops.NonMaxSuppressionV4(
                boxes=_corners(boxes),
                scores=scores,
                max_output_size=5,
                iou_threshold=0.5,
                score_threshold=0.2,
                pad_to_max_output_size=True,
            )
        ),
        REAL,
    ),
    function(
        "non-max-suppression-scores",
        [floats(8, 4, low=0, high=1), floats(8, low=0, high=1)],
        lambda boxes, scores: tuple(tf.image.non_max_suppression_with_scores(_corners(boxes), scores, 5, 0.6, 0.1, 0.3)),
        REAL,
    ),
]


def _corners(boxes):
    """Two corners of each box, the upper left one first."""
    return tf.concat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)
