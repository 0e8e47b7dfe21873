"""Convolutions. They ask for images channels-last and for filters as TFLite stores them; both are only axis orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.elementwise import kept
from mlconverter.formats.tflite.from_onnx.joining import joined
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.slicing import Part, sliced
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
    """Conv → CONV_2D or DEPTHWISE_CONV_2D, CONV_3D for each group; over one axis as over two."""
    shape = _sizes(filters)
    window = window_of(x.dims[2:], shape[2:], auto_pad=auto_pad, strides=strides, dilations=dilations, pads=pads)
    image, order = b.image(x), channels_last(x.rank)
    terms = b.constant(np.zeros(shape[0], np.float32), "bias") if bias is None else b.ask(bias)
    if x.rank == 5:
        if group == 1:
            return Stored(_conv_3d(b, image, b.ask(filters, DHWIO), terms, window), order)
        images, kernels = _apart(b, x, group, 1), _apart(b, filters, group, 0)
        biases = _apart(b, Constant(np.zeros(shape[0], np.float32)) if bias is None else bias, group, 0)
        made = [
            _conv_3d(b, b.image(i), b.ask(k, DHWIO), b.ask(t), window) for i, k, t in zip(images, kernels, biases, strict=True)
        ]
        return Stored(joined(b, made, 4), order)
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


def _conv_3d(b: Builder, image: Wire, filters: Wire, bias: Wire, window: Window) -> Wire:
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
    """ConvTranspose → TRANSPOSE_CONV, CONV_3D_TRANSPOSE, one for each group; what padding cannot say is cut off afterwards."""
    if x.rank not in (3, 4, 5):
        raise Refused(f"a transposed convolution over {x.rank - 2} spatial axes")
    rank = x.rank - 2
    kernel = _dilated(filters, dilations or [1] * rank)
    steps, extra = list(strides or [1] * rank), list(output_padding or [0] * rank)
    given = list(pads or [0] * (2 * rank)) if auto_pad == "NOTSET" else [0] * (2 * rank)
    spread = Spread([d or 0 for d in _sizes(kernel)[2:]], steps, extra, given[:rank], given[rank:])
    if output_shape or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        spread = spread.cut_to(x.dims[2:], output_shape, upper=auto_pad == "SAME_UPPER")
    if group == 1:
        return Stored(_conv_transpose(b, x, kernel, bias, spread), channels_last(x.rank))
    images, kernels = _apart(b, x, group, 1), _apart(b, kernel, group, 0)
    biases: Sequence[Operand | None] = [None] * group if bias is None else _apart(b, bias, group, 0)
    made = [_conv_transpose(b, *part, spread) for part in zip(images, kernels, biases, strict=True)]
    return Stored(joined(b, made, x.rank - 1), channels_last(x.rank))


def _apart(b: Builder, value: Operand, group: int, axis: int) -> Sequence[Operand]:
    """The parts of a value that belong to each group."""
    size = value.dims[axis]
    if size is None:
        raise Refused("groups of channels whose number only the run time knows")
    if isinstance(value, Constant):
        return [Constant(v, value.name, value.is_weight) for v in np.split(value.value, group, axis)]
    size //= group
    return [kept(sliced(b, value.first, {axis: Part(g * size, (g + 1) * size, 1, size)})) for g in range(group)]


def _conv_transpose(b: Builder, x: Operand, filters: Operand, bias: Operand | None, spread: Spread) -> Wire:
    """A transposed convolution of channels-last images without groups."""
    rank, channels = x.rank - 2, _sizes(filters)[1]
    terms = b.constant(np.zeros(channels, np.float32), "bias") if bias is None else b.ask(bias)
    image = b.image(x)
    sizes: list[int | Size] = list(x.dims[2:]) if isinstance(x, Constant) else x.sizes[2:]
    batch = x.dims[0] if isinstance(x, Constant) else x.length(0)
    if rank == 1:
        image, kernel = b.expand_dims(image, 1), b.expand_dims(b.ask(filters, (1, 2, 0)), 1)
        sizes, spread = [1, *sizes], spread.lifted()
    else:
        kernel = b.ask(filters, DHWIO if rank == 3 else IHWO)
    full = [(n - 1) * s + k + e for n, s, k, e in zip(sizes, spread.steps, spread.extents, spread.extra, strict=True)]
    wanted = [f - p - q for f, p, q in zip(full, spread.begins, spread.ends, strict=True)]
    zipped = zip(sizes, wanted, spread.extents, spread.steps, spread.begins, strict=True)
    same = rank < 3 and all(_is_same(*axis) for axis in zipped)
    made_shape: list[int | Size] = [batch, *(wanted if same else full), channels]
    options: dict[str, Any] = {f"stride{axis}": s for axis, s in zip("DHW"[-len(sizes) :], spread.steps, strict=True)}
    if rank == 3:
        options |= {f"dilation{axis}Factor": 1 for axis in "DHW"}
    y = b.emit(
        "CONV_3D_TRANSPOSE" if rank == 3 else "TRANSPOSE_CONV",
        b.shape(made_shape),
        kernel,
        image,
        terms,
        dims=known(made_shape),
        padding=SAME if same else VALID,
        **options,
    )
    y = y if same else cut(b, y, spread.begins, spread.ends)
    return b.squeeze(y, [1]) if rank == 1 else y


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


@dataclass(frozen=True)
class Spread:
    """How a transposed convolution spreads its filter over the result.

    Attributes:
        extents: lengths of the filter.
        steps: from one element to the next.
        extra: elements behind what the filter reaches.
        begins: what is cut off before.
        ends: what is cut off behind.
    """

    extents: list[int]
    steps: list[int]
    extra: list[int]
    begins: list[int]
    ends: list[int]

    def lifted(self) -> Spread:
        """The same over one more spatial axis, the first, of size 1."""
        return Spread([1, *self.extents], [1, *self.steps], [0, *self.extra], [0, *self.begins], [0, *self.ends])

    def cut_to(self, sizes: Dims, wanted: list[int] | None, *, upper: bool) -> Spread:
        """The same with so much cut off, or added behind, that a wanted size is left: stride × input elements by default."""
        beyond = [k + e - s for k, e, s in zip(self.extents, self.extra, self.steps, strict=True)]
        if wanted:
            if None in sizes:
                raise Refused("output_shape of an input with free sizes")
            targets = wanted[-len(sizes) :]
            beyond = [b + s * (n or 0) - w for b, s, n, w in zip(beyond, self.steps, sizes, targets, strict=True)]
        elif min(beyond) < 0:
            raise Refused("strides over more than the kernel reaches, with a padding of which the specification says nothing")
        extra = [e + max(-t, 0) for e, t in zip(self.extra, beyond, strict=True)]
        beyond = [max(t, 0) for t in beyond]
        small, large = [t // 2 for t in beyond], [t - t // 2 for t in beyond]
        begins, ends = (small, large) if upper else (large, small)
        return Spread(self.extents, self.steps, extra, begins, ends)


def _is_same(size: int | Size, wanted: int | Size, extent: int, stride: int, begin: int) -> bool:
    """Whether TFLite's SAME cuts off exactly so: as the convolution pads that leads from the output back to the input."""
    if not isinstance(size, int) or not isinstance(wanted, int) or -(-wanted // stride) != size:
        return False
    return begin == max((size - 1) * stride + extent - wanted, 0) // 2 and (size - 1) * stride + extent >= wanted
