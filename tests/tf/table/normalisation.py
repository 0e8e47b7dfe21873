"""Normalisations."""

from tests.tf.entry import PLAIN, L, floats, function, layer, tf, weight

LINE, IMAGE = floats(None, 9, 16), floats(None, 6, 7, 16)
FEW = ("float", "float16", "int8", "int16")
"""What is smaller than the converter quantises on the fly."""

ENTRIES = [
    layer("batchnorm-2", floats(None, 24), lambda x: L.BatchNormalization()(x), FEW),
    layer("batchnorm-3", LINE, lambda x: L.BatchNormalization()(x), FEW),
    layer("batchnorm-4", IMAGE, lambda x: L.BatchNormalization()(x), FEW),
    layer("batchnorm-5", floats(None, 3, 4, 5, 8), lambda x: L.BatchNormalization()(x), FEW),
    layer("batchnorm-plain", IMAGE, lambda x: L.BatchNormalization(center=False, scale=False)(x), FEW),
    layer("batchnorm-axis1", IMAGE, lambda x: L.BatchNormalization(axis=1)(x), FEW),
    layer("batchnorm-relu", IMAGE, lambda x: L.ReLU()(L.BatchNormalization()(x)), FEW),
    layer("layernorm-2", floats(None, 24), lambda x: L.LayerNormalization()(x), FEW),
    layer("layernorm-3", LINE, lambda x: L.LayerNormalization()(x), FEW),
    layer("layernorm-4", IMAGE, lambda x: L.LayerNormalization(epsilon=1e-6)(x), FEW),
    layer("layernorm-axes", IMAGE, lambda x: L.LayerNormalization(axis=(1, 2, 3))(x), FEW),
    layer("layernorm-plain", LINE, lambda x: L.LayerNormalization(center=False, scale=False)(x), PLAIN),
    layer("layernorm-batch1", floats(1, 9, 16), lambda x: L.LayerNormalization()(x), FEW),
    layer("rms-normalization", LINE, lambda x: L.RMSNormalization()(x), FEW),
    layer("groupnorm-4", IMAGE, lambda x: L.GroupNormalization(4)(x), FEW),
    layer("groupnorm-instance", IMAGE, lambda x: L.GroupNormalization(-1)(x), FEW),
    layer("groupnorm-line", LINE, lambda x: L.GroupNormalization(2)(x), FEW),
    layer("unit-normalization", LINE, lambda x: L.UnitNormalization()(x), PLAIN),
    layer("spectral-conv", IMAGE, lambda x: L.SpectralNormalization(L.Conv2D(24, 3))(x)),
    layer("rescaling", IMAGE, lambda x: L.Rescaling(1 / 127.5, offset=-1.0)(x), PLAIN),
    layer("normalization", LINE, lambda x: L.Normalization(mean=weight(16), variance=weight(16, scale=0.1, shift=1.0))(x), PLAIN),
    function("l2-normalize", floats(3, 10), lambda x: tf.nn.l2_normalize(x, -1)),
    function("l2-normalize-axis1", floats(2, 4, 5), lambda x: tf.nn.l2_normalize(x, 1)),
    function("moments", floats(3, 4, 5), lambda x: tuple(tf.nn.moments(x, [0, 2]))),
    function(
        "batch-normalization-function",
        floats(2, 4, 5),
        lambda x: tf.nn.batch_normalization(x, weight(5), 0.7, weight(5), 1.2, 1e-3),
    ),
    function("standardised", floats(2, 8), lambda x: (x - tf.reduce_mean(x, 1, True)) / (tf.math.reduce_std(x, 1, True) + 0.1)),
]
