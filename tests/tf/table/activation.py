"""Activations, as layers and as functions."""

from tests.tf.entry import PLAIN, L, floats, function, layer, tf

IMAGE, LINE = floats(None, 4, 5, 6, low=-5, high=5), floats(None, 12, low=-5, high=5)
NAMES = (
    "relu relu6 elu selu celu gelu swish hard_sigmoid hard_silu softplus softsign tanh sigmoid exponential mish leaky_relu "
    "log_softmax softmax linear hard_tanh tanh_shrink hard_shrink soft_shrink sparse_plus squareplus log_sigmoid glu sparsemax"
).split()


def _plain(name, inputs, make):
    return layer(name, inputs, make, PLAIN)


ENTRIES = [
    *[_plain(f"activation-{name.replace('_', '-')}", IMAGE, lambda x, name=name: L.Activation(name)(x)) for name in NAMES],
    layer("activation-prelu", IMAGE, lambda x: L.PReLU()(x), ("float", "float16", "int8", "int16")),
    layer("activation-prelu-shared", IMAGE, lambda x: L.PReLU(shared_axes=[1, 2])(x), ("float", "float16", "int8", "int16")),
    layer("activation-prelu-line", LINE, lambda x: L.PReLU()(x), ("float", "float16", "int8", "int16")),
    _plain("relu-max-value", IMAGE, lambda x: L.ReLU(max_value=3.0)(x)),
    _plain("relu-threshold", IMAGE, lambda x: L.ReLU(threshold=1.0)(x)),
    _plain("relu-negative-slope", IMAGE, lambda x: L.ReLU(negative_slope=0.2)(x)),
    _plain("leaky-relu-0.3", IMAGE, lambda x: L.LeakyReLU(0.3)(x)),
    _plain("elu-alpha", IMAGE, lambda x: L.ELU(0.5)(x)),
    _plain("softmax-axis1", IMAGE, lambda x: L.Softmax(axis=1)(x)),
    _plain("softmax-axis2", IMAGE, lambda x: L.Softmax(axis=2)(x)),
    _plain("softmax-2", LINE, lambda x: L.Softmax()(x)),
    function("gelu-tanh", IMAGE, lambda x: tf.nn.gelu(x, approximate=True)),
    function("gelu-erf", IMAGE, lambda x: tf.nn.gelu(x, approximate=False)),
    function("hard-swish-by-hand", IMAGE, lambda x: x * tf.nn.relu6(x + 3.0) / 6.0),
    function("hard-sigmoid-by-hand", IMAGE, lambda x: tf.nn.relu6(x + 3.0) * (1 / 6)),
    function("relu-n1-to-1", IMAGE, lambda x: tf.clip_by_value(x, -1.0, 1.0)),
    function("relu-0-to-1", IMAGE, lambda x: tf.minimum(tf.maximum(x, 0.0), 1.0)),
    function("crelu", IMAGE, lambda x: tf.nn.crelu(x)),
    function("silu-beta", IMAGE, lambda x: tf.nn.silu(x, beta=1.7)),
    function("log-softmax-function", LINE, lambda x: tf.nn.log_softmax(x)),
    function("softmax-temperature", LINE, lambda x: tf.nn.softmax(x / 3.0)),
]
