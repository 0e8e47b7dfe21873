"""What every registered format promises; a new format is tested with no edit but one line in ``SOURCES``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from mlconverter import BaseConverter, Converter, NotConvertibleError, SaveError, UnknownFormatError
from mlconverter.conversion import Conversion
from mlconverter.formats.onnx.runner import OnnxRuntimeRunner
from mlconverter.hub.io import load_model, signature_of, to_proto
from mlconverter.hub.model import HubModel
from mlconverter.registry import formats
from tests import zoo


def small_onnx() -> onnx.ModelProto:
    """A convolution, a product with a weight, and a softmax, with a free batch."""
    rng = np.random.default_rng(0)
    weights = {"conv.weight": (4, 3, 3, 3), "conv.bias": (4,), "head": (4, 5)}
    nodes = [
        helper.make_node("Conv", ["image", "conv.weight", "conv.bias"], ["features"], pads=[1, 1, 1, 1], name="conv"),
        helper.make_node("Relu", ["features"], ["active"], name="relu"),
        helper.make_node("GlobalAveragePool", ["active"], ["pooled"], name="pool"),
        helper.make_node("Flatten", ["pooled"], ["flat"], name="flat"),
        helper.make_node("MatMul", ["flat", "head"], ["scores"], name="head"),
        helper.make_node("Softmax", ["scores"], ["classes"], name="softmax", axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 8, 6])],
        [helper.make_tensor_value_info("classes", TensorProto.FLOAT, ["batch", 5])],
        [numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name) for name, shape in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


class ToyModel:
    """A model of a format that lives outside the package."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.proto = proto


ToyModel.__module__ = "toyframework.models"


@pytest.fixture
def toy():
    """The toy format, registered for one test."""

    class ToyConverter(BaseConverter, format="toy", extensions=(".toy",), model_modules=("toyframework",)):
        """ONNX in a wrapper."""

        def _load(self, model: Any) -> None:
            self._model = model if model is not None else self._read(self.model_path).model

        @property
        def source(self) -> ToyModel:
            return self._model

        def _source_hash(self) -> str:
            return str(hash(self._model.proto.SerializeToString(deterministic=True)))

        def _to_onnx(self, options) -> HubModel:
            model = load_model(self._model.proto)
            return HubModel(model, signature_of(model))

        @classmethod
        def _from_hub(cls, hub, options, source_hash) -> Conversion:
            return Conversion(ToyModel(to_proto(hub.model)), hub.signature)

        @classmethod
        def _runner(cls, model, signature):
            return OnnxRuntimeRunner(model.proto, signature)

        @classmethod
        def _write(cls, model, path: Path) -> None:
            path.write_bytes(b"TOY!" + model.proto.SerializeToString())

        @classmethod
        def _read(cls, path: Path) -> Conversion:
            proto = onnx.ModelProto.FromString(path.read_bytes()[4:])
            return Conversion(ToyModel(proto), signature_of(load_model(proto)))

        @classmethod
        def owns_path(cls, path: Path) -> bool:
            return path.read_bytes()[:4] == b"TOY!"

    yield ToyConverter
    formats.unregister("toy")


class TestANewFormat:
    """Adding a format is adding one class, from wherever."""

    def test_is_found_by_its_models_and_files(self, toy, tmp_path: Path) -> None:
        converter = Converter(ToyModel(small_onnx()))
        assert converter.origin_format == "toy"
        path = converter.save(tmp_path / "model.toy")
        path = path.rename(tmp_path / "model.bin")
        assert Converter(model_path=path).origin_format == "toy"

    def test_goes_to_every_other_format_and_comes_from_there(self, toy, tmp_path: Path) -> None:
        converter = Converter(ToyModel(small_onnx()))
        assert [n.op_type for n in converter.to_onnx().graph.node][:2] == ["Conv", "Relu"]
        assert len(list(converter.to_torch().parameters())) == 3
        made = Converter(small_onnx()).to_toy()
        assert isinstance(made, ToyModel)
        assert all(step.verdict == "verified" for step in converter.report.steps)
        assert Converter(small_onnx()).save(tmp_path / "from_onnx.toy").read_bytes()[:4] == b"TOY!"

    def test_without_a_way_back_says_so(self, toy) -> None:
        converter = Converter(ToyModel(small_onnx()))
        converter.to_torch()
        with pytest.raises(NotConvertibleError, match="toy"):
            converter.to_origin_type()

    def test_the_same_name_twice_is_refused(self, toy) -> None:
        with pytest.raises(ValueError, match="registered by"):

            class OtherConverter(BaseConverter, format="toy"):
                pass


def torch_source() -> Converter:
    return Converter(Converter(small_onnx(), verify=False).to_torch(), input_shape=(1, 3, 8, 6))


SOURCES = {
    "onnx": lambda: Converter(small_onnx()),
    "tflite": lambda: Converter(model_path=zoo.model("mediapipe", "hand_recrop.tflite")),
    "torch": torch_source,
    "trt": lambda: Converter(Converter(small_onnx()).to_trt()),
}

RUN_HERE = ("onnx", "tflite", "torch")
"""Formats whose models every machine runs."""


def test_every_format_is_tested() -> None:
    assert set(SOURCES) == set(formats.names())


@pytest.fixture(params=sorted(SOURCES))
def source(request) -> Converter:
    """A converter of each format."""
    if request.param == "trt" and find_spec("tensorrt_rtx") is None:
        pytest.skip("tensorrt_rtx is not installed")
    return SOURCES[request.param]()


