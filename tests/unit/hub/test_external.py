"""Weights in files beside the graph: models beyond 2 GB, tried with a lower limit, and files that are damaged."""

import errno
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from mlconverter import Converter, CorruptModelError
from mlconverter.errors import MLConverterError, SaveError
from mlconverter.formats.onnx.runner import OnnxRuntimeRunner
from mlconverter.hub import external, protobuf
from mlconverter.hub.io import load_model, read_proto, save_proto, signature_of, to_proto
from mlconverter.verification import Runner
from tests.ops.onnx_torch.models import FLOAT, N, model, node, weight
from tests.unit.hub.test_protobuf import copied

SIDE = 24
"""Tensors of 24 x 24 floats are large enough to be put out."""


def square(seed: int) -> np.ndarray:
    return weight(SIDE, SIDE, seed=seed, scale=0.2)


def tensor(seed: int, name: str = "") -> TensorProto:
    return numpy_helper.from_array(square(seed), name)


def large(*, control_flow: bool = False) -> onnx.ModelProto:
    """A model with weights wherever a model can have them: initializers, Constants, functions, branches; raw and typed."""
    function = helper.make_function(
        "local",
        "F",
        ["x"],
        ["y"],
        [helper.make_node("Constant", [], ["w"], value=tensor(1)), node("MatMul", "x w", "y")],
        [helper.make_opsetid("", 21)],
    )
    nodes = [
        node("MatMul", "x w", "a"),
        helper.make_node("Constant", [], ["c"], value=tensor(2)),
        node("MatMul", "a c", "b"),
        helper.make_node("F", ["b"], ["d"], domain="local"),
        node("MatMul", "d typed", "e"),
    ]
    if control_flow:
        branches = [
            helper.make_graph(
                [node("MatMul", "e v", "z")], "branch", [], [helper.make_tensor_value_info("z", FLOAT, None)], [tensor(seed, "v")]
            )
            for seed in (3, 4)
        ]
        nodes.append(helper.make_node("If", ["yes"], ["y"], then_branch=branches[0], else_branch=branches[1]))
    else:
        nodes.append(node("Relu", "e", "y"))
    made = model(nodes, {"x": (N, SIDE)}, {"y": FLOAT}, {"w": square(0), "yes": np.array(True)}, opset=21)
    typed = made.graph.initializer.add(name="typed", data_type=FLOAT, dims=[SIDE, SIDE])
    typed.float_data.extend(square(5).reshape(-1).tolist())
    made.functions.append(function)
    made.opset_import.append(helper.make_opsetid("local", 1))
    return made


def run(source: onnx.ModelProto | Path) -> np.ndarray:
    session = ort.InferenceSession(source.SerializeToString() if isinstance(source, onnx.ModelProto) else str(source))
    return session.run(None, {"x": weight(2, SIDE, seed=9)})[0]


@pytest.fixture
def lowered(monkeypatch):
    """As if protobufs ended at two thousand bytes."""
    monkeypatch.setattr(protobuf, "LARGEST_PROTOBUF", 2000)


