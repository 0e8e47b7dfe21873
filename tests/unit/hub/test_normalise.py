"""The hub's normal form: fewer nodes, the same weights."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from mlconverter.errors import ConversionError, CorruptModelError
from mlconverter.hub.model import ROLE_KEY, WEIGHT_KEY
from mlconverter.hub.normalise import is_weight, mark_weights, normalise
from tests.ops.onnx_torch.models import FLOAT, INT64, N, ints, model, node, weight


def normal(proto: onnx.ModelProto) -> ir.Model:
    return normalise(ir.from_proto(proto))


def ops(graph_model: ir.Model) -> list[str]:
    return [n.op_type for n in graph_model.graph]


def test_constants_are_initializers():
    constant = onnx.helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(weight(3)))
    found = normal(model([constant, node("Add", "x c", "y")], {"x": (N, 3)}, {"y": FLOAT}))
    assert ops(found) == ["Add"]
    assert is_weight(found.graph.initializers["c"])


def test_identities_and_casts_to_the_same_are_gone():
    nodes = [node("Identity", "x", "a"), node("Cast", "a", "b", to=FLOAT), node("Relu", "b", "y")]
    assert ops(normal(model(nodes, {"x": (N, 3)}, {"y": FLOAT}))) == ["Relu"]


def test_a_cast_keeps_how_it_saturates():
    nodes = [node("CastLike", "x like", "y", saturate=0)]
    kind = onnx.TensorProto.FLOAT8E4M3FN
    found = normal(model(nodes, {"x": (N, 3), "like": (kind, (1,))}, {"y": kind}))
    assert ops(found) == ["Cast"]
    assert found.graph[0].attributes["saturate"].as_int() == 0


def test_equal_weights_stay_two():
    nodes = [node("MatMul", "x a", "h"), node("MatMul", "h b", "y")]
    found = normal(model(nodes, {"x": (N, 4)}, {"y": FLOAT}, {"a": weight(4, 4), "b": weight(4, 4)}))
    assert {v.metadata_props[WEIGHT_KEY] for v in found.graph.initializers.values()} == {"a", "b"}


def test_what_holds_a_weight_is_not_folded():
    nodes = [node("Transpose", "w", "t", perm=[1, 0]), node("MatMul", "x t", "y")]
    assert ops(normal(model(nodes, {"x": (N, 4)}, {"y": FLOAT}, {"w": weight(5, 4)}))) == ["Transpose", "MatMul"]


def test_the_fixed_part_of_a_shape_folds_though_the_batch_is_free():
    nodes = [
        node("Shape", "x", "s"),
        node("Slice", "s one end", "rest"),
        node("ReduceProd", "rest", "size", keepdims=1),
        node("Concat", "minus size", "target", axis=0),
        node("Reshape", "x target", "y"),
    ]
    weights = {"one": ints(1), "end": ints(9), "minus": ints(-1)}
    found = normal(model(nodes, {"x": (N, 3, 4)}, {"y": FLOAT}, weights))
    assert ops(found) == ["Reshape"]
    target = found.graph[0].inputs[1]
    assert target is not None and target.const_value is not None
    assert target.const_value.numpy().tolist() == [-1, 12]


def test_splitting_into_a_sequence_and_picking_from_it_is_a_split():
    nodes = [
        node("SplitToSequence", "x sizes", "parts", axis=1),
        node("SequenceAt", "parts zero", "a"),
        node("SequenceAt", "parts last", "b"),
    ]
    weights = {"sizes": ints(1, 3), "zero": np.array(0, np.int64), "last": np.array(-1, np.int64)}
    assert ops(normal(model(nodes, {"x": (N, 4)}, {"a": FLOAT, "b": FLOAT}, weights))) == ["Split"]


def test_the_source_stays_as_it_is():
    source = ir.from_proto(model([node("Identity", "x", "a"), node("Relu", "a", "y")], {"x": (N, 3)}, {"y": FLOAT}))
    normalise(source)
    assert ops(source) == ["Identity", "Relu"]


@pytest.mark.parametrize(
    ("nodes", "weights", "expected"),
    [
        ([node("Conv", "x w b", "y")], {"w": weight(1, 2, 1, 1), "b": weight(1)}, {"w", "b"}),
        ([node("Mul", "x s", "y")], {"s": weight(1)}, set()),
        ([node("Resize", "x _ s", "y")], {"s": np.ones(4, np.float32)}, set()),
        ([node("Gather", "x i", "y")], {"i": ints(0, 1)}, set()),
    ],
)
def test_which_initializers_are_weights(nodes, weights, expected):
    source = ir.from_proto(model(nodes, {"x": (N, 2, 3, 3)}, {"y": FLOAT}, weights))
    assert {link.source for link in mark_weights(source)} == expected


def test_unused_nodes_are_gone():
    nodes = [node("Relu", "x", "y"), node("Shape", "x", "unused")]
    assert ops(normal(model(nodes, {"x": (N, 3)}, {"y": FLOAT}))) == ["Relu"]
    assert INT64 == onnx.TensorProto.INT64


BAD: list[tuple[str, list[onnx.NodeProto], dict[str, np.ndarray]]] = [
    ("an index beyond the end", [node("Gather", "w i", "a", axis=0)], {"w": ints(1, 2), "i": ints(7)}),
    ("an axis that is not there", [node("Slice", "w i i i", "a")], {"w": ints(1, 2), "i": ints(7)}),
    ("axes of another rank", [node("Transpose", "w", "a", perm=[0, 1])], {"w": ints(1, 2)}),
    ("another number of elements", [node("Reshape", "w i", "a")], {"w": ints(1, 2), "i": ints(7)}),
    ("an axis with elements", [node("Squeeze", "w i", "a")], {"w": ints(1, 2), "i": ints(0)}),
    ("a division by zero", [node("Div", "w i", "a")], {"w": ints(1, 2), "i": ints(0)}),
    ("a step of zero", [node("Range", "w w i", "a")], {"w": np.array(1), "i": np.array(0)}),
    ("parts that do not make up the whole", [node("Split", "w i", "a")], {"w": ints(1, 2), "i": ints(1)}),
    ("sizes below zero", [node("ConstantOfShape", "i", "a")], {"i": ints(-7)}),
    ("a size that is not there", [node("Shape", "x", "s"), node("Gather", "s i", "a", axis=0)], {"i": ints(7)}),
    ("an axis that a shape has not", [node("Shape", "x", "s"), node("Slice", "s i i i", "a")], {"i": ints(7)}),
    ("shapes along another axis", [node("Shape", "x", "s"), node("Concat", "s i", "a", axis=4)], {"i": ints(7)}),
]


@pytest.mark.parametrize(("nodes", "weights"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_a_node_that_makes_no_sense_is_left_alone(nodes, weights):
    rest = [node("Cast", "a", "b", to=FLOAT), node("Add", "x b", "y")]
    found = normal(model([*nodes, *rest], {"x": (N, 3)}, {"y": FLOAT}, weights))
    assert nodes[-1].op_type in ops(found)


def test_operators_of_an_opset_that_nobody_knows_are_left_alone():
    nodes = [
        node("Cast", "x", "a"),
        node("Shape", "a", "s"),
        node("Reshape", "a", "b"),
        node("Split", "b", "y"),
        node("Conv", "", "z"),
    ]
    made = model(nodes, {"x": (N, 3)}, {"y": FLOAT, "z": FLOAT}, opset=10_000)
    assert ops(normal(made)) == ["Cast", "Reshape", "Split", "Conv"]


def test_functions_of_another_opset_are_refused():
    made = model([onnx.helper.make_node("F", ["x"], ["y"], domain="local")], {"x": (N, 3)}, {"y": FLOAT})
    made.functions.append(
        onnx.helper.make_function("local", "F", ["a"], ["b"], [node("Relu", "a", "b")], [onnx.helper.make_opsetid("", 13)])
    )
    made.opset_import.append(onnx.helper.make_opsetid("local", 1))
    with pytest.raises(ConversionError, match="version 13"):
        normal(made)


def test_contradicting_shapes_are_refused():
    made = model([node("Relu", "x", "a"), node("Identity", "a", "b"), node("Relu", "b", "y")], {"x": (N, 3)}, {"y": FLOAT})
    made.graph.value_info.extend(onnx.helper.make_tensor_value_info(n, FLOAT, s) for n, s in (("a", [1]), ("b", [1, 2])))
    with pytest.raises(CorruptModelError, match="two shapes"):
        normal(made)


def test_the_target_of_an_old_reshape_is_no_input():
    made = model([node("Reshape", "x", "y", shape=[2, 3])], {"x": (6,)}, {"y": FLOAT}, opset=1)
    assert normal(made).graph.outputs[0].shape in (None, ir.Shape([2, 3]))


@pytest.mark.parametrize(("zeros", "role", "kept"), [(True, None, False), (False, None, True), (True, "parameter", True)])
def test_zeros_as_first_states_are_dropped_unless_they_are_learned(zeros, role, kept):
    weights = {"w": weight(1, 9, 4), "r": weight(1, 9, 3), "h": np.zeros((1, 2, 3), np.float32) if zeros else weight(1, 2, 3)}
    made = ir.from_proto(model([node("GRU", "x w r _ _ h", "y", hidden_size=3)], {"x": (5, 2, 4)}, {"y": FLOAT}, weights))
    if role is not None:
        made.graph.initializers["h"].metadata_props[ROLE_KEY] = role
    inputs = normalise(made).graph[0].inputs
    assert ("h" in [i.name for i in inputs if i is not None]) == kept


def test_zeros_that_are_repeated_for_each_item_are_dropped_too():
    weights = {"w": weight(1, 12, 4), "r": weight(1, 12, 3), "zero": np.zeros((1, 1, 3), np.float32), "one": ints(1)}
    nodes = [
        node("Shape", "x", "sizes", start=1, end=2),
        node("Concat", "one sizes three", "shape", axis=0),
        node("Expand", "zero shape", "h"),
        node("ConstantOfShape", "shape", "c"),
        node("LSTM", "x w r _ _ h c", "y", hidden_size=3),
    ]
    found = normal(model(nodes, {"x": (5, N, 4)}, {"y": FLOAT}, {**weights, "three": ints(3)}))
    assert ops(found) == ["LSTM"]
    assert [i.name for i in found.graph[0].inputs if i is not None] == ["x", "w", "r"]