class TestEveryFormat:
    """The contract."""

    def test_every_other_format(self, source: Converter) -> None:
        for name in RUN_HERE:
            model = getattr(source, f"to_{name}")()
            assert model is getattr(source, f"to_{name}")(), "the same options give another object"
        assert all(step.verdict == "verified" for step in source.report.steps), str(source.report)

    def test_its_own_format_is_the_source(self, source: Converter) -> None:
        own = getattr(source, f"to_{source.origin_format}")()
        assert own == source._inner.source
        assert source.origin_format == "onnx" or own is source._inner.source

    def test_other_options_are_another_model(self, source: Converter) -> None:
        first = source.to_onnx()
        other = source.to_onnx(io_layout="channels_last" if source.origin_format != "tflite" else "channels_first")
        assert other is not first
        name = source.signature.inputs[0].name
        shapes = [[d.dim_value for d in m.graph.input[0].type.tensor_type.shape.dim][1:] for m in (first, other)]
        assert shapes[0] != shapes[1] and sorted(shapes[0]) == sorted(shapes[1])
        assert [m.graph.input[0].name for m in (first, other)] == [name, name]

    def test_the_untouched_way_back(self, source: Converter) -> None:
        source.to_torch()
        back = source.to_origin_type()
        if source.origin_format == "torch":
            assert back is source._inner.source
        else:
            assert back == source._inner.source

    def test_files_are_written_whole_or_not_at_all(self, source: Converter, tmp_path: Path) -> None:
        with pytest.raises(SaveError):
            source.save(tmp_path / "nowhere" / "model.onnx")
        with pytest.raises(SaveError, match="extension"):
            source.save(tmp_path / "model.xyz")
        assert not list(tmp_path.iterdir())
        written = source.save(tmp_path / "model.onnx")
        assert Converter(model_path=written).origin_format == "onnx"
        assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]

    def test_unknown_options_and_formats(self, source: Converter) -> None:
        with pytest.raises(TypeError, match="io_layuot"):
            source.to_onnx(io_layuot="channels_first")
        with pytest.raises(ValueError, match="channels_first"):
            source.to_onnx(io_layout="NCHW")
        with pytest.raises(UnknownFormatError, match="keras"):
            source._inner.to("keras")
        with pytest.raises(AttributeError):
            source.to_keras()


class TestResults:
    """What is handed out, and how far it was compared."""

    def test_the_source_cannot_be_changed_through_what_is_handed_out(self) -> None:
        given = small_onnx()
        converter = Converter(given)
        for proto in (given, converter.to_onnx(), converter.to_origin_type(converter.to_torch())):
            for tensor in proto.graph.initializer:
                tensor.raw_data = bytes(len(tensor.raw_data))
        assert converter._inner.source == small_onnx()

    def test_verification_that_is_asked_for_later_is_made_later(self) -> None:
        converter = Converter(small_onnx())
        module = converter.to_torch(verify=False)
        assert converter.report.verdict == "unverified"
        with torch.no_grad():
            next(module.parameters()).mul_(2)
        assert converter.to_torch() is module, "another module than the one in training"
        assert converter.report.verdict == "verified"
        steps = len(converter.report.steps)
        converter.to_torch(verify=False)
        assert len(converter.report.steps) == steps
        converter.to_torch(verify="full")
        converter.to_torch()
        assert len(converter.report.steps) == steps + 1

    def test_the_way_back_takes_the_module_that_was_handed_out_last(self) -> None:
        converter = Converter(small_onnx())
        module = converter.to_torch()
        converter.to_torch(io_layout="channels_last")
        assert converter.to_torch() is module
        with torch.no_grad():
            next(module.parameters()).mul_(2)
        assert converter.to_origin_type() != small_onnx()


class TestIntermediates:
    """Files of earlier conversions."""

    def test_kept_and_reused(self, tmp_path: Path) -> None:
        path = zoo.model("mediapipe", "hand_recrop.tflite")
        first = Converter(model_path=path, output_dir=tmp_path)
        made = first.to_onnx()
        (kept,) = tmp_path.glob("*.onnx")
        again = Converter(model_path=path, output_dir=tmp_path, load_intermediate_models_from_disk=True)
        assert again.to_onnx() == made
        assert again.report.steps[-1].notes == (f"read from '{kept}'",)

    def test_a_changed_file_is_not_reused(self, tmp_path: Path) -> None:
        path = zoo.model("mediapipe", "hand_recrop.tflite")
        made = Converter(model_path=path, output_dir=tmp_path).to_onnx()
        (kept,) = tmp_path.glob("*.onnx")
        other = small_onnx().SerializeToString()
        kept.write_bytes(other)
        again = Converter(model_path=path, output_dir=tmp_path, load_intermediate_models_from_disk=True)
        assert again.to_onnx() == made
        assert not any("read from" in note for note in again.report.notes)
        assert kept.read_bytes() == other
        third = Converter(model_path=path, output_dir=tmp_path, load_intermediate_models_from_disk=True)
        assert third.to_onnx() == made
        assert any("read from" in note for note in third.report.notes)

    @pytest.mark.parametrize("content", [b"", b"garbage"])
    def test_a_damaged_file_is_in_nobodys_way(self, tmp_path: Path, content: bytes) -> None:
        path = zoo.model("mediapipe", "hand_recrop.tflite")
        made = Converter(model_path=path, output_dir=tmp_path).to_onnx()
        for file in (*tmp_path.glob("*.onnx"), *(tmp_path / ".mlconverter").iterdir()):
            file.write_bytes(content)
            again = Converter(model_path=path, output_dir=tmp_path, load_intermediate_models_from_disk=True)
            assert again.to_onnx() == made

    def test_other_options_are_other_files(self, tmp_path: Path) -> None:
        path = zoo.model("mediapipe", "hand_recrop.tflite")
        converter = Converter(model_path=path, output_dir=tmp_path)
        converter.to_onnx()
        converter.to_onnx(io_layout="channels_first")
        assert len(list(tmp_path.glob("*.onnx"))) == 2
