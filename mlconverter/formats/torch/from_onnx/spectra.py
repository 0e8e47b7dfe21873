"""Spectra of signals."""

from __future__ import annotations

import onnx_ir as ir

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import DTYPES, Const, Ints, Tensor, UnknownAtConversion, fixed
from mlconverter.hub.io import numpy_name


def _number(value: Const | Ints | Tensor | None) -> Tensor | float | None:
    """A scalar: as a number where it is known."""
    return value.number() if isinstance(value, Const) else value if value is None or isinstance(value, Tensor) else value[0]


@translates("DFT", 17)
def dft_17(g: Builder, x: Tensor, length: Ints | Tensor | None = None, *, axis: int, inverse: int, onesided: int) -> Tensor:
    """DFT of opset 17 → torch.fft.fft, ifft, rfft or irfft along an attribute."""
    return g.call(runtime.dft, _parts(x, inverse, onesided), _number(length), axis, bool(inverse), bool(onesided))


@translates("DFT", 20)
def dft(
    g: Builder, x: Tensor, length: Ints | Tensor | None = None, axis: Ints | Tensor | None = None, *, inverse: int, onesided: int
) -> Tensor:
    """DFT → torch.fft.fft, ifft, rfft or irfft."""
    along = -2 if axis is None else _number(axis)
    return g.call(runtime.dft, _parts(x, inverse, onesided), _number(length), along, bool(inverse), bool(onesided))


def _parts(x: Tensor, inverse: int, onesided: int) -> Tensor:
    """The signal itself, if what is asked of it is defined."""
    if onesided and not inverse and fixed(x, -1) != 1:
        raise UnknownAtConversion("one side of a spectrum says everything for signals alone that are known to be real")
    return x


@translates("STFT", 17)
def stft(
    g: Builder,
    x: Tensor,
    step: Ints | Tensor,
    window: Tensor | None = None,
    length: Ints | Tensor | None = None,
    *,
    onesided: int,
) -> Tensor:
    """STFT → torch.fft.rfft or fft of x.unfold, times the window."""
    return g.call(runtime.stft, _parts(x, False, onesided), _number(step), window, _number(length), bool(onesided))


@translates("MelWeightMatrix", 17)
def mel_weight_matrix(
    g: Builder,
    bands: Ints | Tensor,
    length: Ints | Tensor,
    rate: Ints | Tensor,
    low: Const | Tensor,
    high: Const | Tensor,
    *,
    output_datatype: int,
) -> Tensor:
    """MelWeightMatrix → torch.where over the two slopes of each triangle."""
    numbers = [_number(value) for value in (bands, length, rate, low, high)]
    name = numpy_name(ir.DataType(output_datatype))
    return g.call(runtime.mel_weight_matrix, *numbers, DTYPES[name], g.device)
