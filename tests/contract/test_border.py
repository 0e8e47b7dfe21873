"""What is known of a source without converting it, and what the border of a result is made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from mlconverter import Converter, NotRunnableError, SignatureError, VerificationError, verify
from mlconverter.formats.onnx.converter import ONNXConverter
from mlconverter.formats.tflite.converter import TFLiteConverter
from mlconverter.formats.torch.converter import TorchConverter
from tests import zoo
from tests.contract.test_formats import small_onnx


def identity(**changes: object) -> onnx.ModelProto:
    """A graph of one node."""
    shape = [2, 3]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    node = helper.make_node(changes.get("op", "Relu"), ["x"], ["y"], domain=changes.get("domain", ""))
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(node.domain, 1)] if node.domain else [])]
    return helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:]), opset_imports=opsets, ir_version=9)


class Sorted(torch.nn.Module):
    """Runs, and no exporter takes it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.sort(x.detach().numpy(), axis=-1))


class TestASignatureNeedsNoConversion:
    """A source can be run, compared and described whether or not it can be converted."""

    def test_of_a_model_that_cannot_be_converted(self) -> None:
        path = zoo.model("mediapipe", "face_landmark_with_attention.tflite")
        signature = Converter(model_path=path).signature
        assert [s.shape for s in signature.inputs] == [(1, 192, 192, 3)]
        assert len(signature.outputs) == 7

    def test_of_a_module_that_cannot_be_exported(self) -> None:
        module = Sorted()
        assert verify(module, module, input_shape=(2, 5))
        signature = Converter(module, input_shape=("n", 5), output_names=["sorted"]).signature
        assert [str(s) for s in (*signature.inputs, *signature.outputs)] == ["x: float32[n, 5]", "sorted: float32[n, 5]"]
        fixed = Converter(module, input_shape=(2, 5), dynamic_batch=False).signature
        assert [s.shape for s in (*fixed.inputs, *fixed.outputs)] == [(2, 5), (2, 5)]

    @pytest.mark.parametrize("cls", [ONNXConverter, TFLiteConverter, TorchConverter])
    def test_nothing_is_converted_to_read_a_file_of_an_earlier_conversion(self, cls, tmp_path: Path, monkeypatch) -> None:
        given = {
            ONNXConverter: lambda: {"model": small_onnx()},
            TFLiteConverter: lambda: {"model_path": zoo.model("mediapipe", "hand_recrop.tflite")},
            TorchConverter: lambda: {"model": torch.nn.Linear(4, 3), "input_shape": (1, 4)},
        }[cls]()
        layout = "channels_last" if cls is ONNXConverter else None
        folder = {"output_dir": tmp_path, "load_intermediate_models_from_disk": True}
        made = Converter(**given, **folder).to_onnx(io_layout=layout)
        monkeypatch.setattr(cls, "_to_onnx", None)
        if cls is not ONNXConverter:  # its own format is no intermediate
            again = Converter(**given, **folder)
            assert again.to_onnx(io_layout=layout) == made
            assert again.report.verdict == "verified"

    def test_names_that_are_given_to_one_call_are_verified(self) -> None:
        converter = Converter(torch.nn.Linear(4, 3), input_shape=(1, 4))
        proto = converter.to_onnx(input_names=["features"], output_names=["scores"])
        assert [proto.graph.input[0].name, proto.graph.output[0].name] == ["features", "scores"]
        assert converter.report.verdict == "verified"


class TestWhatCannotBeRun:
    """A model without a kernel is unverified; one that is no model is wrong."""

    def test_an_invalid_result_is_wrong(self, monkeypatch) -> None:
        whole = ONNXConverter.__dict__["_from_hub"].__func__

        def broken(cls, hub, options, source_hash):
            made = whole(cls, hub, options, source_hash)
            made.model.graph.node[0].op_type = "NoSuchOperator"
            return made

        monkeypatch.setattr(ONNXConverter, "_from_hub", classmethod(broken))
        with pytest.raises(VerificationError, match="NoSuchOperator"):
            Converter(torch.nn.Linear(4, 3), input_shape=(1, 4)).to_onnx()

    def test_a_source_without_a_kernel_leaves_the_result_unverified(self) -> None:
        converter = Converter(identity(op="Whatever", domain="somebody.else"))
        with pytest.raises(NotRunnableError, match="Whatever"):
            converter._inner.source_runner()


class TestOptions:
    """An option does what it says, or is refused."""

    @pytest.mark.parametrize("option", [{"opset": 17}, {"input_names": ["x"]}, {"output_names": ["x"]}])
    def test_that_nothing_acts_on(self, option) -> None:
        for given in ({"model": small_onnx()}, {"model_path": zoo.model("mediapipe", "hand_recrop.tflite")}):
            with pytest.raises(SignatureError, match=next(iter(option))):
                Converter(**given, **option)
            with pytest.raises(SignatureError, match=next(iter(option))):
                Converter(**given).to_torch(**option)

    def test_that_only_other_routes_act_on(self) -> None:
        converter = Converter(model_path=zoo.model("mediapipe", "hand_recrop.tflite"), dynamic_batch=False)
        converter.to_onnx()  # given once for all conversions, it acts on those where it means something
        with pytest.raises(SignatureError, match=r"dynamic_batch.*tflite → onnx"):
            converter.to_onnx(dynamic_batch=False)

    @pytest.mark.parametrize("option", [{"verify": 0}, {"dynamic_batch": 1}, {"dynamic_batch": 0}, {"verify": True}])
    def test_numbers_are_no_truth_values(self, option) -> None:
        with pytest.raises(ValueError, match=next(iter(option))):
            Converter(small_onnx(), **option)


