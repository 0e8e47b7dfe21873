"""What a comparison with ONNX Runtime does not show: exports, gradients, refusals, whole models, and where it is wrong."""

import copy
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from mlconverter import Converter
from mlconverter.errors import MLConverterError, TranslationError, UnsupportedOpsError
from tests.ops.onnx_torch.cases_ml import ML, floats, rows, trees
from tests.ops.onnx_torch.cases_more import FED, Fed, always, boxes, normal, one, rois
from tests.ops.onnx_torch.check import check, compare, run_torch
from tests.ops.onnx_torch.models import FLOAT, INT64, N, ints, model, node, weight

# -- exports and gradients ---------------------------------------------------------------------------------------------

EXPORTED: list[Fed] = [
    Fed("fixed", "NonMaxSuppression", (lambda b: boxes(b, 7), lambda b: normal(b, 2, 7), ints(3), one(0.3)), outputs=(INT64,)),
    Fed("sampled", "RoiAlign", (always(normal(2, 3, 8, 9)), always(rois(4)), ints(0, 1, 1, 0)), {"sampling_ratio": 2}, 16),
    Fed("adaptive", "RoiAlign", (always(normal(2, 3, 8, 9)), always(rois(4)), ints(0, 1, 1, 0)), {"output_width": 2}, 16),
    Fed(
        "pooled",
        "MaxRoiPool",
        (always(normal(1, 3, 8, 9)), np.abs(rois(3, 1)[:, [0, 0, 1, 2, 3]]) * [[0, 1, 1, 1, 1]]),
        {"pooled_shape": [2, 2]},
    ),
    Fed("moved", "DeformConv", (lambda b: normal(b, 2, 5, 5), weight(3, 2, 2, 2), lambda b: normal(b, 8, 4, 4)), opset=19),
    Fed("windows", "STFT", (lambda b: normal(b, 20, 1), one(3, np.int64), np.hanning(6).astype(np.float32)), {}, 17),
    Fed("spectrum", "DFT", (lambda b: normal(b, 6, 1),), {"onesided": 1}, 17),
    Fed(
        "trees",
        "TreeEnsembleClassifier",
        (rows,),
        trees("class", [0, 1, 2]) | {"classlabels_int64s": [4, 9, 7]},
        3,
        (INT64, FLOAT),
        ML,
    ),
]


@pytest.mark.parametrize("case", EXPORTED, ids=lambda case: case.id)
def test_what_torch_has_a_construct_for_is_exported_with_a_free_batch(case):
    module = Converter(case.build(), verify=False).to_torch()
    one_, more = ([torch.from_numpy(a) for a in case.feeds(batch).values()] for batch in (1, 3))
    free = [{0: torch.export.Dim.AUTO} if a.shape != b.shape else None for a, b in zip(one_, more, strict=True)]
    names = [n.name for n in module.graph.nodes if n.op == "placeholder"]
    program = torch.export.export(module, tuple(more), dynamic_shapes=dict(zip(names, free, strict=True))).module()
    for given in (one_, more):
        want, got = module(*given), program(*given)
        want, got = (r if isinstance(r, tuple) else (r,) for r in (want, got))
        compare([g.detach().numpy() for g in got], [w.detach().numpy() for w in want])


DIFFERENTIABLE = ("RoiAlign", "MaxRoiPool", "DeformConv", "MaxUnpool", "DFT", "STFT", "ConvTranspose", "BatchNormalization")


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_gradients_reach_every_real_input(op):
    case = next(c for c in FED if c.op == op)
    module = Converter(case.build(), verify=False).to_torch()
    inputs = [torch.from_numpy(a) for a in case.feeds(3).values()]
    inputs = [x.requires_grad_(x.is_floating_point()) for x in inputs]
    result = module(*inputs)
    (result[0] if isinstance(result, tuple) else result).square().sum().backward()
    reached = [x.grad is not None and bool(x.grad.abs().sum() > 0) for x in inputs if x.requires_grad]
    assert all(reached) or (op == "MaxRoiPool" and reached[0])  # regions are rounded there
    assert all(p.grad is not None for p in module.parameters())


# -- what ONNX Runtime does not have, or does otherwise ----------------------------------------------------------------


def converted(
    op: str, inputs: list[np.ndarray], kinds: list[int], opset: int = 21, domain: str = "", **attributes: Any
) -> list[np.ndarray]:
    """The outputs of one node on run-time inputs."""
    case = Fed("", op, tuple(always(i) for i in inputs), attributes, opset, tuple(kinds), domain)
    module = Converter(case.build(), verify=False).to_torch()
    return run_torch(module, case.feeds(1))


