"""Operators that the caller names go through as custom operators of TFLite; nothing here can run them."""

import flatbuffers.flexbuffers
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

from mlconverter import Converter
from mlconverter.cli import app
from mlconverter.errors import NotRunnableError, SignatureError, UnsupportedOpsError
from mlconverter.formats.tflite.model import TFLiteModel
from mlconverter.formats.tflite.structure import Operator
from tests.ops.onnx_torch.models import BOOL, FLOAT, INT64, N, model, node, said, weight
from tests.ops.onnx_torch.test_control import graph

DOMAIN = "com.example"
THING = f"{DOMAIN}::Thing"


def saying(made: onnx.ModelProto, **values: tuple[int, tuple]) -> onnx.ModelProto:
    """The model with types and shapes of values said, and the operators of the domain known to it."""
    made.graph.value_info.extend(helper.make_tensor_value_info(name, *given) for name, given in values.items())
    made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return made


def thing(inputs: str = "a", outputs: str = "t", **attributes) -> onnx.NodeProto:
    return node("Thing", inputs, outputs, domain=DOMAIN, **attributes)


def layers(shape: tuple = (N, 3, 5, 6), **attributes) -> onnx.ModelProto:
    """A convolution, an operator that nobody knows, and a convolution, whose channels stand last in TFLite."""
    nodes = [node("Conv", "x w", "a"), thing(**attributes), node("Relu", "t", "r"), node("Conv", "r v", "y")]
    known = {"w": weight(4, 3, 1, 1), "v": weight(2, 4, 1, 1)}
    return saying(model(nodes, {"x": shape}, {"y": FLOAT}, known), t=(FLOAT, (shape[0], 4, *shape[2:])))


def customs(made: TFLiteModel) -> list[Operator]:
    return [o for s in made.structure.subgraphs for o in s.operators if o.custom]


def settings(operator: Operator) -> dict:
    return flatbuffers.flexbuffers.Loads(operator.custom_options)


@pytest.mark.parametrize("shape", [(N, 3, 5, 6), (N, 3, 3, 3), (2, 3, 4, 4)], ids=str)
def test_a_named_operator_is_written_in_the_order_of_the_model(shape):
    made = TFLiteModel(bytes(Converter(layers(shape), verify=False).to_tflite(allow_custom=[THING])))
    (operator,), graph = customs(made), made.structure.subgraphs[0]
    assert (operator.op, operator.version, settings(operator)) == ("Thing", 1, {})
    sizes = tuple(-1 if d == N else d for d in (shape[0], 4, *shape[2:]))
    for number in (*operator.inputs, *operator.outputs):
        tensor = graph.tensors[number]
        assert (tensor.dtype, tensor.shape_signature or tensor.shape) == ("float32", sizes)
    names = [o.op for o in graph.operators]
    assert names == ["TRANSPOSE", "CONV_2D", "TRANSPOSE", "Thing", "RELU", "TRANSPOSE", "CONV_2D", "TRANSPOSE"]


def test_attributes_become_a_map():
    given = {"count": -3, "large": 2**40, "ratio": 0.1, "mode": "linear", "axes": [1, -1, 2**33], "scales": [0.5, 1.5]}
    made = Converter(layers(**given, names=["a", "b"]), verify=False).to_tflite(allow_custom=THING)
    found = settings(customs(made)[0])
    assert found == {**given, "ratio": pytest.approx(0.1), "names": ["a", "b"]}
    root = flatbuffers.flexbuffers.GetRoot(customs(made)[0].custom_options).AsMap
    assert root["axes"].IsTypedVector and root["scales"].IsTypedVector and root["count"].IsInt and root["ratio"].IsFloat


def test_inputs_and_outputs_keep_their_places():
    """An input that is left out, a constant, several outputs of other types, and one that nobody reads."""
    nodes = [thing("x _ c n", "p q r"), node("Neg", "q", "y"), node("Cast", "p", "z", to=FLOAT)]
    proto = model(nodes, {"x": (N, 4), "n": (INT64, ())}, {"y": FLOAT, "z": FLOAT}, {"c": weight(2, 3)})
    proto = saying(proto, p=(BOOL, (N, 4)), q=(FLOAT, (N, 2)), r=(INT64, ()))
    made = Converter(proto, verify=False).to_tflite(allow_custom=[THING], weights="float16")
    (operator,), tensors = customs(made), made.structure.subgraphs[0].tensors
    taken = [None if i < 0 else tensors[i] for i in operator.inputs]
    assert [t and (t.name, t.dtype) for t in taken] == [("x", "float32"), None, ("c", "float32"), ("n", "int64")]
    np.testing.assert_array_equal(made.structure.view(taken[2]), weight(2, 3))
    assert [(tensors[o].dtype, tensors[o].rank) for o in operator.outputs] == [("bool", 2), ("float32", 2), ("int64", 0)]


def test_outputs_of_the_model_and_sizes():
    nodes = [node("Shape", "x", "s"), thing("x s", "y")]
    proto = said(model(nodes, {"x": (N, 4)}, {"y": FLOAT}), N, 8)
    made = Converter(saying(proto), verify=False).to_tflite(allow_custom=[THING])
    assert [str(s) for s in made.signature.outputs] == ["y: float32[batch, 8]"]
    assert [made.structure.subgraphs[0].tensors[i].dtype for i in customs(made)[0].inputs] == ["float32", "int64"]


