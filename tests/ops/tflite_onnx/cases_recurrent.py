"""The table of recurrent operators: each writes a small file whose states are kept from call to call."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from ai_edge_litert import schema_py_generated as S

from tests.ops.tflite_onnx.cases import weights
from tests.ops.tflite_onnx.files import File

CASES: list[Recurrent] = []

TIME, FEATURES, UNITS, GIVEN = 4, 5, 6, 7
"""Sizes, all of them unequal, and unequal to the batches; the last is what a projection gives."""

NONE, RELU, RELU_N1_TO_1, RELU6, TANH, SIGN_BIT = range(6)


@dataclass(frozen=True)
class Recurrent:
    """One file and how it is checked.

    Attributes:
        build: writes the file and gives its outputs; its argument says the batch.
        tolerance: how far an output may be off, as a part of the largest number; of integers, the number of steps.
        refused: why it is refused, where it is.
        expects: operators that the graph has to have.
    """

    id: str
    build: Callable[[File, int], int | list[int]]
    tolerance: float = 1e-5
    refused: str | None = None
    expects: tuple[str, ...] = ()
    batches: tuple[int, ...] = (1, 3)


def add(name: str, build: Callable[[File, int], int | list[int]], **how) -> None:
    CASES.append(Recurrent(name, build, **how))


def grid(scale, zero=0):
    return S.QuantizationParametersT(scale=np.float32([scale]), zeroPoint=np.int64([zero]))


HYBRID = 0.03
"""What the rounding of data in LiteRT's kernels for 8-bit weights and real data may make of an output."""

SEED = 100


def seed(f: File) -> int:
    """Another one for each tensor of a file, and the same for each time that it is written."""
    return SEED + f.count


def real(f: File, *shape: int, scale=0.5) -> int:
    return f.constant(weights(*shape, seed=seed(f)) * np.float32(scale))


def small(f: File, *shape: int, scale=0.5) -> int:
    """Weights of 8 bits."""
    step = scale / 40
    whole = np.clip(np.round(weights(*shape, seed=seed(f)) * scale / step), -127, 127)
    return f.constant(whole.astype(np.int8), quantization=grid(step))


def states(f: File, n: int, *sizes: int) -> list[int]:
    return [f.tensor((n, size), variable=True) for size in sizes]


def sequence(f: File, n: int, time_major: bool, features: int = FEATURES) -> int:
    return f.input((TIME, n, features) if time_major else (n, TIME, features))


# Plain recurrence


def rnn(activation=TANH, matrix=real, **more):
    def build(f: File, n: int) -> int:
        x = f.input((n, FEATURES))
        operands = [x, matrix(f, UNITS, FEATURES), matrix(f, UNITS, UNITS), real(f, UNITS), *states(f, n, UNITS)]
        return f.op("RNN", operands, options=S.RNNOptionsT(fusedActivationFunction=activation, **more))

    return build


def sequence_rnn(activation=TANH, time_major=False, matrix=real, **more):
    def build(f: File, n: int) -> int:
        x = sequence(f, n, time_major)
        operands = [x, matrix(f, UNITS, FEATURES), matrix(f, UNITS, UNITS), real(f, UNITS), *states(f, n, UNITS)]
        options = S.SequenceRNNOptionsT(fusedActivationFunction=activation, timeMajor=time_major, **more)
        return f.op("UNIDIRECTIONAL_SEQUENCE_RNN", operands, options=options)

    return build


for activation in range(5):
    add(f"RNN activation {activation}", rnn(activation))
    node = activation in (NONE, RELU, TANH)
    add(f"UNIDIRECTIONAL_SEQUENCE_RNN activation {activation}", sequence_rnn(activation), expects=("RNN" if node else "Scan",))
