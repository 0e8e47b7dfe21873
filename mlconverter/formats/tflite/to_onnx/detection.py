"""The custom operator behind TensorFlow's object detectors, which decodes boxes and selects those that do not overlap."""

from __future__ import annotations

from typing import Any

import flatbuffers.flexbuffers
import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Stored
from mlconverter.formats.tflite.to_onnx.ops import all_of, needs_constant, needs_float, needs_rank, translates

_NEEDED = "max_detections max_classes_per_detection num_classes nms_score_threshold nms_iou_threshold".split()
_SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")


def _options(op: Op) -> dict[str, Any]:
    options: dict[str, Any] = flatbuffers.flexbuffers.Loads(op.operator.custom_options)
    return options


def _readable(op: Op) -> str | None:
    options = _options(op)
    missing = [name for name in (*_NEEDED, *_SCALES) if name not in options]
    if missing:
        return f"options without {', '.join(missing)}"
    if options.get("use_regular_nms"):
        return "a selection for every class by itself (use_regular_nms)"
    if options["max_classes_per_detection"] > options["num_classes"]:
        return "more classes for a detection than there are"
    if op.dims(op.tensor(0))[0] != 1 or op.dims(op.tensor(1))[2] is None:
        return "another batch than 1, or a number of classes that is only known at run time"
    return None if 0 < options["nms_iou_threshold"] <= 1 else f"an overlap of {options['nms_iou_threshold']:g}"


@translates(
    "custom::TFLite_Detection_PostProcess",
    1,
    check=all_of(needs_float, needs_rank(3), needs_rank(3, index=1), needs_constant(anchors=2), _readable),
)
def detection_post_process(b: Builder, op: Op, encodings: Operand, scores: Operand, anchors: Operand) -> list[Stored]:
    """TFLite_Detection_PostProcess → boxes decoded by Exp, Mul and Add, TopK of the classes, NonMaxSuppression, Gather."""
    options = _options(op)
    most, classes = int(options["max_detections"]), int(options["max_classes_per_detection"])
    boxes = _decoded(b, options, b.emit("Squeeze", b.ask(encodings), b.ints([0])), b.ask(anchors))
    background = (op.dims(op.tensor(1))[2] or 0) - int(options["num_classes"])
    of_class = b.emit("Squeeze", b.ask(scores), b.ints([0]))
    if background:
        of_class = b.emit("Slice", of_class, b.ints([background]), b.ints([np.iinfo(np.int64).max]), b.ints([1]))
    best, labels = b.emit_several("TopK", 2, of_class, b.ints([classes]), axis=1, largest=1, sorted=1)
    first = b.emit("Slice", best, b.ints([0]), b.ints([1]), b.ints([1]))
    # What is as high as the least score stays, and ONNX leaves it out.
    least = np.nextafter(np.float32(options["nms_score_threshold"]), np.float32(-np.inf))
    rows = b.emit(
        "NonMaxSuppression",
        b.emit("Unsqueeze", boxes, b.ints([0])),
        b.emit("Unsqueeze", b.emit("Transpose", first, perm=[1, 0]), b.ints([0])),
        b.ints([most]),
        b.array(np.asarray([options["nms_iou_threshold"]], np.float32)),
        b.array(np.asarray([least], np.float32)),
    )
    chosen = b.emit("Gather", rows, b.scalar(2, "int64"), axis=1)

    def filled(values: ir.Value, width: int) -> ir.Value:
        """Rows of what was chosen, one for each class of a detection, and zeros behind them."""
        shape = [most * classes, width] if width > 1 else [most * classes]
        padded = b.emit("Concat", values, b.array(np.zeros(shape, np.float32)), axis=0)
        return b.emit("Unsqueeze", b.emit("Slice", padded, b.ints([0]), b.ints([most * classes])), b.ints([0]))

    picked = b.emit("Gather", boxes, b.emit("Reshape", _repeated(b, chosen, classes), b.ints([-1])), axis=0)
    kinds = b.cast(b.emit("Reshape", b.emit("Gather", labels, chosen, axis=0), b.ints([-1])), "float32")
    values = b.emit("Reshape", b.emit("Gather", best, chosen, axis=0), b.ints([-1]))
    count = b.cast(b.emit("Shape", chosen), "float32")
    return [
        Stored(filled(picked, 4), (0, 1, 2)),
        Stored(filled(kinds, 1), (0, 1)),
        Stored(filled(values, 1), (0, 1)),
        Stored(count, (0,)),
    ]


def _repeated(b: Builder, chosen: ir.Value, times: int) -> ir.Value:
    """Each number as often as a detection has classes."""
    return b.emit("Expand", b.emit("Unsqueeze", chosen, b.ints([1])), b.ints([1, times]))


def _decoded(b: Builder, options: dict[str, Any], encodings: ir.Value, anchors: ir.Value) -> ir.Value:
    """Corners of boxes that are given as centres and sizes in relation to anchors, height before width."""
    scales = np.asarray([options[name] for name in _SCALES], np.float32)

    def part(value: ir.Value, start: int) -> ir.Value:
        return b.emit("Slice", value, b.ints([start]), b.ints([start + 2]), b.ints([1]))

    sizes = part(anchors, 2)
    centres = b.emit("Add", b.emit("Mul", b.emit("Div", part(encodings, 0), b.array(scales[:2])), sizes), part(anchors, 0))
    grown = b.emit("Exp", b.emit("Div", part(encodings, 2), b.array(scales[2:])))
    halves = b.emit("Mul", b.emit("Mul", grown, sizes), b.scalar(0.5, "float32"))
    return b.emit("Concat", b.emit("Sub", centres, halves), b.emit("Add", centres, halves), axis=1)
