"""Convolutions, forwards and transposed."""

from tests.tf.entry import L, floats, function, layer, tf, weight

LINE, IMAGE, ROOM = floats(None, 17, 16), floats(None, 13, 12, 16), floats(None, 7, 8, 6, 8)
SMALL = floats(None, 5, 6, 16)
FIXED = floats(1, 13, 12, 16)


def _twice(x):
    conv = L.Conv2D(16, 3, padding="same")
    return conv(conv(x))


ENTRIES = [
    layer("conv1d-valid", LINE, lambda x: L.Conv1D(24, 3)(x)),
    layer("conv1d-same-stride2", LINE, lambda x: L.Conv1D(24, 3, strides=2, padding="same")(x)),
    layer("conv1d-causal", LINE, lambda x: L.Conv1D(24, 3, padding="causal")(x)),
    layer("conv1d-causal-dilated", LINE, lambda x: L.Conv1D(24, 3, padding="causal", dilation_rate=2)(x)),
    layer("conv1d-dilated-same", LINE, lambda x: L.Conv1D(24, 3, padding="same", dilation_rate=3)(x)),
    layer("conv1d-groups", LINE, lambda x: L.Conv1D(48, 3, groups=2)(x)),
    layer("conv1d-relu", LINE, lambda x: L.Conv1D(24, 5, activation="relu")(x)),
    layer("conv2d-valid", IMAGE, lambda x: L.Conv2D(24, 3)(x)),
    layer("conv2d-same", IMAGE, lambda x: L.Conv2D(24, 3, padding="same")(x)),
    layer("conv2d-same-batch1", FIXED, lambda x: L.Conv2D(24, 3, padding="same")(x)),
    layer("conv2d-stride2-same", IMAGE, lambda x: L.Conv2D(24, 3, strides=2, padding="same")(x)),
    layer("conv2d-stride3-valid", IMAGE, lambda x: L.Conv2D(24, 4, strides=3)(x)),
    layer("conv2d-strides-unequal", IMAGE, lambda x: L.Conv2D(24, 3, strides=(2, 1), padding="same")(x)),
    layer("conv2d-kernel-1x5", IMAGE, lambda x: L.Conv2D(24, (1, 5), padding="same")(x)),
    layer("conv2d-pointwise", IMAGE, lambda x: L.Conv2D(80, 1)(x)),
    layer("conv2d-dilated-valid", IMAGE, lambda x: L.Conv2D(24, 3, dilation_rate=2)(x)),
    layer("conv2d-dilated-same", IMAGE, lambda x: L.Conv2D(24, 3, dilation_rate=3, padding="same")(x)),
    layer("conv2d-dilated-unequal", IMAGE, lambda x: L.Conv2D(24, 3, dilation_rate=(1, 2), padding="same")(x)),
    layer("conv2d-groups2", IMAGE, lambda x: L.Conv2D(48, 3, groups=2, padding="same")(x)),
    layer("conv2d-groups8", IMAGE, lambda x: L.Conv2D(64, 3, groups=8)(x)),
    layer("conv2d-no-bias", IMAGE, lambda x: L.Conv2D(24, 3, use_bias=False)(x)),
    layer("conv2d-relu6", IMAGE, lambda x: L.Conv2D(24, 3, activation="relu6")(x)),
    layer("conv2d-tanh", IMAGE, lambda x: L.Conv2D(24, 3, activation="tanh")(x)),
    layer("conv2d-one-channel", floats(None, 12, 12, 1), lambda x: L.Conv2D(64, 5)(x)),
    layer("conv2d-batchnorm-relu", IMAGE, lambda x: L.ReLU()(L.BatchNormalization()(L.Conv2D(24, 3, use_bias=False)(x)))),
    layer("conv2d-shared-twice", IMAGE, _twice),
    layer("conv3d-valid", ROOM, lambda x: L.Conv3D(12, 3)(x)),
    layer("conv3d-same-stride2", ROOM, lambda x: L.Conv3D(12, 3, strides=2, padding="same")(x)),
    layer("conv3d-kernel-unequal", ROOM, lambda x: L.Conv3D(24, (1, 3, 2), padding="same", activation="relu")(x)),
    layer("depthwise1d", LINE, lambda x: L.DepthwiseConv1D(5, depth_multiplier=13)(x)),
    layer("depthwise2d-valid", floats(None, 9, 9, 128), lambda x: L.DepthwiseConv2D(3)(x)),
    layer("depthwise2d-same-stride2", floats(None, 9, 9, 128), lambda x: L.DepthwiseConv2D(3, 2, padding="same")(x)),
    layer("depthwise2d-multiplier", IMAGE, lambda x: L.DepthwiseConv2D(5, depth_multiplier=3, padding="same")(x)),
    layer("depthwise2d-dilated", floats(None, 11, 9, 128), lambda x: L.DepthwiseConv2D(3, dilation_rate=2, padding="same")(x)),
    layer("depthwise2d-relu6", floats(None, 9, 9, 128), lambda x: L.DepthwiseConv2D(3, activation="relu6")(x)),
    layer("depthwise2d-batchnorm", floats(None, 9, 9, 128), lambda x: L.BatchNormalization()(L.DepthwiseConv2D(3)(x))),
    layer("separable1d", LINE, lambda x: L.SeparableConv1D(72, 3, padding="same")(x)),
    layer("separable2d", IMAGE, lambda x: L.SeparableConv2D(72, 3, padding="same")(x)),
    layer("separable2d-stride2-multiplier", IMAGE, lambda x: L.SeparableConv2D(40, 3, 2, depth_multiplier=2)(x)),
    layer("transposed1d-valid", LINE, lambda x: L.Conv1DTranspose(24, 3)(x)),
    layer("transposed1d-same-stride2", LINE, lambda x: L.Conv1DTranspose(24, 4, strides=2, padding="same")(x)),
    layer("transposed2d-valid", SMALL, lambda x: L.Conv2DTranspose(12, 3)(x)),
    layer("transposed2d-valid-stride2", SMALL, lambda x: L.Conv2DTranspose(12, 3, strides=2)(x)),
    layer("transposed2d-same-stride2", SMALL, lambda x: L.Conv2DTranspose(12, 3, strides=2, padding="same")(x)),
    layer("transposed2d-same-stride3", SMALL, lambda x: L.Conv2DTranspose(12, 4, strides=3, padding="same")(x)),
    layer("transposed2d-odd-output", SMALL, lambda x: L.Conv2DTranspose(12, 3, 2, padding="same", output_padding=0)(x)),
    layer("transposed2d-output-padding", SMALL, lambda x: L.Conv2DTranspose(12, 3, 2, padding="valid", output_padding=1)(x)),
    layer("transposed2d-unequal", SMALL, lambda x: L.Conv2DTranspose(12, (2, 3), strides=(1, 2), padding="same")(x)),
    layer("transposed2d-kernel-below-stride", SMALL, lambda x: L.Conv2DTranspose(40, 2, strides=3)(x)),
    layer("transposed2d-no-bias", SMALL, lambda x: L.Conv2DTranspose(12, 3, strides=2, use_bias=False)(x)),
    layer("transposed2d-relu", SMALL, lambda x: L.Conv2DTranspose(12, 3, strides=2, activation="relu")(x)),
    layer("transposed2d-batch1", floats(1, 5, 6, 16), lambda x: L.Conv2DTranspose(12, 3, strides=2, padding="same")(x)),
    layer("transposed3d-same", floats(None, 4, 3, 4, 8), lambda x: L.Conv3DTranspose(8, 3, strides=2, padding="same")(x)),
    layer("transposed3d-valid", floats(None, 4, 3, 4, 8), lambda x: L.Conv3DTranspose(8, 3)(x)),
    function(
        "conv2d-explicit-padding", FIXED, lambda x: tf.nn.conv2d(x, weight(3, 3, 16, 8), 2, [[0, 0], [1, 2], [0, 1], [0, 0]])
    ),
    function("conv2d-computed-filter", [floats(1, 8, 8, 4), floats(3, 3, 4, 6)], lambda x, w: tf.nn.conv2d(x, w, 1, "SAME")),
    function(
        "conv2d-transpose-function", FIXED, lambda x: tf.nn.conv2d_transpose(x, weight(3, 3, 8, 16), [1, 25, 23, 8], 2, "SAME")
    ),
    function("atrous-conv2d", FIXED, lambda x: tf.nn.atrous_conv2d(x, weight(3, 3, 16, 8), 2, "SAME")),
]
