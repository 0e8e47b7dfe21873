"""Quantised models become integer kernels, within a step of ONNX Runtime; what has none stays exact."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from mlconverter import Converter, verify
from mlconverter.formats.tflite.model import TFLiteModel
from tests.ops.onnx_tflite.check import check
from tests.ops.quantised import CASES, KINDS, N, Net, Quantised

WRITTEN_OUT = {"DIV", "ROUND", "CAST"}
"""Operators of quantising in single precision."""


def feeds_of(session: ort.InferenceSession, batch: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(batch)
    feeds = {}
    for given in session.get_inputs():
        shape = [d if isinstance(d, int) else batch for d in given.shape]
        random = rng.random(shape) > 0.5 if given.type == "tensor(bool)" else rng.normal(0, 1.5, shape).astype(np.float32)
        feeds[given.name] = random
    return feeds


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_within_a_step(case: Quantised):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(case.proto.SerializeToString(), options)
    made = Converter(case.proto, verify="fast").to_tflite()
    for kernels in ("default", "reference") if case.native else ("default",):
        for batch in (1, 3):
            feeds = feeds_of(session, batch)
            (want,) = session.run(None, feeds)
            with made.runner(kernels=kernels) as runner:
                (got,) = runner.run(feeds).values()
            assert got.shape == want.shape
            assert np.abs(got - want).max() <= case.step * 1.0001
    names = [o.op for o in made.structure.subgraphs[0].operators]
    if case.native is None:
        return
    assert set(case.native) <= set(names)
    assert not WRITTEN_OUT & set(names)


def quantised_border(kind: str) -> onnx.ModelProto:
    """A convolution whose input and output are integers."""
    net, number = Net(kind), KINDS[kind]
    net.inputs.append(helper.make_tensor_value_info("x", number, ("batch", 3, 8, 7)))
    image = net.node("DequantizeLinear", "x", *net.grid(0.03))
    y = net.node("Conv", image, net.weight(5, 3, 3, 3, axis=0), net.bias(5), pads=[1] * 4, strides=[2, 2])
    return net.model(net.node("QuantizeLinear", y, *net.grid(0.1)), number)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_integers_at_the_border_stay_what_they_are(kind: str):
    proto = quantised_border(kind)
    made = Converter(proto).to_tflite()
    graph = made.structure.subgraphs[0]
    assert [graph.tensors[i].dtype for i in (*graph.inputs, *graph.outputs)] == [kind, kind]
    assert all(graph.tensors[i].quantization is not None for i in (*graph.inputs, *graph.outputs))
    limits = np.iinfo(kind)
    x = np.random.default_rng(0).integers(limits.min, limits.max + 1, (2, 3, 8, 7)).astype(kind)
    (want,) = ort.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    with made.runner() as runner:
        (got,) = runner.run({"x": x}).values()
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1


def test_a_filter_that_was_changed_since_is_no_grid():
    net = Net()
    y = net.node("Conv", net.real((N, 3, 8, 7)), net.weight(5, 3, 3, 3, axis=0), net.bias(5))
    scale, shift = net.constant(np.linspace(0.5, 2, 5), np.float32), net.constant(np.zeros(5), np.float32)
    y = net.node("BatchNormalization", y, scale, shift, shift, net.constant(np.ones(5), np.float32))
    made = Converter(net.model(net.rounded(y, 0.1))).to_tflite()  # verified
    assert "ROUND" in [o.op for o in made.structure.subgraphs[0].operators]


def test_what_else_is_read_stays_in_single_precision():
    net = Net()
    y = net.node("Conv", net.real((N, 3, 8, 7)), net.weight(5, 3, 3, 3, axis=0), net.bias(5))
    both = net.node("Add", net.rounded(y, 0.1), y)
    made = Converter(net.model(both)).to_tflite()
    assert "ROUND" in [o.op for o in made.structure.subgraphs[0].operators]


def test_integers_that_are_read_in_two_ways_stay_in_single_precision():
    net = Net()
    net.inputs.append(helper.make_tensor_value_info("x", KINDS["int8"], ("batch", 3, 8, 7)))
    one, other = (net.node("DequantizeLinear", "x", *net.grid(scale)) for scale in (0.03, 0.05))
    y = net.node("Conv", one, net.weight(5, 3, 3, 3, axis=0), net.bias(5))
    z = net.node("Conv", other, net.weight(5, 3, 3, 3, axis=0), net.bias(5, 0.05))
    proto = net.model(net.node("Add", net.rounded(y, 0.1), net.rounded(z, 0.1)))
    made = Converter(proto).to_tflite()
    x = np.random.default_rng(0).integers(-128, 128, (2, 3, 8, 7)).astype(np.int8)
    (want,) = ort.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    with made.runner() as runner:
        (got,) = runner.run({"x": x}).values()
    assert np.abs(got - want).max() <= 0.2001  # a step of each


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_places_of_the_largest_are_on_no_grid(kind: str):
    net = Net(kind)
    image, *grid = net.quantised((N, 3, 8, 6))
    largest = net.node("MaxPool", image, outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    real = net.node("DequantizeLinear", largest, *grid)
    places = net.node("Cast", f"{largest}_1", to=1)
    check(net.model(net.node("Add", real, places)))


def test_a_type_that_an_attribute_says_is_kept():
    net = Net("int8")
    net.inputs.append(helper.make_tensor_value_info("x", 1, ("batch", 3, 8, 7)))
    scale = net.constant(0.03, np.float32)
    y = net.node("QuantizeLinear", "x", scale, output_dtype=KINDS["int8"])
    moved = net.node("Transpose", y, perm=[0, 2, 3, 1])
    check(net.model(net.node("DequantizeLinear", moved, scale)))


def two_steps_off(model: TFLiteModel) -> TFLiteModel:
    """A file whose first convolution adds two steps of its result to everything."""
    graph = model.structure.subgraphs[0]
    conv = next(o for o in graph.operators if o.op == "CONV_2D")
    bias, result = graph.tensors[conv.inputs[2]], graph.tensors[conv.outputs[0]]
    assert bias.quantization is not None and result.quantization is not None
    extent = model.structure.buffers[bias.buffer]
    values = np.frombuffer(bytes(model), np.int32, bias.size, extent.offset).astype(np.int64)
    moved = values + np.rint(2 * result.quantization.scale[0] / np.array(bias.quantization.scale)).astype(np.int64)
    data = bytearray(bytes(model))
    data[extent.offset : extent.offset + extent.length] = moved.astype(np.int32).tobytes()
    return TFLiteModel(bytes(data))


def test_two_steps_are_wrong():
    net = Net()
    y = net.rounded(net.node("Conv", net.real((N, 3, 8, 7)), net.weight(5, 3, 3, 3, axis=0), net.bias(5)), 0.1)
    y = net.rounded(net.node("Conv", y, net.weight(4, 5, 3, 3, axis=0), net.bias(4, 0.1)), 0.4)
    proto = net.model(y)
    made = Converter(proto).to_tflite()
    result = verify(proto, two_steps_off(made))
    assert result.verdict == "wrong"
    assert any("steps off" in note for note in result.notes)
