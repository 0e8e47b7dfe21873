"""Models whose weights stay in the bytes of their file: the same model, however it is given."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mlconverter import Converter, CorruptModelError
from mlconverter.formats.onnx.converter import ONNXConverter
from mlconverter.hub.original import Original
from mlconverter.hub.wire import SMALLEST, lightened
from tests.ops.onnx_torch.models import FLOAT, model, node, weight

SIDE = 24
assert 4 * SIDE * SIDE > SMALLEST


def net(**metadata: str) -> onnx.ModelProto:
    """Three layers, with large weights of several forms and small ones between them."""
    typed = helper.make_tensor("typed", FLOAT, [SIDE, SIDE], weight(SIDE, SIDE, seed=2).reshape(-1).tolist())
    half = numpy_helper.from_array(weight(SIDE, SIDE, seed=3).astype(np.float16), "half")
    nodes = [
        node("MatMul", "x w", "a"),
        node("Add", "a b", "c"),
        node("MatMul", "c typed", "d"),
        helper.make_node("Cast", ["half"], ["h"], to=FLOAT),
        node("MatMul", "d h", "y"),
    ]
    proto = model(nodes, {"x": ["n", SIDE]}, {"y": FLOAT}, {"w": weight(SIDE, SIDE), "b": weight(SIDE)})
    proto.graph.initializer.extend([typed, half])
    proto.graph.initializer[0].doc_string = "a weight"
    for key, value in metadata.items():
        proto.metadata_props.add(key=key, value=value)
    return proto


def test_large_raw_data_are_left_out_and_found_again():
    data = net(author="somebody").SerializeToString()
    light = lightened(data)
    assert light is not None
    assert len(light.data) + sum(size for _, size in light.extents.values()) == pytest.approx(len(data), abs=16)
    rest = onnx.ModelProto.FromString(light.data)
    for index, tensor in enumerate(rest.graph.initializer):
        if index in light.extents:
            start, size = light.extents[index]
            assert not tensor.HasField("raw_data")
            tensor.raw_data = data[start : start + size]
    assert {rest.graph.initializer[i].name for i in light.extents} == {"w", "half"}
    assert rest == net(author="somebody")


def test_all_ways_of_giving_a_model_are_one_model(tmp_path):
    onnx.save(net(), tmp_path / "net.onnx")
    given = [net(), net().SerializeToString(), tmp_path / "net.onnx"]
    originals = [Original.read(source) for source in given]
    assert [set(o.held) for o in originals] == [{"w", "half"}] * 3
    assert len({o.digest() for o in originals}) == 1
    for original in originals:
        assert original.whole() == net()
        stored = original.stored_weights(["w", "b", "typed"])
        np.testing.assert_array_equal(stored["w"], weight(SIDE, SIDE))
        np.testing.assert_array_equal(stored["typed"], weight(SIDE, SIDE, seed=2))
        graph = original.graph()
        for tensor in net().graph.initializer:
            np.testing.assert_array_equal(
                graph.graph.initializers[tensor.name].const_value.numpy(), numpy_helper.to_array(tensor)
            )


def test_a_weight_that_was_changed_has_another_digest():
    data = net().SerializeToString()
    start, _ = next(iter(lightened(data).extents.values()))
    other = data[:start] + bytes([data[start] ^ 1]) + data[start + 1 :]
    assert Original.read(other).held and Original.read(other).digest() != Original.read(data).digest()


def test_weights_are_views_of_the_bytes():
    data = net().SerializeToString()
    graph = Original.read(data).graph()
    found = graph.graph.initializers["w"].const_value.numpy()
    assert np.shares_memory(found, np.frombuffer(data, np.uint8))
    assert not found.flags.writeable


def test_new_weights_go_into_a_copy():
    original = Original.read(net().SerializeToString())
    ones = np.ones((SIDE, SIDE), np.float32)
    changed = original.with_weights({"w": ones})
    np.testing.assert_array_equal(numpy_helper.to_array(changed.graph.initializer[0]), ones)
    assert original.whole() == net()


@pytest.mark.parametrize("form", ["path", "bytes"])
def test_conversions_compute_the_same(form, tmp_path):
    onnx.save(net(), tmp_path / "net.onnx")
    converter = Converter(model_path=tmp_path / "net.onnx") if form == "path" else ONNXConverter(net().SerializeToString())
    assert converter.to_torch() is not None and converter.to_tflite() is not None  # compared with the source, both
    assert converter.to_onnx() == net()
    assert converter.source == net()


def _short(proto: onnx.ModelProto) -> None:
    proto.graph.initializer[0].raw_data = proto.graph.initializer[0].raw_data[:-4]


def _unknown_type(proto: onnx.ModelProto) -> None:
    proto.graph.initializer[0].data_type = 99


def _negative(proto: onnx.ModelProto) -> None:
    proto.graph.initializer[0].dims[0] = -SIDE


def _twice(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.add().CopyFrom(proto.graph.initializer[0])


def _outside(proto: onnx.ModelProto) -> None:
    tensor = proto.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="missing.bin")


@pytest.mark.parametrize("damage", [_short, _unknown_type, _negative, _twice, _outside])
def test_what_is_damaged_is_refused_as_ever(damage):
    proto = net()
    damage(proto)
    with pytest.raises(CorruptModelError) as whole:
        Original.read(proto)
    with pytest.raises(CorruptModelError) as parts:
        Original.read(proto.SerializeToString())
    assert str(parts.value).partition(" no ")[2] == str(whole.value).partition(" no ")[2]


@pytest.mark.parametrize("length", [0, 1, 7, 100, 1500, 2500])
def test_what_is_cut_off_is_refused(length):
    with pytest.raises(CorruptModelError):
        Original.read(net().SerializeToString()[:length])


def test_weights_in_another_file_are_held_once(tmp_path):
    onnx.save(net(), tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    original = Original.read(tmp_path / "net.onnx")
    assert set(original.held) == {"b", "half", "w"}
    assert not any(t.raw_data for t in original.proto.graph.initializer if t.name in original.held)
    graph, whole = original.graph(), original.whole()
    for tensor in net().graph.initializer:
        want = numpy_helper.to_array(tensor)
        np.testing.assert_array_equal(graph.graph.initializers[tensor.name].const_value.numpy(), want)
        np.testing.assert_array_equal(
            numpy_helper.to_array(next(t for t in whole.graph.initializer if t.name == tensor.name)), want
        )