@pytest.mark.usefixtures("lowered")
class TestBeyondTheLimit:
    """What holds for models that no protobuf can hold."""

    @pytest.mark.parametrize("control_flow", [False, True])
    def test_a_model_is_two_files_and_stays_what_it_was(self, tmp_path, control_flow):
        proto = large(control_flow=control_flow)
        before = copied(proto)
        save_proto(proto, tmp_path / "net.onnx")
        assert proto == before
        assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data"]
        assert (tmp_path / "net.onnx").stat().st_size < 8000
        np.testing.assert_array_equal(run(tmp_path / "net.onnx"), run(proto))

    def test_all_of_it_is_read_back(self, tmp_path):
        proto = large()
        save_proto(proto, tmp_path / "net.onnx")
        found = read_proto(tmp_path / "net.onnx")
        assert not any(t.data_location for t in protobuf.tensors(found))
        assert protobuf.digest(read_proto(tmp_path / "net.onnx")) == protobuf.digest(found)
        np.testing.assert_array_equal(run(found), run(proto))

    def test_where_the_weights_are(self, tmp_path):
        save_proto(large(), tmp_path / "net.onnx")
        outside = [t for t in protobuf.tensors(onnx.load(tmp_path / "net.onnx", load_external_data=False)) if t.data_location]
        assert len(outside) == 4
        for t in outside:
            said = {e.key: e.value for e in t.external_data}
            assert said["location"] == "net.onnx.data"
            assert int(said["offset"]) % external.ALIGNMENT == 0
            assert int(said["length"]) == 4 * SIDE * SIDE

    def test_a_converter_leaves_two_files_with_their_names_and_no_other(self, tmp_path):
        given = large()
        converter = Converter(given)
        path = converter.save(tmp_path / "net.onnx")
        assert given == large()
        assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data"]
        np.testing.assert_array_equal(run(path), run(given))
        converter.save(tmp_path / "net.onnx")
        again = Converter(path)
        with torch.no_grad():
            got = again.to_torch()(torch.from_numpy(weight(2, SIDE, seed=9)))
        np.testing.assert_allclose(got, run(given), rtol=1e-5, atol=1e-6)
        assert again.report.verdict == "verified"

    def test_a_file_that_cannot_be_written_leaves_what_was_there(self, tmp_path, monkeypatch):
        converter = Converter(large())
        converter.save(tmp_path / "net.onnx")
        before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
        monkeypatch.setattr(external, "LARGEST_PROTOBUF", 100)
        with pytest.raises(SaveError, match="without its weights"):
            converter.save(tmp_path / "net.onnx")
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before

    def test_through_a_link_both_files_are_found(self, tmp_path):
        (tmp_path / "store").mkdir()
        (tmp_path / "net.onnx").symlink_to("store/real.onnx")
        Converter(large()).save(tmp_path / "net.onnx")
        assert sorted(p.name for p in (tmp_path / "store").iterdir()) == ["real.onnx", "real.onnx.data"]
        np.testing.assert_array_equal(run(read_proto(tmp_path / "net.onnx")), run(large()))

    def test_intermediates_are_kept_and_reused(self, tmp_path):
        net = torch.nn.Sequential(torch.nn.Linear(SIDE, SIDE), torch.nn.Linear(SIDE, SIDE))
        made = Converter(net, input_shape=(1, SIDE), output_dir=tmp_path).to_onnx()
        again = Converter(net, input_shape=(1, SIDE), output_dir=tmp_path, load_intermediate_models_from_disk=True)
        np.testing.assert_array_equal(*[_first(m, net) for m in (again.to_onnx(), made)])
        assert any("read from" in note for note in again.report.notes)
        assert {p.suffix for p in tmp_path.rglob("*") if p.is_file()} == {".onnx", ".data", ".json"}

    def test_onnx_runtime_reads_it_from_a_folder_that_goes_away(self):
        proto = large()
        folder = None
        with OnnxRuntimeRunner(proto, signature_of(load_model(proto))) as runner:
            assert isinstance(runner, Runner)
            folder = Path(runner._folder.name)
            assert sorted(p.name for p in folder.iterdir()) == ["model.onnx", "model.onnx.data"]
            np.testing.assert_array_equal(runner.run({"x": weight(2, SIDE, seed=9)})["y"], run(proto))
        assert not folder.exists()

    def test_a_model_that_onnx_runtime_refuses_leaves_nothing(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        proto = large()
        signature = signature_of(load_model(proto))
        proto.graph.node[0].op_type = "Unheard"
        with pytest.raises(MLConverterError):
            OnnxRuntimeRunner(proto, signature)
        assert not list(tmp_path.iterdir())


def _first(proto: onnx.ModelProto, net) -> np.ndarray:
    return ort.InferenceSession(proto.SerializeToString()).run(None, {proto.graph.input[0].name: weight(2, SIDE)})[0]


class TestModelsOfOnnxIr:
    """Models that hold their weights in files by themselves."""

    def test_weights_in_files_are_read(self, tmp_path):
        ir.save(ir.from_proto(large()), tmp_path / "net.onnx", external_data="net.data", size_threshold_bytes=100)
        lazy = ir.load(tmp_path / "net.onnx")
        assert any(isinstance(v.const_value, ir.ExternalTensor) for v in lazy.graph.initializers.values())
        names = [v.const_value.name for v in lazy.graph.initializers.values()]
        np.testing.assert_array_equal(run(to_proto(lazy)), run(large()))
        assert [v.const_value.name for v in lazy.graph.initializers.values()] == names
        assert all(t.data_location == TensorProto.DEFAULT for t in protobuf.tensors(to_proto(lazy)))

    def test_files_that_are_missing_or_too_short(self, tmp_path):
        ir.save(ir.from_proto(large()), tmp_path / "net.onnx", external_data="net.data", size_threshold_bytes=100)
        (tmp_path / "net.data").write_bytes(b"short")
        with pytest.raises(CorruptModelError):
            to_proto(ir.load(tmp_path / "net.onnx"))
        (tmp_path / "net.data").unlink()
        with pytest.raises(CorruptModelError):
            Converter(ir.load(tmp_path / "net.onnx"))

    def test_a_graph_that_is_inconsistent(self):
        x, lost = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1])), ir.Value(name="lost")
        add = ir.Node("", "Add", [x, lost])
        add.outputs[0].name = "y"
        graph = ir.Graph([x], [add.outputs[0]], nodes=[add], opset_imports={"": 21}, name="g")
        with pytest.raises(CorruptModelError):
            Converter(ir.Model(graph, ir_version=10))


