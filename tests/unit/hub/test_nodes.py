"""Nodes in the calling form of the newest opset."""

import numpy as np
import onnx_ir as ir
import pytest

from mlconverter.hub.nodes import attributes_of, call_of, op_name, opset_of, version_of


def made(op: str, count: int = 1, domain: str = "", **attributes: object) -> ir.Node:
    values = [ir.Value(name=f"i{n}") for n in range(count)]
    return ir.Node(domain, op, values, ir.convenience.convert_attributes(attributes))


def test_defaults_are_filled_in():
    assert attributes_of(made("Gemm"), 13) == {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
    assert attributes_of(made("Softmax"), 11) == {"axis": 1}
    assert attributes_of(made("Softmax"), 13) == {"axis": -1}


def test_optional_attributes_without_a_default_are_absent():
    assert "strides" not in attributes_of(made("Conv"), 11)


@pytest.mark.parametrize(
    ("op", "opset", "attributes", "moved"),
    [
        ("Squeeze", 11, {"axes": [1]}, [[1]]),
        ("Unsqueeze", 11, {"axes": [0, 2]}, [[0, 2]]),
        ("ReduceMean", 13, {"axes": [1]}, [[1]]),
        ("Slice", 9, {"starts": [1], "ends": [2], "axes": [0]}, [[1], [2], [0]]),
        ("Clip", 6, {"max": 6.0}, [np.finfo(np.float32).min, 6.0]),
        ("Pad", 2, {"pads": [1, 1]}, [[1, 1], 0.0]),
        ("TopK", 1, {"k": 3}, [[3]]),
    ],
)
def test_attributes_that_became_inputs_are_inputs(op, opset, attributes, moved):
    node = made(op, **attributes)
    call = call_of(node, opset, version_of(node, {"": opset}) or 0)
    assert [np.asarray(i).tolist() for i in call.inputs[1:]] == [np.asarray(m).tolist() for m in moved]
    assert not set(attributes) & set(call.attributes)


def test_absent_inputs_at_the_end_are_dropped():
    node = ir.Node("", "Clip", [ir.Value(name="x"), None, None])
    assert len(call_of(node, 13, 13).inputs) == 1


def test_names_and_versions():
    assert op_name(made("Relu", domain="ai.onnx")) == "Relu"
    assert op_name(made("Relu", domain="com.example")) == "com.example::Relu"
    assert version_of(made("Relu"), {"": 12}) == 6
    assert version_of(made("Relu"), {"": 13}) == 13
    assert version_of(made("Relu", domain="com.example"), {"com.example": 1}) is None
    assert version_of(made("Relu"), {"": 10_000}) is None
    assert opset_of(made("Relu", domain="ai.onnx"), {"": 9}) == 9


@pytest.mark.parametrize(("op", "domain", "version"), [("Gelu", "com.microsoft", 1), ("Gelu", "", None), ("Gelu", "other", None)])
def test_operators_of_onnx_runtimes_own_have_one_version(op, domain, version):
    assert version_of(ir.Node(domain, op, []), {"": 17, "com.microsoft": 1}) == version
