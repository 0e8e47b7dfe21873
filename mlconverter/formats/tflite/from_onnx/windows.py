"""How windows step over an image, and which paddings of ONNX are a padding of TFLite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused
from mlconverter.formats.tflite.from_onnx.values import Wire

SAME, VALID = 0, 1
"""Numbers of TFLite's paddings."""


@dataclass(frozen=True)
class Window:
    """Windows over the spatial axes of an image.

    Attributes:
        sizes: of the image, ``None`` where only the run time knows.
        kernel: lengths of the window.
        begins: padding before the image.
        ends: padding behind it; what ``ceil_mode`` adds is included.
        upper: the padding is what ``SAME_UPPER`` says, for sizes that only the run time knows.
    """

    sizes: tuple[int | None, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    upper: bool = False

    @property
    def extents(self) -> tuple[int, ...]:
        """Lengths of the window from its first to its last element."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def same(self) -> bool:
        """Whether TFLite's SAME pads exactly so."""
        if self.upper:
            return True
        pads = zip(self.sizes, self.extents, self.strides, self.begins, self.ends, strict=True)
        # With strides longer than the window LiteRT's SAME is not to be trusted, and nothing needs it.
        return all(s <= k and same_pads(n, k, s) == (b, e) for n, k, s, b, e in pads)

    @property
    def padded(self) -> bool:
        """Whether there is any padding."""
        return self.upper or any(self.begins) or any(self.ends)

    def lifted(self) -> Window:
        """The same windows over one more spatial axis, the first, of size 1."""
        ones = {name: (1, *getattr(self, name)) for name in ("sizes", "kernel", "strides", "dilations")}
        return Window(**ones, begins=(0, *self.begins), ends=(0, *self.ends), upper=self.upper)


def same_pads(size: int | None, extent: int, stride: int) -> tuple[int, int] | None:
    """What TFLite's SAME pads before and behind; ``None`` where that depends on a size that is not known."""
    if stride == 1:
        total = extent - 1
    elif size is None:
        return None
    else:
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return total // 2, total - total // 2


def window_of(
    sizes: Sequence[int | None],
    kernel: Sequence[int],
    *,
    auto_pad: str = "NOTSET",
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    ceil_mode: int = 0,
) -> Window:
    """The windows that a node's attributes describe.

    Raises:
        Refused: the padding depends on sizes that only the run time knows.
    """
    rank = len(kernel)
    stride, dilation = tuple(strides or [1] * rank), tuple(dilations or [1] * rank)
    given = list(pads or [0] * (2 * rank)) if auto_pad == "NOTSET" else [0] * (2 * rank)
    window = Window(tuple(sizes), tuple(kernel), stride, dilation, tuple(given[:rank]), tuple(given[rank:]))
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        if any(n is not None and (-(-n // s) - 1) * s + k < n for n, k, s in zip(sizes, window.extents, stride, strict=True)):
            raise Refused(f"auto_pad={auto_pad} with windows that do not reach the ends, of which the specification says nothing")
        found = [same_pads(n, k, s) for n, k, s in zip(sizes, window.extents, stride, strict=True)]
        both = [pair for pair in found if pair is not None]
        if len(both) == rank:
            small, large = tuple(a for a, _ in both), tuple(b for _, b in both)
            begins, ends = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
            return Window(tuple(sizes), tuple(kernel), stride, dilation, begins, ends)
        if auto_pad == "SAME_LOWER" or any(s > k for s, k in zip(stride, window.extents, strict=True)):
            raise Refused(f"auto_pad={auto_pad} with strides over an image of a size that only the run time knows")
        return Window(tuple(sizes), tuple(kernel), stride, dilation, (0,) * rank, (0,) * rank, upper=True)
    return _with_ceiling(window) if ceil_mode else window


def _with_ceiling(window: Window) -> Window:
    """Padding behind the image so that windows which reach beyond it count, but none that begins beyond it."""
    ends = []
    zipped = zip(window.sizes, window.extents, window.strides, window.begins, window.ends, strict=True)
    for size, extent, stride, begin, end in zipped:
        if stride == 1:
            ends.append(end)
        elif size is not None:
            count = -(-(size + begin + end - extent) // stride) + 1
            if (count - 1) * stride >= size + begin:
                count -= 1
            ends.append(max((count - 1) * stride + extent - size - begin, 0))
        elif end + stride <= extent:
            ends.append(end + stride - 1)
        else:
            raise Refused("ceil_mode=1 over an image of a size that only the run time knows")
    return Window(window.sizes, window.kernel, window.strides, window.dilations, window.begins, tuple(ends))


def padded(b: Builder, image: Wire, begins: Sequence[int], ends: Sequence[int], filler: float = 0) -> Wire:
    """A channels-last image with its spatial axes padded, or cut off where the padding is negative."""
    if min((*begins, *ends)) < 0:
        image = cut(b, image, [max(-p, 0) for p in begins], [max(-p, 0) for p in ends])
        begins, ends = [max(p, 0) for p in begins], [max(p, 0) for p in ends]
    if not any((*begins, *ends)):
        return image
    pairs = [(0, 0), *zip(begins, ends, strict=True), (0, 0)]
    dims = tuple(None if d is None else d + p + q for d, (p, q) in zip(image.dims, pairs, strict=True))
    amounts = b.array(np.array(pairs, np.int32))
    if filler == 0:
        return b.emit("PAD", image, amounts, dims=dims)
    return b.emit("PADV2", image, amounts, b.scalar(filler, image.dtype), dims=dims)


def cut(b: Builder, image: Wire, begins: Sequence[int], ends: Sequence[int]) -> Wire:
    """A channels-last image without the first and the last positions of its spatial axes."""
    if not any((*begins, *ends)):
        return image
    starts, stops = [0, *begins, 0], [0, *(-e for e in ends), 0]
    dims = tuple(None if d is None else d - p + q for d, p, q in zip(image.dims, starts, stops, strict=True))
    every = sum(1 << i for i, stop in enumerate(stops) if stop == 0)
    ones = b.ints([1] * image.rank)
    return b.emit("STRIDED_SLICE", image, b.ints(starts), b.ints(stops), ones, dims=dims, endMask=every)
