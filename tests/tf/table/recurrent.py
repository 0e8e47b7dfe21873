"""Recurrent layers: loops of Keras 3, fused operators of Keras 2, and cells unrolled."""

from tests.tf.entry import K2, L, floats, ints, layer, layer2

LINE = floats(1, 6, 16)
WIDE = floats(2, 6, 16)

UNROLLED = ("float", "dynamic", "float16", "int8")


def _unrolled(name, make, inputs=LINE):
    return layer(name, inputs, make, UNROLLED)


def _loop(name, make, inputs=LINE):
    """Loops are not quantised throughout."""
    return layer(name, inputs, make, ("float", "dynamic", "float16"))


def _fused(name, make, inputs=LINE, modes=("float", "dynamic", "float16", "int8", "int16")):
    return layer2(name, inputs, make, modes)


ENTRIES = [
    _loop("rnn", lambda x: L.SimpleRNN(32)(x)),
    _loop("rnn-sequences", lambda x: L.SimpleRNN(32, return_sequences=True)(x)),
    _loop("lstm", lambda x: L.LSTM(16)(x)),
    _loop("lstm-sequences", lambda x: L.LSTM(16, return_sequences=True)(x)),
    _loop("lstm-backwards", lambda x: L.LSTM(16, go_backwards=True, return_sequences=True)(x)),
    _loop("lstm-stacked", lambda x: L.LSTM(12)(L.LSTM(16, return_sequences=True)(x))),
    _loop("lstm-bidirectional", lambda x: L.Bidirectional(L.LSTM(16, return_sequences=True))(x)),
    _loop("lstm-states", lambda x: L.LSTM(16, return_state=True)(x)),
    _loop("lstm-masked", lambda x: L.LSTM(16)(L.Masking(0.0)(x))),
    _loop("lstm-embedding-mask", lambda x: L.LSTM(16)(L.Embedding(80, 16, mask_zero=True)(x)), ints(1, 6, high=3)),
    _loop("lstm-batch2", lambda x: L.LSTM(16)(x), WIDE),
    _loop("gru", lambda x: L.GRU(20)(x)),
    _loop("gru-sequences", lambda x: L.GRU(20, return_sequences=True)(x)),
    _loop("gru-reset-before", lambda x: L.GRU(20, reset_after=False)(x)),
    _loop("gru-bidirectional", lambda x: L.Bidirectional(L.GRU(20), merge_mode="sum")(x)),
    _loop("gru-stacked", lambda x: L.GRU(12)(L.GRU(20, return_sequences=True)(x))),
    _loop("time-distributed", lambda x: L.TimeDistributed(L.Dense(70))(x)),
    _loop("conv-lstm1d", lambda x: L.ConvLSTM1D(8, 3, padding="same")(x), floats(1, 4, 9, 8)),
    _loop("conv-lstm2d", lambda x: L.ConvLSTM2D(4, 3, padding="same")(x), floats(1, 3, 7, 6, 8)),
    _unrolled("rnn-unrolled", lambda x: L.SimpleRNN(32, unroll=True)(x)),
    _unrolled("rnn-unrolled-relu", lambda x: L.SimpleRNN(32, activation="relu", unroll=True, return_sequences=True)(x)),
    _unrolled("lstm-unrolled", lambda x: L.LSTM(16, unroll=True)(x)),
    _unrolled("lstm-unrolled-sequences", lambda x: L.LSTM(16, unroll=True, return_sequences=True)(x)),
    _unrolled("lstm-unrolled-bidirectional", lambda x: L.Bidirectional(L.LSTM(16, unroll=True, return_sequences=True))(x)),
    _unrolled("lstm-unrolled-free-batch", lambda x: L.LSTM(16, unroll=True)(x), floats(None, 6, 16)),
    _unrolled("lstm-unrolled-masked", lambda x: L.LSTM(16, unroll=True)(L.Masking(0.0)(x))),
    _unrolled("gru-unrolled", lambda x: L.GRU(20, unroll=True)(x)),
    _unrolled("gru-unrolled-reset-before", lambda x: L.GRU(20, unroll=True, reset_after=False)(x)),
    _unrolled("gru-unrolled-stacked", lambda x: L.GRU(12, unroll=True)(L.GRU(20, unroll=True, return_sequences=True)(x))),
    _unrolled("lstm-cell", lambda x, h, c: L.LSTMCell(16)(x, [h, c])[0], [floats(1, 16), floats(1, 16), floats(1, 16)]),
    _unrolled("gru-cell", lambda x, h: L.GRUCell(20)(x, h)[0], [floats(1, 16), floats(1, 20)]),
    _unrolled("rnn-cell-free-batch", lambda x, h: L.SimpleRNNCell(40)(x, h)[0], [floats(None, 16), floats(None, 40)]),
    _fused("fused-lstm", lambda x: K2.LSTM(40)(x)),
    _fused("fused-lstm-sequences", lambda x: K2.LSTM(40, return_sequences=True)(x)),
    _fused("fused-lstm-batch2", lambda x: K2.LSTM(40, return_sequences=True)(x), WIDE),
    _fused("fused-lstm-stacked", lambda x: K2.LSTM(20)(K2.LSTM(40, return_sequences=True)(x))),
    _fused("fused-lstm-bidirectional", lambda x: K2.Bidirectional(K2.LSTM(40, return_sequences=True))(x)),
    _fused("fused-lstm-backwards", lambda x: K2.LSTM(40, go_backwards=True)(x)),
    _fused("fused-lstm-time-major", lambda x: K2.LSTM(40, time_major=True, return_sequences=True)(x), floats(6, 1, 16)),
    _fused("fused-lstm-dense", lambda x: K2.Dense(10)(K2.LSTM(40)(x))),
    _fused("keras2-gru", lambda x: K2.GRU(20, return_sequences=True)(x), LINE, ("float", "dynamic", "float16")),
    _fused("keras2-rnn", lambda x: K2.SimpleRNN(32)(x), LINE, ("float", "dynamic", "float16")),
]
