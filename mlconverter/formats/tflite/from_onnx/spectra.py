"""Spectra of signals of a fixed length: products with the constant matrix of the transform."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.kernels import STORED
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.slicing import gathered
from mlconverter.formats.tflite.from_onnx.values import Array, Constant, Ints, Operand, Runtime, Stored, Wire
from mlconverter.hub.io import numpy_name

LARGEST = 1 << 22
"""Elements of a matrix."""


@translates("DFT", 17)
def dft_17(b: Builder, x: Runtime, length: Ints | None = None, *, axis: int, inverse: int, onesided: int) -> Stored:
    """DFT of opset 17 → FULLY_CONNECTED with the transform's matrix, along an attribute."""
    return _transformed(b, x, length, axis, bool(inverse), bool(onesided))


@translates("DFT", 20)
def dft(b: Builder, x: Runtime, length: Ints | None = None, axis: Ints | None = None, *, inverse: int, onesided: int) -> Stored:
    """DFT → FULLY_CONNECTED with the transform's matrix."""
    along = -2 if axis is None else axis.fixed("the axis")[0]
    return _transformed(b, x, length, along, bool(inverse), bool(onesided))


def _transformed(b: Builder, x: Runtime, length: Ints | None, axis: int, inverse: bool, onesided: bool) -> Stored:
    axis %= x.rank
    count, parts = x.dims[axis], _parts(x, onesided and not inverse)
    if count is None:
        raise Refused("a signal whose length only the run time knows")
    size = length.fixed("its length")[0] if length else 2 * (count - 1) if onesided and inverse else count

    def transform(signals: Array) -> Array:
        if inverse:
            return np.fft.irfft(signals, size) if onesided else np.fft.ifft(signals, size)
        return np.fft.rfft(signals.real, size) if onesided else np.fft.fft(signals, size)

    matrix = _matrix(transform, count, parts, real=onesided and inverse)
    order = (*(a for a in range(x.rank) if a not in (axis, x.rank - 1)), axis, x.rank - 1)
    return Stored(_times(b, b.ask(x, order), matrix, 1 if onesided and inverse else 2), order)


def _parts(x: Runtime, onesided: bool) -> int:
    """One for real signals, two for complex ones."""
    parts = x.dims[-1]
    if parts is None:
        raise Refused("whether its signal is complex only the run time knows")
    if onesided and parts != 1:
        raise Refused("one side of the spectrum of a complex signal")
    return parts


def _matrix(transform: Callable[[Array], Array], count: int, parts: int, *, real: bool) -> Array:
    """The matrix of a linear function of signals: what becomes of each element alone."""
    units = np.eye(count, dtype=complex)
    basis = np.stack([units, units * 1j][:parts], 1).reshape(count * parts, count)
    found = transform(basis)
    if found.size > LARGEST:
        raise Refused("a matrix of the transform that would be too large")
    whole = found if real else np.stack([found.real, found.imag], -1).reshape(len(basis), -1)
    result: Array = whole.T
    return result


def _times(b: Builder, x: Wire, matrix: Array, parts: int) -> Wire:
    """The last two axes, taken for one, times a matrix, and two again."""
    if x.dims.count(None) > 1:
        raise Refused("several sizes that only the run time knows")
    rows, columns = matrix.shape
    flat = b.reshape(x, (*x.dims[:-2], columns))
    weights, bias = b.constant(matrix.astype(np.float32), "transform"), b.constant(np.zeros(rows, np.float32), "bias")
    y = b.emit("FULLY_CONNECTED", flat, weights, bias, dims=(*flat.dims[:-1], rows), version=5, keepNumDims=True)
    return b.reshape(y, (*x.dims[:-2], rows // parts, parts))


@translates("STFT", 17)
def stft(
    b: Builder, x: Runtime, step: Ints, window: Operand | None = None, length: Ints | None = None, *, onesided: int
) -> Stored:
    """STFT → GATHER of the frames, MUL by the window, FULLY_CONNECTED with the transform's matrix."""
    parts, total = _parts(x, bool(onesided)), x.dims[1]
    size = length.fixed("the length of a frame")[0] if length else total if window is None else window.dims[0]
    if total is None or size is None:
        raise Refused("a signal or a frame whose length only the run time knows")
    starts = np.arange(0, total - size + 1, step.fixed("the step")[0])
    frames = gathered(b, b.ask(x), starts[:, None] + np.arange(size), 1)
    weights = np.ones(size)
    if isinstance(window, Constant):
        weights = window.value
    elif window is not None:
        factor = b.reshape(b.ask(window), (size, 1))
        frames = b.emit("MUL", frames, factor, dims=frames.dims)

    def transform(signals: Array) -> Array:
        return np.fft.rfft((signals * weights).real) if onesided else np.fft.fft(signals * weights)

    matrix = _matrix(transform, size, parts, real=False)
    return Stored(_times(b, frames, matrix, 2), layout.logical(4))


@translates("MelWeightMatrix", 17)
def mel_weight_matrix(
    b: Builder, bands: Constant, length: Constant, rate: Constant, low: Constant, high: Constant, *, output_datatype: int
) -> Constant:
    """MelWeightMatrix → a constant: a triangle over the bins of a spectrum for each band."""
    wanted = numpy_name(ir.DataType(output_datatype))
    if wanted not in STORED and wanted != "float16":
        raise Refused(f"TFLite does not compute with {wanted}")
    count, size = int(bands.number()), int(length.number())
    bottom, top = (2595 * np.log10(1 + end.number() / 700) for end in (low, high))
    mel = np.arange(count + 2) * ((top - bottom) / (count + 2)) + bottom
    edges = np.floor((size + 1) * 700 * np.expm1(mel * (np.log(10) / 2595)) / rate.number())
    bins = np.arange(size // 2 + 1)[:, None]
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    with np.errstate(divide="ignore", invalid="ignore"):
        rising = np.where(middle > left, (bins - left) / (middle - left), 1)
        falling = (right - bins) / (right - middle)
    rising = np.where((bins >= left) & (bins <= middle), rising, 0)
    return Constant(np.where((bins >= middle) & (bins < right), falling, rising).astype(wanted))
