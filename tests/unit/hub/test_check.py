"""Inconsistent models are refused with what is wrong and where; what every reader copes with is let pass."""

import re
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mlconverter import Converter, CorruptModelError
from mlconverter.errors import ConversionError
from mlconverter.hub.io import load_model, read_proto
from tests.ops.onnx_torch.check import check, run_torch
from tests.ops.onnx_torch.models import FLOAT, INT64, N, ints, model, node, weight


def sound() -> onnx.ModelProto:
    """A model to spoil: a layer, a constant, a function."""
    function = helper.make_function("local", "F", ["a"], ["b"], [node("Relu", "a", "b")], [helper.make_opsetid("", 21)])
    nodes = [
        node("MatMul", "x w", "h"),
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(weight(3), "")),
        node("Add", "h c", "i"),
        helper.make_node("F", ["i"], ["j"], domain="local"),
        node("Softmax", "j", "y", axis=1),
    ]
    made = model(nodes, {"x": (N, 3)}, {"y": FLOAT}, {"w": weight(3, 3)})
    made.functions.append(function)
    made.opset_import.append(helper.make_opsetid("local", 1))
    return made


Spoil = Callable[[onnx.ModelProto], object]


def init(m: onnx.ModelProto) -> TensorProto:
    return m.graph.initializer[0]


def softmax(m: onnx.ModelProto) -> onnx.NodeProto:
    return m.graph.node[4]


def attribute(name: str, value: object) -> Spoil:
    return lambda m: softmax(m).attribute.append(helper.make_attribute(name, value))


def instead(op: str, inputs: str = "j", **attributes: object) -> Spoil:
    def spoil(m: onnx.ModelProto) -> None:
        m.graph.node[4].CopyFrom(node(op, inputs, "y", **attributes))

    return spoil


def hollow(m: onnx.ModelProto) -> None:
    m.graph.node[4].CopyFrom(helper.make_node("Unheard", ["j"], ["y"], domain="else"))
    m.graph.node[4].attribute.add(name="value", type=onnx.AttributeProto.TENSOR)


def tensor(**fields: object) -> Spoil:
    """The weight with other fields."""

    def spoil(m: onnx.ModelProto) -> None:
        t = TensorProto(name="w", data_type=FLOAT, dims=[3, 3])
        for name, value in fields.items():
            if isinstance(value, list):
                t.ClearField(name)
                getattr(t, name).extend(value)
            else:
                setattr(t, name, value)
        init(m).CopyFrom(t)

    return spoil


def branch(*nodes: onnx.NodeProto, output: str = "z") -> Spoil:
    """A node with branches."""

    def spoil(m: onnx.ModelProto) -> None:
        graph = helper.make_graph(list(nodes), "branch", [], [helper.make_tensor_value_info(output, FLOAT, None)])
        m.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
        m.graph.node[4].CopyFrom(helper.make_node("If", ["yes"], ["y"], then_branch=graph, else_branch=graph))

    return spoil


def sparse(indices: np.ndarray, values: np.ndarray | None = None, dims: tuple[int, ...] = (3, 3)) -> Spoil:
    def spoil(m: onnx.ModelProto) -> None:
        held = m.graph.sparse_initializer.add(dims=dims)
        held.values.CopyFrom(numpy_helper.from_array(weight(2) if values is None else values, "w"))
        held.indices.CopyFrom(numpy_helper.from_array(indices, ""))
        del m.graph.initializer[:]

    return spoil


def calling(name: str) -> Spoil:
    """The function calls a function."""

    def spoil(m: onnx.ModelProto) -> None:
        m.functions[0].node[0].CopyFrom(helper.make_node(name, ["a"], ["b"], domain="local"))
        other = helper.make_function("local", "G", ["a"], ["b"], [helper.make_node("F", ["a"], ["b"], domain="local")], [])
        m.functions.append(other)

    return spoil


