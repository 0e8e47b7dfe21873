"""What is put into a TFLite file leaves everything else in it as it was: graph, weights, metadata, what is attached."""

import io
import struct
import zipfile

import flatbuffers
import numpy as np
import pytest

from mlconverter import Converter, Metadata, load_metadata
from mlconverter.formats.tflite.attached import with_entries, write
from mlconverter.formats.tflite.metadata import about_file
from mlconverter.formats.tflite.model import TFLiteModel
from mlconverter.formats.tflite.schema import MAGIC, generated, load
from mlconverter.verification.samples import sample_inputs
from tests import zoo
from tests.contract.test_formats import small_onnx
from tests.ops.tflite_onnx.test_quantised import CASES, made

ENTRIES = {"extra_files/a.json": b'{"a": 1}', "extra_files/b.bin": bytes(range(256)), "extra_files/empty": b""}

FILES = {
    "data inside the flatbuffer, metadata and attached labels": lambda: zoo.model(
        "mediapipe", "face_detection_short_range.tflite"
    ),
    "sparse weights in half precision": lambda: zoo.model("mediapipe", "pose_detection.tflite"),
    "streams with variables": lambda: zoo.model("pymicro-wakeword", "alexa.tflite"),
}


def test_nothing_else_changes_in_a_quantised_file():
    unchanged(made(next(case for case in CASES if case.id == "FULLY_CONNECTED int8"), 1))


def unchanged(before):
    after = bytes(with_entries(before, ENTRIES))
    old, new = load(before), load(after)
    assert after.endswith(before[-1000:]) or len(before) < 1000
    said = about_file(old)
    assert about_file(new).entries == {**said.entries, **ENTRIES}
    assert (about_file(new).files, new.description, new.version) == (said.files, old.description, old.version)
    assert new.signatures == old.signatures
    for a, b in zip(old.subgraphs, new.subgraphs, strict=True):
        assert repr(a.tensors) == repr(b.tensors)  # arrays within them have no truth of their own
        assert (a.inputs, a.outputs, a.name) == (b.inputs, b.outputs, b.name)
        assert [o.op for o in a.operators] == [o.op for o in b.operators]
    for a, b in zip(old.buffers, new.buffers, strict=False):
        assert before[a.offset : a.offset + a.length] == after[b.offset : b.offset + b.length]
        assert a.offset % 64 == b.offset % 64  # kernels read aligned data
    inputs = sample_inputs(TFLiteModel(before).signature, kind="natural", seed=0)
    with TFLiteModel(before).runner() as a, TFLiteModel(after).runner() as b:
        one, other = a.run(inputs), b.run(inputs)
    assert list(one) == list(other) and all(np.array_equal(one[name], other[name]) for name in one)
    return after


@pytest.mark.parametrize("kind", FILES)
def test_nothing_else_changes(kind):
    unchanged(FILES[kind]().read_bytes())


def test_nothing_else_changes_where_the_data_stand_behind_the_flatbuffer():
    before = bytes(Converter(small_onnx()).to_tflite())
    assert any(generated().Model.GetRootAs(before, 0).Buffers(i).Offset() > 1 for i in range(3))
    unchanged(unchanged(before))


def test_what_an_earlier_export_put_there_is_replaced(tmp_path):
    model = TFLiteModel.load(zoo.model("mediapipe", "face_detection_short_range.tflite"))
    write(model, tmp_path / "a.tflite", Metadata({"old": 1}, {"old.txt": b"old"}))
    write(TFLiteModel.load(tmp_path / "a.tflite"), tmp_path / "b.tflite", Metadata({"new": 2}))
    assert load_metadata(tmp_path / "b.tflite") == Metadata({"new": 2})
    entries = about_file(load((tmp_path / "b.tflite").read_bytes())).entries
    assert entries == {**about_file(model.structure).entries, "extra_files/metadata.json": b'{"new": 2}'}


def test_files_that_are_attached_stay_readable(tmp_path):
    before = zoo.model("mediapipe", "face_detection_short_range.tflite").read_bytes()
    holder = io.BytesIO(before)
    with zipfile.ZipFile(holder, "a") as archive:
        archive.writestr("labels.txt", "cat\ndog\n")
    after = bytes(with_entries(holder.getvalue(), ENTRIES))
    with zipfile.ZipFile(io.BytesIO(after)) as archive:
        assert archive.testzip() is None and archive.read("labels.txt") == b"cat\ndog\n"
    load(after)


def test_options_of_custom_operators_that_stand_behind_the_flatbuffer():
    schema = generated()
    tensor = [schema.TensorT(shape=[2], name=name, buffer=0) for name in ("x", "y")]
    operator = schema.OperatorT(inputs=[0], outputs=[1], largeCustomOptionsOffset=1 << 40, largeCustomOptionsSize=7)
    model = schema.ModelT(
        version=3,
        operatorCodes=[schema.OperatorCodeT(deprecatedBuiltinCode=32, builtinCode=32, customCode="Own", version=1)],
        subgraphs=[schema.SubGraphT(tensors=tensor, inputs=[0], outputs=[1], operators=[operator])],
        buffers=[schema.BufferT()],
    )
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), MAGIC)
    flat = bytearray(builder.Output())
    at = flat.index(struct.pack("<Q", 1 << 40))
    struct.pack_into("<Q", flat, at, len(flat))
    before = bytes(flat) + b"options"
    for data in (before, bytes(with_entries(before, ENTRIES))):
        (made,) = load(data).subgraphs[0].operators
        assert made.custom_options == b"options"
    assert about_file(load(before)).entries == {}  # it had no list of metadata, and no signature, which it does not get
    assert generated().Model.GetRootAs(with_entries(before, ENTRIES), 0).SignatureDefsIsNone()


def test_training_goes_back_into_a_file_with_metadata(tmp_path):
    model = TFLiteModel.load(zoo.model("mediapipe", "face_detection_short_range.tflite"))
    write(model, tmp_path / "net.tflite", Metadata({"name": "x"}))
    converter = Converter(tmp_path / "net.tflite")
    module = converter.to_torch()
    assert bytes(converter.to_origin_type(module)) == (tmp_path / "net.tflite").read_bytes()
    for parameter in module.parameters():
        parameter.data *= 0.5
    converter.to_origin_type(module).save(tmp_path / "tuned.tflite")
    assert load_metadata(tmp_path / "tuned.tflite") == Metadata({"name": "x"})
