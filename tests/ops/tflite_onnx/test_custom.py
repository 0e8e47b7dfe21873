"""Custom operators: those that are known, and how one's own are made known."""

import struct

import numpy as np
import pytest
import torch

from mlconverter import Converter
from mlconverter.errors import UnsupportedOpsError
from mlconverter.formats.tflite.runner import LiteRTRunner
from mlconverter.formats.tflite.to_onnx.convert import convert
from tests.ops.tflite_onnx.cases import weights
from tests.ops.tflite_onnx.files import File
from tests.ops.tflite_onnx.test_operators import onnx_outputs

SAME, VALID = 1, 2


def window(padding: int, width: int, height: int, stride: int = 0) -> bytes:
    """The options of a pooling."""
    return struct.pack("<iiiiiiiiii", padding, stride or width, stride or height, width, height, 0, 0, 0, 0, 0)


def pooled_and_back(size, width, height, *, between=False, batch=1, padding=SAME, stride=0) -> bytes:
    h, w, c = size
    f = File()
    x = f.input((batch, h, w, c), name="x")
    small = (batch, h // height, w // width, c)
    options = window(padding, width, height, stride)
    value, places = f.op(None, [x], ["float32", "float32"], custom="MaxPoolingWithArgmax2D", options=options, shapes=[small] * 2)
    if between:
        value = f.op("PRELU", [value, f.constant(weights(1, 1, c))], shapes=[small])
    options = window(VALID, width, height, stride)
    return f.finish(
        f.op(None, [value, places], custom="MaxUnpooling2D", options=options, shapes=[(batch, h, w, c)]), shapes=False
    )


@pytest.mark.parametrize("size", [(4, 4, 4), (6, 4, 3), (2, 6, 5)])
@pytest.mark.parametrize(("width", "height"), [(2, 2), (2, 1)])
@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_pooling_and_back(size, width, height, between, batch):
    data = pooled_and_back(size, width, height, between=between, batch=batch)
    rng = np.random.default_rng(0)
    hub = convert(data)
    for values in (rng.normal(size=(batch, *size)), rng.integers(0, 3, (batch, *size))):  # the second with many equal ones
        feeds = {"x": values.astype(np.float32)}
        with LiteRTRunner(data) as runner:
            (want,) = runner.run(feeds).values()
        (got,) = onnx_outputs(hub, feeds).values()
        np.testing.assert_allclose(got, want, rtol=1e-6)
        with torch.no_grad():
            module = Converter(data, verify=False).to_torch()
            np.testing.assert_allclose(module(torch.from_numpy(feeds["x"])).numpy(), want, rtol=1e-6)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pooled_and_back((5, 4, 2), 2, 2), "whole windows"),
        (pooled_and_back((4, 4, 2), 2, 2, stride=1), "side by side"),
    ],
)
def test_what_is_refused(data, reason):
    with pytest.raises(UnsupportedOpsError, match=reason):
        convert(data)


def test_places_as_an_output_are_refused():
    f = File()
    outputs = f.op(
        None,
        [f.input((1, 4, 4, 2))],
        ["float32", "float32"],
        custom="MaxPoolingWithArgmax2D",
        options=window(SAME, 2, 2),
        shapes=[(1, 2, 2, 2)] * 2,
    )
    with pytest.raises(UnsupportedOpsError, match="read by something else"):
        convert(f.finish(*outputs, shapes=False))


def test_an_operator_of_ones_own():
    """As CONTRIBUTING says it."""
    from mlconverter.formats.tflite.to_onnx.operands import Stored
    from mlconverter.formats.tflite.to_onnx.ops import translates

    @translates("custom::TestScale", 1)
    def scale(b, op, x):
        """TestScale → Mul."""
        value, order = b.as_is(x)
        (factor,) = struct.unpack("<f", op.operator.custom_options)
        return Stored(b.emit("Mul", value, b.scalar(factor, x.dtype)), order)

    try:
        f = File()
        y = f.op(None, [f.input((2, 3), name="x")], custom="TestScale", options=struct.pack("<f", 2.5), shapes=[(2, 3)])
        x = np.float32([[1, 2, 3], [4, 5, 6]])
        (got,) = onnx_outputs(convert(f.finish(y, shapes=False)), {"x": x}).values()
        np.testing.assert_array_equal(got, x * np.float32(2.5))
    finally:
        del translates._by_version["custom::TestScale", 1]


# -- the end of object detectors ------------------------------------------------------------------------------------------

SCALES = {"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}


def detector(boxes=30, classes=4, *, background=1, most=8, kinds=1, least=0.3, overlap=0.5, **others) -> bytes:
    import flatbuffers.flexbuffers

    options = {
        "max_detections": most,
        "max_classes_per_detection": kinds,
        "num_classes": classes,
        "nms_score_threshold": least,
        "nms_iou_threshold": overlap,
        **SCALES,
        **others,
    }
    rng = np.random.default_rng(0)
    anchors = np.concatenate([rng.random((boxes, 2)), rng.random((boxes, 2)) * 0.4 + 0.1], 1).astype(np.float32)
    f = File()
    inputs = [f.input((1, boxes, 4), name="boxes"), f.input((1, boxes, classes + background), name="scores"), f.constant(anchors)]
    shapes = [(1, most * kinds, 4), (1, most * kinds), (1, most * kinds), (1,)]
    written = bytes(flatbuffers.flexbuffers.Dumps(options))
    return f.finish(
        *f.op(None, inputs, ["float32"] * 4, custom="TFLite_Detection_PostProcess", options=written, shapes=shapes), shapes=False
    )


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"background": 0},
        {"kinds": 3},
        {"most": 40},
        {"least": 0.95, "most": 3},
        {"overlap": 0.1},
        {"boxes": 100, "classes": 20, "use_regular_nms": False},
    ],
)
def test_detections(how):
    data = detector(**how)
    hub = convert(data)
    rng = np.random.default_rng(1)
    for _ in range(5):
        feeds = {s.name: rng.random(s.shape).astype(np.float32) for s in hub.signature.inputs}
        feeds["boxes"] = (feeds["boxes"] - 0.5) * 4
        with LiteRTRunner(data) as runner:
            want = list(runner.run(feeds).values())
        got = list(onnx_outputs(hub, feeds).values())
        assert got[3] == want[3] > 0
        rows = int(want[3][0]) * how.get("kinds", 1)
        for one, other in zip(got[:3], want[:3], strict=True):
            np.testing.assert_allclose(one[:, :rows], other[:, :rows], rtol=1e-5, atol=1e-6)


def test_detections_class_by_class_are_refused():
    with pytest.raises(UnsupportedOpsError, match="use_regular_nms"):
        convert(detector(use_regular_nms=True))