class TestWhatAFileIs:
    """Its content says it; its name only where the content says nothing."""

    def test_content_outranks_the_extension(self, tmp_path: Path) -> None:
        tflite = zoo.model("mediapipe", "hand_recrop.tflite").read_bytes()
        contents = {"tflite": tflite, "onnx": small_onnx().SerializeToString()}
        for format, content in contents.items():
            for extension in (".onnx", ".tflite", ".pt", ".bin", ""):
                path = tmp_path / f"model{extension}"
                path.write_bytes(content)
                assert Converter(path).origin_format == format, extension

    def test_the_fields_of_an_onnx_file_may_stand_in_any_order(self, tmp_path: Path) -> None:
        proto = small_onnx()
        head = onnx.ModelProto(graph=proto.graph).SerializeToString()
        proto.ClearField("graph")
        (tmp_path / "model.bin").write_bytes(head + proto.SerializeToString())
        assert Converter(tmp_path / "model.bin").origin_format == "onnx"


class TestAChangedModuleComesBack:
    """Converted anew under the border of the origin."""

    def changed(self, converter: Converter, **options: object) -> torch.nn.Module:
        module = converter.to_torch(**options)
        with torch.no_grad():
            next(module.parameters()).mul_(0.5)
        layer = next(n for n, m in module.named_modules() if isinstance(m, torch.nn.Conv2d))
        module.set_submodule(f"{layer}_more", torch.nn.Identity())
        module.set_submodule(layer, torch.nn.Sequential(module.get_submodule(layer), torch.nn.Tanh()))
        return module

    @pytest.mark.parametrize("layout", [None, "channels_last"])
    @pytest.mark.parametrize("dims", [("batch", 8), ("N of images", 8), (2, "image height"), (1, 8)])
    @pytest.mark.parametrize("names", [("image", "classes"), ("image:0", "model/classes:0")])
    def test_with_its_names_dimensions_opset_and_layout(self, layout, dims, names) -> None:
        proto = small_onnx()
        proto.opset_import[0].version = 20
        for value, name in ((proto.graph.input[0], names[0]), (proto.graph.output[0], names[1])):
            for node in proto.graph.node:
                for field in (node.input, node.output):
                    field[:] = [name if n == value.name else n for n in field]
            value.name = name
        for axis, dim in zip((0, 2), dims, strict=True):
            found = proto.graph.input[0].type.tensor_type.shape.dim[axis]
            found.Clear()
            setattr(found, "dim_value" if isinstance(dim, int) else "dim_param", dim)
        first = proto.graph.output[0].type.tensor_type.shape.dim[0]
        first.CopyFrom(proto.graph.input[0].type.tensor_type.shape.dim[0])
        converter = Converter(proto)
        back = converter.to_origin_type(self.changed(converter, io_layout=layout))
        assert converter.report.verdict == "verified"
        assert converter.report.way_back.startswith("converted anew")
        onnx.checker.check_model(back, full_check=True)
        assert list(back.graph.input) == list(proto.graph.input)
        assert [v.name for v in back.graph.output] == [names[1]]
        assert back.opset_import[0].version == 20
        assert any(node.op_type == "Tanh" for node in back.graph.node)

    def test_with_another_number_of_classes(self) -> None:
        converter = Converter(small_onnx())
        module = converter.to_torch()
        layer = next(n for n, m in module.named_modules() if isinstance(m, torch.nn.Linear))
        module.set_submodule(layer, torch.nn.Linear(4, 9, bias=False))
        back = converter.to_origin_type(module)
        assert [d.dim_value or d.dim_param for d in back.graph.output[0].type.tensor_type.shape.dim] == ["batch", 9]
        assert any("float32[batch, 5] became classes: float32[batch, 9]" in n for n in converter.report.steps[-1].notes)


def test_results_of_earlier_states_are_let_go() -> None:
    module = torch.nn.Linear(4, 3)
    converter = Converter(module, input_shape=(1, 4))
    for _ in range(3):
        converter.to_onnx()
        with torch.no_grad():
            module.weight.mul_(1.5)
    assert len(converter._inner._results) == len(converter._inner._hubs) == 1


def test_an_export_carries_no_paths_of_whoever_made_it() -> None:
    proto = Converter(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()), input_shape=(1, 4)).to_onnx()
    assert b"site-packages" not in proto.SerializeToString() and b"pkg.torch" not in proto.SerializeToString()


class TestAModuleThatAConversionGave:
    """It knows what it takes and gives."""

    def test_needs_no_input_shape_and_keeps_its_names_and_layout(self) -> None:
        path = zoo.model("mediapipe", "hand_recrop.tflite")
        origin = Converter(model_path=path)
        module = origin.to_torch()
        assert verify(path, module, level="fast")
        converter = Converter(module)
        assert converter.signature.input_names == origin.signature.input_names
        assert converter.signature.output_names == origin.signature.output_names
        assert converter.signature.inputs[0].layout == "channels_last"
        made = converter.to_tflite()
        assert converter.report.verdict == "verified"
        assert made.signature.input_names == origin.signature.input_names
        first = converter.to_onnx(io_layout="channels_first")
        dims = [d.dim_value for d in first.graph.input[0].type.tensor_type.shape.dim]
        assert dims[1] == 3

    def test_other_modules_need_one(self) -> None:
        with pytest.raises(SignatureError, match="input_shape"):
            Converter(torch.nn.Linear(4, 3)).to_onnx()
