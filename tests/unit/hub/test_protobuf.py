"""Digests, copies and sizes of protobufs, whatever their size."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from mlconverter.hub import protobuf
from tests.ops.onnx_torch.models import FLOAT, N, ints, model, node, weight


def small() -> onnx.ModelProto:
    branch = helper.make_graph(
        [node("Add", "h v", "z")], "branch", [], [helper.make_tensor_value_info("z", FLOAT, None)], [tensor(weight(3), "v")]
    )
    nodes = [
        node("MatMul", "x w", "h"),
        helper.make_node("Constant", [], ["c"], value=tensor(weight(3), "")),
        helper.make_node("If", ["q"], ["i"], then_branch=branch, else_branch=branch),
        node("Add", "i c", "y"),
    ]
    made = model(nodes, {"x": (N, 3), "q": (onnx.TensorProto.BOOL, ())}, {"y": FLOAT}, {"w": weight(3, 3), "s": ints(1)})
    typed = made.graph.initializer.add(name="typed", data_type=FLOAT, dims=[2])
    typed.float_data.extend([1, 2])
    text = made.graph.initializer.add(name="text", data_type=onnx.TensorProto.STRING, dims=[2])
    text.string_data.extend([b"a", b"bc"])
    return made


def tensor(array: np.ndarray, name: str) -> onnx.TensorProto:
    return numpy_helper.from_array(array, name)


def copied(proto: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return copy


def changes() -> dict[str, onnx.ModelProto]:
    """Models that differ from the small one in one thing each."""

    def changed(change) -> onnx.ModelProto:
        proto = copied(small())
        change(proto)
        return proto

    def raw(t: onnx.TensorProto) -> None:
        t.raw_data = bytes([1]) + t.raw_data[1:]

    return {
        "a weight": changed(lambda m: raw(m.graph.initializer[0])),
        "a constant": changed(lambda m: raw(m.graph.node[1].attribute[0].t)),
        "a weight of a branch": changed(lambda m: raw(m.graph.node[2].attribute[0].g.initializer[0])),
        "a typed weight": changed(lambda m: m.graph.initializer[2].float_data.__setitem__(0, 5)),
        "text": changed(lambda m: m.graph.initializer[3].string_data.__setitem__(slice(None), [b"ab", b"c"])),
        "a name": changed(lambda m: setattr(m.graph.initializer[0], "name", "v")),
        "a shape": changed(lambda m: m.graph.initializer[0].dims.__setitem__(slice(None), [9])),
        "an operator": changed(lambda m: setattr(m.graph.node[0], "op_type", "Gemm")),
        "an opset": changed(lambda m: setattr(m.opset_import[0], "version", 20)),
    }


def test_a_digest_is_of_everything_that_is_in_a_model():
    digests = [protobuf.digest(m) for m in (small(), *changes().values())]
    assert len(set(digests)) == len(digests)
    assert protobuf.digest(copied(small())) == digests[0]


def test_the_same_elements_in_pieces_are_the_same(monkeypatch):
    whole = protobuf.digest(small())
    monkeypatch.setattr(protobuf, "_CHUNK", 1)
    assert protobuf.digest(small()) == whole


def test_a_digest_serialises_no_weight(monkeypatch):
    proto = model([node("MatMul", "x w", "y")], {"x": (N, 256)}, {"y": FLOAT}, {"w": weight(256, 256)})
    skeletons, transcribe = [], protobuf.transcribe

    def watched(source, target, special):
        skeletons.append(target)
        transcribe(source, target, special)

    monkeypatch.setattr(protobuf, "transcribe", watched)
    protobuf.digest(proto)
    assert len(skeletons[0].SerializeToString()) < 1000 < proto.ByteSize()


def test_a_copy_field_by_field_is_the_same():
    for proto in (small(), *changes().values(), onnx.ModelProto()):
        target = onnx.ModelProto()
        protobuf.transcribe(proto, target, {})
        assert target == proto


def test_a_description_holds_everything_but_the_elements():
    source = tensor(weight(4, 4), "w")
    source.doc_string = "what it is"
    source.metadata_props.add(key="a", value="b")
    target = onnx.TensorProto()
    protobuf.describe(source, target)
    assert not target.HasField("segment") and not target.raw_data
    target.raw_data = source.raw_data
    assert target == source


@pytest.mark.parametrize(
    ("kind", "dims", "size"),
    [
        (FLOAT, [3, 5], 60),
        (onnx.TensorProto.INT4, [3, 5], 8),
        (onnx.TensorProto.BOOL, [0, 7], 0),
        (onnx.TensorProto.DOUBLE, [], 8),
    ],
)
def test_sizes(kind, dims, size):
    assert protobuf.nbytes(onnx.TensorProto(data_type=kind, dims=dims)) == size


def test_a_model_beyond_the_limit_is_not_serialised(monkeypatch):
    data = protobuf.serialized(small())
    assert data is not None and onnx.ModelProto.FromString(data) == small()
    for limit in (10, len(data) - 1):  # the weights alone are too many; the graph brings it over the limit
        monkeypatch.setattr(protobuf, "LARGEST_PROTOBUF", limit)
        assert protobuf.serialized(small()) is None