def test_unsigned_exponents_beyond_the_signed_range():
    base, exponent = np.array([3, -5, 2, 7], np.int64), np.array([2**63 + 5, 2**64 - 1, 64, 0], np.uint64)
    want = [pow(int(b), int(e), 2**64) for b, e in zip(base, exponent, strict=True)]
    (got,) = converted("Pow", [base, exponent], [INT64], 15)
    np.testing.assert_array_equal(got.view(np.uint64), np.array(want, np.uint64))


@pytest.mark.parametrize("length", [None, 5, 8])
def test_a_real_signal_comes_back_from_one_side_of_its_spectrum(length):
    x = normal(2, 5, 2)
    given = [x] if length is None else [x, one(length, np.int64)]
    (got,) = converted("DFT", given, [FLOAT], 17, inverse=1, onesided=1)
    want = np.fft.irfft(x[..., 0] + 1j * x[..., 1], length, axis=1)
    compare([got], [want[..., None].astype(np.float32)])


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_spectra_in_other_precisions(kind):
    x = normal(2, 6, 1).astype(kind)
    (got,) = converted("DFT", [x], [helper.np_dtype_to_tensor_dtype(np.dtype(kind))], 17)
    want = np.fft.fft(x[..., 0], axis=1)
    compare([got], [np.stack([want.real, want.imag], -1).astype(kind)], 2e-3)


def test_an_ensemble_in_its_newest_form_is_what_the_older_one_says():
    old = trees("target", [0], count=5, depth=4) | {"n_targets": 1}
    x = rows(6)
    (want,) = converted("TreeEnsembleRegressor", [x], [FLOAT], 3, ML, **old)
    (got,) = converted("TreeEnsemble", [x], [FLOAT], 5, ML, **newest(old))
    compare([got], [want])


def newest(old: dict[str, Any]) -> dict[str, Any]:
    """The attributes of TreeEnsembleRegressor as those of TreeEnsemble."""
    names = list(zip(old["nodes_treeids"], old["nodes_nodeids"], strict=True))
    inner = [i for i, mode in enumerate(old["nodes_modes"]) if mode != "LEAF"]
    branch = {names[i]: number for number, i in enumerate(inner)}
    voters = list(zip(old["target_treeids"], old["target_nodeids"], strict=True))
    leaf = {name: number for number, name in enumerate(voters)}
    modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ"]
    made: dict[str, Any] = {
        "n_targets": 1,
        "tree_roots": [branch[name] for name in branch if name[1] == 0],
        "nodes_featureids": [old["nodes_featureids"][i] for i in inner],
        "nodes_missing_value_tracks_true": [old["nodes_missing_value_tracks_true"][i] for i in inner],
        "nodes_splits": tensor([old["nodes_values"][i] for i in inner], np.float32),
        "nodes_modes": tensor([modes.index(old["nodes_modes"][i]) for i in inner], np.uint8),
        "leaf_targetids": old["target_ids"],
        "leaf_weights": tensor(old["target_weights"], np.float32),
    }
    for side in ("true", "false"):
        ends = [(names[i][0], old[f"nodes_{side}nodeids"][i]) for i in inner]
        made[f"nodes_{side}nodeids"] = [leaf[end] if end in leaf else branch[end] for end in ends]
        made[f"nodes_{side}leafs"] = [int(end in leaf) for end in ends]
    return made


def tensor(values: list[float], kind: type) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(values, kind))


def test_a_nan_goes_where_the_node_says_whatever_it_asks():
    """ONNX Runtime takes it for different from everything, and for the true branch."""
    attributes = {
        "nodes_treeids": [0] * 3,
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0] * 3,
        "nodes_values": [1.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_NEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [10.0, 20.0],
        "n_targets": 1,
    }
    x = np.array([[1.0], [2.0], [np.nan]], np.float32)
    (got,) = converted("TreeEnsembleRegressor", [x], [FLOAT], 3, ML, **attributes)
    assert got.tolist() == [[20.0], [10.0], [20.0]]


def test_dropout_by_a_ratio_that_is_computed_obeys_train():
    made = model([node("Dropout", "x ratio", "y")], {"x": (N, 400), "ratio": (FLOAT, ())}, {"y": FLOAT}, opset=13)
    module = Converter(made, verify=False).to_torch()
    x, ratio = torch.ones(2, 400), torch.tensor(0.25)
    torch.testing.assert_close(module(x, ratio), x)
    dropped = copy.deepcopy(module).train()(x, ratio)
    assert dropped.unique().tolist() == pytest.approx([0, 1 / 0.75])
    assert 0.15 < float((dropped == 0).float().mean()) < 0.35