WRONG: list[tuple[str, Spoil, str]] = [
    ("no graph", lambda m: m.ClearField("graph"), "nothing in its graph"),
    ("no opset", lambda m: m.ClearField("opset_import"), "no operator set"),
    ("no standard opset", lambda m: m.opset_import.__delitem__(0), "does not import"),
    ("two opsets", lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx", 13)), "several versions"),
    ("input nobody gives", lambda m: m.graph.node[0].input.__setitem__(1, "v"), "MatMul node 'h' reads 'v'"),
    ("output nobody gives", lambda m: setattr(m.graph.output[0], "name", "q"), "output 'q'"),
    ("output without a name", lambda m: setattr(m.graph.output[0], "name", ""), "output ''"),
    ("value twice", lambda m: m.graph.node.append(node("Relu", "x", "h")), "defines the value 'h'"),
    ("value as an input", lambda m: m.graph.node.append(node("Relu", "x", "x")), "defines the value 'x'"),
    ("value as a weight", lambda m: m.graph.node.append(node("Relu", "x", "w")), "defines the value 'w'"),
    ("input twice", lambda m: m.graph.input.append(m.graph.input[0]), "several inputs 'x'"),
    ("input without a name", lambda m: m.graph.input.append(helper.make_tensor_value_info("", FLOAT, [1])), "without a name"),
    ("input without a type", lambda m: m.graph.input[0].ClearField("type"), "input 'x' has no element type"),
    ("weight twice", lambda m: m.graph.initializer.append(init(m)), "several initializers 'w'"),
    ("circle", lambda m: m.graph.node[0].input.__setitem__(0, "y"), "wait for one another"),
    ("node of itself", lambda m: m.graph.node[0].input.__setitem__(0, "h"), "wait for one another"),
    ("circle by a branch", branch(node("Relu", "y", "z")), "wait for one another"),
    ("unknown in a branch", branch(node("Relu", "k", "z")), "Relu node 'z' reads 'k'"),
    ("twice in a branch", branch(node("Relu", "j", "z"), node("Relu", "j", "z")), "defines the value 'z'"),
    ("output of a branch", branch(node("Relu", "j", "u")), "output 'z'"),
    ("attribute in a branch", branch(node("Softmax", "j", "z", axis="a")), "type string instead of int"),
    (
        "unknown in a function",
        lambda m: m.functions[0].node[0].input.__setitem__(0, "k"),
        "function 'F': Relu node 'b' reads 'k'",
    ),
    (
        "output of a function",
        lambda m: m.functions[0].output.__setitem__(0, "k"),
        "function 'F': nothing computes the output 'k'",
    ),
    ("twice in a function", lambda m: m.functions[0].node.append(node("Relu", "a", "b")), "function 'F': more than one place"),
    ("function twice", lambda m: m.functions.append(m.functions[0]), "several functions 'local::F'"),
    ("function of itself", calling("F"), "the functions F, F call one another"),
    ("functions of one another", calling("G"), "call one another"),
    ("no element type", tensor(data_type=0), "element type 0"),
    ("unknown element type", tensor(data_type=99), "element type 99"),
    ("unknown type of a value", lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 77), "element type 77"),
    ("negative size", tensor(dims=[-3, 3], raw_data=bytes(36)), "shape [-3, 3]"),
    ("no elements", tensor(), "'w' is float[3, 3] and holds no elements"),
    ("huge and empty", tensor(dims=[1 << 40, 1 << 20]), "holds no elements"),
    ("too few bytes", tensor(raw_data=bytes(35)), "raw_data has 35 instead of 36 bytes"),
    ("too many bytes", tensor(raw_data=bytes(37)), "37 instead of 36"),
    ("too few numbers", tensor(float_data=[1.0] * 8), "float_data has 8 instead of 9 entries"),
    ("numbers in the wrong place", tensor(int64_data=[1] * 9), "int64_data, where they do not belong"),
    ("elements twice", tensor(raw_data=bytes(36), float_data=[1.0] * 9), "more than once"),
    ("half bytes", tensor(data_type=TensorProto.INT4, raw_data=bytes(4)), "4 instead of 5 bytes"),
    ("half bytes in integers", tensor(data_type=TensorProto.INT4, int32_data=[0] * 9), "9 instead of 5 entries"),
    ("complex numbers", tensor(data_type=TensorProto.COMPLEX64, float_data=[1.0] * 9), "9 instead of 18 entries"),
    ("text in bytes", tensor(data_type=TensorProto.STRING, raw_data=bytes(36)), "raw_data, where they do not belong"),
    ("too little text", tensor(data_type=TensorProto.STRING, string_data=[b"a"]), "1 instead of 9"),
    ("six bits", tensor(data_type=TensorProto.FLOAT6E2M3, int32_data=[64] * 9), "'w' is float6e2m3[3, 3]"),
    ("segments", lambda m: init(m).segment.SetInParent(), "segments"),
    ("constant too short", lambda m: setattr(m.graph.node[1].attribute[0].t, "raw_data", bytes(5)), "5 instead of 12"),
    ("constant without a value", lambda m: m.graph.node[1].ClearField("attribute"), "Constant node 'c' has 0 values"),
    ("constant of nothing", lambda m: m.graph.node[1].attribute[0].ClearField("t"), "'value' without a value"),
    ("nothing in an unknown operator", hollow, "Unheard node 'y' has an attribute 'value' without a value"),
    ("unknown attribute", attribute("axes", 1), "attribute 'axes' that it cannot have"),
    ("attribute twice", attribute("axis", 1), "'axis' more than once"),
    (
        "attribute of another type",
        lambda m: softmax(m).attribute[0].CopyFrom(helper.make_attribute("axis", "a")),
        "string instead of int",
    ),
    ("attribute without a type", lambda m: softmax(m).attribute[0].ClearField("type"), "undefined instead of int"),
    ("attribute of no function", lambda m: setattr(softmax(m).attribute[0], "ref_attr_name", "a"), "outside of any function"),
    ("text that is none", instead("Gelu", approximate=b"\xff\xfe"), "no text in UTF-8"),
    ("attribute left out", instead("Cast"), "has no attribute 'to'"),
    ("no element type to cast to", instead("Cast", to=99), "'to' of 99"),
    ("undefined to cast to", instead("Cast", to=0), "'to' of 0"),
    ("too many inputs", instead("Relu", "j j"), "has 2 inputs, and the specification 1 to 1"),
    ("too few inputs", instead("Add"), "has 1 inputs"),
    ("input left out", instead("Add", "_ j"), "lacks its input 'A'"),
    ("no outputs", lambda m: m.graph.node.append(helper.make_node("Relu", ["x"], [])), "has 0 outputs"),
    ("indices beyond", sparse(ints(1, 9)), "an index is outside of [3, 3]"),
    ("indices below", sparse(ints(-1, 2)), "an index is outside of [3, 3]"),
    ("index twice", sparse(ints(2, 2)), "there twice"),
    ("indices of another shape", sparse(ints(1, 2, 3)), "2 elements have indices int64[3]"),
    ("indices by axis beyond", sparse(np.array([[0, 1], [3, 0]])), "sparse tensor 'w'"),
    ("indices of floats", sparse(weight(2)), "2 elements have indices float32[2]"),
    ("sparse and huge", sparse(ints(1, 2), dims=(1 << 30, 1 << 30)), "too large"),
    ("sparse of sparse", sparse(ints(1, 2), weight(2, 1)), "elements of shape [2, 1]"),
]


