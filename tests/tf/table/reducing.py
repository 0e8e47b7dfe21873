"""Reductions and running sums."""

from tests.tf.entry import REAL, bools, floats, function, ints, tf

X3, X4 = floats(2, 5, 6), floats(1, 4, 5, 6)
POSITIVE = floats(2, 5, 6, low=0.5, high=1.5)
WAYS = ("sum", "mean", "max", "min", "prod")


def _each(suffix, given, **how):
    return [
        function(
            f"reduce-{way}-{suffix}", given, lambda x, way=way: getattr(tf, f"reduce_{way}")(x, **how), ("float", "int8", "int16")
        )
        for way in WAYS
    ]


ENTRIES = [
    *_each("last", POSITIVE, axis=-1),
    *_each("axis1-keepdims", POSITIVE, axis=1, keepdims=True),
    *_each("two-axes", POSITIVE, axis=[0, 2]),
    *_each("all", POSITIVE),
    *_each("spatial", X4, axis=[1, 2], keepdims=True),
    function("reduce-mean-free-batch", floats(None, 5, 6), lambda x: tf.reduce_mean(x, [1])),
    function("reduce-any", bools(3, 4), lambda x: tf.reduce_any(x, 1), REAL),
    function("reduce-all", bools(3, 4), lambda x: tf.reduce_all(x, 0), REAL),
    function("reduce-sum-int", ints(3, 4), lambda x: tf.reduce_sum(x, 1), REAL),
    function("reduce-max-int", ints(3, 4), lambda x: tf.reduce_max(x, 0), REAL),
    function("reduce-std", X3, lambda x: tf.math.reduce_std(x, 1)),
    function("reduce-variance", X3, lambda x: tf.math.reduce_variance(x, 2, keepdims=True)),
    function("logsumexp", X3, lambda x: tf.reduce_logsumexp(x, 2)),
    function("euclidean-norm", X3, lambda x: tf.norm(x, axis=-1)),
    function("l1-norm", X3, lambda x: tf.norm(x, 1, axis=-1)),
    function("cumsum", X3, lambda x: tf.cumsum(x, 1), REAL),
    function("cumsum-exclusive-reverse", X3, lambda x: tf.cumsum(x, 2, exclusive=True, reverse=True), REAL),
    function("cumsum-int", ints(3, 4), lambda x: tf.cumsum(x, 1), REAL),
    function("count-nonzero", ints(3, 4, high=2), lambda x: tf.math.count_nonzero(x, 1), REAL),
    function("l2-loss", X3, lambda x: tf.nn.l2_loss(x), REAL),
    function("accumulate-n", [X3, X3, X3], lambda x, y, z: tf.math.accumulate_n([x, y, z])),
]
