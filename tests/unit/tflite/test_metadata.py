"""What a file says of itself comes through ONNX to the byte, and what an ONNX model says of itself stands in the file."""

import io
import zipfile
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from mlconverter import Converter
from mlconverter.formats.tflite.metadata import About, about_file, about_onnx, say
from mlconverter.formats.tflite.model import TFLiteModel
from mlconverter.formats.tflite.schema import load
from mlconverter.formats.tflite.writer import write
from tests import zoo
from tests.ops.onnx_torch.models import FLOAT, N, model, node, said, weight
from tests.unit.tflite.test_writer import SIGNATURE, C, constant, graph, reread

ENTRIES = {
    "text": b"some words",
    "min_runtime_version": b"1.5.0\0\0\0\0\0\0\0\0\0\0\0",
    "binary": bytes(range(256)),
    "empty": b"",
    "odd;base64": b"text",
    "odder;base64": b"\xff\xfe",
    "looks like;base64": b"aGVsbG8=",
    "größe": "5 µm".encode(),
}
FILES = {"labels.txt": b"cat\ndog\n", "more/vocab.bin": bytes(range(255, -1, -1)), "empty.txt": b""}


def empty() -> ir.Model:
    return ir.Model(ir.Graph([], [], nodes=[]), ir_version=10)


def relu(**properties: str) -> onnx.ModelProto:
    made = said(model([node("Add", "x c", "a"), node("Relu", "a", "y")], {"x": (N, 3)}, {"y": FLOAT}, {"c": weight(3)}), N, 3)
    helper.set_model_props(made, properties)
    return made


def test_whatever_a_file_says_comes_back_from_text():
    about = About("a description", ENTRIES, FILES)
    there = empty()
    say(about, there)
    read = ir.from_proto(onnx.ModelProto.FromString(ir.to_proto(there).SerializeToString()))
    assert about_onnx(read) == about
    assert read.metadata_props["text"] == "some words"
    assert read.metadata_props["associated_files/labels.txt"] == "cat\ndog\n"


def test_what_is_written_is_read():
    for files in ({}, FILES):
        about = About("a description", {**ENTRIES, "TFLITE_METADATA": b"\0\1"}, files)
        written = write([graph(constant())], [C], SIGNATURE, about)
        found = reread(written)
        assert about_file(found) == about == about_file(written)
        assert TFLiteModel(found)(np.zeros((1, 3), np.float32)).tolist() == [[1, 2, 3]]


def test_metadata_stand_where_their_readers_look_for_them():
    """Those read a buffer's own bytes, and know nothing of data that stand behind the flatbuffer."""
    from ai_edge_litert import schema_py_generated as schema

    data = write([graph(constant())], [C], SIGNATURE, About(entries=ENTRIES)).data
    root = schema.ModelT.InitFromPackedBuf(data)
    data = [root.buffers[m.buffer].data for m in root.metadata]
    assert {m.name.decode(): b"" if d is None else bytes(d) for m, d in zip(root.metadata, data, strict=True)} == ENTRIES


def test_attached_files_can_be_read_by_other_tools():
    data = write([graph(constant())], [C], SIGNATURE, About(entries={"TFLITE_METADATA": b"x"}, files=FILES)).data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None and archive.namelist() == list(FILES)
        first = archive.infolist()[0]
        assert data[first.header_offset : first.header_offset + 4] == b"PK\3\4"  # counted from the start of the file


@pytest.mark.parametrize("change", ["compressed", "cut off", "damaged"])
def test_archives_that_nobody_reads_are_left_out(change):
    about = About(entries={"TFLITE_METADATA": b"x"}, files=FILES)
    data = bytearray(write([graph(constant())], [C], SIGNATURE, replace(about, files={})).data)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if change == "compressed" else zipfile.ZIP_STORED) as archive:
        archive.writestr("labels.txt", b"a" * 1000)
    content = bytearray(file.getvalue())
    if change == "damaged":
        content[100] ^= 1
    data += content[:-30] if change == "cut off" else content
    assert about_file(load(bytes(data))).files == {}


def test_what_an_onnx_model_says_stands_in_the_file():
    proto = relu(author="somebody", labels="cat, dog")
    proto.doc_string = "A model of cats and dogs."
    made = TFLiteModel(bytes(Converter(proto).to_tflite()))
    assert about_file(made.structure) == About("A model of cats and dogs.", {"author": b"somebody", "labels": b"cat, dog"})
    back = Converter(made).to_onnx()
    assert back.doc_string == proto.doc_string
    assert {p.key: p.value for p in back.metadata_props} == {"author": "somebody", "labels": "cat, dog"}


@pytest.mark.parametrize(
    ("producer", "description"),
    [
        (("", ""), "mlconverter"),
        (("pytorch", "2.9"), "mlconverter, from a model by pytorch 2.9"),
        (("mlconverter", ""), "mlconverter"),
    ],
)
def test_where_nothing_is_said_the_file_says_who_made_it(producer, description):
    proto = relu()
    proto.producer_name, proto.producer_version = producer
    assert Converter(proto).to_tflite().structure.description == description


def test_what_is_said_survives_a_freed_batch_and_another_layout():
    proto = said(model([node("Relu", "x", "y")], {"x": (1, 3, 4, 5)}, {"y": FLOAT}), 1, 3, 4, 5)
    helper.set_model_props(proto, {"author": "somebody"})
    proto.doc_string = "words"
    made = Converter(proto).to_tflite(dynamic_batch=True, io_layout="channels_last", weights="float16")
    assert about_file(made.structure) == About("words", {"author": b"somebody"})


def test_base64_that_is_none_is_text():
    there = empty()
    there.metadata_props["somebody's;base64"] = "no base64 at all"
    assert about_onnx(there).entries == {"somebody's;base64": b"no base64 at all"}


@pytest.mark.parametrize(
    "member", ["hand_landmark_lite.tflite", "palm_detection_full.tflite", "selfie_segmentation.tflite", "face_landmark.tflite"]
)
def test_real_files(member):
    """Three entries, of which one is a flatbuffer of its own, and files of labels."""
    origin = TFLiteModel.load(zoo.model("mediapipe", member))
    proto = onnx.ModelProto.FromString(Converter(model=origin, verify=False).to_onnx().SerializeToString())
    before, after = (about_file(m.structure) for m in (origin, Converter(proto, verify=False).to_tflite()))
    assert before == after
    assert "TFLITE_METADATA" in before.entries and before.description not in ("", "mlconverter")
    assert bool(before.files) == (member != "face_landmark.tflite")
