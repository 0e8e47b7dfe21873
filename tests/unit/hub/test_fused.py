"""Operators of ONNX Runtime's own: their defaults, what is refused, and where shapes come from."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import helper

from mlconverter import Converter, UnsupportedOpsError
from mlconverter.errors import ConversionError
from mlconverter.hub.fused import writes_out
from mlconverter.hub.fused.defaults import DEFAULTS
from mlconverter.hub.io import load_model, signature_of
from mlconverter.hub.model import HubModel
from mlconverter.hub.normalise import is_weight, normalise
from mlconverter.hub.rebatch import free_batch
from tests.ops.onnx_torch.cases_contrib import DOMAIN, Contrib
from tests.ops.onnx_torch.check import compare, feeds_of, run_torch
from tests.ops.onnx_torch.models import FLOAT, N, model, node, weight


def schemas() -> dict[str, dict[str, object]]:
    """The defaults that ONNX Runtime itself has, by operator; of its own domain, and of those that it adds to the default one."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    found: dict[str, dict[str, object]] = {}
    for schema in get_all_operator_schema():
        if schema.since_version != 1 or (schema.domain != DOMAIN and f"{DOMAIN}::{schema.name}" not in writes_out.ops()):
            continue
        defaults = {}
        for name, attribute in schema.attributes.items():
            proto = onnx.AttributeProto()
            proto.ParseFromString(attribute._default_value or b"")
            if proto.name:
                value = helper.get_attribute_value(proto)
                defaults[name] = value.decode() if isinstance(value, bytes) else value
        if schema.domain == DOMAIN or schema.name not in found:
            found[schema.name] = defaults
    return found


@pytest.mark.parametrize("op", [op.partition("::")[2] for op in writes_out.ops()])
def test_defaults_are_those_of_onnx_runtime(op):
    assert DEFAULTS.get(op, {}) == pytest.approx(schemas()[op])


def test_there_are_defaults_of_nothing_else():
    assert {f"{DOMAIN}::{op}" for op in DEFAULTS} <= set(writes_out.ops())


X = (N, 5, 8)
PACKED = weight(8, 24), weight(24)
HEADS = {"num_heads": 2}


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (Contrib("FusedConv", ((N, 3, 7, 6), weight(4, 3, 3, 3)), {"activation": "Gelu"}), "the fused activation Gelu"),
        (
            Contrib("FusedConv", ((N, 3, 7, 6), weight(4, 3, 3, 3)), {"activation": "Clip", "activation_params": [0.0]}),
            "without its parameters",
        ),
        (Contrib("FusedMatMul", (X, X), {"transBatchA": 1}), "the axes of the batch"),
        (Contrib("Attention", (X, *PACKED), {**HEADS, "do_rotary": 1}), "do_rotary"),
        (Contrib("Attention", (X, *PACKED, (onnx.TensorProto.INT32, ("twice",))), HEADS), "not one length an item"),
        (Contrib("Attention", (X, *PACKED, (onnx.TensorProto.INT32, (N, 1, 5, 5))), HEADS), "a mask of rank 4"),
        (Contrib("MultiHeadAttention", ((N, 5, 2, 3, 4),), HEADS), "packed into one input"),
        (Contrib("SimplifiedLayerNormalization", (X, weight(8)), {"stash_type": 10}, domain=""), "stash_type"),
        (Contrib("Gelu", (X,), {"strange": 1}), "strange"),
        (Contrib("Attention", (X, *PACKED)), "num_heads"),
        (Contrib("MultiHeadAttention", (X, X, X), HEADS, outputs=(FLOAT,) * 4), "its output 3 is read"),
        (Contrib("GroupQueryAttention", (X, X, X), {**HEADS, "kv_num_heads": 2}), "no translator"),
    ],
    ids=lambda value: value.op if isinstance(value, Contrib) else None,
)
def test_what_cannot_be_written_out_is_refused_with_the_reason(case, reason):
    with pytest.raises(UnsupportedOpsError) as caught:
        Converter(case.build(), verify=False).to_torch()
    assert reason in caught.value.ops[0].reason
    assert caught.value.ops[0].op.endswith(case.op)


def test_what_is_not_known_before_the_model_runs_is_the_reason():
    nodes = [node("Reshape", "x shape", "a"), node("FusedMatMul", "a a", "y", domain=DOMAIN, transB=1)]
    made = model(nodes, {"x": (N, 8), "shape": (onnx.TensorProto.INT64, ("rank",))}, {"y": FLOAT})
    with pytest.raises(UnsupportedOpsError) as caught:
        Converter(made, verify=False).to_torch()
    assert "the rank of 'a' is not known" in caught.value.ops[0].reason


def test_an_input_that_is_handed_out_as_it_is_keeps_its_name():
    case = Contrib("MultiHeadAttention", (X, (N, 2, 7, 4), (N, 2, 7, 4)), HEADS, outputs=(FLOAT,) * 3)
    graph = normalise(load_model(case.build())).graph
    assert [i.name for i in graph.inputs] == ["i0", "i1", "i2"]
    assert len(graph.outputs) == 3
    assert "i0" in {i.name for node in graph for i in node.inputs if i is not None}


