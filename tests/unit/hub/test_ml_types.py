"""Types and shapes behind operators of ai.onnx.ml, one node after the other."""

import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from mlconverter.hub.normalise import normalise

ML = "ai.onnx.ml"


def outputs(*nodes, kind=TensorProto.FLOAT) -> dict[str, tuple[ir.DataType | None, int | None]]:
    """By value: element type and rank of what nodes give for a matrix ``x``, the last one being the graph's output."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", kind, ["n", 4])],
        [helper.make_empty_tensor_value_info(nodes[-1].output[0])],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in (("", 21), (ML, 3), ("com.example", 1))]
    made = normalise(ir.from_proto(helper.make_model(graph, opset_imports=imports, ir_version=10)))
    assert not {"mlconverter.hidden"} & (set(made.opset_imports) | {n.domain for n in made.graph})
    return {o.name: (o.dtype, None if o.shape is None else len(o.shape)) for n in made.graph for o in n.outputs}


def ml(op, inputs, results, **attributes):
    return helper.make_node(op, inputs.split(), results.split(), domain=ML, **attributes)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE])
def test_a_chain_of_both_kinds_of_operators(kind):
    found = outputs(
        ml("Scaler", "x", "a", scale=[2.0], offset=[1.0]),
        helper.make_node("Relu", ["a"], ["b"]),
        ml("Imputer", "b", "c", imputed_value_floats=[1.0]),
        ml("LinearRegressor", "c", "d", coefficients=[1.0] * 8, targets=2),
        ml("OneHotEncoder", "d", "e", cats_int64s=[1, 2, 3]),
        helper.make_node("Add", ["e", "e"], ["f"]),
        kind=kind,
    )
    assert found == {**dict.fromkeys("abcd", (ir.DataType.FLOAT, 2)), **dict.fromkeys("ef", (ir.DataType.FLOAT, 3))}


def test_labels_and_scores():
    found = outputs(ml("SVMClassifier", "x", "label scores", classlabels_ints=[0, 1], coefficients=[1.0] * 8, rho=[0.0, 0.0]))
    assert found == {"label": (ir.DataType.INT64, 1), "scores": (ir.DataType.FLOAT, 2)}


def test_behind_a_value_of_unknown_type_nothing_is_inferred():
    """Inference of the whole graph ends the process here."""
    found = outputs(
        helper.make_node("Mystery", ["x"], ["a"], domain="com.example"),
        ml("LabelEncoder", "a", "b", keys_int64s=[1], values_int64s=[2]),
        ml("Normalizer", "b", "c"),
    )
    assert found["a"] == (None, None) and found["c"][1] is None
