"""Settings that are tensors: axes and bounds that the model computes while it runs."""

from __future__ import annotations

from mlconverter.formats.tflite.from_onnx.builder import FAR, Builder
from mlconverter.formats.tflite.from_onnx.ops import Refused
from mlconverter.formats.tflite.from_onnx.values import Ints, Runtime, Stored, Wire
from mlconverter.formats.tflite.layout import logical

Setting = Ints | Runtime | None


def sliced_by_tensors(b: Builder, x: Runtime, starts: Setting, ends: Setting, axes: Setting, steps: Setting) -> Stored:
    """A slice whose bounds are spread over all axes: what is not sliced goes from 0 to its length."""
    rank = x.rank
    count = _length(starts)
    places = _places(b, axes, rank, count)
    hit = _hit(b, places, rank)
    ones = b.ints([1] * rank)
    begins = _spread(b, places, _wire(b, starts), rank)
    lasts = b.emit("SELECT_V2", hit, _spread(b, places, _wire(b, ends), rank), b.shape(x.sizes), dims=(rank,), dtype="int32")
    strides = ones
    if steps is not None:
        strides = b.emit("SELECT_V2", hit, _spread(b, places, _wire(b, steps), rank), ones, dims=(rank,), dtype="int32")
    return Stored(b.emit("STRIDED_SLICE", b.ask(x), begins, lasts, strides, dims=b.out_dims(rank=rank)), logical(rank))


def squeezed_by_tensor(b: Builder, x: Runtime, axes: Runtime) -> Stored:
    """A reshape to the sizes of the axes that stay."""
    dims = b.out_dims()
    kept = b.emit("LOGICAL_NOT", _hit(b, _places(b, axes, x.rank, _length(axes)), x.rank), dims=(x.rank,))
    places = b.emit("WHERE", kept, dims=(len(dims), 1), dtype="int64")
    shape = b.emit("GATHER_ND", b.shape(x.sizes), places, dims=(len(dims),))
    return Stored(b.emit("RESHAPE", b.ask(x), shape, dims=dims), logical(len(dims)))


def unsqueezed_by_tensor(b: Builder, x: Runtime, axes: Runtime) -> Stored:
    """A reshape to the same sizes with ones between them."""
    count = _length(axes)
    rank = x.rank + count
    hit = _hit(b, _places(b, axes, rank, count), rank)
    others = b.emit("WHERE", b.emit("LOGICAL_NOT", hit, dims=(rank,)), dims=(x.rank, 1), dtype="int64")
    own = _spread(b, b.cast(others, "int32"), b.shape(x.sizes), rank)
    shape = b.emit("SELECT_V2", hit, b.ints([1] * rank), own, dims=(rank,), dtype="int32")
    dims = b.out_dims()
    return Stored(b.emit("RESHAPE", b.ask(x), shape, dims=dims), logical(len(dims)))


def _length(setting: Setting) -> int:
    if not isinstance(setting, Runtime):
        return len(setting or ())
    if setting.rank != 1 or setting.dims[0] is None:
        raise Refused("a number of axes that only the run time knows")
    return setting.dims[0]


def _wire(b: Builder, setting: Setting) -> Wire:
    if isinstance(setting, Runtime):
        return b.setting(setting)
    return b.shape([max(min(s, FAR), -FAR) if isinstance(s, int) else s for s in setting or ()])


def _places(b: Builder, axes: Setting, rank: int, count: int) -> Wire:
    """Axes, counted from the first, as positions in a vector."""
    if axes is None:
        axes = Ints(range(count))
    if not isinstance(axes, Runtime):
        return b.reshape(b.ints(a % rank for a in axes.fixed("an axis")), (count, 1))
    counted = b.emit("FLOOR_MOD", b.setting(axes), b.scalar(rank, "int32"), dims=(count,))
    return b.reshape(counted, (count, 1))


def _hit(b: Builder, places: Wire, rank: int) -> Wire:
    """For each axis whether it is among those."""
    marks = _spread(b, places, b.ints([1] * (places.dims[0] or 0)), rank)
    return b.emit("GREATER", marks, b.scalar(0, "int32"), dims=(rank,), dtype="bool")


def _spread(b: Builder, places: Wire, values: Wire, rank: int) -> Wire:
    return b.emit("SCATTER_ND", places, values, b.ints([rank]), dims=(rank,), dtype="int32")