def deep(opset: int) -> onnx.ModelProto:
    """Operators whose shapes depend on one another, and that the specification knows of later than this opset."""
    nodes, x, weights = [], "x", {}
    for i in range(4):
        weights |= {f"w{i}": weight(6, 6, seed=i), f"g{i}": weight(6, seed=i)}
        nodes += [
            node("FusedMatMul", f"{x} w{i}", f"a{i}", domain=DOMAIN, transB=1),
            node("LayerNormalization", f"a{i} g{i}", f"b{i}"),
            node("Gelu", f"b{i}", f"c{i}", domain=DOMAIN),
            node("FusedMatMul", f"c{i} c{i}", f"d{i}", domain=DOMAIN, transA=1),
        ]
        x = f"d{i}"
    made = model(nodes, {"x": (N, 6, 6)}, {x: FLOAT}, weights, opset)
    made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return made


@pytest.mark.parametrize("opset", [11, 17, 21])
def test_shapes_follow_one_another(opset):
    graph = normalise(load_model(deep(opset))).graph
    assert all(node.domain == "" for node in graph)
    assert all(node.outputs[0].shape is not None for node in graph)
    assert {v.name for v in graph.initializers.values() if is_weight(v)} == {f"{letter}{i}" for letter in "wg" for i in range(4)}


def test_the_source_is_left_as_it_is():
    loaded = load_model(deep(11))
    before = ir.to_proto(loaded).SerializeToString(deterministic=True)
    normalise(loaded)
    assert ir.to_proto(loaded).SerializeToString(deterministic=True) == before


def test_an_operator_of_another_opset_is_not_taken_for_one_of_these():
    with pytest.raises(UnsupportedOpsError, match="no specification of it at opset 17"):
        Converter(Contrib("Attention", (X, *PACKED), HEADS, domain="").build(), verify=False).to_torch()


def test_weights_of_one_element_are_parameters():
    case = Contrib("FusedConv", ((N, 3, 5, 5), weight(1, 3, 5, 5), weight(1)), {"activation": "Relu"})
    assert [p.numel() for p in Converter(case.build()).to_torch().parameters()] == [75, 1]


def test_functions_of_a_model_come_first():
    """A model may bring its own body of an operator, which is what it means there."""
    made = model([node("Gelu", "x", "y", domain=DOMAIN)], {"x": (N, 3)}, {"y": FLOAT})
    made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    own = helper.make_function(DOMAIN, "Gelu", ["x"], ["y"], [node("Relu", "x", "y")], made.opset_import[:1])
    made.functions.append(own)
    assert [n.op_type for n in normalise(load_model(made)).graph] == ["Relu"]


BATCHED = [
    Contrib("FusedConv", ((1, 3, 7, 6), weight(4, 3, 3, 3), weight(4), (1, 4, 5, 4)), {"activation": "Relu"}),
    Contrib("FusedMatMul", ((1, 5, 8), weight(3, 8)), {"transB": 1, "alpha": 0.5}),
    Contrib("FusedGemm", ((1, 6), weight(6, 3), weight(3)), {"activation": "Tanh"}),
    Contrib("QuickGelu", ((1, 5, 8),)),
    Contrib("SkipLayerNormalization", ((1, 5, 8), (1, 5, 8), weight(8), weight(8))),
    Contrib("SkipSimplifiedLayerNormalization", ((1, 5, 8), (1, 5, 8), weight(8)), opset=23),
    Contrib("Attention", ((1, 5, 8), *PACKED), {**HEADS, "unidirectional": 1}),
    Contrib("MultiHeadAttention", ((1, 5, 8),) * 3, HEADS),
]


@pytest.mark.parametrize("case", BATCHED, ids=lambda case: case.op)
def test_a_batch_of_one_is_freed(case):
    made = case.build()
    shape = {"FusedConv": (1, 4, 5, 4), "FusedMatMul": (1, 5, 3), "FusedGemm": (1, 3)}.get(case.op, (1, 5, 8))
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("o0", FLOAT, shape))
    module = Converter(made, dynamic_batch=True).to_torch()
    feeds = {name: np.concatenate([value, value * 0.5, -value]) for name, value in feeds_of(made, 1).items()}
    session = ort.InferenceSession(made.SerializeToString())
    single = [session.run(None, {name: value[i : i + 1] for name, value in feeds.items()})[0] for i in range(3)]
    compare(run_torch(module, feeds), [np.concatenate(single)])


@pytest.mark.parametrize(("shape", "freed"), [((1, 3, 3), True), ((1, 1), False)])
def test_an_inverse_takes_its_last_axes_for_a_matrix(shape, freed):
    made = Contrib("Inverse", (shape,)).build()
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("o0", FLOAT, shape))
    loaded = load_model(made)
    baked = HubModel(loaded, signature_of(loaded))
    if freed:
        assert free_batch(baked).signature.outputs[0].shape == ("batch", *shape[1:])
    else:
        with pytest.raises(ConversionError, match="takes matrices across the batch"):
            free_batch(baked)


def test_constants_that_are_written_are_no_weights():
    case = Contrib("QuickGelu", (X,))
    module = Converter(case.build(), verify=False).to_torch()
    assert not list(module.parameters())
