"""Names of free dimensions: those that were given stay, and stay apart unless the export proves that they are one."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import nn

from mlconverter import ConversionError, Converter


class Apart(nn.Module):
    """Two inputs that have nothing to do with each other."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a * 2, b.sum(1)


class Joined(nn.Module):
    """Two inputs, one behind the other."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cat([a, b])


class Added(nn.Module):
    """Two inputs of one size."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b


class Doubled(nn.Module):
    """The second is twice the first."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cat([a, a]) + b


class Fixed(nn.Module):
    """A size that cannot be another."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(2, 6) * 2


def dims(module: nn.Module, given, **options):
    """Shapes of inputs and outputs, and the notes."""
    converter = Converter(module, input_shape=given, **options)
    proto = converter.to_onnx()
    onnx.checker.check_model(proto)
    assert converter.report.verdict == "verified", converter.report
    assert [s.shape for s in converter.signature.inputs] == [shape(v) for v in proto.graph.input]
    return [shape(v) for v in proto.graph.input], [shape(v) for v in proto.graph.output], converter.report.notes


def shape(value: onnx.ValueInfoProto):
    return tuple(d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim)


def test_two_names_stay_two() -> None:
    inputs, outputs, notes = dims(Apart(), [("n", 3), ("m", 3)])
    assert inputs == [("n", 3), ("m", 3)] and outputs == [("n", 3), ("m",)]
    assert not any("equal" in note for note in notes)


def test_two_names_may_have_two_sizes() -> None:
    """Not only in name."""
    proto = Converter(Joined(), input_shape=[("n", 3), ("m", 3)]).to_onnx()
    session = ort.InferenceSession(proto.SerializeToString())
    (got,) = session.run(None, {"a": np.zeros((5, 3), np.float32), "b": np.ones((2, 3), np.float32)})
    assert got.shape == (7, 3) and got.sum() == 6


def test_sizes_that_are_computed_are_said_in_the_names_that_were_given() -> None:
    _, outputs, _ = dims(Joined(), [("first", 3), ("second", 3)])
    assert set(outputs[0][0].replace(" ", "").split("+")) == {"first", "second"}


def test_names_that_turn_out_to_be_one_are_one_and_that_is_said() -> None:
    inputs, outputs, notes = dims(Added(), [("n", 3), ("m", 3)])
    assert inputs == [("n", 3), ("n", 3)] and outputs == [("n", 3)]
    assert any("'n', 'm' are always equal" in note for note in notes)


def test_one_name_is_one_dimension() -> None:
    for module in (Apart(), Added()):
        inputs, _, _ = dims(module, [("n", 3), ("n", 3)])
        assert inputs == [("n", 3), ("n", 3)]


def test_a_dimension_that_is_twice_another() -> None:
    converter = Converter(Doubled(), input_shape={"a": torch.zeros(2, 3), "b": torch.zeros(4, 3)}, dynamic_batch=False)
    assert shape(converter.to_onnx().graph.input[1]) == (4, 3)


def test_names_that_were_given_stay_where_the_batch_is_freed() -> None:
    """An input whose batch was given as a number gets the name of batches, and that alone."""
    inputs, outputs, _ = dims(Apart(), [("n", 3), (1, 3)])
    assert inputs == [("n", 3), ("batch", 3)] and outputs == [("n", 3), ("batch",)]
    inputs, _, _ = dims(Apart(), [(1, 3), (1, 3)])
    assert inputs == [("batch", 3), ("batch", 3)]
    inputs, _, _ = dims(Apart(), [("n", 3), (1, 3)], dynamic_batch=False)
    assert inputs == [("n", 3), (1, 3)]


def test_first_axes_of_different_sizes_are_no_batch() -> None:
    inputs, _, _ = dims(Apart(), [(4, 3), (1, 3)])
    assert inputs == [(4, 3), (1, 3)]
    with pytest.raises(ConversionError, match="differ in size"):
        dims(Apart(), [(4, 3), (1, 3)], dynamic_batch=True)


def test_later_axes_have_names_too() -> None:
    pool = nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    inputs, outputs, _ = dims(pool, ("n", 3, "height", "width"))
    assert inputs == [("n", 3, "height", "width")] and outputs == [("n", 4)]
    inputs, _, _ = dims(pool, (1, 3, "height", "width"))
    assert inputs == [("batch", 3, "height", "width")]


def test_a_first_axis_without_a_name_is_the_batch() -> None:
    inputs, _, _ = dims(Apart(), [(None, 3), ("m", 3)])
    assert inputs == [("batch", 3), ("m", 3)]
    inputs, _, _ = dims(Added(), [(None, 3), (None, 3)])
    assert inputs == [("batch", 3), ("batch", 3)]


def test_dimensions_without_a_name_have_one_each() -> None:
    inputs, _, _ = dims(Apart(), [(None, 3), (None, 3)])
    (first, _), (second, _) = inputs
    assert isinstance(first, str) and isinstance(second, str) and first != second


@pytest.mark.parametrize("name", ["batch size", "batch-size", "2n", "past + seq", "lambda", "unk__12", "s0", "größe", "n."])
def test_names_that_are_no_words(name: str) -> None:
    """Other tools write such; they are the person's business."""
    inputs, outputs, _ = dims(Apart(), [(name, 3), ("s52", 3)])
    assert inputs == [(name, 3), ("s52", 3)] and outputs[0] == (name, 3)
    dims(Joined(), [(name, 3), ("m", 3)])


def test_a_name_that_the_module_fixes_is_refused() -> None:
    with pytest.raises(ConversionError, match="cannot be exported"):
        Converter(Fixed(), input_shape=("n", 6)).to_onnx()


def test_an_origin_with_odd_names_is_converted_anew_with_them() -> None:
    """Names come from files as well."""
    weight = onnx.numpy_helper.from_array(np.ones((3, 3), np.float32), "w")
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [make("MatMul", ["x", "w"], ["a"]), make("Relu", ["a"], ["y"])]
    ends = [info(n, 1, ["batch size", 3]) for n in ("x", "y")]
    graph = onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    converter = Converter(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9))
    module = converter.to_torch()
    next(n for n in module.graph.nodes if n.target is torch.nn.functional.relu).target = torch.nn.functional.silu
    module.recompile()
    again = converter.to_origin_type(module)
    assert shape(again.graph.input[0]) == ("batch size", 3) and converter.report.verdict == "verified"
