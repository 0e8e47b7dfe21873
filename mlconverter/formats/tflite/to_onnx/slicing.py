"""Taking parts of a value: slices and gathers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.to_onnx.builder import INT64_MAX, Builder
from mlconverter.formats.tflite.to_onnx.dtypes import chosen
from mlconverter.formats.tflite.to_onnx.operands import Dims, Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_constant, translates
from mlconverter.formats.tflite.to_onnx.shapes import unsqueezed

INT64_MIN = int(np.iinfo(np.int64).min)


@dataclass
class Cuts:
    """Slices along logical axes; axes that stay whole are not named, so that they may be of any size."""

    dims: Dims
    axes: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    def add(self, axis: int, start: int, end: int, step: int = 1) -> None:
        """Cut along one axis."""
        size = self.dims[axis]
        if step == 1 and start == 0 and (end == INT64_MAX or (size is not None and end >= size)):
            return
        self.axes.append(axis)
        self.starts.append(start)
        self.ends.append(end)
        self.steps.append(step)

    def emit(self, b: Builder, x: Operand) -> Stored:
        """The operand cut along all axes at once."""
        value, order = b.as_is(x)
        if self.axes:
            places = [order.index(axis) for axis in self.axes]
            value = b.emit("Slice", value, b.ints(self.starts), b.ints(self.ends), b.ints(places), b.ints(self.steps))
        return Stored(value, order)


@translates("SLICE", 1, 2, 3, 4, 5, 6, 7, 8)
def slice_(b: Builder, op: Op, x: Operand, begin: Operand, size: Operand) -> Stored:
    """SLICE → Slice."""
    starts, lengths = op.constant(1), op.constant(2)
    if starts is None or lengths is None:
        first, count = b.cast(b.ask(begin), "int64"), b.cast(b.ask(size), "int64")
        to_the_end = b.emit("Equal", count, b.scalar(-1, "int64"))
        last = b.emit("Where", to_the_end, b.scalar(INT64_MAX, "int64"), b.emit("Add", first, count))
        return Stored(b.emit("Slice", b.ask(x), first, last), layout.logical(x.rank))
    cuts = Cuts(x.dims)
    for axis, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        cuts.add(axis, start, INT64_MAX if length == -1 else start + length)
    return cuts.emit(b, x)


def _known_offset(op: Op) -> str | None:
    if op.options.offset and (op.constant(1) is None or op.constant(2) is None):
        return "offsets that are only known at run time"
    return None


@translates("STRIDED_SLICE", 1, 2, 3, 4, 5, 6, 7, 8, check=all_of(needs_constant(strides=3), _known_offset))
def strided_slice(b: Builder, op: Op, x: Operand, *bounds: Operand) -> Stored:
    """STRIDED_SLICE → Slice, then Squeeze of the axes that are indexed and Unsqueeze of new ones."""
    strides = op.parameter(3).tolist()
    begins, ends = (None if (v := op.constant(i)) is None else v.tolist() for i in (1, 2))
    computed = begins is None or ends is None
    unknown = [0] * len(strides)
    triples = zip(begins or unknown, ends or unknown, strides, strict=True)
    entries = [_Entry(op.options, number, *triple) for number, triple in enumerate(triples)]
    cuts = Cuts(x.dims)
    cut: dict[int, _Entry] = {}
    indexed: list[int] = []
    made: list[int | None] = []
    axis = 0
    for number, entry in enumerate(entries):
        if entry.ellipsis:
            later = sum(not e.new_axis for e in entries[number + 1 :])
            made += range(axis, x.rank - later)
            axis = max(axis, x.rank - later)
        elif entry.new_axis:
            made.append(None)
        else:
            cut[axis] = entry
            if not computed:
                cuts.add(axis, *entry.bounds())
            if entry.index:
                indexed.append(axis)
            else:
                made.append(axis)
            axis += 1
    made += range(axis, x.rank)
    result = _computed_cuts(b, x, *bounds[:2], entries=cut) if computed and cut else cuts.emit(b, x)
    if indexed:
        squeezed = b.emit("Squeeze", result.value, b.ints(layout.positions(result.order, indexed)))
        result = Stored(squeezed, layout.without(result.order, indexed))
    for place, source in enumerate(made):
        if source is None:
            result = unsqueezed(b, result, place)
    return result


def _computed_cuts(b: Builder, x: Operand, begin: Operand, end: Operand, *, entries: dict[int, _Entry]) -> Stored:
    """The operand cut along axes, each by an entry whose bounds are only known at run time."""
    value, order = b.as_is(x)
    numbers = b.ints(entry.number for entry in entries.values())

    def flags(name: str) -> ir.Value:
        return b.array(np.asarray([getattr(entry, name) for entry in entries.values()]))

    given = [b.emit("Gather", b.cast(b.ask(bound), "int64"), numbers) for bound in (begin, end)]
    default = [entry.whole() for entry in entries.values()]
    first = b.emit("Where", flags("from_start"), b.ints(start for start, _ in default), given[0])
    last = b.emit("Where", flags("to_end"), b.ints(stop for _, stop in default), given[1])
    # An index of -1 ends where the axis does, not at 0.
    after = b.emit("Where", b.emit("Equal", first, b.ints([-1])), b.ints([INT64_MAX]), b.emit("Add", first, b.ints([1])))
    last = b.emit("Where", flags("index"), after, last)
    places = b.ints(order.index(axis) for axis in entries)
    steps = b.ints(1 if entry.index else entry.stride for entry in entries.values())
    return Stored(b.emit("Slice", value, first, last, places, steps), order)


class _Entry:
    """One entry of a STRIDED_SLICE, its bits taken from the masks."""

    def __init__(self, options: object, number: int, begin: int, end: int, stride: int) -> None:
        def bit(mask: str) -> bool:
            return bool(getattr(options, mask) >> number & 1)

        self.ellipsis = bit("ellipsisMask")
        self.new_axis = bit("newAxisMask") and not self.ellipsis
        self.index = bit("shrinkAxisMask")
        self.from_start, self.to_end = bit("beginMask"), bit("endMask")
        self.number, self.stride = number, stride
        self._begin = begin
        self._end = begin + end if getattr(options, "offset", False) else end

    def bounds(self) -> tuple[int, int, int]:
        """Start, end and step as ONNX takes them."""
        first, last = self.whole()
        start = first if self.from_start else self._begin
        if self.index:
            return start, INT64_MAX if start == -1 else start + 1, 1
        return start, last if self.to_end else self._end, self.stride

    def whole(self) -> tuple[int, int]:
        """Start and end of the whole axis, in the direction of the stride."""
        return (INT64_MAX, INT64_MIN) if self.stride < 0 and not self.index else (0, INT64_MAX)


@translates("GATHER", 1, 2, 3, 4, 5, 6, 7, 8)
def gather(b: Builder, op: Op, x: Operand, indices: Operand) -> Stored:
    """GATHER → Gather, or GatherND where the first axes are batches."""
    axis = int(op.options.axis) % x.rank
    batches = int(op.options.batchDims)
    batches += indices.rank if batches < 0 else 0
    places = b.ask(indices)
    if indices.dtype not in ("int32", "int64"):
        places = b.cast(places, "int64")
    rank = x.rank + indices.rank - 1 - batches
    if batches:
        places = b.emit("Unsqueeze", b.cast(places, "int64"), b.ints([indices.rank]))
        # The axis stands right behind the batches for GatherND; what it leaves there belongs behind the axes in between.
        between = range(batches, axis)
        value = b.ask(x, (*range(batches), axis, *between, *range(axis + 1, x.rank)))
        made = range(axis, axis + indices.rank - batches)
        order = (*range(batches), *made, *between, *range(axis + len(made), rank))
        return Stored(b.emit("GatherND", value, places, batch_dims=batches), order)
    return Stored(b.emit("Gather", b.ask(x), places, axis=axis), layout.logical(rank))


@translates("GATHER_ND", 1, 2, 3, 4, 5, 6)
def gather_nd(b: Builder, op: Op, x: Operand, indices: Operand) -> Stored:
    """GATHER_ND → GatherND."""
    value = b.emit("GatherND", b.ask(x), b.cast(b.ask(indices), "int64"))
    return Stored(value, layout.logical(len(op.out_dims)))


@translates("REVERSE_V2", 1, 2, 3, 4, check=needs_constant(axes=1))
def reverse(b: Builder, op: Op, x: Operand, axes: Operand) -> Stored:
    """REVERSE_V2 → Slice with step -1."""
    cuts = Cuts(x.dims)
    for axis in op.parameter(1).reshape(-1).tolist():
        cuts.add(axis % x.rank, INT64_MAX, INT64_MIN, -1)
    return cuts.emit(b, x)


@translates("EMBEDDING_LOOKUP", 1, 2, 3, 4, 5)
def embedding_lookup(b: Builder, op: Op, indices: Operand, table: Operand) -> Stored:
    """EMBEDDING_LOOKUP → Gather of rows."""
    return Stored(b.emit("Gather", b.ask(table), b.ask(indices), axis=0), layout.logical(len(op.out_dims)))


@translates("SCATTER_ND", 1)
def scatter_nd(b: Builder, op: Op, indices: Operand, updates: Operand, shape: Operand) -> Stored:
    """SCATTER_ND → ScatterND into zeros; values for the same place are added up."""
    zeros = b.emit("Expand", b.scalar(0, updates.dtype), b.cast(b.ask(shape), "int64"))
    value = b.emit("ScatterND", zeros, b.cast(b.ask(indices), "int64"), b.ask(updates), reduction="add")
    return Stored(value, layout.logical(len(op.out_dims)))


@translates("WHERE", 1, 2)
def where(b: Builder, op: Op, condition: Operand) -> Stored:
    """WHERE → NonZero, one row for each place."""
    value = b.ask(condition)
    found = b.emit("NonZero", value if condition.dtype == "bool" else b.cast(value, "bool"))
    return Stored(b.emit("Transpose", found, perm=[1, 0]), (0, 1))


@translates("REVERSE_SEQUENCE", 1)
def reverse_sequence(b: Builder, op: Op, x: Operand, lengths: Operand) -> Stored:
    """REVERSE_SEQUENCE → ReverseSequence; the operand is asked for with batch and sequence in front."""
    batch, sequence = op.options.batchDim % x.rank, op.options.seqDim % x.rank
    order = (batch, sequence, *(axis for axis in range(x.rank) if axis not in (batch, sequence)))
    value = b.emit("ReverseSequence", b.ask(x, order), b.cast(b.ask(lengths), "int64"), batch_axis=0, time_axis=1)
    return Stored(value, order)


@translates("ONE_HOT", 1)
def one_hot(b: Builder, op: Op, indices: Operand, depth: Operand, on: Operand, off: Operand) -> Stored:
    """ONE_HOT → Where(Equal(indices, 0 … depth - 1)); what is outside is off everywhere."""
    rank = indices.rank + 1
    axis = int(op.options.axis) % rank
    count, spread = op.constant(1), [-1 if a == axis else 1 for a in range(rank)]
    if count is None:
        every = b.emit("Range", b.scalar(0, depth.dtype), b.emit("Squeeze", b.ask(depth)), b.scalar(1, depth.dtype))
        classes = b.emit("Reshape", b.cast(every, indices.dtype), b.ints(spread))
    else:
        classes = b.array(np.arange(int(count.reshape(-1)[0]), dtype=indices.dtype).reshape(spread))
    hot = b.emit("Equal", b.emit("Unsqueeze", b.ask(indices), b.ints([axis])), classes)
    return Stored(chosen(b, hot, b.ask(on), b.ask(off), on.dtype), layout.logical(rank))
