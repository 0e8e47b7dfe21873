"""Pooling and resizing layers."""

from tests.tf.entry import PLAIN, L, floats, function, layer, tf

LINE, IMAGE, ROOM = floats(None, 15, 6), floats(None, 13, 11, 6), floats(None, 7, 6, 5, 4)


def _plain(name, inputs, make):
    return layer(name, inputs, make, PLAIN)


ENTRIES = [
    _plain("maxpool1d", LINE, lambda x: L.MaxPooling1D(2)(x)),
    _plain("maxpool1d-same", LINE, lambda x: L.MaxPooling1D(3, 2, padding="same")(x)),
    _plain("avgpool1d", LINE, lambda x: L.AveragePooling1D(3, 2)(x)),
    _plain("avgpool1d-same", LINE, lambda x: L.AveragePooling1D(4, 3, padding="same")(x)),
    _plain("maxpool2d", IMAGE, lambda x: L.MaxPooling2D(2)(x)),
    _plain("maxpool2d-same-3-2", IMAGE, lambda x: L.MaxPooling2D(3, 2, padding="same")(x)),
    _plain("maxpool2d-unequal", IMAGE, lambda x: L.MaxPooling2D((3, 2), (1, 3))(x)),
    _plain("maxpool2d-batch1", floats(1, 13, 11, 6), lambda x: L.MaxPooling2D(3, 2, padding="same")(x)),
    _plain("avgpool2d", IMAGE, lambda x: L.AveragePooling2D(2)(x)),
    _plain("avgpool2d-same", IMAGE, lambda x: L.AveragePooling2D(3, 2, padding="same")(x)),
    _plain("avgpool2d-same-stride1", IMAGE, lambda x: L.AveragePooling2D(4, 1, padding="same")(x)),
    _plain("avgpool2d-whole", IMAGE, lambda x: L.AveragePooling2D((13, 11))(x)),
    _plain("global-max1d", LINE, lambda x: L.GlobalMaxPooling1D()(x)),
    _plain("global-avg1d", LINE, lambda x: L.GlobalAveragePooling1D()(x)),
    _plain("global-max2d", IMAGE, lambda x: L.GlobalMaxPooling2D()(x)),
    _plain("global-avg2d", IMAGE, lambda x: L.GlobalAveragePooling2D()(x)),
    _plain("global-avg2d-keepdims", IMAGE, lambda x: L.GlobalAveragePooling2D(keepdims=True)(x)),
    _plain("global-max3d", ROOM, lambda x: L.GlobalMaxPooling3D()(x)),
    _plain("global-avg3d", ROOM, lambda x: L.GlobalAveragePooling3D()(x)),
    _plain("upsampling1d", LINE, lambda x: L.UpSampling1D(3)(x)),
    _plain("upsampling2d-nearest", IMAGE, lambda x: L.UpSampling2D(2)(x)),
    _plain("upsampling2d-bilinear", IMAGE, lambda x: L.UpSampling2D((2, 3), interpolation="bilinear")(x)),
    _plain("upsampling3d", ROOM, lambda x: L.UpSampling3D((1, 2, 2))(x)),
    _plain("resizing", IMAGE, lambda x: L.Resizing(20, 9)(x)),
    function("lp-pool-like", floats(1, 8, 8, 4), lambda x: tf.sqrt(tf.nn.avg_pool2d(tf.square(x), 2, 2, "VALID"))),
    function(
        "local-response-normalisation",
        floats(2, 5, 5, 12),
        lambda x: tf.nn.local_response_normalization(x, 3, 1.5, 0.3, 0.7),
        ("float",),
    ),
]