add("UNIDIRECTIONAL_SEQUENCE_RNN time first", sequence_rnn(time_major=True))
add("UNIDIRECTIONAL_SEQUENCE_RNN limits, time first", sequence_rnn(RELU6, time_major=True))
add("RNN sign", rnn(SIGN_BIT), refused="SIGN_BIT")
for asymmetric in (False, True):
    add(f"RNN 8-bit weights {asymmetric}", rnn(matrix=small, asymmetricQuantizeInputs=asymmetric), tolerance=HYBRID)
    add(
        f"UNIDIRECTIONAL_SEQUENCE_RNN 8-bit weights {asymmetric}",
        sequence_rnn(matrix=small, asymmetricQuantizeInputs=asymmetric),
        tolerance=HYBRID,
    )


def bidirectional_rnn(time_major=False, merge=False, auxiliary="", activation=TANH, matrix=real, size=FEATURES):
    def build(f: File, n: int) -> int | list[int]:
        x = sequence(f, n, time_major)
        aux = sequence(f, n, time_major, size) if auxiliary else -1
        backward = UNITS + 2
        operands = [x]
        for units in (UNITS, backward):
            operands += [matrix(f, units, FEATURES), matrix(f, units, units), real(f, units), *states(f, n, units)]
        crossed = [matrix(f, units, size) for units in (UNITS, backward)] if auxiliary == "crossed" else [-1, -1]
        options = S.BidirectionalSequenceRNNOptionsT(timeMajor=time_major, mergeOutputs=merge, fusedActivationFunction=activation)
        name = "BIDIRECTIONAL_SEQUENCE_RNN"
        return f.op(name, [*operands, aux, *crossed], "float32" if merge else ["float32"] * 2, options=options, version=3)

    return build


for time_major, merge, auxiliary in itertools.product((False, True), (False, True), ("", "parallel", "crossed")):
    add(
        f"BIDIRECTIONAL_SEQUENCE_RNN time first {time_major} merged {merge} {auxiliary}",
        bidirectional_rnn(time_major, merge, auxiliary),
        refused="does not read" if auxiliary == "parallel" and not time_major else None,
    )
add("BIDIRECTIONAL_SEQUENCE_RNN limits", bidirectional_rnn(activation=RELU_N1_TO_1))
for auxiliary in ("", "crossed"):
    add(
        f"BIDIRECTIONAL_SEQUENCE_RNN 8-bit weights {auxiliary}",
        bidirectional_rnn(matrix=small, auxiliary=auxiliary),
        tolerance=HYBRID,
    )
add("BIDIRECTIONAL_SEQUENCE_RNN 8-bit weights, time first", bidirectional_rnn(True, matrix=small), refused="as often")
add("BIDIRECTIONAL_SEQUENCE_RNN crossed, other size", bidirectional_rnn(auxiliary="crossed", size=8))
add(
    "BIDIRECTIONAL_SEQUENCE_RNN crossed, other size, time first",
    bidirectional_rnn(True, auxiliary="crossed", size=8),
    refused="another size",
)


# LSTM


def gates(f: File, n: int, x: int, features: int = FEATURES, **has) -> list[int]:
    """The inputs of a direction, from the matrices of the data to the projection."""
    matrix, cifg = has.get("matrix", real), has.get("cifg", False)
    given = GIVEN if has.get("projection") else UNITS
    skip = lambda i: cifg and i == 0  # noqa: E731
    operands = [-1 if skip(i) else matrix(f, UNITS, features) for i in range(4)]
    operands += [-1 if skip(i) else matrix(f, UNITS, given) for i in range(4)]
    # Peepholes of 8 bits are taken for what they stand for.
    operands += [-1 if skip(i) or not has.get("peepholes") else matrix(f, UNITS) for i in range(3)]
    operands += [-1 if skip(i) else real(f, UNITS) for i in range(4)]
    operands += [matrix(f, given, UNITS) if has.get("projection") else -1]
    operands += [real(f, given) if has.get("projection") == "biased" else -1]
    return operands


