"""Convolutions: ``nn.ConvNd`` and ``nn.ConvTransposeNd`` where the filter is a weight, the functional forms elsewhere."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from mlconverter.formats.torch.from_onnx import runtime
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import Const, Tensor, UnknownAtConversion, fixed

CONVOLUTIONS: dict[int, Any] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED: dict[int, Any] = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
CONVOLVE: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
CONVOLVE_TRANSPOSED: dict[int, Any] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def spatial_pads(pads: list[int] | None, rank: int) -> tuple[list[int], list[int]]:
    """ONNX pads as their begins and ends, one for each spatial axis."""
    pads = pads or [0] * (2 * rank)
    return list(pads[:rank]), list(pads[rank:])


def torch_pads(begins: list[int], ends: list[int]) -> list[int]:
    """Begins and ends in the order of ``F.pad``: last axis first."""
    return [p for pair in reversed(list(zip(begins, ends, strict=True))) for p in pair]


def _spatial_rank(weight: Const | Tensor) -> int:
    rank = (weight.value.ndim if isinstance(weight, Const) else weight.ndim) - 2
    if rank not in CONVOLUTIONS:
        raise UnknownAtConversion(f"a convolution over {rank} spatial axes has no counterpart in torch")
    return rank


def _shape(weight: Const | Tensor) -> tuple[int, ...]:
    shape = weight.value.shape if isinstance(weight, Const) else [fixed(weight, a) for a in range(weight.ndim)]
    sizes = tuple(s for s in shape if s is not None)
    if len(sizes) != len(shape):
        raise UnknownAtConversion("the size of a filter that is computed at run time is not known")
    return sizes


@translates("Conv", 1, 11, 22)
def conv(
    g: Builder,
    x: Tensor,
    weight: Const | Tensor,
    bias: Const | Tensor | None = None,
    *,
    group: int,
    auto_pad: str,
    kernel_shape: list[int] | None = None,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
) -> Any:
    """Conv → nn.Conv1d, nn.Conv2d or nn.Conv3d; F.conv where the filter is computed."""
    rank, shape = _spatial_rank(weight), _shape(weight)
    stride, dilation = tuple(strides or [1] * rank), tuple(dilations or [1] * rank)
    begins, ends = spatial_pads(None if auto_pad == "VALID" else pads, rank)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        x = g.call(runtime.pad_same, x, shape[2:], stride, dilation, auto_pad == "SAME_UPPER", 0.0)
        begins, ends = spatial_pads(None, rank)
    elif begins != ends or min(begins, default=0) < 0:
        x = F.pad(x, torch_pads(begins, ends))  # torch pads both ends of an axis alike
        begins = [0] * rank
    if isinstance(weight, Const) and not isinstance(bias, Tensor):
        with torch.device("meta"):
            layer = CONVOLUTIONS[rank](
                shape[1] * group, shape[0], shape[2:], stride, tuple(begins), dilation, group, bias=bias is not None
            )
        return g.layer(layer, x, weight=weight, bias=bias)
    convolve = CONVOLVE[rank]
    return convolve(x, g.tensor(weight), bias if bias is None else g.tensor(bias), stride, tuple(begins), dilation, group)


@translates("ConvTranspose", 1, 11, 22)
def conv_transpose(
    g: Builder,
    x: Tensor,
    weight: Const | Tensor,
    bias: Const | Tensor | None = None,
    *,
    group: int,
    auto_pad: str,
    kernel_shape: list[int] | None = None,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    output_padding: list[int] | None = None,
    output_shape: list[int] | None = None,
) -> Tensor:
    """ConvTranspose → nn.ConvTranspose1d, 2d or 3d; F.conv_transpose where the filter is computed."""
    rank, shape = _spatial_rank(weight), _shape(weight)
    stride, dilation = tuple(strides or [1] * rank), tuple(dilations or [1] * rank)
    extra = list(output_padding or [0] * rank)
    begins, ends = spatial_pads(None if auto_pad == "VALID" else pads, rank)
    if output_shape or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        sizes = [fixed(x, axis + 2) for axis in range(rank)]
        if output_shape and None in sizes:
            parts = (x, g.tensor(weight), None if bias is None else g.tensor(bias), output_shape[-rank:])
            return g.call(runtime.conv_transpose_to, *parts, stride, dilation, extra, group, auto_pad == "SAME_UPPER")
        # What the kernel reaches beyond the wanted size, stride × input elements by default, is cut off.
        beyond = [(k - 1) * d + 1 + e - s for k, d, e, s in zip(shape[2:], dilation, extra, stride, strict=True)]
        if output_shape:
            wanted = output_shape[-rank:]
            beyond = [b + s * (n or 0) - w for b, s, n, w in zip(beyond, stride, sizes, wanted, strict=True)]
        extra = [e - min(b, 0) for e, b in zip(extra, beyond, strict=True)]
        begins, ends = runtime.halves(beyond, auto_pad == "SAME_UPPER")
    if not all(e < max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise UnknownAtConversion("output_padding of a stride or more has no counterpart in torch")
    if min([*begins, *ends], default=0) < 0:
        raise UnknownAtConversion("negative pads of a transposed convolution")
    # Torch cuts the same number off both ends; the rest is cut off afterwards.
    fits = begins == ends
    padding, output_pad = tuple(begins) if fits else (0,) * rank, tuple(extra)
    if isinstance(weight, Const) and not isinstance(bias, Tensor):
        with torch.device("meta"):
            layer = TRANSPOSED[rank](
                shape[0], shape[1] * group, shape[2:], stride, padding, output_pad, group, bias is not None, dilation
            )
        y = g.layer(layer, x, weight=weight, bias=bias)
    else:
        bias = bias if bias is None else g.tensor(bias)
        y = CONVOLVE_TRANSPOSED[rank](x, g.tensor(weight), bias, stride, padding, output_pad, group, dilation)
    if fits:
        return y
    return F.pad(y, torch_pads([-b for b in begins], [-e for e in ends]))
