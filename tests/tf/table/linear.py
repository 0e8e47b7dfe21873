"""Matrices, embeddings and sums over indices."""

from tests.tf.entry import L, floats, function, ints, layer, tf, weight

ENTRIES = [
    layer("dense-2", floats(None, 40), lambda x: L.Dense(30)(x)),
    layer("dense-2-batch1", floats(1, 40), lambda x: L.Dense(30)(x)),
    layer("dense-3", floats(None, 7, 40), lambda x: L.Dense(30)(x)),
    layer("dense-3-batch1", floats(1, 7, 40), lambda x: L.Dense(30)(x)),
    layer("dense-4", floats(None, 3, 5, 40), lambda x: L.Dense(30, activation="relu")(x)),
    layer("dense-no-bias", floats(None, 40), lambda x: L.Dense(30, use_bias=False)(x)),
    layer("dense-relu6", floats(None, 40), lambda x: L.Dense(30, activation="relu6")(x)),
    layer("dense-softmax", floats(None, 40), lambda x: L.Dense(30, activation="softmax")(x)),
    layer("dense-sigmoid", floats(None, 40), lambda x: L.Dense(30, activation="sigmoid")(x)),
    layer("dense-one-output", floats(None, 1200), lambda x: L.Dense(1)(x)),
    layer("dense-batchnorm", floats(None, 40), lambda x: L.BatchNormalization()(L.Dense(30)(x))),
    layer("mlp", floats(None, 20), lambda x: L.Dense(10)(L.Dense(64, activation="relu")(L.Dense(64, activation="relu")(x)))),
    layer("flatten-dense", floats(None, 4, 5, 6), lambda x: L.Dense(16)(L.Flatten()(x))),
    layer("embedding", ints(None, 8, high=99), lambda x: L.Embedding(100, 16)(x)),
    layer("embedding-batch1", ints(1, 8, high=99), lambda x: L.Embedding(100, 16)(x)),
    layer(
        "embedding-mean-dense", ints(None, 8, high=99), lambda x: L.Dense(70)(L.GlobalAveragePooling1D()(L.Embedding(100, 16)(x)))
    ),
    layer("embedding-two", ints(None, 8, high=19), lambda x: L.Add()([L.Embedding(20, 64)(x), L.Embedding(20, 64)(x)])),
    layer("einsum-dense", floats(None, 7, 24), lambda x: L.EinsumDense("abc,cd->abd", (None, 48), bias_axes="d")(x)),
    layer("einsum-dense-heads", floats(None, 7, 24), lambda x: L.EinsumDense("abc,cde->abde", (None, 4, 12), bias_axes="de")(x)),
    layer(
        "einsum-dense-heads-back", floats(None, 7, 4, 12), lambda x: L.EinsumDense("abde,dec->abc", (None, 24), bias_axes="c")(x)
    ),
    layer("bilinear", [floats(None, 36), floats(None, 36)], lambda x, y: L.Dot(1)([L.Dense(36)(x), y])),
    function("matmul", [floats(4, 5), floats(5, 6)], lambda x, y: tf.matmul(x, y)),
    function("matmul-transposed", [floats(5, 4), floats(6, 5)], lambda x, y: tf.matmul(x, y, transpose_a=True, transpose_b=True)),
    function("matmul-batched", [floats(2, 3, 4, 5), floats(2, 3, 5, 6)], lambda x, y: tf.matmul(x, y)),
    function("matmul-broadcast", [floats(2, 3, 4, 5), floats(3, 5, 2)], lambda x, y: tf.matmul(x, y)),
    function("matmul-adjoint", [floats(2, 4, 5), floats(2, 6, 5)], lambda x, y: tf.matmul(x, y, adjoint_b=True)),
    function(
        "matmul-weight",
        floats(None, 6, 40),
        lambda x: tf.matmul(x, weight(40, 30)),
        ("float", "dynamic", "float16", "int8", "int16"),
    ),
    function(
        "matmul-weight-left", floats(None, 40, 6), lambda x: tf.matmul(weight(30, 40), x), ("float", "dynamic", "float16", "int8")
    ),
    function("matvec", [floats(3, 4, 5), floats(3, 5)], lambda x, y: tf.linalg.matvec(x, y)),
    function("tensordot", floats(3, 4, 5), lambda x: tf.tensordot(x, weight(5, 4, 6), [[2, 1], [0, 1]])),
    function("einsum-attention", [floats(2, 5, 3, 4), floats(2, 6, 3, 4)], lambda x, y: tf.einsum("bqhd,bkhd->bhqk", x, y)),
    function("einsum-outer", [floats(2, 4), floats(2, 5)], lambda x, y: tf.einsum("bi,bj->bij", x, y)),
    function("einsum-transpose", floats(2, 3, 4), lambda x: tf.einsum("abc->cab", x)),
    function("einsum-ellipsis", floats(2, 3, 4), lambda x: tf.einsum("...c,cd->...d", x, weight(4, 6))),
    function("bias-add", floats(2, 3, 4), lambda x: tf.nn.bias_add(x, weight(4))),
    function(
        "embedding-lookup",
        ints(2, 3, high=19),
        lambda x: tf.nn.embedding_lookup(weight(20, 60), x),
        ("float", "dynamic", "float16"),
    ),
    function(
        "one-hot-matmul", ints(4, high=7), lambda x: tf.matmul(tf.one_hot(x, 8), weight(8, 5)), ("float", "float16", "int8")
    ),
    function(
        "normalised-cosine",
        [floats(3, 8), floats(4, 8)],
        lambda x, y: tf.matmul(tf.nn.l2_normalize(x, 1), tf.nn.l2_normalize(y, 1), transpose_b=True),
    ),
]