# -- whole models ------------------------------------------------------------------------------------------------------


def pipeline(*nodes: onnx.NodeProto, outputs: dict[str, int]) -> onnx.ModelProto:
    made = model(list(nodes), {"x": (N, 4)}, outputs)
    made.opset_import.append(helper.make_opsetid(ML, 3))
    return made


def test_types_are_inferred_through_a_pipeline_that_names_none():
    ml = {"domain": ML}
    made = pipeline(
        node("Scaler", "x", "a", offset=floats(4), scale=floats(4, seed=2), **ml),
        node("Relu", "a", "b"),
        node("Normalizer", "b", "c", norm="L1", **ml),
        node("LinearRegressor", "c", "d", coefficients=floats(3, 4), targets=3, **ml),
        node("ReduceMean", "d", "e", keepdims=1),
        node("Add", "d e", "y"),
        outputs={"y": FLOAT},
    )
    check(made)


def test_a_verified_model_of_trees_behind_a_network():
    made = pipeline(
        node("Tanh", "x", "h"),
        node("TreeEnsembleClassifier", "h", "label scores", domain=ML, classlabels_int64s=[4, 9, 7], **trees("class", [0, 1, 2])),
        outputs={"label": INT64, "scores": FLOAT},
    )
    converter = Converter(made)
    assert converter.to_torch()(torch.randn(5, 4))[1].shape == (5, 3)


def test_tables_are_buffers_named_after_what_they_belong_to():
    made = pipeline(node("Scaler", "x", "y", offset=floats(4), scale=[2.0], domain=ML), outputs={"y": FLOAT})
    module = Converter(made, verify=False).to_torch()
    assert sorted(name for name, _ in module.named_buffers()) == ["y.offset", "y.scale"]
    assert not list(module.parameters())


def flexible(captured: bool) -> onnx.ModelProto:
    """Attention whose scores are changed by a subgraph, with a matrix of its own or of the graph around it."""
    bias = onnx.numpy_helper.from_array(normal(4, 4), "bias")
    scores, changed = (helper.make_tensor_value_info(name, FLOAT, ["b", "h", "l", "s"]) for name in ("scores", "changed"))
    subgraph = helper.make_graph([node("Add", "scores bias", "changed")], "mod", [scores], [changed], [] if captured else [bias])
    nodes = [node("FlexAttention", "q k v", "y", domain="ai.onnx.preview", score_mod=subgraph)]
    made = model(nodes, dict.fromkeys("qkv", (N, 2, 4, 3)), {"y": FLOAT}, {"bias": normal(4, 4)} if captured else {}, opset=26)
    made.opset_import.append(helper.make_opsetid("ai.onnx.preview", 1))
    return made


def test_a_subgraph_that_the_specification_writes_out_is_translated():
    converter = Converter(flexible(captured=False), verify=False)
    module = converter.to_torch()
    q, k, v = (torch.from_numpy(normal(3, 2, 4, 3, seed=s)) for s in range(3))
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=torch.from_numpy(normal(4, 4)))
    torch.testing.assert_close(module(q, k, v), want)
    assert converter.to_origin_type(module).graph.node[0].op_type == "FlexAttention"


def test_a_subgraph_that_reads_values_from_outside_is_refused():
    with pytest.raises(UnsupportedOpsError, match="FlexAttention"):
        Converter(flexible(captured=True), verify=False).to_torch()


# -- refusals ----------------------------------------------------------------------------------------------------------

VOTED = trees("class", [0, 1])