def lstm(op="UNIDIRECTIONAL_SEQUENCE_LSTM", time_major=False, activation=TANH, clips=(0.0, 0.0), norm=None, inputs=24, **has):
    def build(f: File, n: int) -> int:
        single = op == "LSTM"
        x = f.input((n, FEATURES)) if single else sequence(f, n, time_major)
        operands = [x, *gates(f, n, x, **has)]
        operands += states(f, n, GIVEN if has.get("projection") else UNITS, UNITS)
        if inputs == 24:
            operands += [-1 if not norm or (has.get("cifg") and i == 0) else real(f, UNITS, scale=1.0) for i in range(4)]
        more = {"asymmetricQuantizeInputs": has.get("asymmetric", False)}
        more |= {"fusedActivationFunction": activation, "cellClip": clips[0], "projClip": clips[1]}
        options = S.LSTMOptionsT(**more) if single else S.UnidirectionalSequenceLSTMOptionsT(timeMajor=time_major, **more)
        return f.op(op, operands, options=options, version=3 if norm or inputs == 24 else 1)

    return build


KINDS = {
    "plain": {},
    "20 inputs": {"inputs": 20},
    "peepholes": {"peepholes": True},
    "coupled": {"cifg": True},
    "coupled, peepholes": {"cifg": True, "peepholes": True},
    "projection": {"projection": "plain"},
    "projection, biased, clipped": {"projection": "biased", "clips": (0.0, 0.4)},
    "clipped": {"clips": (0.3, 0.0)},
    "clipped at 10": {"clips": (10.0, 0.0)},
    "normalised": {"norm": True},
    "normalised, coupled, peepholes, projection": {
        "norm": True,
        "cifg": True,
        "peepholes": True,
        "projection": "biased",
        "clips": (0.5, 0.3),
    },
}
NODES = ("plain", "20 inputs", "peepholes")
for name, has in KINDS.items():
    add(f"UNIDIRECTIONAL_SEQUENCE_LSTM {name}", lstm(**has), expects=("LSTM" if name in NODES else "Scan",))
    add(f"UNIDIRECTIONAL_SEQUENCE_LSTM {name}, time first", lstm(time_major=True, **has))
    add(f"LSTM {name}", lstm("LSTM", **has))
for activation in (RELU, RELU_N1_TO_1, RELU6):
    add(f"UNIDIRECTIONAL_SEQUENCE_LSTM activation {activation}", lstm(activation=activation))
    add(f"LSTM activation {activation}", lstm("LSTM", activation=activation))
add("UNIDIRECTIONAL_SEQUENCE_LSTM no activation", lstm(activation=NONE), refused="no fused activation")
add("UNIDIRECTIONAL_SEQUENCE_LSTM sign", lstm(activation=SIGN_BIT), refused="SIGN_BIT")
for name in ("plain", "peepholes", "coupled", "projection", "normalised"):
    for asymmetric in (False, True):
        add(
            f"UNIDIRECTIONAL_SEQUENCE_LSTM 8-bit weights, {name} {asymmetric}",
            lstm(matrix=small, asymmetric=asymmetric, **KINDS[name]),
            tolerance=HYBRID * (2 if name == "normalised" else 1),
        )
    add(
        f"LSTM 8-bit weights, {name}",
        lstm("LSTM", matrix=small, **KINDS[name]),
        tolerance=HYBRID * (2 if name == "normalised" else 1),
    )


def bidirectional_lstm(time_major=False, merge=False, auxiliary="", clips=(0.0, 0.0), size=FEATURES, **has):
    def build(f: File, n: int) -> int | list[int]:
        x = sequence(f, n, time_major)
        aux = sequence(f, n, time_major, size) if auxiliary else -1
        given = GIVEN if has.get("projection") else UNITS
        operands = [x, *gates(f, n, x, **has), *gates(f, n, x, **has), *states(f, n, *(given, UNITS) * 2), aux]
        for _ in range(2):
            coupled = has.get("cifg", False)
            crossed = auxiliary == "crossed"
            matrix = has.get("matrix", real)
            operands += [matrix(f, UNITS, size) if crossed and not (coupled and i == 0) else -1 for i in range(4)]
        options = S.BidirectionalSequenceLSTMOptionsT(
            timeMajor=time_major,
            mergeOutputs=merge,
            fusedActivationFunction=TANH,
            cellClip=clips[0],
            projClip=clips[1],
        )
        name = "BIDIRECTIONAL_SEQUENCE_LSTM"
        return f.op(name, operands, "float32" if merge else ["float32"] * 2, options=options, version=3)

    return build


