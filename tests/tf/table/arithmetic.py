"""Arithmetic element by element, comparisons, logic and casts."""

from tests.tf.entry import REAL, bools, floats, function, ints, tf, weight

A, B = floats(2, 3, 4), floats(2, 3, 4)
POSITIVE, NONZERO = floats(2, 12, low=0.1, high=4.0), floats(2, 3, 4, low=0.5, high=3.0)
WHOLE, DIVISOR = ints(2, 6, low=-9, high=9), ints(2, 6, low=1, high=4)

OF_ONE = "abs neg exp sin cos square sign floor ceil round tanh sigmoid".split()
OF_POSITIVE = "log sqrt rsqrt reciprocal log1p".split()
MATH = "expm1 softplus lgamma rint".split()
COMPARED = "equal not_equal less less_equal greater greater_equal".split()


def _math(name):
    return getattr(tf.math, name)


ENTRIES = [
    *[
        function(f"math-{n}", A, lambda x, n=n: getattr(tf, n, None)(x) if n != "neg" else tf.negative(x))
        for n in OF_ONE
        if n != "ceil"
    ],
    function("math-ceil", A, lambda x: tf.math.ceil(x)),
    *[function(f"math-{n}", POSITIVE, lambda x, n=n: _math(n)(x)) for n in OF_POSITIVE],
    *[function(f"math-{n.replace('_', '-')}", A, lambda x, n=n: _math(n)(x), REAL) for n in MATH],
    function("add", [A, B], lambda x, y: x + y),
    function("add-constant", A, lambda x: x + weight(3, 4)),
    function("add-broadcast-both", [floats(2, 1, 4), floats(3, 1)], lambda x, y: x + y),
    function("add-relu", [A, B], lambda x, y: tf.nn.relu(x + y)),
    function("sub", [A, B], lambda x, y: x - y),
    function("constant-minus", A, lambda x: 1.0 - x),
    function("mul", [A, B], lambda x, y: x * y),
    function("mul-relu6", [A, B], lambda x, y: tf.nn.relu6(x * y)),
    function("div", [A, NONZERO], lambda x, y: x / y),
    function(
        "divide-no-nan", [A, floats(2, 3, 4, low=0.0, high=1.0)], lambda x, y: tf.math.divide_no_nan(x, tf.nn.relu(y - 0.3)), REAL
    ),
    function("pow", [POSITIVE, floats(2, 12)], lambda x, y: tf.pow(x, y), REAL),
    function("pow-constant", POSITIVE, lambda x: x**1.7, REAL),
    function("cube", A, lambda x: x**3, REAL),
    function("squared-difference", [A, B], lambda x, y: tf.math.squared_difference(x, y)),
    function("maximum", [A, B], lambda x, y: tf.maximum(x, y)),
    function("minimum", [A, B], lambda x, y: tf.minimum(x, y)),
    function("floordiv", [A, NONZERO], lambda x, y: x // y, REAL),
    function("floormod", [A, NONZERO], lambda x, y: tf.math.floormod(x, y), REAL),
    function("floordiv-int", [WHOLE, DIVISOR], lambda x, y: x // y, REAL),
    function("floormod-int", [WHOLE, DIVISOR], lambda x, y: x % y, REAL),
    function("floormod-int-negative", [WHOLE, ints(2, 6, low=-4, high=-1)], lambda x, y: x % y, REAL),
    function("truncatediv-int", [WHOLE, DIVISOR], lambda x, y: tf.truncatediv(x, y), REAL),
    function("atan2", [A, B], lambda x, y: tf.atan2(x, y), REAL),
    function("add-int", [WHOLE, DIVISOR], lambda x, y: x + y * 2 - 1, REAL),
    function("mul-int64", [ints(3, dtype="int64"), ints(3, dtype="int64")], lambda x, y: x * y, REAL),
    function("abs-neg-int", WHOLE, lambda x: tf.abs(x) - tf.negative(x), REAL),
    function("maximum-int", [WHOLE, DIVISOR], lambda x, y: tf.maximum(x, y), REAL),
    *[function(f"compare-{n.replace('_', '-')}", [A, B], lambda x, y, n=n: _math(n)(x, y), ("float", "int8")) for n in COMPARED],
    function("equal-int", [WHOLE, WHOLE], lambda x, y: tf.equal(x, y), REAL),
    function("logical", [bools(3, 4), bools(3, 4)], lambda x, y: tf.logical_or(tf.logical_and(x, y), tf.logical_not(x)), REAL),
    function("logical-xor", [bools(3, 4), bools(3, 4)], lambda x, y: tf.math.logical_xor(x, y), REAL),
    function("cast-to-int", floats(2, 6, low=-9, high=9), lambda x: tf.cast(x, tf.int32), REAL),
    function("cast-from-int", WHOLE, lambda x: tf.cast(x, tf.float32) * 0.5, REAL),
    function("cast-from-bool", bools(3, 4), lambda x: tf.cast(x, tf.float32), REAL),
    function("cast-uint8", ints(2, 6, high=255, dtype="uint8"), lambda x: tf.cast(x, tf.float32) / 255.0, REAL),
    function("cast-int64", WHOLE, lambda x: tf.cast(x, tf.int64), REAL),
    function("bitcast", floats(2, 3), lambda x: tf.bitcast(x, tf.int32), REAL),
    function("bitwise", [ints(2, 6, high=255), ints(2, 6, high=255)], lambda x, y: tf.bitwise.bitwise_xor(x, y), REAL),
    function("right-shift", ints(2, 6, high=255), lambda x: tf.bitwise.right_shift(x, 2), REAL),
    function("clip", A, lambda x: tf.clip_by_value(x, -0.5, 1.2)),
    function("clip-by-norm", A, lambda x: tf.clip_by_norm(x, 2.0), REAL),
    function("lerp", [A, B], lambda x, y: x + 0.3 * (y - x)),
    function("polynomial", A, lambda x: ((0.5 * x - 1.0) * x + 2.0) * x),
    function("is-nan-finite", A, lambda x: tf.logical_or(tf.math.is_nan(x), tf.math.is_finite(x)), REAL),
    function("xlogy", [POSITIVE, POSITIVE], lambda x, y: tf.math.xlogy(x, y), REAL),
    function("huber", [A, B], lambda x, y: tf.where(tf.abs(x - y) < 1.0, 0.5 * tf.square(x - y), tf.abs(x - y) - 0.5), REAL),
    function("five-dimensions", [floats(2, 1, 3, 1, 2), floats(1, 2, 1, 2, 2)], lambda x, y: x * y + x),
    function("scalar", floats(), lambda x: x * 2.0 + 1.0),
]
