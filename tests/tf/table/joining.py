"""Layers of several inputs, and what cuts and moves."""

from tests.tf.entry import PLAIN, L, floats, layer

A, B = floats(None, 5, 6, 4), floats(None, 5, 6, 4)
LINE = floats(None, 9, 6)


def _plain(name, inputs, make):
    return layer(name, inputs, make, PLAIN)


def _both(x):
    y = L.ReLU()(x)
    return [y, L.Activation("sigmoid")(y)]


ENTRIES = [
    _plain("add-layer", [A, B], lambda x, y: L.Add()([x, y])),
    _plain("add-three", [A, B, A], lambda x, y, z: L.Add()([x, y, z])),
    _plain("add-broadcast", [A, floats(None, 1, 1, 4)], lambda x, y: L.Add()([x, y])),
    _plain("subtract-layer", [A, B], lambda x, y: L.Subtract()([x, y])),
    _plain("multiply-layer", [A, B], lambda x, y: L.Multiply()([x, y])),
    _plain("multiply-broadcast", [A, floats(None, 1, 1, 4)], lambda x, y: L.Multiply()([x, y])),
    _plain("average-layer", [A, B], lambda x, y: L.Average()([x, y])),
    _plain("maximum-layer", [A, B], lambda x, y: L.Maximum()([x, y])),
    _plain("minimum-layer", [A, B], lambda x, y: L.Minimum()([x, y])),
    _plain("concatenate-channels", [A, floats(None, 5, 6, 3, low=-8, high=8)], lambda x, y: L.Concatenate()([x, y])),
    _plain("concatenate-rows", [A, B], lambda x, y: L.Concatenate(axis=1)([x, y])),
    _plain("dot-vectors", [floats(None, 12), floats(None, 12)], lambda x, y: L.Dot(1)([x, y])),
    _plain("dot-cosine", [floats(None, 12), floats(None, 12)], lambda x, y: L.Dot(1, normalize=True)([x, y])),
    _plain("dot-matrices", [floats(None, 4, 6), floats(None, 6, 5)], lambda x, y: L.Dot((2, 1))([x, y])),
    _plain("reshape-layer", A, lambda x: L.Reshape((10, 12))(x)),
    _plain("reshape-free", A, lambda x: L.Reshape((-1, 8))(x)),
    _plain("flatten-layer", A, lambda x: L.Flatten()(x)),
    _plain("permute-layer", A, lambda x: L.Permute((3, 1, 2))(x)),
    _plain("repeat-vector", floats(None, 7), lambda x: L.RepeatVector(4)(x)),
    _plain("cropping1d", LINE, lambda x: L.Cropping1D((1, 2))(x)),
    _plain("cropping2d", A, lambda x: L.Cropping2D(((1, 0), (2, 1)))(x)),
    _plain("cropping3d", floats(None, 5, 5, 5, 2), lambda x: L.Cropping3D(1)(x)),
    _plain("zeropadding1d", LINE, lambda x: L.ZeroPadding1D((2, 1))(x)),
    _plain("zeropadding2d", A, lambda x: L.ZeroPadding2D(((1, 0), (2, 3)))(x)),
    _plain("zeropadding3d", floats(None, 3, 4, 3, 2), lambda x: L.ZeroPadding3D(1)(x)),
    _plain("dropout-is-nothing", A, lambda x: L.ReLU()(L.Dropout(0.5)(x))),
    _plain("two-outputs", A, lambda x: [L.ReLU()(x), L.Activation("tanh")(x)]),
    _plain("output-used-inside", A, _both),
]
