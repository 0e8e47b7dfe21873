"""Custom operators of MediaPipe that pool and put back. LiteRT's XNNPACK has kernels for them, and no others.

Where a window's largest element stood is counted down its columns, in whole numbers whose bits the file calls a float; only
the operator that puts elements back can read that. Images are asked for with the width before the height, so that the first of
equal elements is the same one.
"""

from __future__ import annotations

import struct

from mlconverter.formats.tflite.structure import Operator
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Runtime, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_float, needs_rank, translates

_POOL, _UNPOOL = "MaxPoolingWithArgmax2D", "MaxUnpooling2D"
COLUMNS_FIRST = (0, 3, 2, 1)


def _window(operator: Operator) -> tuple[int, int, int, int]:
    """Strides and sizes of the windows, each width and height: the fields of ``TfLitePoolParams`` behind the padding."""
    _, *fields = struct.unpack_from("<iiiii", operator.custom_options)
    stride_w, stride_h, width, height = fields
    return stride_w, stride_h, width, height


def _side_by_side(op: Op) -> str | None:
    if len(op.operator.custom_options) < 20:
        return f"options of {len(op.operator.custom_options)} bytes that are no TfLitePoolParams"
    stride_w, stride_h, width, height = _window(op.operator)
    if (stride_w, stride_h) != (width, height) or min(width, height) < 1:
        return "windows that do not stand side by side"
    return None


def _whole_windows(op: Op) -> str | None:
    _, _, width, height = _window(op.operator)
    image = op.dims(op.tensor(0))
    if image[1] is None or image[2] is None or image[1] % height or image[2] % width:
        return "an image that is not made of whole windows"
    places = op.operator.outputs[1]
    readers = [o for o in op.subgraph.operators if places in o.inputs]
    if places in op.subgraph.outputs or any(o.op != _UNPOOL for o in readers):
        return "where the elements stood is read by something else than the operator that puts them back"
    return None


@translates(f"custom::{_POOL}", 1, check=all_of(needs_rank(4), needs_float, _side_by_side, _whole_windows))
def max_pooling_with_argmax_2d(b: Builder, op: Op, image: Operand) -> list[Stored | Runtime]:
    """MaxPoolingWithArgmax2D (MediaPipe) → MaxPool with the places of the largest elements."""
    _, _, width, height = _window(op.operator)
    value = b.ask(image, COLUMNS_FIRST)
    largest, places = b.emit_several("MaxPool", 2, value, kernel_shape=[width, height], strides=[width, height])
    second = Runtime(op.outputs[1].name, op.dims(op.outputs[1]), "int64", {COLUMNS_FIRST: places})
    return [Stored(largest, COLUMNS_FIRST), second]


def _pooled(op: Op) -> str | None:
    makers = [o for o in op.subgraph.operators if op.operator.inputs[1] in o.outputs[1:] and o.op == _POOL]
    if not makers or _window(makers[0]) != _window(op.operator):
        return f"places that no {_POOL} with the same windows gives"
    before = op.subgraph.tensors[makers[0].inputs[0]]
    return None if op.out_dims[1:] == op.dims(before)[1:] else "an image of another size than the one that was pooled"


@translates(f"custom::{_UNPOOL}", 1, check=all_of(needs_rank(4), needs_float, _side_by_side, _pooled))
def max_unpooling_2d(b: Builder, op: Op, image: Operand, places: Operand) -> Stored:
    """MaxUnpooling2D (MediaPipe) → MaxUnpool."""
    _, _, width, height = _window(op.operator)
    values = (b.ask(image, COLUMNS_FIRST), b.ask(places, COLUMNS_FIRST))
    return Stored(b.emit("MaxUnpool", *values, kernel_shape=[width, height], strides=[width, height]), COLUMNS_FIRST)