@pytest.mark.parametrize(("spoil", "message"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_is_refused(spoil, message, tmp_path):
    proto = sound()
    spoil(proto)
    for given in (proto, proto.SerializeToString()):
        with pytest.raises(CorruptModelError, match=re.escape(message)):
            read_proto(given)
    with pytest.raises(CorruptModelError, match=re.escape(message)):
        Converter(proto).to_torch(verify=False)
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(CorruptModelError, match=r"net\.onnx.*anew"):
        Converter(tmp_path / "net.onnx")


def test_text_that_is_not_in_utf_8():
    data = sound().SerializeToString().replace(b"graph", b"gr\xff\xfeh")
    with pytest.raises(CorruptModelError, match="UTF-8"):
        read_proto(data)


def test_what_is_in_order():
    assert Converter(sound()).to_torch() is not None


def shuffled(m: onnx.ModelProto) -> None:
    nodes = list(m.graph.node)[::-1]
    del m.graph.node[:]
    m.graph.node.extend(nodes)


FINE: list[tuple[str, Spoil]] = [
    ("nodes in another order", shuffled),
    ("a weight without a name", lambda m: m.graph.initializer.append(numpy_helper.from_array(weight(2), ""))),
    ("a weight among the inputs", lambda m: m.graph.input.append(helper.make_tensor_value_info("w", FLOAT, [3, 3]))),
    ("an opset twice", lambda m: m.opset_import.append(helper.make_opsetid("", 21))),
    ("an output twice", lambda m: m.graph.output.append(m.graph.output[0])),
    ("sizes below zero", lambda m: m.graph.value_info.append(helper.make_tensor_value_info("h", FLOAT, [-1, 3]))),
    ("typed elements", tensor(float_data=[0.5] * 9)),
    ("sparse by number", sparse(ints(1, 8))),
    ("sparse by axis", sparse(np.array([[0, 1], [2, 0]]))),
    ("sparse and empty", sparse(ints(), np.zeros(0, np.float32))),
]


@pytest.mark.parametrize("change", [f[1] for f in FINE], ids=[f[0] for f in FINE])
def test_what_is_let_pass(change):
    proto = sound()
    change(proto)
    before = proto.SerializeToString()
    check(proto)
    converter = Converter(proto)
    converter.to_torch(verify=False)
    assert converter.to_origin_type() == proto
    assert proto.SerializeToString() == before


def reordered_function(m: onnx.ModelProto) -> None:
    del m.functions[0].node[:]
    m.functions[0].node.extend([node("Neg", "q", "b"), node("Neg", "a", "q")])


FINE_HERE: list[tuple[str, Spoil]] = [
    ("no element type of a value", lambda m: m.graph.value_info.append(helper.make_tensor_value_info("h", 0, [1, 3]))),
    ("no element type of an output", lambda m: setattr(m.graph.output[0].type.tensor_type, "elem_type", 0)),
    ("a function in another order", reordered_function),
]


@pytest.mark.parametrize("change", [f[1] for f in FINE_HERE], ids=[f[0] for f in FINE_HERE])
def test_what_onnx_runtime_does_not_take(change):
    proto = sound()
    change(proto)
    function = helper.make_function("local", "F", ["a"], ["b"], [node("Neg", "a", "q"), node("Neg", "q", "b")], [])
    straight = sound()
    if len(proto.functions[0].node) > 1:
        straight.functions[0].CopyFrom(function)
    modules = [Converter(m, verify=False).to_torch() for m in (proto, straight)]
    x = weight(2, 3)
    np.testing.assert_array_equal(*[run_torch(m, {"x": x})[0] for m in modules])
    assert Converter(proto, verify=False).to_onnx() == proto


@pytest.mark.parametrize("length", [1 << 31, 1 << 40])
def test_a_list_of_sizes_is_not_believed_to_be_endless(length):
    """Inference would set up a tensor with as many axes, and take all memory for it."""
    nodes = [node("Shape", "x", "s"), node("Concat", "s one", "t", axis=0), node("Reshape", "x t", "y")]
    proto = model(nodes, {"x": (N, 3)}, {"y": FLOAT}, {"one": ints(1)})
    proto.graph.value_info.extend(helper.make_tensor_value_info(name, INT64, [length]) for name in "st")
    check(proto)


def test_sizes_that_say_nothing_are_unknown():
    proto = model([node("Add", "x z", "y")], {"x": ("?", -1, 3), "z": ("?", "", "-1")}, {"y": FLOAT})
    inputs = load_model(proto).graph.inputs
    assert [d if isinstance(d, int) else d.value for value in inputs for d in value.shape] == [None, None, 3, None, None, None]


def test_values_that_the_hub_does_not_know_are_no_damage():
    proto = model([node("Relu", "x", "y")], {"x": (N, 3)}, {"y": FLOAT})
    mapping = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, []))
    proto.graph.input.append(helper.make_value_info("m", mapping))
    with pytest.raises(ConversionError, match="Map types"):
        Converter(proto).to_torch()