@pytest.mark.parametrize(
    ("op", "opset", "attributes", "words"),
    [
        ("LabelEncoder", 2, {"keys_strings": ["a"], "values_int64s": [1]}, "torch has no strings"),
        ("LabelEncoder", 2, {"keys_int64s": [1, 1], "values_int64s": [1, 2]}, "stands in the list twice"),
        ("OneHotEncoder", 1, {"cats_strings": ["a"]}, "torch has no strings"),
        ("Imputer", 1, {"imputed_value_int64s": [1]}, "no values of the type"),
        (
            "LinearClassifier",
            1,
            {"coefficients": floats(4), "intercepts": [0.1], "classlabels_strings": ["a", "b"]},
            "no strings",
        ),
        ("LinearClassifier", 1, {"coefficients": floats(4), "intercepts": [0.1], "classlabels_ints": [0, 1]}, "one score"),
        ("LinearRegressor", 1, {"coefficients": floats(4), "post_transform": "LOGISTIC"}, "single target"),
        ("SVMRegressor", 1, {"coefficients": floats(4), "rho": [0.1], "post_transform": "LOGISTIC"}, "leaves out"),
        ("SVMClassifier", 1, {"coefficients": floats(8), "rho": [0.1], "classlabels_ints": [0, 1]}, "other labels"),
        ("TreeEnsembleClassifier", 3, VOTED | {"classlabels_strings": ["a", "b"]}, "no strings"),
        ("TreeEnsembleClassifier", 3, VOTED | {"classlabels_int64s": [0, 1]}, "makes up its labels"),
        ("ZipMap", 1, {"classlabels_int64s": [0, 1]}, "no translator"),
    ],
)
def test_what_is_not_said_or_cannot_be_is_refused_with_the_reason(op, opset, attributes, words):
    outputs = "y z" if op.endswith("Classifier") else "y"
    made = pipeline(node(op, "x", outputs, domain=ML, **attributes), outputs={"y": FLOAT})
    made.opset_import[-1].version = opset
    with pytest.raises(UnsupportedOpsError, match=words):
        Converter(made, verify=False).to_torch()


def test_a_leaf_without_votes_and_a_base_value_is_refused():
    attributes = trees("target", [1]) | {"n_targets": 2, "base_values": [1.0, 2.0]}
    made = pipeline(node("TreeEnsembleRegressor", "x", "y", domain=ML, **attributes), outputs={"y": FLOAT})
    with pytest.raises(TranslationError, match="base value"):
        Converter(made, verify=False).to_torch()


@pytest.mark.parametrize("opset", [7, 9])
def test_old_batch_normalisations_that_train_are_refused(opset):
    """They say so by their number of outputs, whether or not those are read."""
    weights = {"s": weight(3), "b": weight(3), "m": weight(3), "v": np.abs(weight(3))}
    made = model([node("BatchNormalization", "x s b m v", "y n w k l")], {"x": (N, 3, 4)}, {"y": FLOAT}, weights, opset=opset)
    with pytest.raises(TranslationError, match="ask for training"):
        Converter(made, verify=False).to_torch()


def test_two_corners_of_one_element_are_refused():
    """Torch, ONNX Runtime and the reference give three answers."""
    nodes, size = [node("AffineGrid", "x size", "y", align_corners=1)], ints(1, 2, 1, 6)
    with pytest.raises(TranslationError, match="both corners"):
        Converter(model(nodes, {"x": (1, 2, 3)}, {"y": FLOAT}, {"size": size}), verify=False).to_torch()
    module = Converter(model(nodes, {"x": (1, 2, 3), "size": (INT64, (4,))}, {"y": FLOAT}), verify=False).to_torch()
    with pytest.raises(ValueError, match="two corners"):
        module(torch.zeros(1, 2, 3), torch.from_numpy(size))


def test_one_side_of_a_complex_spectrum_is_refused():
    made = model(
        [node("STFT", "x step window", "y")], {"x": (N, 20, 2)}, {"y": FLOAT}, {"step": one(3, np.int64), "window": normal(6)}
    )
    with pytest.raises(MLConverterError, match="known to be real"):
        Converter(made, verify=False).to_torch()


def test_an_unknown_category_is_an_error_where_the_model_says_so():
    made = pipeline(node("OneHotEncoder", "x", "y", domain=ML, cats_int64s=[0, 1], zeros=0), outputs={"y": FLOAT})
    module = Converter(made, verify=False).to_torch()
    assert module(torch.tensor([[0.0, 1, 1, 0]])).shape == (1, 4, 2)
    with pytest.raises(ValueError, match="none of the categories"):
        module(torch.tensor([[0.0, 1, 2, 0]]))


def test_integers_of_a_mel_matrix_are_cut():
    numbers = [one(v, np.int64) for v in (4, 16, 8000)] + [one(0.0), one(4000.0)]
    (got,) = converted("MelWeightMatrix", numbers, [TensorProto.INT32], 17, output_datatype=TensorProto.INT32)
    (want,) = converted("MelWeightMatrix", numbers, [FLOAT], 17)
    np.testing.assert_array_equal(got, np.trunc(want).astype(np.int32))
