"""Shapes come from the inputs; what a model says itself counts where inference leads nowhere."""

import onnx
import pytest
from onnx import helper

from mlconverter import Converter
from mlconverter.hub.io import load_model
from mlconverter.hub.normalise import normalise
from tests.ops.onnx_torch.models import FLOAT, N, model, node, weight


def stale(batch: int | str) -> onnx.ModelProto:
    """A network whose input was given another batch, while its values keep the shapes for a batch of one."""
    nodes = [node("Conv", "x w", "a"), node("Relu", "a", "b"), node("Flatten", "b", "y")]
    made = model(nodes, {"x": [batch, 3, 6, 6]}, {"y": FLOAT}, {"w": weight(4, 3, 3, 3)})
    made.graph.value_info.extend(helper.make_tensor_value_info(name, FLOAT, [1, 4, 4, 4]) for name in "ab")
    return made


@pytest.mark.parametrize("batch", [N, 3])
def test_shapes_of_another_batch_are_not_believed(batch):
    graph = normalise(load_model(stale(batch))).graph
    shapes = {o.name: [getattr(d, "value", d) for d in o.shape] for n in graph for o in n.outputs if o.name in "ab"}
    assert shapes == {"a": [batch, 4, 4, 4], "b": [batch, 4, 4, 4]}


@pytest.mark.parametrize("target", ["torch", "tflite"])
@pytest.mark.parametrize("batch", [N, 3])
def test_such_a_model_converts(batch, target):
    converter = Converter(stale(batch))
    converter.to(target)
    assert converter.report.verdict == "verified"


def test_what_inference_does_not_know_is_taken_from_the_model():
    nodes = [
        helper.make_node("Unheard", ["x"], ["a"], domain="somebody's"),
        node("Relu", "a", "b"),
        helper.make_node("NonZero", ["x"], ["c"]),
        node("Cast", "c", "y", to=FLOAT),
    ]
    made = model(nodes, {"x": [N, 3]}, {"y": FLOAT, "b": FLOAT})
    made.opset_import.append(helper.make_opsetid("somebody's", 1))
    made.graph.value_info.append(helper.make_tensor_value_info("a", FLOAT, [N, 7]))
    made.graph.value_info.append(helper.make_tensor_value_info("c", onnx.TensorProto.INT64, [2, 5]))
    graph = normalise(load_model(made)).graph
    shapes = {o.name: [getattr(d, "value", d) for d in o.shape] for n in graph for o in n.outputs}
    assert shapes["a"] == [N, 7] and shapes["b"] == [N, 7]
    assert shapes["c"] == [2, 5] and shapes["y"] == [2, 5]
