"""Bad input gets an error of the right class that says what and where; nothing crashes."""

import zipfile

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from mlconverter import (
    ConversionError,
    Converter,
    CorruptModelError,
    SignatureError,
    UnknownFormatError,
    UnsafeModelError,
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.onnx", b""),
        ("text.onnx", b"hello, this is text"),
        ("cut.onnx", b"\x08\x08\x12\x07"),
        ("empty.tflite", b""),
        ("text.tflite", b"hello, this is text"),
        ("cut.tflite", b"\x1c\x00\x00\x00TFL3" + bytes(20)),
    ],
)
def test_damaged_files(tmp_path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorruptModelError, match=name):
        Converter(tmp_path / name).to_onnx()


def test_files_of_no_format(tmp_path) -> None:
    (tmp_path / "what.bin").write_bytes(b"what")
    with pytest.raises(UnknownFormatError, match=r"what\.bin"):
        Converter(tmp_path / "what.bin")
    for path in (tmp_path, tmp_path / "missing.onnx"):
        with pytest.raises(FileNotFoundError):
            Converter(path)
    with pytest.raises(UnknownFormatError, match="int"):
        Converter(3)


def test_missing_external_weights(tmp_path) -> None:
    weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [weight],
    )
    onnx.save(helper.make_model(graph), tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    assert Converter(tmp_path / "net.onnx").to_torch() is not None
    (tmp_path / "net.data").unlink()
    with pytest.raises(CorruptModelError, match=r"net\.data"):
        Converter(tmp_path / "net.onnx")


class TestCheckpoints:
    """Files of weights for a module."""

    def test_weights_load(self, tmp_path) -> None:
        saved, net = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
        torch.save(saved.state_dict(), tmp_path / "weights.pt")
        Converter(net, tmp_path / "weights.pt", input_shape=(1, 4)).to_onnx()
        assert torch.equal(net.weight, saved.weight)

    def test_pickled_modules_need_trust(self, tmp_path) -> None:
        net = torch.nn.Linear(4, 3)
        torch.save(net, tmp_path / "pickled.pt")
        with pytest.raises(UnsafeModelError, match="trust=True"):
            Converter(torch.nn.Linear(4, 3), tmp_path / "pickled.pt", input_shape=(1, 4))
        Converter(torch.nn.Linear(4, 3), tmp_path / "pickled.pt", input_shape=(1, 4), trust=True)

    def test_others_are_refused(self, tmp_path) -> None:
        net = torch.nn.Linear(4, 3)
        torch.save({"other": torch.zeros(1)}, tmp_path / "other.pt")
        with pytest.raises(SignatureError, match="do not fit"):
            Converter(net, tmp_path / "other.pt", input_shape=(1, 4))
        (tmp_path / "empty.pt").write_bytes(b"")
        with pytest.raises(CorruptModelError, match=r"empty\.pt"):
            Converter(net, tmp_path / "empty.pt", input_shape=(1, 4))
        zipfile.ZipFile(tmp_path / "archive.pt", "w").writestr("a", "b")
        with pytest.raises(SignatureError, match="give the module"):
            Converter(tmp_path / "archive.pt")


@pytest.mark.parametrize(
    "given",
    [None, (1, 5), [(1, 4), (1, 4)], "abc", 7, {"other": (1, 4)}, ((2, 4), "float99"), [[1, 4], [1, [4]]]],
    ids=str,
)
def test_input_shapes_that_do_not_fit(given) -> None:
    with pytest.raises(SignatureError):
        Converter(torch.nn.Linear(4, 3), input_shape=given).to_onnx()


@pytest.mark.parametrize(
    "given",
    [
        (1, 4),
        ("n", 4),
        (None, 4),
        [(1, 4)],
        {"input": (1, 4)},
        {"input": ((1, 4), "float32")},
        np.zeros((1, 4), "f4"),
        torch.zeros(1, 4),
    ],
    ids=str,
)
def test_input_shapes_that_fit(given) -> None:
    converter = Converter(torch.nn.Linear(4, 3), input_shape=given)
    converter.to_onnx()
    assert converter.report.verdict == "verified"


class Branching(torch.nn.Module):
    """What no exporter takes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else x * 2


def test_modules_that_cannot_be_exported(capfd) -> None:
    with pytest.raises(ConversionError, match="data-dependent"):
        Converter(Branching(), input_shape=(1, 4)).to_onnx()
    assert not capfd.readouterr().out
    with pytest.raises(ConversionError, match="opset"):
        Converter(torch.nn.Linear(4, 3), input_shape=(1, 4), opset=99).to_onnx()


def test_a_batch_that_stays_fixed_still_finds_its_way_back() -> None:
    """The first axis is mixed into others, so the batch cannot be freed."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        helper.make_node("Reshape", ["t", "mixed"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"], axis=-1),
        helper.make_node("Reshape", ["b", "back"], ["y"]),
    ]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, 6]) for n in ("x", "y")]
    shapes = [helper.make_tensor(n, TensorProto.INT64, [len(s)], s) for n, s in (("mixed", [3, 4]), ("back", [1, 2, 6]))]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], shapes)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    converter = Converter(model)
    converter.to_torch()
    assert any("stays fixed" in note for note in converter.report.notes)
    with pytest.raises(SignatureError, match="first axis of 3"):
        converter.to_torch()(torch.zeros(3, 2, 6))
    assert converter.to_origin_type() == model
    with pytest.raises(ConversionError, match="cannot be freed"):
        converter.to_torch(dynamic_batch=True)


