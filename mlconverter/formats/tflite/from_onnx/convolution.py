"""Convolutions. They ask for images channels-last and for filters as TFLite stores them; both are only axis orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.values import Constant, Dims, Operand, Size, Stored, Wire, known
from mlconverter.formats.tflite.from_onnx.windows import SAME, VALID, Window, cut, padded, window_of
from mlconverter.formats.tflite.layout import channels_last

OHWI = (0, 2, 3, 1)
"""An ONNX filter (out, in, height, width) as CONV_2D has it."""

IHWO = (1, 2, 3, 0)
"""The same as DEPTHWISE_CONV_2D has it; and a filter (in, out, height, width) as TRANSPOSE_CONV has it."""

DHWIO = (2, 3, 4, 1, 0)
"""An ONNX filter (out, in, depth, height, width) as CONV_3D has it."""


@translates("Conv", 1, 11, 22)
def conv(
    b: Builder,
    x: Operand,
    filters: Operand,
    bias: Operand | None = None,
    *,
    group: int,
    auto_pad: str,
    kernel_shape: list[int] | None = None,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
) -> Stored:
    """Conv → CONV_2D or DEPTHWISE_CONV_2D, CONV_3D; over one axis as over two."""
    shape = _sizes(filters)
    window = window_of(x.dims[2:], shape[2:], auto_pad=auto_pad, strides=strides, dilations=dilations, pads=pads)
    image, order = b.image(x), channels_last(x.rank)
    terms = b.constant(np.zeros(shape[0], np.float32), "bias") if bias is None else b.ask(bias)
    if x.rank == 5:
        return Stored(_conv_3d(b, image, b.ask(filters, DHWIO), terms, window, group), order)
    depthwise = shape[1] == 1 and group > 1
    if x.rank == 4:
        kernel = b.ask(filters, IHWO if depthwise else OHWI)
        return Stored(_conv_2d(b, image, kernel, terms, window, depthwise=depthwise), order)
    if x.rank == 3:
        kernel = b.expand_dims(b.ask(filters, (1, 2, 0) if depthwise else (0, 2, 1)), 1)
        lifted = b.expand_dims(image, 1)
        return Stored(b.squeeze(_conv_2d(b, lifted, kernel, terms, window.lifted(), depthwise=depthwise), [1]), order)
    raise Refused(f"a convolution over {x.rank - 2} spatial axes")


def _sizes(filters: Operand) -> tuple[int, ...]:
    sizes = tuple(d for d in filters.dims if d is not None)
    if len(sizes) != filters.rank:
        raise Refused("the size of its filter is only known at run time")
    return sizes


def _conv_2d(b: Builder, image: Wire, filters: Wire, bias: Wire, window: Window, *, depthwise: bool) -> Wire:
    padding, image = _settled(b, image, window)
    channels = filters.dims[3 if depthwise else 0]
    assert channels is not None
    more: dict[str, Any] = {}
    if depthwise:
        inner = image.dims[3]
        if inner is None:
            raise Refused("the number of channels of its input is only known at run time")
        more = {"depthMultiplier": channels // inner}
    return b.emit(
        "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D",
        image,
        filters,
        bias,
        dims=(image.dims[0], *_positions(window, image.dims[1:3], padding), channels),
        version=2 if depthwise and max(window.dilations) > 1 else 1,
        padding=padding,
        strideH=window.strides[0],
        strideW=window.strides[1],
        dilationHFactor=window.dilations[0],
        dilationWFactor=window.dilations[1],
        **more,
    )


def _conv_3d(b: Builder, image: Wire, filters: Wire, bias: Wire, window: Window, group: int) -> Wire:
    if group != 1:
        raise Refused("LiteRT's CONV_3D has no groups")
    padding, image = _settled(b, image, window)
    steps: dict[str, Any] = {f"stride{axis}": s for axis, s in zip("DHW", window.strides, strict=True)}
    steps |= {f"dilation{axis}Factor": d for axis, d in zip("DHW", window.dilations, strict=True)}
    return b.emit(
        "CONV_3D",
        image,
        filters,
        bias,
        dims=(image.dims[0], *_positions(window, image.dims[1:4], padding), filters.dims[4]),
        padding=padding,
        **steps,
    )


def _settled(b: Builder, image: Wire, window: Window) -> tuple[int, Wire]:
    """The padding of the operator, and the image with what it cannot say written out."""
    if window.padded and window.same:
        return SAME, image
    return VALID, padded(b, image, window.begins, window.ends)


def _positions(window: Window, sizes: Dims, padding: int) -> Dims:
    """How many windows there are along each spatial axis of an image that is padded already."""
    return tuple(
        None if n is None else -(-n // s) if padding == SAME else (n - k) // s + 1
        for n, k, s in zip(sizes, window.extents, window.strides, strict=True)
    )


@translates("ConvTranspose", 1, 11, 22)
def conv_transpose(
    b: Builder,
    x: Operand,
    filters: Operand,
    bias: Operand | None = None,
    *,
    group: int,
    auto_pad: str,
    kernel_shape: list[int] | None = None,
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    output_padding: list[int] | None = None,
    output_shape: list[int] | None = None,
) -> Stored:
    """ConvTranspose → TRANSPOSE_CONV; what its padding cannot say is cut off afterwards."""
    if x.rank not in (3, 4):
        raise Refused(f"a transposed convolution over {x.rank - 2} spatial axes")
    if group != 1:
        raise Refused("a transposed convolution in groups")
    rank = x.rank - 2
    shape = _sizes(filters)
    steps, extra = list(strides or [1] * rank), list(output_padding or [0] * rank)
    kernel = _dilated(filters, dilations or [1] * rank)
    extents = [d or 0 for d in kernel.dims[2:]]
    given = list(pads or [0] * (2 * rank)) if auto_pad == "NOTSET" else [0] * (2 * rank)
    begins, ends = given[:rank], given[rank:]
    if output_shape or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        begins, ends = _cut_to(x.dims[2:], extents, steps, extra, output_shape, upper=auto_pad == "SAME_UPPER")
    terms = b.constant(np.zeros(shape[1], np.float32), "bias") if bias is None else b.ask(bias)
    image, order = b.image(x), channels_last(x.rank)
    sizes: list[int | Size] = list(x.sizes[2:]) if not isinstance(x, Constant) else list(x.dims[2:])
    batch = x.dims[0] if isinstance(x, Constant) else x.length(0)
    if rank == 1:
        image, kernel_wire = b.expand_dims(image, 1), b.expand_dims(b.ask(kernel, (1, 2, 0)), 1)
        sizes, steps, extra, extents = [1, *sizes], [1, *steps], [0, *extra], [1, *extents]
        begins, ends = [0, *begins], [0, *ends]
    else:
        kernel_wire = b.ask(kernel, IHWO)
    full = [(n - 1) * s + k + e for n, s, k, e in zip(sizes, steps, extents, extra, strict=True)]
    wanted = [f - p - q for f, p, q in zip(full, begins, ends, strict=True)]
    same = all(_is_same(*axis) for axis in zip(sizes, wanted, extents, steps, begins, strict=True))
    made = wanted if same else full
    made_shape: list[int | Size] = [batch, *made, shape[1]]
    y = b.emit(
        "TRANSPOSE_CONV",
        b.shape(made_shape),
        kernel_wire,
        image,
        terms,
        dims=known(made_shape),
        version=3,
        padding=SAME if same else VALID,
        strideH=steps[0],
        strideW=steps[1],
    )
    if not same:
        y = cut(b, y, begins, ends)
    return Stored(b.squeeze(y, [1]) if rank == 1 else y, order)


def _dilated(filters: Operand, dilations: list[int]) -> Operand:
    """A filter with zeros put between its elements, which a transposed convolution of TFLite cannot say."""
    if set(dilations) == {1}:
        return filters
    if not isinstance(filters, Constant):
        raise Refused("dilations of a filter that is computed")
    value = filters.value
    sizes = [(n - 1) * d + 1 for n, d in zip(value.shape[2:], dilations, strict=True)]
    spread = np.zeros((*value.shape[:2], *sizes), value.dtype)
    spread[(slice(None), slice(None), *(slice(None, None, d) for d in dilations))] = value
    return Constant(spread, filters.name, filters.is_weight)


def _cut_to(
    sizes: Dims, extents: list[int], steps: list[int], extra: list[int], wanted: list[int] | None, *, upper: bool
) -> tuple[list[int], list[int]]:
    """What is cut off so that a wanted size is left: stride × input elements by default."""
    beyond = [k + e - s for k, e, s in zip(extents, extra, steps, strict=True)]
    if wanted:
        if None in sizes:
            raise Refused("output_shape of an input with free sizes")
        targets = wanted[-len(sizes) :]
        beyond = [b + s * (n or 0) - w for b, s, n, w in zip(beyond, steps, sizes, targets, strict=True)]
    if min(beyond) < 0:
        raise Refused("an output that is larger than what the kernel reaches")
    small, large = [t // 2 for t in beyond], [t - t // 2 for t in beyond]
    return (small, large) if upper else (large, small)


def _is_same(size: int | Size, wanted: int | Size, extent: int, stride: int, begin: int) -> bool:
    """Whether TFLite's SAME cuts off exactly so: as the convolution pads that leads from the output back to the input."""
    if not isinstance(size, int) or not isinstance(wanted, int) or -(-wanted // stride) != size:
        return False
    return begin == max((size - 1) * stride + extent - wanted, 0) // 2 and (size - 1) * stride + extent >= wanted
