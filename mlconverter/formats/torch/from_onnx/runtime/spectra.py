"""Fourier transforms of signals whose last axis holds real and imaginary parts, and what is made of their spectra."""

from __future__ import annotations

import math
from typing import Any

import torch

from mlconverter.formats.torch.from_onnx.runtime.shapes import number


def _complex(x: torch.Tensor) -> torch.Tensor:
    """Numbers from a last axis of one or two parts; half precision is widened, in which torch has no transform."""
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    return torch.squeeze(x, -1) if x.shape[-1] == 1 else torch.complex(x[..., 0], x[..., 1])


def dft(
    x: torch.Tensor, length: torch.Tensor | int | None, axis: torch.Tensor | int, inverse: bool, onesided: bool
) -> torch.Tensor:
    """ONNX ``DFT``."""
    along, signal = number(axis) % x.dim(), _complex(x)
    size = None if length is None else number(length)
    if inverse and onesided:
        real: torch.Tensor = torch.fft.irfft(signal, size, along)
        return real.unsqueeze(-1).to(x.dtype)
    transform: Any = torch.fft.ifft if inverse else torch.fft.rfft if onesided else torch.fft.fft
    spectrum: torch.Tensor = transform(signal, size, along).resolve_conj()
    return torch.view_as_real(spectrum).to(x.dtype)


def stft(
    x: torch.Tensor, step: torch.Tensor | int, window: torch.Tensor | None, length: torch.Tensor | int | None, onesided: bool
) -> torch.Tensor:
    """ONNX ``STFT``: the transform of each frame, in (batch, frames, bins, 2)."""
    size = number(length) if length is not None else x.shape[1] if window is None else window.shape[0]
    frames = _complex(x).unfold(1, size, number(step))
    frames = frames if window is None else frames * window.to(frames.real.dtype)
    return torch.view_as_real((torch.fft.rfft if onesided else torch.fft.fft)(frames)).to(x.dtype)


def mel_weight_matrix(
    bands: torch.Tensor | int,
    length: torch.Tensor | int,
    rate: torch.Tensor | int,
    low: torch.Tensor | float,
    high: torch.Tensor | float,
    dtype: torch.dtype,
    device: torch.device | None,
) -> torch.Tensor:
    """ONNX ``MelWeightMatrix``: a triangle over the bins of a spectrum for each band."""
    count, size = number(bands), number(length)
    ends = [v.to(device) if isinstance(v, torch.Tensor) else torch.tensor(v, device=device) for v in (low, high)]
    bottom, top = (2595 * torch.log10(1 + e.reshape(()).double() / 700) for e in ends)
    mel = torch.arange(count + 2, device=device) * ((top - bottom) / (count + 2)) + bottom
    edges = torch.floor((size + 1) * 700 * torch.expm1(mel * (math.log(10) / 2595)) / number(rate))
    bins = torch.arange(size // 2 + 1, device=device).unsqueeze(1)
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    rising = torch.where(middle > left, (bins - left) / (middle - left), 1.0)
    rising = torch.where((bins >= left) & (bins <= middle), rising, 0.0)
    return torch.where((bins >= middle) & (bins < right), (right - bins) / (right - middle), rising).to(dtype)