for time_major, auxiliary in itertools.product((False, True), ("", "parallel", "crossed")):
    add(
        f"BIDIRECTIONAL_SEQUENCE_LSTM time first {time_major} {auxiliary}",
        bidirectional_lstm(time_major, False, auxiliary),
        expects=("LSTM",),
    )
for name in ("peepholes", "coupled", "projection, biased, clipped", "clipped"):
    add(f"BIDIRECTIONAL_SEQUENCE_LSTM {name}", bidirectional_lstm(**KINDS[name]))
add("BIDIRECTIONAL_SEQUENCE_LSTM crossed, coupled", bidirectional_lstm(auxiliary="crossed", cifg=True))
add("BIDIRECTIONAL_SEQUENCE_LSTM merged", bidirectional_lstm(merge=True), batches=(1,))
add("BIDIRECTIONAL_SEQUENCE_LSTM merged, time first", bidirectional_lstm(True, merge=True))
add("BIDIRECTIONAL_SEQUENCE_LSTM merged, batch", bidirectional_lstm(merge=True), batches=(3,), refused="side by side")
add("BIDIRECTIONAL_SEQUENCE_LSTM other size", bidirectional_lstm(auxiliary="crossed", size=8), refused="another size")
add("BIDIRECTIONAL_SEQUENCE_LSTM 8-bit weights", bidirectional_lstm(matrix=small), tolerance=HYBRID)


def basic_lstm(f: File, n: int) -> list[int]:
    hidden, cell = states(f, n, UNITS, UNITS)
    operands = [f.input((n, FEATURES)), hidden, real(f, 4 * UNITS, FEATURES + UNITS), real(f, 4 * UNITS), cell]
    return f.op("LSTM", operands, ["float32"] * 4, options=S.LSTMOptionsT(kernelType=1), version=2)[:2]


def basic_lstm_fed(f: File, n: int) -> list[int]:
    x, hidden, cell = f.input((n, FEATURES)), f.input((n, UNITS)), f.input((n, UNITS))
    operands = [x, hidden, real(f, 4 * UNITS, FEATURES + UNITS), real(f, 4 * UNITS), cell]
    return f.op("LSTM", operands, ["float32"] * 4, options=S.LSTMOptionsT(kernelType=1), version=2)[:2]


add("LSTM basic", basic_lstm)
add("LSTM basic, states fed", basic_lstm_fed)


# LSTM of integers


