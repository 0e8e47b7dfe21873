"""StableHLO's products: convolutions with axes in any order, and sums over any axes of two operands."""

from __future__ import annotations

from string import ascii_lowercase

import onnx_ir as ir

from mlconverter.formats.tflite.layout import logical
from mlconverter.formats.tflite.to_onnx.bodies import listed
from mlconverter.formats.tflite.to_onnx.builder import INT64_MAX, Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_float, translates
from mlconverter.formats.tflite.to_onnx.reduce_window import Margins, with_room
from mlconverter.formats.tflite.to_onnx.slicing import INT64_MIN


def _sayable_convolution(op: Op) -> str | None:
    options = op.options
    if options.batchGroupCount > 1:
        return "groups of the batch"
    image, filters = op.dims(op.tensor(0)), op.dims(op.tensor(1))
    spread = [d > 1 for d in listed(options.lhsDilation)]
    if any(wide and image[a] is None for wide, a in zip(spread, listed(options.inputSpatialDimensions), strict=False)):
        return "the size of an axis that it spreads is only known at run time"
    return "the size of its filters is only known at run time" if None in filters else None


@translates("STABLEHLO_CONVOLUTION", 1, check=all_of(needs_float, _sayable_convolution))
def stablehlo_convolution(b: Builder, op: Op, image: Operand, filters: Operand) -> Stored:
    """STABLEHLO_CONVOLUTION → Conv; elements that are spread get zeros in between, filters may be turned around."""
    options = op.options
    spatial, kernel_axes = listed(options.inputSpatialDimensions), listed(options.kernelSpatialDimensions)
    ones = [1] * len(spatial)
    order = (options.inputBatchDimension, options.inputFeatureDimension, *spatial)
    value = _spread(
        b, Stored(b.ask(image, order), order), image, dict(zip(spatial, listed(options.lhsDilation, ones), strict=True))
    )
    edges = listed(options.padding, [0, 0] * len(spatial))
    begins, ends = edges[::2], edges[1::2]
    if min(edges, default=0) < 0:
        value = b.emit("Pad", value, b.ints([0, 0, *begins, 0, 0, *ends]))
        begins = ends = [0] * len(spatial)
    weights = b.ask(
        filters, (options.kernelOutputFeatureDimension, options.kernelInputFeatureDimension, *kernel_axes), weight=True
    )
    turned = [2 + i for i, turn in enumerate(listed(options.windowReversal)) if turn]
    if turned:
        count = len(turned)
        bounds = (b.ints([INT64_MAX] * count), b.ints([INT64_MIN] * count), b.ints(turned), b.ints([-1] * count))
        weights = b.emit("Slice", weights, *bounds)
    value = b.emit(
        "Conv",
        value,
        weights,
        kernel_shape=[filters.dims[axis] for axis in kernel_axes],
        strides=listed(options.windowStrides, ones),
        dilations=listed(options.rhsDilation, ones),
        group=max(options.featureGroupCount, 1),
        pads=[*begins, *ends],
    )
    return Stored(value, (options.outputBatchDimension, options.outputFeatureDimension, *listed(options.outputSpatialDimensions)))


def _spread(b: Builder, stored: Stored, image: Operand, dilations: dict[int, int]) -> ir.Value:
    """The image with zeros between its elements."""
    wide = {axis: Margins(between=dilation - 1) for axis, dilation in dilations.items() if dilation > 1}
    if not wide:
        return stored.value
    value = with_room(b, stored, list(wide), b.scalar(0, image.dtype), image.dtype)
    for axis, margins in wide.items():
        value = b.emit("Gather", value, b.ints(margins.places(image.dims[axis] or 0)), axis=stored.order.index(axis))
    return value


def _summable(op: Op) -> str | None:
    dtype = op.outputs[0].dtype
    return None if dtype in ("float32", "float64", "int32", "int64") else f"sums of {dtype}, for which ONNX Runtime has no kernel"


@translates("STABLEHLO_DOT_GENERAL", 1, check=_summable)
def stablehlo_dot_general(b: Builder, op: Op, x: Operand, y: Operand) -> Stored:
    """STABLEHLO_DOT_GENERAL → Einsum."""
    options = op.options
    letters = iter(ascii_lowercase)
    left, right = [next(letters) for _ in range(x.rank)], [next(letters) for _ in range(y.rank)]
    batches = list(zip(listed(options.lhsBatchingDimensions), listed(options.rhsBatchingDimensions), strict=True))
    summed = list(zip(listed(options.lhsContractingDimensions), listed(options.rhsContractingDimensions), strict=True))
    for ours, theirs in (*batches, *summed):
        right[theirs] = left[ours]
    shared = [left[ours] for ours, _ in (*batches, *summed)]
    result = [*(left[ours] for ours, _ in batches), *(letter for letter in (*left, *right) if letter not in shared)]
    dtype = op.outputs[0].dtype
    operands = [b.ask(o, weight=True) if o.dtype == dtype else b.cast(b.ask(o), dtype) for o in (x, y)]
    value = b.emit("Einsum", *operands, equation=f"{''.join(left)},{''.join(right)}->{''.join(result)}")
    return Stored(value, logical(len(result)))
