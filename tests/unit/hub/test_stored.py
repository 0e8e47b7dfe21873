"""Weights are found wherever an ONNX model keeps them, and untouched ones come back as the same model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

from mlconverter import Converter
from mlconverter.errors import ConversionError
from mlconverter.hub.io import load_model
from mlconverter.hub.normalise import mark_weights, normalise
from mlconverter.hub.stored import put_weights, stored_weights
from tests.ops.onnx_torch.models import FLOAT, N, model, node, weight
from tests.unit.hub.test_protobuf import copied


def constant(output: str, **value: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [output], **value)


def tensor(seed: int = 0) -> onnx.TensorProto:
    return numpy_helper.from_array(weight(3, 3, seed=seed), "")


def sparse() -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.array([5, 2, -1], np.float32), "")
    return helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([[0, 1], [2, 2], [1, 0]]), ""), [3, 3])


def of(*nodes: onnx.NodeProto, functions: Sequence[onnx.FunctionProto] = (), **weights: np.ndarray) -> onnx.ModelProto:
    made = model(nodes, {"x": (N, 3)}, {"y": FLOAT}, weights)
    made.functions.extend(functions)
    made.opset_import.append(helper.make_opsetid("local", 1))
    return made


def function(name: str, *nodes: onnx.NodeProto, attributes: Sequence[str] = ()) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, ["a"], ["b"], list(nodes), opsets, list(attributes))


def call(name: str, source: str, target: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(name, [source], [target], domain="local", **attributes)


def sparse_initializer() -> onnx.ModelProto:
    made = of(node("MatMul", "x w", "y"))
    held = made.graph.sparse_initializer.add()
    held.CopyFrom(sparse())
    held.values.name = "w"
    return made


LAYER = function(
    "F",
    constant("w", value=tensor()),
    constant("v", value_floats=[1.0, 2.0, 3.0]),
    node("MatMul", "a w", "h"),
    node("Add", "h v", "b"),
)

TRAINED: dict[str, onnx.ModelProto] = {
    "value": of(constant("w", value=tensor()), node("MatMul", "x w", "y")),
    "value_float": of(constant("w", value_float=0.25), node("PRelu", "x w", "y")),
    "value_floats": of(
        constant("w", value_floats=[1.0, 2.0, 3.0]), node("MatMul", "x k", "h"), node("Add", "h w", "y"), k=weight(3, 3)
    ),
    "sparse_value": of(constant("w", sparse_value=sparse()), node("MatMul", "x w", "y")),
    "sparse initializer": sparse_initializer(),
    "function": of(call("F", "x", "y"), functions=[LAYER]),
    "function called twice": of(call("F", "x", "h"), call("F", "h", "y"), functions=[LAYER]),
    "function in a function": of(call("G", "x", "y"), functions=[LAYER, function("G", call("F", "a", "h"), call("F", "h", "b"))]),
    "function with a name of the graph": of(
        call("F", "x", "h"), node("MatMul", "h w", "y"), functions=[LAYER], w=weight(3, 3, seed=5)
    ),
    "two functions": of(
        call("F", "x", "h"),
        call("G", "h", "y"),
        functions=[LAYER, function("G", constant("w", value=tensor(4)), node("MatMul", "a w", "b"))],
    ),
}

UNTRAINED: dict[str, onnx.ModelProto] = {
    "value_int": of(constant("i", value_int=1), node("Gather", "x i", "y", axis=1)),
    "value_ints": of(constant("i", value_ints=[-1, 3]), node("Reshape", "x i", "y")),
    "value_string": of(constant("i", value_string="a"), node("Relu", "x", "y")),
    "value_strings": of(constant("i", value_strings=["a", "b"]), node("Relu", "x", "y")),
}


@pytest.mark.parametrize("name", [*TRAINED, *UNTRAINED])
def test_an_untouched_model_comes_back_as_it_was(name):
    given = copied({**TRAINED, **UNTRAINED}[name])
    converter = Converter(given)
    converter.to_torch()
    assert converter.report.verdict == "verified"
    back = converter.to_origin_type()
    assert back == given == {**TRAINED, **UNTRAINED}[name]
    assert back.SerializeToString() == given.SerializeToString()
    assert converter.report.verdict == "verified"


@pytest.mark.parametrize("name", TRAINED)
def test_trained_weights_come_back(name):
    converter = Converter(TRAINED[name])
    module = converter.to_torch()
    x = torch.from_numpy(weight(2, 3, seed=8))
    before = module(x).detach()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.5)
        assert len(list(module.parameters())) > 0
    back = converter.to_origin_type()
    assert converter.report.verdict == "verified"
    with torch.no_grad():
        again = Converter(back).to_torch()(x)
        np.testing.assert_allclose(again, module(x), rtol=1e-5, atol=1e-6)
    assert not torch.allclose(again, before)
    kinds = [[a.name for a in n.attribute] for n in (*back.graph.node, *(n for f in back.functions for n in f.node))]
    assert kinds == [
        [a.name for a in n.attribute] for n in (*TRAINED[name].graph.node, *(n for f in TRAINED[name].functions for n in f.node))
    ]


def test_what_stands_once_is_one_weight_however_often_it_is_called():
    module = Converter(TRAINED["function called twice"]).to_torch()
    assert sorted(tuple(p.shape) for p in module.parameters()) == [(3,), (3, 3)]


def test_zeros_of_a_sparse_weight_stay_zeros():
    module = Converter(TRAINED["sparse_value"]).to_torch()
    module(torch.ones(1, 3)).sum().backward()
    (weight_,) = module.parameters()
    assert torch.equal(weight_.grad != 0, weight_.detach() != 0)


def test_a_value_that_comes_with_the_call_stays_as_it_is_and_is_reported():
    fixed = helper.make_node("Constant", [], ["w"])
    fixed.attribute.add(name="value", type=onnx.AttributeProto.TENSOR, ref_attr_name="given")
    layer = function("F", fixed, node("MatMul", "a w", "b"), attributes=["given"])
    given = of(call("F", "x", "h", given=tensor(1)), call("F", "h", "y", given=tensor(2)), functions=[layer])
    converter = Converter(given)
    module = converter.to_torch()
    assert converter.report.verdict == "verified"
    assert not list(module.parameters())
    assert any("'w' in the function 'F' stays as it is" in note for note in converter.report.notes)
    assert converter.to_origin_type() == given


def branched() -> onnx.ModelProto:
    """Three weights of one name: in the graph and in both branches."""
    branches = [
        helper.make_graph(
            [node("MatMul", "h w", "z")],
            "branch",
            [],
            [helper.make_tensor_value_info("z", FLOAT, None)],
            [numpy_helper.from_array(weight(3, 3, seed=seed), "w")],
        )
        for seed in (1, 2)
    ]
    last = helper.make_node("If", ["yes"], ["y"], then_branch=branches[0], else_branch=branches[1])
    return of(node("MatMul", "x w", "h"), last, w=weight(3, 3), yes=np.array(True))


def test_weights_of_one_name_in_several_graphs_are_several():
    proto = branched()
    seeds = {"w": 0, "y.then_branch.0/w": 1, "y.else_branch.0/w": 2}
    assert {link.source for link in mark_weights(load_model(proto))} == set(seeds)
    for name, array in stored_weights(proto, seeds).items():
        np.testing.assert_array_equal(array, weight(3, 3, seed=seeds[name]))
    put_weights(proto, {"y.then_branch.0/w": weight(3, 3, seed=7)})
    for name, array in stored_weights(proto, seeds).items():
        np.testing.assert_array_equal(array, weight(3, 3, seed={**seeds, "y.then_branch.0/w": 7}[name]))


def test_marks_survive_normalising():
    normal = normalise(load_model(TRAINED["function with a name of the graph"]))
    assert {link.source for link in mark_weights(normal)} == {"w", "local::F/w", "local::F/v"}


def test_typed_elements_stay_typed():
    proto = of(node("MatMul", "x w", "y"))
    held = proto.graph.initializer.add(name="w", data_type=FLOAT, dims=[3, 3])
    held.float_data.extend([0.5] * 9)
    put_weights(proto, {"w": np.ones((3, 3), np.float32)})
    assert list(held.float_data) == [1.0] * 9
    assert not held.HasField("raw_data")


def test_a_weight_without_a_place_is_named():
    with pytest.raises(ConversionError, match=r"\['lost'\].*no place"):
        stored_weights(of(node("MatMul", "x w", "y"), w=weight(3, 3)), ["w", "lost"])


def test_two_places_of_one_name_are_no_place():
    proto = of(node("MatMul", "x w", "h"), call("F", "h", "y"), functions=[LAYER], w=weight(3, 3))
    proto.graph.initializer.append(numpy_helper.from_array(weight(3, 3), "local::F/w"))
    with pytest.raises(ConversionError, match="local::F/w"):
        stored_weights(proto, ["local::F/w"])