def whole_lstm(op="UNIDIRECTIONAL_SEQUENCE_LSTM", time_major=False, clips=(0.0, 0.0), grids=None, **has):
    """All of 8 bits but the cells; the grids are those of the product, the state and the output."""
    at = grids or [(0.008, 3)] * 3

    def build(f: File, n: int) -> int:
        single = op == "LSTM"
        shape = (n, FEATURES) if single else (TIME, n, FEATURES) if time_major else (n, TIME, FEATURES)
        x = f.input(shape, "int8", quantization=grid(0.02, -5))
        given = GIVEN if has.get("projection") else UNITS
        skip = lambda i: has.get("cifg") and i == 0  # noqa: E731
        rng = np.random.default_rng(seed(f))

        def matrix(*size, scale, dtype=np.int8, quantization=None):
            limit = 127 if dtype == np.int8 else 20000
            return f.constant(rng.integers(-limit, limit, size).astype(dtype), quantization=quantization or grid(scale))

        def bias(scale, size=UNITS, spread=1.0):
            return f.constant(np.round(rng.uniform(-spread, spread, size) / scale).astype(np.int32), quantization=grid(scale))

        scales = [0.006, 0.005, 0.007, 0.0055]
        norm = has.get("norm")
        operands = [x]
        operands += [-1 if skip(i) else matrix(UNITS, FEATURES, scale=scales[i]) for i in range(4)]
        operands += [-1 if skip(i) else matrix(UNITS, given, scale=scales[3 - i]) for i in range(4)]
        peepholes = has.get("peepholes")
        operands += [matrix(UNITS, scale=2e-5, dtype=np.int16) if peepholes and not skip(i) else -1 for i in range(3)]
        factor = 5e-5
        biases = [factor * 2.0**-10 if norm else scales[i] * 0.02 for i in range(4)]
        operands += [-1 if skip(i) else bias(biases[i]) for i in range(4)]
        if has.get("projection"):
            operands += [matrix(given, UNITS, scale=0.006)]
            operands += [bias(0.006 * at[0][0], given) if has["projection"] == "biased" else -1]
        else:
            operands += [-1, -1]
        operands.append(f.tensor((n, given), "int8", quantization=grid(*at[1]), variable=True))
        operands.append(f.tensor((n, UNITS), "int16", quantization=grid(2.0**-11), variable=True))
        operands += [matrix(UNITS, scale=factor, dtype=np.int16) if norm and not skip(i) else -1 for i in range(4)]
        # The sums of a normalised gate have a grid of their own; of others it is known.
        middle = [f.tensor((0,), "int16", quantization=grid(0.0004 + 0.0001 * i) if norm else None) for i in range(4)]
        middle.append(f.tensor((0,), "int8", quantization=grid(*at[0])))
        more = {"fusedActivationFunction": TANH, "cellClip": clips[0], "projClip": clips[1]}
        options = S.LSTMOptionsT(**more) if single else S.UnidirectionalSequenceLSTMOptionsT(timeMajor=time_major, **more)
        return f.op(op, operands, "int8", options=options, version=3, quantization=grid(*at[2]), intermediates=middle)

    return build


WHOLE = {
    "plain": {},
    "coupled": {"cifg": True},
    "peepholes": {"peepholes": True},
    "clipped": {"clips": (0.3, 0.0)},
    "projection": {"projection": "plain"},
    "projection, biased, clipped": {"projection": "biased", "clips": (0.0, 0.4)},
    "unequal grids": {"grids": [(0.008, 3), (0.006, -4), (0.007, 9)]},
    "projection, unequal grids": {"projection": "biased", "grids": [(0.008, 3), (0.006, -4), (0.007, 9)]},
    "normalised": {"norm": True},
    "normalised, coupled, peepholes": {"norm": True, "cifg": True, "peepholes": True},
}
for name, has in WHOLE.items():
    # What is projected is rounded twice in a step, and goes into the next one.
    steps = 2 if "projection" in has else 1
    add(f"UNIDIRECTIONAL_SEQUENCE_LSTM integers, {name}", whole_lstm(**has), tolerance=steps)
    add(f"UNIDIRECTIONAL_SEQUENCE_LSTM integers, {name}, time first", whole_lstm(time_major=True, **has), tolerance=steps)
    add(f"LSTM integers, {name}", whole_lstm("LSTM", **has), tolerance=steps)


def whole_basic_lstm(f: File, n: int) -> list[int]:
    eight = grid(1 / 128, 128)
    sixteen = grid(2.0**-11)
    rng = np.random.default_rng(seed(f))
    x = f.input((n, FEATURES), "uint8", quantization=eight)
    hidden = f.tensor((n, UNITS), "uint8", quantization=eight, variable=True)
    cell = f.tensor((n, UNITS), "int16", quantization=sixteen, variable=True)
    matrix = rng.integers(0, 256, (4 * UNITS, FEATURES + UNITS)).astype(np.uint8)
    bias = rng.integers(-20000, 20000, 4 * UNITS).astype(np.int32)
    operands = [
        x,
        hidden,
        f.constant(matrix, quantization=grid(0.01, 120)),
        f.constant(bias, quantization=grid(0.01 / 128)),
        cell,
    ]
    outputs = f.op("LSTM", operands, ["uint8", "int16", "uint8", "int16"], options=S.LSTMOptionsT(kernelType=1), version=2)
    for index, quantization in zip(outputs, (eight, sixteen, eight, grid(2.0**-12)), strict=True):
        f.quantize(index, quantization)
    return outputs[:2]


