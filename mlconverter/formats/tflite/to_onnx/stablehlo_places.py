"""StableHLO's gathers and scatters of windows, slices at computed places, and sorting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mlconverter.formats.tflite.layout import logical
from mlconverter.formats.tflite.to_onnx.bodies import SECOND, listed, meaning, of_dtype, sayable
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.dtypes import with_kernel
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_dtype, translates
from mlconverter.formats.tflite.to_onnx.places import clamped, grid, known_part, updated

_REDUCTIONS = {"add": "add", "mul": "mul", "max": "max", "min": "min", SECOND: "none"}
GREATER, LESS = 3, 5
"""``StablehloComparisonDirection`` in the schema."""


def _starts(b: Builder, starts: Sequence[Operand]) -> ir.Value:
    """Scalars as one vector of int64."""
    return b.emit("Concat", *(b.emit("Reshape", b.cast(b.ask(s), "int64"), b.ints([1])) for s in starts), axis=0)


def _known_slice(op: Op) -> str | None:
    sizes = listed(op.options.sliceSizes)
    if any(size is None for size, length in zip(op.dims(op.tensor(0)), sizes, strict=True)):
        return "the sizes that it cuts from are only known at run time"
    return None


@translates("STABLEHLO_DYNAMIC_SLICE", 1, check=_known_slice)
def stablehlo_dynamic_slice(b: Builder, op: Op, x: Operand, *starts: Operand) -> Stored:
    """STABLEHLO_DYNAMIC_SLICE → Slice from starts that keep it inside."""
    sizes = listed(op.options.sliceSizes)
    room = [(size or 0) - length for size, length in zip(x.dims, sizes, strict=True)]
    first = clamped(b, _starts(b, starts), room)
    return Stored(b.emit("Slice", b.ask(x), first, b.emit("Add", first, b.ints(sizes))), logical(x.rank))


@translates("STABLEHLO_DYNAMIC_UPDATE_SLICE", 1, check=known_part)
def stablehlo_dynamic_update_slice(b: Builder, op: Op, x: Operand, update: Operand, *starts: Operand) -> Stored:
    """STABLEHLO_DYNAMIC_UPDATE_SLICE → ScatterND of the part at a start that keeps it inside."""
    return updated(b, x, update, _starts(b, starts))


@dataclass(frozen=True)
class _Windows:
    """Windows of an operand whose places are computed, as gathers and scatters describe them.

    Attributes:
        sizes: size of a window along each axis of the operand, ``None`` where a scatter fills an axis of free size.
        named: for each number of a place, the axis that it is a position on.
        dropped: axes that a window does not have, where it is of size 1.
        kept: axes of the windows in the result of a gather, or in the updates of a scatter.
        vector: axis of the places along which the numbers of one place stand; behind the last where each has one only.
    """

    sizes: Sequence[int | None]
    named: Sequence[int]
    dropped: Sequence[int]
    kept: Sequence[int]
    vector: int

    def places(self, b: Builder, places: Operand, axes: Sequence[int]) -> ir.Value:
        """The places as (…, one number for each of these axes), zero for an axis that they do not name."""
        if self.vector == places.rank:
            value = b.emit("Unsqueeze", b.ask(places), b.ints([places.rank]))
        else:
            value = b.ask(places, (*(a for a in range(places.rank) if a != self.vector), self.vector))
        value = b.cast(value, "int64")
        if set(axes) <= set(self.named):
            return b.emit("Gather", value, b.ints(self.named.index(axis) for axis in axes), axis=-1)
        last = len(self.named)
        widths = b.ints([*[0] * (2 * self.batches(places) + 1), 1])
        value = b.emit("Pad", value, widths)
        picks = [self.named.index(axis) if axis in self.named else last for axis in axes]
        return b.emit("Gather", value, b.ints(picks), axis=-1)

    def batches(self, places: Operand) -> int:
        """Number of axes along which there are several places."""
        return places.rank - (self.vector != places.rank)

    def spread(self, b: Builder, value: ir.Value, batches: int, axes: Sequence[int]) -> ir.Value:
        """Places of windows along these axes, as places of each element of theirs: (…, window, number)."""
        lengths = [self.sizes[axis] or 0 for axis in axes]
        value = b.emit("Unsqueeze", value, b.ints(range(batches, batches + len(axes))))
        return value if set(lengths) == {1} else b.emit("Add", value, b.array(grid(lengths)))

    def order(self, places: Operand, axes: Sequence[int]) -> tuple[int, ...]:
        """The logical axes of (batches, window axes in this order), those left out that windows do not have."""
        kept = dict(zip((a for a in range(len(self.sizes)) if a not in self.dropped), self.kept, strict=True))
        rank = self.batches(places) + len(self.kept)
        return (*(a for a in range(rank) if a not in self.kept), *(kept[a] for a in axes if a not in self.dropped))


def _gathered(op: Op) -> _Windows:
    options = op.options
    named, dropped = listed(options.startIndexMap), listed(options.collapsedSliceDims)
    return _Windows(listed(options.sliceSizes), named, dropped, listed(options.offsetDims), options.indexVectorDim)


def _known_gather(op: Op) -> str | None:
    return "a size that it takes a part of is only known at run time" if None in op.dims(op.tensor(0)) else None


@translates("STABLEHLO_GATHER", 1, check=_known_gather)
def stablehlo_gather(b: Builder, op: Op, x: Operand, places: Operand) -> Stored:
    """STABLEHLO_GATHER → GatherND of whole windows, at places that keep them inside."""
    windows, batches = _gathered(op), _gathered(op).batches(places)
    moving = [axis for axis in windows.named if windows.sizes[axis] != x.dims[axis]]
    order = (*moving, *(axis for axis in range(x.rank) if axis not in moving))
    value = b.ask(x, order)
    cut = [axis for axis in order if axis not in windows.named and windows.sizes[axis] != x.dims[axis]]
    if cut:
        ends = b.ints(windows.sizes[axis] or 0 for axis in cut)
        value = b.emit("Slice", value, b.ints([0] * len(cut)), ends, b.ints(order.index(axis) for axis in cut))
    if not moving:
        shape = b.emit("Concat", b.emit("Shape", windows.places(b, places, []), end=batches), b.emit("Shape", value), axis=0)
        value = b.emit("Expand", value, shape)
    else:
        room = [(x.dims[axis] or 0) - (windows.sizes[axis] or 0) for axis in moving]
        first = clamped(b, windows.places(b, places, moving), room)
        value = b.emit("GatherND", value, windows.spread(b, first, batches, moving))
    dropped = [batches + order.index(axis) for axis in windows.dropped]
    if dropped:
        value = b.emit("Squeeze", value, b.ints(sorted(dropped)))
    return Stored(value, windows.order(places, order))


def _scattered(op: Op) -> _Windows:
    options, updates = op.options, op.dims(op.tensor(2))
    kept, dropped = listed(options.updateWindowDims), listed(options.insertedWindowDims)
    rest = iter(kept)
    sizes = [1 if axis in dropped else updates[next(rest)] for axis in range(op.tensor(0).rank)]
    return _Windows(sizes, listed(options.scatterDimsToOperandDims), dropped, kept, options.indexVectorDim)


def _known_scatter(op: Op) -> str | None:
    windows, dims = _scattered(op), op.dims(op.tensor(0))
    if not windows.named:
        return "places that name no axis"
    if any((size is None) != (length is None) for size, length in zip(dims, windows.sizes, strict=True)):
        return "the size of its windows is only known at run time"
    if any(dims[axis] is None for axis in windows.named):
        return "a size that its places count along is only known at run time"
    return None


def _known_body(op: Op) -> str | None:
    kind, dtype = meaning(op, op.options.updateComputationSubgraphIndex), op.tensor(0).dtype
    if len(op.outputs) != 1:
        return "several values that are scattered together"
    if kind == SECOND:
        return None
    missing = f"{kind} of {dtype}, for which ONNX Runtime has no such kernel" if dtype in ("bool", "float16") else None
    return sayable(kind, dtype) or missing


@translates("STABLEHLO_SCATTER", 1, check=all_of(_known_body, _known_scatter))
def stablehlo_scatter(b: Builder, op: Op, x: Operand, places: Operand, updates: Operand) -> Stored:
    """STABLEHLO_SCATTER → ScatterND of whole windows; what lies outside meets behind the end and is cut off."""
    windows, batches = _scattered(op), _scattered(op).batches(places)
    moving = [axis for axis in range(x.rank) if axis in windows.named or windows.sizes[axis] != x.dims[axis]]
    order = (*moving, *(axis for axis in range(x.rank) if axis not in moving))
    kind = meaning(op, op.options.updateComputationSubgraphIndex)
    assert kind is not None
    reduction = _REDUCTIONS[of_dtype(kind, x.dtype)]
    value = b.ask(x, order)
    new = b.ask(updates, windows.order(places, order))
    dropped = sorted(batches + order.index(axis) for axis in windows.dropped)
    if dropped:
        new = b.emit("Unsqueeze", new, b.ints(dropped))
    at = windows.spread(b, windows.places(b, places, moving), batches, moving)
    limits = b.ints(x.dims[axis] or 0 for axis in moving)
    inside = b.emit("And", b.emit("GreaterOrEqual", at, b.ints([0])), b.emit("Less", at, limits))
    inside = b.emit("ReduceMin", b.cast(inside, "int32"), b.ints([-1]), keepdims=1)
    beyond = b.ints([x.dims[moving[0]] or 0, *[0] * (len(moving) - 1)])
    at = b.emit("Where", b.cast(inside, "bool"), at, beyond)
    room = b.ints([*[0] * x.rank, 1, *[0] * (x.rank - 1)])
    value = with_kernel(b, "Pad", x.dtype, lambda v: b.emit("Pad", v, room), value)
    value = b.emit("ScatterND", value, at, new, reduction=reduction)
    return Stored(b.emit("Slice", value, b.ints([0]), b.ints([x.dims[moving[0]] or 0]), b.ints([0])), order)


def _one_comparison(op: Op) -> str | None:
    graph = op.model.subgraphs[op.options.comparatorSubgraphIndex]
    inner = graph.operators[0] if len(graph.operators) == 1 else None
    if inner is None or inner.outputs != graph.outputs or inner.inputs[:2] not in (graph.inputs[:2], graph.inputs[1::-1]):
        return "a comparator that is not a single comparison of the first values"
    if _direction(op) is None:
        return "a comparator that is neither less nor greater"
    return None


def _direction(op: Op) -> int | None:
    """1 where the comparator puts large values first, 0 where small ones, ``None`` where it is another."""
    graph = op.model.subgraphs[op.options.comparatorSubgraphIndex]
    inner = graph.operators[0]
    if inner.op == "STABLEHLO_COMPARE":
        named = {GREATER: 1, LESS: 0}.get(inner.options.comparisonDirection)
    else:
        named = {"GREATER": 1, "LESS": 0}.get(inner.op)
    return named if named is None or inner.inputs[:2] == graph.inputs[:2] else 1 - named


@translates("STABLEHLO_SORT", 1, check=all_of(needs_dtype("float32", "float64", "int32", "int64"), _one_comparison))
def stablehlo_sort(b: Builder, op: Op, key: Operand, *others: Operand) -> list[Stored]:
    """STABLEHLO_SORT → TopK of all values; what is sorted along with them is taken by GatherElements."""
    order, (value, *rest) = b.together(key, *others)
    position = order.index(op.options.dimension % key.rank)
    count = b.emit("Shape", value, start=position, end=position + 1)
    values, indices = b.emit_several("TopK", 2, value, count, axis=position, largest=_direction(op))
    return [Stored(values, order), *(Stored(b.emit("GatherElements", v, indices, axis=position), order) for v in rest)]
