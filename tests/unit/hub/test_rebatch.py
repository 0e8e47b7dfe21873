"""Freeing a batch of 1: what keeps items apart is freed and computes what single runs compute, what mixes them is refused."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mlconverter import Converter
from mlconverter.errors import ConversionError
from mlconverter.formats.onnx.runner import OnnxRuntimeRunner
from mlconverter.formats.torch.from_onnx import translates
from mlconverter.hub.batch_axis import RULES
from mlconverter.hub.io import load_model, signature_of, to_proto
from mlconverter.hub.model import HubModel
from mlconverter.hub.rebatch import batch_is_baked, free_batch
from mlconverter.verification import batch_failure
from tests.ops.onnx_torch.models import ints, node, weight


def hub(nodes, inputs, outputs, weights=None, opset=18, dtype=TensorProto.FLOAT) -> HubModel:
    """Nodes as a model; inputs and outputs by name and shape."""
    info = lambda given: [helper.make_tensor_value_info(n, dtype, s) for n, s in given.items()]  # noqa: E731
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()]
    graph = helper.make_graph(nodes, "graph", info(inputs), info(outputs), tensors)
    model = load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9))
    return HubModel(model, signature_of(model))


def shape_of(nodes, inputs, weights, opset) -> tuple[int, ...]:
    """The shape of the value ``y``."""
    made = to_proto(hub(nodes, inputs, {"y": None}, weights, opset).model)
    inferred = onnx.shape_inference.infer_shapes(made, data_prop=True).graph.output[0]
    return tuple(d.dim_value for d in inferred.type.tensor_type.shape.dim)


X = {"x": (1, 4, 6)}
IMAGE = {"x": (1, 4, 6, 6)}
PAIR = {"a": (1, 4, 6), "b": (1, 4, 6)}
KEPT = {
    "elementwise": ([node("Relu", "x", "r"), node("Add", "r w", "y")], X, {"w": weight(4, 6)}),
    "elementwise, with a constant of fewer axes": ([node("Mul", "x w", "y")], X, {"w": weight(6)}),
    "two inputs": ([node("Sub", "a b", "y")], PAIR, {}),
    "softmax": ([node("Softmax", "x", "y", axis=-1)], X, {}),
    "layer normalisation": ([node("LayerNormalization", "x s", "y", axis=1)], X, {"s": weight(4, 6)}),
    "sum": ([node("ReduceSum", "x axes", "y", keepdims=1)], X, {"axes": ints(1, 2)}),
    "max without the axis": ([node("ReduceMax", "x axes", "y", keepdims=0)], X, {"axes": ints(-1)}),
    "transposed there and back": (
        [
            node("Transpose", "x", "t", perm=[1, 0, 2]),
            node("ReduceMean", "t axes", "m"),
            node("Transpose", "m", "y", perm=[1, 0, 2]),
        ],
        X,
        {"axes": ints(0)},
    ),
    "reshape to a constant": ([node("Reshape", "x s", "y")], X, {"s": ints(1, 24)}),
    "reshape that infers another axis": ([node("Reshape", "x s", "y")], X, {"s": ints(1, -1, 3)}),
    "rows of an item for a matrix product": (
        [node("Reshape", "x s", "r"), node("Gemm", "r w b", "g", transB=1), node("Reshape", "g back", "y")],
        X,
        {"s": ints(4, 6), "w": weight(5, 6), "b": weight(5), "back": ints(1, 4, 5)},
    ),
    "items in other rows and back": (
        [node("Reshape", "x s", "r"), node("Softmax", "r", "m", axis=-1), node("Reshape", "m back", "y")],
        X,
        {"s": ints(3, 8), "back": ints(1, 4, 6)},
    ),
    "flatten": ([node("Flatten", "x", "y", axis=1)], X, {}),
    "squeeze and unsqueeze": (
        [node("Unsqueeze", "x one", "u"), node("Unsqueeze", "u zero", "v"), node("Squeeze", "v first", "y")],
        X,
        {"one": ints(2), "zero": ints(0), "first": ints(0)},
    ),
    "matrix product": ([node("MatMul", "x w", "y")], X, {"w": weight(6, 5)}),
    "products of items": ([node("Transpose", "b", "t", perm=[0, 2, 1]), node("MatMul", "a t", "y")], PAIR, {}),
    "product from the left": ([node("MatMul", "w x", "y")], X, {"w": weight(5, 4)}),
    "einsum": ([node("Einsum", "a b", "y", equation="nij,nkj->nik")], PAIR, {}),
    "split": ([node("Split", "x", "p q", axis=2, num_outputs=2), node("Concat", "q p", "y", axis=1)], X, {}),
    "slice": ([node("Slice", "x s e a", "y")], X, {"s": ints(1), "e": ints(3), "a": ints(1)}),
    "gather": ([node("Gather", "x i", "y", axis=1)], X, {"i": ints(2, 0)}),
    "gather across two axes": ([node("Gather", "x i", "y", axis=1)], X, {"i": ints(2, 0).reshape(1, 2)}),
    "pad": ([node("Pad", "x p", "y")], X, {"p": ints(0, 1, 0, 0, 0, 2)}),
    "tile": ([node("Tile", "x r", "y")], X, {"r": ints(1, 2, 1)}),
    "expand": (
        [node("Slice", "x s e a", "p"), node("Expand", "p t", "y")],
        X,
        {"s": ints(1), "e": ints(2), "a": ints(1), "t": ints(1, 3, 6)},
    ),
    "topk": ([node("TopK", "x k", "y i", axis=-1)], X, {"k": ints(2)}),
    "cumsum": ([node("CumSum", "x a", "y")], X, {"a": np.array(1, np.int64)}),
    "one-hot": (
        [node("ArgMax", "x", "i", axis=2, keepdims=0), node("OneHot", "i d v", "y", axis=-1)],
        X,
        {"d": np.array(6, np.int64), "v": np.array([0, 1], np.float32)},
    ),
    "convolution": (
        [node("Conv", "x w b", "c", pads=[1] * 4), node("MaxPool", "c", "y", kernel_shape=[2, 2])],
        IMAGE,
        {"w": weight(5, 4, 3, 3), "b": weight(5)},
    ),
    "batch normalisation": (
        [node("BatchNormalization", "x s b m v", "y")],
        IMAGE,
        {"s": weight(4), "b": weight(4), "m": weight(4), "v": np.ones(4, np.float32)},
    ),
    "resize": ([node("Resize", "x _ s", "y", mode="nearest")], IMAGE, {"s": np.array([1, 1, 2, 2], np.float32)}),
    "depth to space": ([node("DepthToSpace", "x", "y", blocksize=2)], IMAGE, {}),
    "recurrence": (
        [
            node("Transpose", "x", "t", perm=[1, 0, 2]),
            node("GRU", "t w r", "all last", hidden_size=3),
            node("Transpose", "last", "y", perm=[1, 0, 2]),
        ],
        X,
        {"w": weight(1, 9, 6), "r": weight(1, 9, 3)},
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_keeps_items_apart_is_freed(name) -> None:
    """The freed graph runs at a batch of three, and gives what three runs give."""
    nodes, inputs, weights = KEPT[name]
    baked = hub(nodes, inputs, {"y": shape_of(nodes, inputs, weights, 18)}, weights)
    assert batch_is_baked(baked)
    freed = free_batch(baked)
    assert [s.shape[0] for s in (*freed.signature.inputs, *freed.signature.outputs)] == ["batch"] * (len(inputs) + 1)
    assert batch_failure(OnnxRuntimeRunner(to_proto(freed.model), freed.signature)) is None
    assert signature_of(freed.model).outputs[0].shape[1:] == baked.signature.outputs[0].shape[1:]


MIXED = {
    "a maximum that matters beyond a threshold": (
        [node("ReduceMax", "x axes", "m"), node("Sub", "m t", "d"), node("Relu", "d", "r"), node("Add", "x r", "y")],
        X,
        {"axes": ints(0), "t": np.array(30, np.float32)},
        "ReduceMax 'm' reduces the batch",
    ),
    "a mean behind which nothing is left of it": (
        [node("ReduceMean", "x axes", "m"), node("Add", "m t", "s"), node("Sigmoid", "s", "g"), node("Mul", "x g", "y")],
        X,
        {"axes": ints(0, 1), "t": np.array(200, np.float32)},
        "reduces the batch",
    ),
    "all axes": ([node("ReduceMax", "x", "y")], X, {}, "reduces the batch"),
    "softmax": ([node("Softmax", "x", "y", axis=0)], X, {}, "normalises over the batch"),
    "layer normalisation": (
        [node("LayerNormalization", "x s", "y", axis=0)],
        X,
        {"s": weight(1, 4, 6)},
        "normalises over the batch",
    ),
    "argmax": (
        [node("ArgMax", "x", "i", axis=0), node("Cast", "i", "f", to=1), node("Add", "x f", "y")],
        X,
        {},
        "picks one item",
    ),
    "cumsum": ([node("CumSum", "x a", "y")], X, {"a": np.array(0, np.int64)}, "accumulates along the batch"),
    "topk": ([node("TopK", "x k", "y i", axis=0)], X, {"k": ints(1)}, "sorts the batch"),
    "concat": (
        [node("Concat", "x x", "c", axis=0), node("ReduceSum", "c a", "y")],
        X,
        {"a": ints(0)},
        "joins values along the batch",
    ),
    "concat with a constant": ([node("Concat", "x w", "y", axis=1)], X, {"w": weight(1, 1, 6)}, "one that is for all items"),
    "slice": ([node("Slice", "x s e", "y")], X, {"s": ints(0), "e": ints(1)}, "takes a part of the batch"),
    "gather": ([node("Gather", "x i", "y", axis=0)], X, {"i": ints(0)}, "picks from the batch"),
    "pad": (
        [node("Pad", "x p", "q"), node("ReduceSum", "q a", "y")],
        X,
        {"p": ints(1, 0, 0, 0, 0, 0), "a": ints(0)},
        "pads the batch",
    ),
    "transpose and a sum": (
        [node("Transpose", "x", "t", perm=[1, 0, 2]), node("ReduceSum", "t a", "y")],
        X,
        {"a": ints(1)},
        "reduces the batch",
    ),
    "the batch is left elsewhere": (
        [node("Slice", "x s e a", "p"), node("Transpose", "p", "y", perm=[1, 0, 2])],
        X,
        {"s": ints(0), "e": ints(1), "a": ints(1)},
        "'y' has its batch along axis 1",
    ),
    "reshape that merges": (
        [node("Transpose", "x", "t", perm=[1, 0, 2]), node("Reshape", "t s", "y")],
        X,
        {"s": ints(1, 24)},
        "merges the batch",
    ),
    "flatten that merges": (
        [node("Transpose", "x", "t", perm=[1, 0, 2]), node("Flatten", "t", "f", axis=2), node("ReduceSum", "f a", "y")],
        X,
        {"a": ints(0)},
        "merges the batch",
    ),
    "squeeze": ([node("Squeeze", "x a", "s"), node("Unsqueeze", "s a", "y")], X, {"a": ints(0)}, "drops the batch"),
    "expand": (
        [node("Expand", "x s", "e"), node("ReduceSum", "e a", "y")],
        X,
        {"s": ints(3, 4, 6), "a": ints(0)},
        "expands the batch",
    ),
    "spread": (
        [node("Add", "x w", "s"), node("ReduceSum", "s a", "y")],
        X,
        {"w": weight(3, 1, 1), "a": ints(0)},
        "spreads the batch",
    ),
    "matrix product": (
        [node("MatMul", "w x", "p"), node("ReduceSum", "p a", "y")],
        {"x": (1, 6)},
        {"w": weight(5, 1), "a": ints(0)},
        "adds up over the batch",
    ),
    "gram matrix": ([node("Gemm", "x x", "y", transB=1)], {"x": (1, 6)}, {}, "every item of the batch with every other"),
    "product of items": (
        [node("Transpose", "x", "t", perm=[1, 0]), node("MatMul", "x t", "y")],
        {"x": (1, 6)},
        {},
        "every item of the batch with every other",
    ),
    "einsum": ([node("Einsum", "x", "y", equation="nij->ij")], {"x": (1, 1, 6)}, {}, "adds up over the batch"),
    "another axis of another input": (
        [node("Transpose", "b", "t", perm=[1, 0, 2]), node("Add", "a t", "y")],
        {"a": (1, 1, 6), "b": (1, 1, 6)},
        {},
        "pairs the items",
    ),
    "an axis that a scalar input meets": ([node("Mul", "a b", "y")], {"a": (1, 6), "b": (1,)}, {}, "pairs the items"),
    "convolution": (
        [node("Unsqueeze", "x a", "u"), node("Conv", "u w", "y")],
        {"x": (1, 6, 6)},
        {"a": ints(0), "w": weight(1, 1, 1, 1)},
        "takes the batch for another axis",
    ),
    "resize": (
        [node("Resize", "x _ _ s", "y", mode="nearest")],
        IMAGE,
        {"s": ints(1, 4, 12, 12)},
        "gives a fixed size to the batch",
    ),
    "indices of a pool": (
        [node("MaxPool", "x", "p i", kernel_shape=[2, 2]), node("Cast", "i", "y", to=1)],
        IMAGE,
        {},
        "counts the elements of the whole batch",
    ),
    "places": (
        [node("NonZero", "x", "n"), node("Cast", "n", "f", to=1), node("ReduceSum", "f", "r"), node("Add", "x r", "y")],
        X,
        {},
        "for all items",
    ),
    "an operator without a rule": (
        [node("Unsqueeze", "x a", "u"), node("StringNormalizer", "u", "y")],
        {"x": (1,)},
        {"a": ints(0)},
        "is not known to keep",
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_what_mixes_items_is_refused(name) -> None:
    nodes, inputs, weights, words = MIXED[name]
    dtype = TensorProto.STRING if name == "an operator without a rule" else TensorProto.FLOAT
    baked = hub(nodes, inputs, {"y": (1, 1)}, weights, dtype=dtype)
    with pytest.raises(ConversionError, match=words):
        free_batch(baked)


def test_an_operator_without_a_rule_is_taken_at_its_convention() -> None:
    """The batch in front of all that it takes and gives; whether that holds is for the run to prove."""
    made = hub([node("Mystery", "a b", "y", domain="com.example")], PAIR, {"y": (1, 4, 6)})
    made.model.opset_imports["com.example"] = 1
    made.model.graph.outputs[0].shape = made.model.graph.inputs[0].shape
    assert free_batch(made).signature.outputs[0].shape == ("batch", 4, 6)


def test_every_operator_that_is_translated_has_a_rule() -> None:
    """Add one to a file ``hub/batch_*.py``; without one only samples tell whether items meet."""
    assert not set(translates.ops()) - set(RULES)


def test_an_output_that_depends_on_no_input_keeps_its_shape() -> None:
    made = hub([node("Relu", "x", "y"), node("Identity", "w", "z")], X, {"y": (1, 4, 6), "z": (1, 3)}, {"w": weight(1, 3)})
    assert [s.shape for s in free_batch(made).signature.outputs] == [("batch", 4, 6), (1, 3)]


@pytest.mark.parametrize("opset", [1, 4])
def test_targets_that_are_attributes(opset) -> None:
    made = hub([node("Reshape", "x", "y", shape=[1, 24])], X, {"y": (1, 24)}, opset=opset)
    assert list(free_batch(made).model.graph[0].attributes["shape"].as_ints()) == [-1, 24]


def test_a_size_that_only_a_run_will_tell_is_still_inferred() -> None:
    made = hub([node("Reshape", "x s", "y")], {"x": (1, 4, "h", "w")}, {"y": (1, 4, "n")}, {"s": ints(1, 4, -1)})
    freed = free_batch(made)
    assert freed.model.graph[0].inputs[1].const_value.numpy().tolist() == [0, 4, -1]


class TestConversion:
    """What is refused stays at a batch of 1, with the reason."""

    def converted(self, name: str, **options):
        nodes, inputs, weights, words = MIXED[name]
        baked = hub(nodes, inputs, {"y": (1, 4, 6)}, weights)
        converter = Converter(to_proto(baked.model), **options)
        return converter, words

    def test_the_batch_stays_fixed(self) -> None:
        converter, words = self.converted("a maximum that matters beyond a threshold")
        module = converter.to_torch()
        assert any("stays fixed" in note and words in note for note in converter.report.notes)
        assert module.origin.signature.inputs[0].shape == (1, 4, 6)

    def test_insisting_is_an_error(self) -> None:
        converter, words = self.converted("a maximum that matters beyond a threshold", dynamic_batch=True)
        with pytest.raises(ConversionError, match=words):
            converter.to_torch()