add("LSTM basic, integers", whole_basic_lstm, tolerance=2)


def half_states(value: float):
    """States that are computed from constants of half precision, as converters write them."""

    def build(f: File, n: int) -> int:
        x = sequence(f, n, False)
        operands = [x, *gates(f, n, x)]
        for _ in range(2):
            start = f.constant(np.full((n, UNITS), value, np.float16))
            state = f.op("DEQUANTIZE", [start], version=3, shapes=[(n, UNITS)])
            f.remember(state)
            operands.append(state)
        options = S.UnidirectionalSequenceLSTMOptionsT(fusedActivationFunction=TANH)
        return f.op("UNIDIRECTIONAL_SEQUENCE_LSTM", [*operands, *[-1] * 4], options=options, version=3)

    return build


add("UNIDIRECTIONAL_SEQUENCE_LSTM states of half precision", half_states(0.0))
add("UNIDIRECTIONAL_SEQUENCE_LSTM first states", half_states(0.5), refused="before the first call")


# SVDF

MEMORY = 3


def svdf(rank=1, activation=NONE, bias=True, features=real, time=real, **more):
    def build(f: File, n: int) -> int:
        filters = UNITS * rank
        operands = [
            f.input((n, FEATURES)),
            features(f, filters, FEATURES),
            time(f, filters, MEMORY),
            real(f, UNITS) if bias else -1,
            f.tensor((n, filters * MEMORY), variable=True),
        ]
        return f.op("SVDF", operands, options=S.SVDFOptionsT(rank=rank, fusedActivationFunction=activation, **more), version=3)

    return build


for rank, bias in itertools.product((1, 2), (False, True)):
    add(f"SVDF rank {rank} bias {bias}", svdf(rank, bias=bias))
for activation in (RELU, RELU_N1_TO_1, RELU6, TANH):
    add(f"SVDF activation {activation}", svdf(activation=activation))
add("SVDF no rank", svdf(0), refused="rank 0", batches=(1,))
for asymmetric in (False, True):
    add(
        f"SVDF 8-bit weights {asymmetric}",
        svdf(2, features=small, time=small, asymmetricQuantizeInputs=asymmetric),
        tolerance=HYBRID,
    )


def whole_svdf(rank=1, activation=RELU, bias=True, zero=-128):
    def build(f: File, n: int) -> int:
        filters, state = UNITS * rank, 0.0007
        rng = np.random.default_rng(seed(f))
        biases = rng.integers(-9000, 9000, UNITS).astype(np.int32)
        operands = [
            f.input((n, FEATURES), "int8", quantization=grid(0.05, 4)),
            f.constant(rng.integers(-127, 128, (filters, FEATURES)).astype(np.int8), quantization=grid(0.01)),
            f.constant(rng.integers(-9000, 9000, (filters, MEMORY)).astype(np.int16), quantization=grid(1e-4)),
            f.constant(biases, quantization=grid(state * 1e-4)) if bias else -1,
            f.tensor((n, filters * MEMORY), "int16", quantization=grid(state), variable=True),
        ]
        options = S.SVDFOptionsT(rank=rank, fusedActivationFunction=activation)
        return f.op("SVDF", operands, "int8", options=options, version=3, quantization=grid(0.04, zero))

    return build


for rank, bias in itertools.product((1, 2), (False, True)):
    add(f"SVDF integers, rank {rank} bias {bias}", whole_svdf(rank, bias=bias), tolerance=1)
add("SVDF integers, zero in the middle", whole_svdf(zero=0), tolerance=1)