def put_out(folder: Path, **said: str) -> Path:
    """A model whose every weight lies in ``net.data``, with something else said of 'w'."""
    proto = large(control_flow=True)
    for t in sorted(protobuf.tensors(proto), key=lambda t: t.name != "w"):
        if protobuf.nbytes(t) < 1024:
            continue
        data = ir.serde.TensorProtoTensor(t).tobytes()
        with (folder / "net.data").open("ab") as file:
            entries = {"location": "net.data", "offset": str(file.tell()), "length": str(len(data))}
            file.write(data)
        for field in protobuf.PAYLOADS:
            t.ClearField(field)
        t.data_location = TensorProto.EXTERNAL
        for key, value in {**entries, **(said if t.name == "w" else {})}.items():
            if value is not None:
                t.external_data.add(key=key, value=value)
    (folder / "net.onnx").write_bytes(proto.SerializeToString())
    return folder / "net.onnx"


class TestReading:
    """What external data may say, and what it may not."""

    def test_in_every_place_that_a_weight_can_have(self, tmp_path):
        found = read_proto(put_out(tmp_path))
        np.testing.assert_array_equal(run(found), run(large(control_flow=True)))
        assert sum(t.data_location == TensorProto.EXTERNAL for t in protobuf.tensors(found)) == 0

    @pytest.mark.parametrize("said", [{"offset": None}, {"length": None}, {"checksum": "anything"}], ids=str)
    def test_what_may_be_left_out_or_said(self, tmp_path, said):
        np.testing.assert_array_equal(run(read_proto(put_out(tmp_path, **said))), run(large(control_flow=True)))

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ({"location": "../net.data"}, "not below the model's folder"),
            ({"location": "a/../../net.data"}, "not below the model's folder"),
            ({"location": "..\\net.data"}, "not below the model's folder"),
            ({"location": "/etc/hostname"}, "not below the model's folder"),
            ({"location": ""}, "not below the model's folder"),
            ({"location": None}, "not below the model's folder"),
            ({"location": "other.data"}, "missing"),
            ({"location": "folder"}, "missing"),
            ({"location": "outside"}, "outside of the model's folder"),
            ({"offset": str(1 << 40)}, "ends before"),
            ({"offset": "1000000"}, "ends before"),
            ({"offset": "-1"}, "no number"),
            ({"offset": "a"}, "no number"),
            ({"length": "-5"}, "no number"),
            ({"length": "1e9"}, "no number"),
            ({"length": "12"}, "12 bytes, which is not what float"),
            ({"length": str(1 << 50)}, "bytes, which is not what float"),
        ],
        ids=str,
    )
    def test_what_is_refused(self, tmp_path, said, message):
        inside = tmp_path / "inside"
        (inside / "folder").mkdir(parents=True)
        (tmp_path / "net.data").write_bytes(bytes(10_000))
        (inside / "outside").symlink_to(tmp_path / "net.data")
        with pytest.raises(CorruptModelError, match=message) as caught:
            Converter(put_out(inside, **said))
        assert "'w'" in str(caught.value)

    def test_a_file_that_was_cut_off(self, tmp_path):
        path = put_out(tmp_path)
        data = tmp_path / "net.data"
        data.write_bytes(data.read_bytes()[:-1])
        with pytest.raises(CorruptModelError, match="ends before"):
            Converter(path)

    def test_a_file_that_cannot_be_read(self, tmp_path, monkeypatch):
        path, open_ = put_out(tmp_path), Path.open

        def guarded(self, mode="r", *args, **kwargs):  # file modes do not stop an administrator
            if self.name == "net.data":
                raise PermissionError(errno.EACCES, "Permission denied")
            return open_(self, mode, *args, **kwargs)

        monkeypatch.setattr(Path, "open", guarded)
        with pytest.raises(CorruptModelError, match="cannot be read: Permission denied"):
            Converter(path)

    def test_text_cannot_lie_outside(self, tmp_path):
        proto = model([node("Relu", "x", "y")], {"x": (N, 3)}, {"y": FLOAT})
        text = proto.graph.initializer.add(name="t", data_type=TensorProto.STRING, dims=[1], data_location=TensorProto.EXTERNAL)
        text.external_data.add(key="location", value="net.data")
        (tmp_path / "net.data").write_bytes(b"text")
        (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
        with pytest.raises(CorruptModelError, match="'t'"):
            Converter(tmp_path / "net.onnx")

    def test_a_model_in_memory_has_no_folder(self, tmp_path):
        path = put_out(tmp_path)
        for given in (onnx.load(path, load_external_data=False), path.read_bytes()):
            with pytest.raises(CorruptModelError, match=r"onnx\.load"):
                read_proto(given)

    def test_links_into_one_store_are_followed(self, tmp_path):
        """Download caches keep files under their digests and models as links to them."""
        (tmp_path / "blobs").mkdir()
        (tmp_path / "model").mkdir()
        put_out(tmp_path / "blobs")
        (tmp_path / "blobs" / "net.onnx").rename(tmp_path / "blobs" / "1111")
        (tmp_path / "blobs" / "net.data").rename(tmp_path / "blobs" / "2222")
        (tmp_path / "model" / "net.onnx").symlink_to("../blobs/1111")
        (tmp_path / "model" / "net.data").symlink_to("../blobs/2222")
        np.testing.assert_array_equal(run(read_proto(tmp_path / "model" / "net.onnx")), run(large(control_flow=True)))