class Optional(torch.nn.Module):
    """Inputs that may be left out."""

    def forward(self, a: torch.Tensor, b: torch.Tensor | None = None, c: torch.Tensor | None = None) -> torch.Tensor:
        return a * 2 + (0 if b is None else b * 3) + (0 if c is None else c * 5)


def test_a_skipped_input_does_not_shift_the_next() -> None:
    for gap in ({"a": (1, 4), "c": (1, 4)}, {"b": (1, 4)}):
        with pytest.raises(SignatureError, match="comes before"):
            Converter(Optional(), input_shape=gap).to_onnx()
    Converter(Optional(), input_shape={"a": (1, 4), "b": (1, 4)}).to_onnx()


class FixedBatch(torch.nn.Module):
    """What cannot be exported with a free batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(2, 6) * 2


def test_a_free_batch_that_is_insisted_on() -> None:
    with pytest.raises(ConversionError, match="free batch"):
        Converter(FixedBatch(), input_shape=(2, 6), dynamic_batch=True).to_onnx()
    Converter(FixedBatch(), input_shape=(2, 6)).to_onnx()


def test_the_report_shows_every_verdict() -> None:
    converter = Converter(torch.nn.Linear(4, 3), input_shape=(1, 4), verify=False)
    converter.to_onnx()
    assert "unverified" in str(converter.report)


class Passing(torch.nn.Module):
    """Hands an input through, and one result twice."""

    def forward(self, x: torch.Tensor, output_0: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 2 * output_0
        return x, y, y


class TestBorderNames:
    """Every input and output has a name of its own, the one that was asked for."""

    def export(self, **names):
        converter = Converter(Passing(), input_shape=[(1, 4), (1, 4)], **names)
        proto = converter.to_onnx()
        onnx.checker.check_model(proto)
        assert converter.report.verdict == "verified"
        return [v.name for v in proto.graph.input], [v.name for v in proto.graph.output]

    def test_by_default(self) -> None:
        assert self.export() == (["x", "output_0"], ["output_0_out", "output_1", "output_2"])

    def test_exchanged(self) -> None:
        assert self.export(input_names=("output_0", "x")) == (["output_0", "x"], ["output_0_out", "output_1", "output_2"])
        assert self.export(output_names=("b", "a", "c")) == (["x", "output_0"], ["b", "a", "c"])

    @pytest.mark.parametrize(
        "names",
        [{"input_names": ("q", "q")}, {"output_names": ("a", "a", "b")}, {"output_names": ("x", "a", "b")}],
        ids=str,
    )
    def test_names_that_are_there_twice(self, names) -> None:
        with pytest.raises(SignatureError, match="more than once"):
            self.export(**names)