def test_what_the_default_domain_and_this_package_know_has_to_be_named():
    """Whatever is named goes through as it stands, with the defaults of its specification; nothing else does."""
    nodes = [node("Relu", "x", "a"), node("Celu", "a", "b"), node("Mine", "b", "t"), node("Celu", "t", "y")]
    proto = said(model(nodes, {"x": (1, 3)}, {"y": FLOAT}), 1, 3)
    proto.graph.value_info.append(helper.make_tensor_value_info("t", FLOAT, (1, 3)))
    made = Converter(proto, verify=False).to_tflite(allow_custom=["Mine"])
    assert [o.op for o in customs(made)] == ["Mine"]
    made = Converter(proto, verify=False).to_tflite(allow_custom=["Mine", "Celu"])
    assert [(o.op, settings(o)) for o in customs(made)] == [("Celu", {"alpha": 1.0}), ("Mine", {}), ("Celu", {"alpha": 1.0})]
    with pytest.raises(UnsupportedOpsError, match="Mine"):
        Converter(proto, verify=False).to_tflite(allow_custom=["Celu"])


def test_what_is_a_function_of_the_model_and_what_runtimes_fuse():
    body = helper.make_function(DOMAIN, "Thing", ["x"], ["y"], [node("Neg", "x", "y")], [helper.make_opsetid("", 21)])
    proto = layers()
    proto.functions.append(body)
    assert not customs(Converter(proto, verify=False).to_tflite())
    assert [o.op for o in customs(Converter(proto, verify=False).to_tflite(allow_custom=THING))] == ["Thing"]
    fused = model([node("Gelu", "x", "y", domain="com.microsoft")], {"x": (1, 3)}, {"y": FLOAT})
    fused.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    made = Converter(said(fused, 1, 3), verify=False).to_tflite(allow_custom=["com.microsoft::Gelu"])
    assert [o.op for o in made.structure.subgraphs[0].operators] == ["Gelu"]


def test_an_operator_within_a_branch():
    inside = [helper.make_tensor_value_info("t", FLOAT, (1, 3))]
    then, other = (
        graph([thing("x", "t")], [], inside),
        graph([node("Neg", "x", "n")], [], [helper.make_tensor_value_info("n", FLOAT, (1, 3))]),
    )
    nodes = [helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=other)]
    made = Converter(saying(model(nodes, {"x": (1, 3), "yes": (BOOL, [])}, {"y": FLOAT})), verify=False).to_tflite(
        allow_custom=THING
    )
    assert [[o.op for o in s.operators] for s in made.structure.subgraphs] == [["IF"], ["Thing"], ["NEG"]]


# -- what is refused, and what is said ---------------------------------------------------------------------------------


def without_the_first() -> onnx.ModelProto:
    nodes = [thing("x", "u t"), node("Neg", "t", "y")]
    nodes[0].output[0] = ""
    return saying(model(nodes, {"x": (1, 3)}, {"y": FLOAT}), t=(FLOAT, (1, 3)))


def wordless() -> onnx.ModelProto:
    made = layers()
    del made.graph.value_info[:]
    return made


REFUSED = {
    "no shape": (wordless(), "does not say the element type and the shape of its output 't'"),
    "a tensor": (layers(table=helper.make_tensor("", FLOAT, [1], [1.0])), "attribute 'table' is no number"),
    "an output that is left out": (without_the_first(), "leaves out an output"),
    "half precision": (
        saying(model([thing("x", "t"), node("Neg", "t", "y")], {"x": (1, 3)}, {"y": FLOAT}), t=(TensorProto.FLOAT16, (1, 3))),
        "'t' holds float16",
    ),
    "text": (
        saying(model([thing("x", "t"), node("Neg", "t", "y")], {"x": (TensorProto.STRING, (1,))}, {"y": FLOAT}), t=(FLOAT, (1,))),
        "'x' holds",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_custom_operator_can_say_is_refused(name):
    proto, reason = REFUSED[name]
    with pytest.raises(UnsupportedOpsError, match=reason) as caught:
        Converter(proto, verify=False).to_tflite(allow_custom=[THING])
    assert [o.op for o in caught.value.ops] == [THING]


def test_without_the_option_it_is_refused_by_name():
    with pytest.raises(UnsupportedOpsError, match=THING):
        Converter(layers(), verify=False).to_tflite()
    with pytest.raises(SignatureError, match="allow_custom"):
        Converter(layers()).to_torch(allow_custom=[THING])


@pytest.mark.parametrize("proto", [layers(), said(model([node("Celu", "x", "y")], {"x": (1, 3)}, {"y": FLOAT}), 1, 3)])
def test_the_result_is_neither_verified_nor_wrong(proto):
    """Whether nothing runs the source or nothing the target."""
    converter = Converter(proto)
    made = converter.to_tflite(allow_custom=[THING, "Celu"])
    (step,) = converter.report.steps
    assert step.verification.verdict == "unverified" and not step.verification
    assert any(note.startswith("Custom operator, which the runtime needs a kernel for: ") for note in step.notes)
    with pytest.raises(NotRunnableError, match="custom op"):
        made.runner()


def test_a_name_that_nothing_has_is_noted():
    converter = Converter(layers())
    converter.to_tflite(allow_custom=[THING, "Thing"])
    assert "No node is a Thing, which allow_custom names." in converter.report.steps[0].notes


def test_on_the_command_line(tmp_path):
    source, target = tmp_path / "in.onnx", tmp_path / "out.tflite"
    onnx.save(layers(), source)
    assert CliRunner().invoke(app, ["convert", str(source), str(target)]).exit_code == 1
    result = CliRunner().invoke(app, ["convert", str(source), str(target), "--allow-custom", THING])
    assert result.exit_code == 0 and "unverified" in result.output
    assert [o.op for o in customs(TFLiteModel.load(target))] == ["Thing"]
