"""Control flow, variables and several signatures."""

import functools

from tests.tf.entry import REAL, L, Lazy, floats, function, ints, module, tf, weight

np = Lazy("numpy")

X = floats(2, 5)


def _deferred(make):
    """A class that can only be written once TensorFlow is there."""
    return functools.cache(make)


@_deferred
def _counter():
    class Counter(tf.Module):
        def __init__(self):
            self.total = tf.Variable(tf.zeros([2, 5]))

        def __call__(self, x):
            self.total.assign_add(x)
            return self.total * 1.0

    return Counter


@_deferred
def _smoother():
    class Smoother(tf.Module):
        def __init__(self):
            self.last = tf.Variable(np.array(weight(2, 5)))

        def __call__(self, x):
            self.last.assign(0.7 * self.last + 0.3 * x)
            return self.last.read_value() + 1.0

    return Smoother


@_deferred
def _streaming():
    class Streaming(tf.Module):
        """A convolution over a stream, which keeps what it has seen of it."""

        def __init__(self):
            self.buffer = tf.Variable(tf.zeros([1, 4, 6]))

        def __call__(self, x):
            seen = tf.concat([self.buffer, x], 1)
            self.buffer.assign(seen[:, -4:])
            return tf.nn.conv1d(seen, weight(3, 6, 8), 1, "VALID")

    return Streaming


@_deferred
def _two_ways():
    class TwoWays(tf.Module):
        def __init__(self):
            self.matrix = tf.Variable(weight(5, 3))
            self.more = {"decode": self.decode}

        def __call__(self, x):
            return {"code": tf.matmul(x, self.matrix)}

        def decode(self, x):
            return {"sum": tf.reduce_sum(x, 1)}

    return TwoWays


@_deferred
def _remembering():
    class Remembering(tf.Module):
        """A recurrent layer that goes on where it ended."""

        def __init__(self, layer):
            self.layer = layer
            layer(tf.zeros([1, 6, 16]))
            # TensorFlow's own variables, for a SavedModel does not look into those of Keras.
            self.tracked = [variable.value for variable in (*layer.variables, *layer.states)]

        def __call__(self, x):
            return self.layer(x)

    return Remembering


ENTRIES = [
    function("cond", X, lambda x: tf.cond(tf.reduce_sum(x) > 0.0, lambda: x * 2.0, lambda: x - 1.0), REAL),
    function("cond-flag", [X, ints(high=1)], lambda x, i: tf.cond(i > 0, lambda: tf.nn.relu(x), lambda: tf.tanh(x)), REAL),
    function(
        "cond-nested",
        X,
        lambda x: tf.cond(x[0, 0] > 0.0, lambda: tf.cond(x[0, 1] > 0.0, lambda: x + 1.0, lambda: x + 2.0), lambda: x + 3.0),
        REAL,
    ),
    function(
        "cond-matrices", X, lambda x: tf.cond(x[0, 0] > 0.0, lambda: tf.matmul(x, weight(5, 3)), lambda: x[:, :3] * 0.5), REAL
    ),
    function("while-count", X, lambda x: tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * 0.5 + 1.0), [0, x])[1], REAL),
    function(
        "while-computed-end",
        [X, ints(low=1, high=6)],
        lambda x, n: tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(y) + x), [0, x])[1],
        REAL,
    ),
    function(
        "while-condition", X, lambda x: tf.while_loop(lambda y: tf.reduce_sum(tf.abs(y)) > 1.0, lambda y: [y * 0.6], [x])[0], REAL
    ),
    function(
        "while-matrix",
        X,
        lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.matmul(y, weight(5, 5))), [0, x])[1],
        REAL,
    ),
    function("map-fn", floats(4, 5), lambda x: tf.map_fn(lambda row: tf.reduce_max(row) * row, x), REAL),
    function("vectorized-map", floats(4, 5), lambda x: tf.vectorized_map(lambda row: tf.reduce_max(row) * row, x), REAL),
    function("scan", floats(4, 5), lambda x: tf.scan(lambda a, row: a * 0.5 + row, x), REAL),
    function("foldl", floats(4, 5), lambda x: tf.foldl(lambda a, row: a * 0.5 + row, x), REAL),
    module("variable-counter", X, lambda: _counter()()),
    module("variable-smoother", X, lambda: _smoother()()),
    module("variable-streaming", floats(1, 3, 6), lambda: _streaming()()),
    module("lstm-stateful", floats(1, 6, 16), lambda: _remembering()(L.LSTM(16, stateful=True))),
    module("gru-stateful", floats(1, 6, 16), lambda: _remembering()(L.GRU(20, stateful=True, unroll=True))),
    module("two-signatures", X, lambda: _two_ways()()),
]
