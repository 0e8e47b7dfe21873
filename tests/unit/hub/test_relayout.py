"""Another layout at the border, whatever the graph's names and ends are."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

from mlconverter import Converter
from mlconverter.hub.border import border_change
from mlconverter.hub.io import load_model, signature_of, to_proto
from mlconverter.hub.model import SOURCE_KEY, HubModel
from mlconverter.hub.normalise import mark_weights
from mlconverter.hub.relayout import change_border
from tests.ops.onnx_torch.models import FLOAT, N, model, node, weight

IMAGE = (2, 3, 4, 5)
LAST = (0, 2, 3, 1)


def hub_of(proto: onnx.ModelProto) -> HubModel:
    graph = load_model(proto)
    return HubModel(graph, signature_of(graph).laid_out("channels_first"))


def checked(proto: onnx.ModelProto, names: tuple[str, ...] | None = None) -> HubModel:
    """The model channels-last, and that it gives channels-last what the original gives channels-first."""
    proto = onnx.shape_inference.infer_shapes(proto)
    hub = hub_of(proto)
    wanted = "channels_last" if names is None else tuple((n, "channels_last") for n in names)
    change = border_change(hub.signature, wanted)
    before = onnx.ModelProto.FromString(to_proto(hub.model).SerializeToString())
    changed = change_border(hub, change)
    assert to_proto(hub.model) == before, "the source was changed"
    made = to_proto(changed.model)
    onnx.checker.check_model(made)
    assert [v.name for v in made.graph.input] == [v.name for v in proto.graph.input]
    assert [v.name for v in made.graph.output] == [v.name for v in proto.graph.output]
    feeds = {s.name: weight(*s.concrete(default=2), seed=i) for i, s in enumerate(hub.signature.inputs)}
    turned = {n: a.transpose(change.inputs[n]) if n in change.inputs else a for n, a in feeds.items()}
    want, got = (ort.InferenceSession(m.SerializeToString()).run(None, f) for m, f in ((proto, feeds), (made, turned)))
    for spec, w, g in zip(hub.signature.outputs, want, got, strict=True):
        np.testing.assert_array_equal(w.transpose(change.outputs[spec.name]) if spec.name in change.outputs else w, g)
    return changed


@pytest.mark.parametrize("taken", ["x_inner", "x_inner_layout", "y_inner", "x_transpose", "y_transpose"])
def test_names_that_are_taken(taken):
    nodes = [node("Relu", "x", taken), node("Neg", taken, "a"), node("Add", "a x", "y")]
    checked(model(nodes, {"x": IMAGE}, {"y": FLOAT}))
    checked(model([node("Mul", f"x {taken}", "y")], {"x": IMAGE}, {"y": FLOAT}, {taken: weight(3, 1, 1)}))
    checked(model([node("Mul", f"x {taken}", "y")], {"x": IMAGE, taken: IMAGE}, {"y": FLOAT}))


def test_names_that_are_taken_in_a_nested_graph():
    branch = helper.make_graph(
        [node("Relu", "x", "x_inner"), node("Neg", "x_inner", "y_inner")],
        "branch",
        [],
        [helper.make_tensor_value_info("y_inner", FLOAT, None)],
    )
    proto = model(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)],
        {"x": IMAGE},
        {"y": FLOAT},
        {"c": np.array(True)},
    )
    checked(proto)


def test_a_transpose_in_a_nested_graph_stays_there():
    branch = helper.make_graph(
        [node("Transpose", "x", "z", perm=[0, 2, 3, 1])], "branch", [], [helper.make_tensor_value_info("z", FLOAT, None)]
    )
    proto = model(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)],
        {"x": IMAGE},
        {"y": FLOAT},
        {"c": np.array(True)},
    )
    checked(proto, ("x",))


def test_an_output_that_is_there_twice():
    proto = model([node("Relu", "x", "y"), node("Neg", "y", "z")], {"x": IMAGE}, {"y": FLOAT, "z": FLOAT})
    proto.graph.output.append(proto.graph.output[0])
    changed = checked(proto)
    assert changed.model.graph.outputs[0] is changed.model.graph.outputs[2]


def test_an_output_behind_a_transpose_that_is_there_twice():
    proto = model([node("Relu", "x", "r"), node("Transpose", "r", "y", perm=list(LAST))], {"x": IMAGE}, {"y": FLOAT})
    proto.graph.output.append(proto.graph.output[0])
    checked(proto)
    checked(proto, ("y",))


def test_an_input_that_is_an_output():
    proto = model([node("Relu", "x", "y")], {"x": IMAGE}, {"y": FLOAT})
    proto.graph.output.append(proto.graph.input[0])
    changed = checked(proto)
    assert changed.model.graph.outputs[1] is changed.model.graph.inputs[0]


def test_a_graph_without_nodes():
    proto = model([], {"x": IMAGE}, {})
    proto.graph.output.append(proto.graph.input[0])
    checked(proto)
    checked(proto, ("x",))


def test_an_input_that_nothing_reads():
    checked(model([node("Relu", "x", "y")], {"x": (1, 2), "unused": IMAGE}, {"y": FLOAT}))


def test_a_weight_that_is_an_output_is_known_by_its_name():
    kept = numpy_helper.from_array(weight(*IMAGE), "w")
    proto = model([node("Add", "x w", "y")], {"x": IMAGE}, {"y": FLOAT})
    proto.graph.initializer.append(kept)
    proto.graph.output.append(helper.make_tensor_value_info("w", FLOAT, IMAGE))
    changed = checked(proto)
    assert [v.metadata_props[SOURCE_KEY] for v in changed.model.graph.initializers.values()] == ["w"]
    assert {link.source for link in mark_weights(changed.model)} == {"w"}
    assert proto.graph.initializer[0] == kept


def test_transposes_at_the_border_vanish():
    nodes = [node("Transpose", "x", "a", perm=list(LAST)), node("Relu", "a", "b"), node("Transpose", "b", "y", perm=[0, 3, 1, 2])]
    changed = checked(model(nodes, {"x": IMAGE}, {"y": FLOAT}))
    assert [n.op_type for n in changed.model.graph] == ["Relu"]


def test_by_the_way_of_torch():
    proto = model([node("Relu", "x", "x_inner"), node("Add", "x_inner x", "y")], {"x": (N, 3, 4, 5)}, {"y": FLOAT})
    proto.graph.output.append(proto.graph.input[0])
    proto = onnx.shape_inference.infer_shapes(proto)
    converter = Converter(proto)
    converter.to_torch(io_layout="channels_last")
    assert converter.report.verdict == "verified"
    assert converter.to_origin_type() == proto
