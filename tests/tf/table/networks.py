"""Small networks, built as large ones are."""

from tests.tf.entry import K2, L, floats, ints, keras, layer, layer2, tf

IMAGE = floats(None, 16, 16, 3, low=-1, high=1)
MAP = floats(None, 8, 8, 16)


def _conv(x, channels, size=3, strides=1, activation="relu"):
    x = L.Conv2D(channels, size, strides, padding="same", use_bias=False)(x)
    x = L.BatchNormalization()(x)
    return L.Activation(activation)(x) if activation else x


def _residual(x):
    return L.ReLU()(L.Add()([x, _conv(_conv(x, 16), 16, activation=None)]))


def _residual_down(x):
    short = _conv(x, 32, 1, 2, None)
    return L.ReLU()(L.Add()([short, _conv(_conv(x, 32, 3, 2), 32, activation=None)]))


def _residual_before(x):
    y = L.Conv2D(16, 3, padding="same")(L.ReLU()(L.BatchNormalization()(x)))
    return L.Add()([x, L.Conv2D(16, 3, padding="same")(L.ReLU()(L.BatchNormalization()(y)))])


def _squeeze(x, channels, activation="sigmoid"):
    y = L.GlobalAveragePooling2D(keepdims=True)(x)
    y = L.Conv2D(channels // 4, 1, activation="relu")(y)
    return L.Multiply()([x, L.Conv2D(channels, 1, activation=activation)(y)])


def _inverted(x, activation="relu6", squeeze=None):
    y = _conv(x, 64, 1, activation=activation)
    y = L.DepthwiseConv2D(3, padding="same", use_bias=False)(y)
    y = L.Activation(activation)(L.BatchNormalization()(y))
    if squeeze:
        y = _squeeze(y, 64, squeeze)
    return L.Add()([x, _conv(y, 16, 1, activation=None)])


def _inception(x):
    pooled = _conv(L.MaxPooling2D(3, 1, padding="same")(x), 8, 1)
    return L.Concatenate()([_conv(x, 8, 1), _conv(_conv(x, 8, 1), 16), _conv(_conv(x, 8, 1), 8, 5), pooled])


def _unet(x):
    first = _conv(x, 16)
    second = _conv(L.MaxPooling2D()(first), 24)
    bottom = _conv(L.MaxPooling2D()(second), 32)
    up = _conv(L.Concatenate()([L.Conv2DTranspose(24, 2, 2)(bottom), second]), 24)
    up = _conv(L.Concatenate()([L.UpSampling2D(interpolation="bilinear")(up), first]), 16)
    return L.Conv2D(2, 1, activation="softmax")(up)


def _encoder(x):
    x = L.LayerNormalization()(L.Add()([x, L.MultiHeadAttention(4, 8)(x, x)]))
    return L.LayerNormalization()(L.Add()([x, L.Dense(32)(L.Dense(64, activation="gelu")(x))]))


def _decoder(x):
    y = L.LayerNormalization()(x)
    x = L.Add()([x, L.MultiHeadAttention(4, 8)(y, y, use_causal_mask=True)])
    return L.Add()([x, L.Dense(32)(L.Dense(64, activation="silu")(L.LayerNormalization()(x)))])


def _words(ids):
    places = L.Embedding(8, 32)(tf.constant([list(range(8))]))
    return L.Dense(40)(_encoder(L.Add()([L.Embedding(60, 32)(ids), places])))


def _convnext(x):
    y = L.LayerNormalization(epsilon=1e-6)(L.DepthwiseConv2D(7, padding="same")(x))
    y = L.Dense(16)(L.Activation("gelu")(L.Dense(64)(y)))
    return L.Add()([x, L.Rescaling(0.3)(y)])


def _dense_block(x):
    for _ in range(3):
        y = L.Conv2D(24, 1)(L.ReLU()(L.BatchNormalization()(x)))
        y = L.Conv2D(8, 3, padding="same")(L.ReLU()(L.BatchNormalization()(y)))
        x = L.Concatenate()([x, y])
    return L.AveragePooling2D(2)(L.Conv2D(20, 1)(L.ReLU()(L.BatchNormalization()(x))))


def _tcn(x):
    for dilation in (1, 2, 4):
        y = L.Conv1D(16, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
        x = L.Add()([x, L.Conv1D(16, 3, padding="causal", dilation_rate=dilation)(y)])
    return L.Dense(5)(L.GlobalAveragePooling1D()(x))


def _keywords(x):
    x = L.Reshape((20, 10, 1))(x)
    x = _conv(x, 32, (5, 4), 2)
    for _ in range(2):
        x = L.ReLU()(L.BatchNormalization()(L.DepthwiseConv2D(3, padding="same")(x)))
        x = _conv(x, 32, 1)
    return L.Dense(6, activation="softmax")(L.GlobalAveragePooling2D()(x))


def _patches(x):
    x = L.Reshape((16, 32))(L.Conv2D(32, 4, 4)(x))
    return L.Dense(5)(L.GlobalAveragePooling1D()(_encoder(x)))


def _mixer(x):
    x = L.Reshape((16, 24))(L.Conv2D(24, 4, 4)(x))
    y = L.Permute((2, 1))(L.LayerNormalization()(x))
    x = L.Add()([x, L.Permute((2, 1))(L.Dense(16)(L.Dense(64, activation="gelu")(y)))])
    return L.Add()([x, L.Dense(24)(L.Dense(64, activation="gelu")(L.LayerNormalization()(x)))])


def _pyramid(x):
    small, smaller = _conv(x, 16, 3, 2), _conv(_conv(x, 16, 3, 2), 24, 3, 2)
    merged = L.Add()([L.UpSampling2D()(L.Conv2D(16, 1)(smaller)), small])
    boxes = L.Reshape((-1, 4))(L.Conv2D(8, 3, padding="same")(merged))
    scores = L.Reshape((-1, 3))(L.Conv2D(6, 3, padding="same", activation="sigmoid")(merged))
    return [boxes, scores]


def _shuffle(x):
    y = L.Reshape((8, 8, 2, 8))(_conv(x, 16, 1))
    y = L.Reshape((8, 8, 16))(L.Permute((1, 2, 4, 3))(y))
    return L.Concatenate()([x, L.DepthwiseConv2D(3, padding="same")(y)])


def _aspp(x):
    whole = L.Resizing(8, 8)(_conv(L.GlobalAveragePooling2D(keepdims=True)(x), 8, 1))
    branches = [L.Conv2D(8, 3, padding="same", dilation_rate=d, activation="relu")(x) for d in (1, 2, 3)]
    return L.Conv2D(12, 1)(L.Concatenate()([*branches, whole]))


def _ghost(x):
    main = _conv(x, 24, 1)
    return L.Concatenate()([main, L.ReLU()(L.BatchNormalization()(L.DepthwiseConv2D(3, padding="same")(main)))])


def _autoencoder(x):
    code = L.Dense(12, activation="relu")(L.Flatten()(L.Conv2D(8, 3, 2, padding="same", activation="relu")(x)))
    back = L.Reshape((8, 8, 8))(L.Dense(512, activation="relu")(code))
    return L.Conv2DTranspose(3, 3, 2, padding="same", activation="sigmoid")(back)


def _super_resolution(x):
    x = L.Conv2D(16, 3, padding="same", activation="relu")(x)
    return L.Lambda(lambda y: tf.nn.depth_to_space(y, 2), output_shape=(32, 32, 3))(L.Conv2D(12, 3, padding="same")(x))


def _two_towers(x, y):
    tower = keras.Sequential([L.Dense(32, activation="relu"), L.Dense(16), L.UnitNormalization()])
    return L.Dot(1)([tower(x), tower(y)])


def _wide_and_deep(x, ids):
    deep = L.Dense(32, activation="relu")(L.Concatenate()([x, L.Flatten()(L.Embedding(50, 24)(ids))]))
    return L.Dense(1, activation="sigmoid")(L.Concatenate()([x, deep]))


def _crnn(x):
    x = L.MaxPooling2D()(_conv(x, 16))
    x = L.Reshape((8, 128))(x)
    return L.Dense(11, activation="softmax")(L.Bidirectional(L.GRU(12, return_sequences=True, unroll=True))(x))


ENTRIES = [
    layer("net-residual", MAP, _residual),
    layer("net-residual-down", MAP, _residual_down),
    layer("net-residual-before", MAP, _residual_before),
    layer("net-squeeze", MAP, lambda x: _squeeze(_conv(x, 16), 16)),
    layer("net-inverted", MAP, _inverted),
    layer("net-inverted-batch1", floats(1, 8, 8, 16), _inverted),
    layer("net-inverted-se", MAP, lambda x: _inverted(x, "hard_silu", "hard_sigmoid")),
    layer("net-inverted-swish", MAP, lambda x: _inverted(x, "swish", "sigmoid")),
    layer("net-inception", MAP, _inception),
    layer("net-unet", IMAGE, _unet),
    layer("net-encoder", floats(None, 7, 32), _encoder),
    layer("net-encoder-batch1", floats(1, 7, 32), _encoder),
    layer("net-decoder", floats(None, 7, 32), _decoder),
    layer("net-words", ints(None, 8, high=59), _words),
    layer("net-convnext", MAP, _convnext),
    layer("net-dense-block", MAP, _dense_block),
    layer("net-tcn", floats(None, 20, 16), _tcn),
    layer("net-keywords", floats(None, 200), _keywords),
    layer("net-patches", IMAGE, _patches),
    layer("net-mixer", IMAGE, _mixer),
    layer("net-pyramid", IMAGE, _pyramid),
    layer("net-shuffle", MAP, _shuffle),
    layer("net-aspp", MAP, _aspp),
    layer("net-ghost", MAP, _ghost),
    layer("net-autoencoder", IMAGE, _autoencoder),
    layer("net-super-resolution", IMAGE, _super_resolution),
    layer("net-two-towers", [floats(None, 40), floats(None, 40)], _two_towers),
    layer("net-wide-and-deep", [floats(None, 12), ints(None, 4, high=49)], _wide_and_deep),
    layer("net-crnn", floats(1, 16, 16, 1), _crnn, ("float", "dynamic", "float16", "int8")),
    layer2(
        "net-lstm-tagger", ints(1, 8, high=59), lambda x: K2.Dense(9)(K2.LSTM(40, return_sequences=True)(K2.Embedding(60, 24)(x)))
    ),
]
