"""Engines: built without a GPU, saved with what leads back, and refused plainly where something is not right."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from mlconverter import (
    ConversionError,
    Converter,
    CorruptModelError,
    MissingDependencyError,
    NotConvertibleError,
    NotRunnableError,
    SaveError,
    SignatureError,
    TranslationError,
    UnsupportedOpsError,
    load_metadata,
)
from mlconverter.formats.trt import build, runtimes
from mlconverter.formats.trt.engine import TRTEngine
from tests.contract.test_formats import small_onnx

built = pytest.mark.skipif(importlib.util.find_spec("tensorrt_rtx") is None, reason="tensorrt_rtx is not installed")
blind = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


def node_model(
    *nodes: onnx.NodeProto, dtype: int = TensorProto.FLOAT, shape: tuple[int | str, ...] = (2, 3), opset: int = 17
) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, dtype, shape) for name in "xy"]
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("somebody.else", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:]), opset_imports=opsets, ir_version=9)


def products() -> onnx.ModelProto:
    """A product with a constant matrix, and a free batch."""
    model = node_model(helper.make_node("MatMul", ["x", "w"], ["y"]), shape=("n", 3))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(3, dtype=np.float32), "w"))
    return model


class TestRuntimes:
    """Which one is taken."""

    def test_without_one_the_extra_is_named(self, monkeypatch) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        for wanted, extra in (("auto", "tensorrt-rtx"), ("tensorrt_rtx", "tensorrt-rtx"), ("tensorrt", "tensorrt")):
            with pytest.raises(MissingDependencyError, match=rf"mlconverter\[{extra}\]") as caught:
                Converter(small_onnx()).to_trt(runtime=wanted)
            assert caught.value.extra == extra

    def test_one_that_takes_a_gpu_says_so(self, monkeypatch) -> None:
        monkeypatch.setattr(runtimes.TensorRT, "is_installed", True)
        monkeypatch.setattr(runtimes.TensorRT, "module", "some module")
        monkeypatch.setattr(runtimes, "local_capability", lambda: None)
        with pytest.raises(NotRunnableError, match="tensorrt-rtx"):
            runtimes.chosen("tensorrt")
        assert runtimes.chosen().package == "tensorrt_rtx"
        monkeypatch.setattr(runtimes, "local_capability", lambda: "SM90")
        assert runtimes.chosen().package == runtimes.chosen("tensorrt").package == "tensorrt"
        assert runtimes.chosen("tensorrt_rtx").package == "tensorrt_rtx"

    @blind
    def test_no_gpu_has_no_capability(self) -> None:
        assert runtimes.local_capability() is None


@built
class TestBuilding:
    """With TensorRT for RTX."""

    def test_an_engine_says_what_it_is(self) -> None:
        converter = Converter(small_onnx())
        engine = converter.to_trt()
        assert [str(s) for s in engine.signature.inputs] == ["image: float32[batch, 3, 8, 6]"]
        assert engine.info.profile == {"image": ((1, 3, 8, 6), (1, 3, 8, 6), (16, 3, 8, 6))}
        assert engine.info.compute_capabilities == runtimes.CAPABILITIES and engine.info.precision == "fp32"
        assert engine.info.layers > 0 and "TensorRT for RTX" in engine.info.runtime_name
        assert engine.info.source_hash == Converter(small_onnx())._inner._source_hash()
        assert len(engine) == len(bytes(engine)) > 0 and "image" in repr(engine)
        assert converter.to_trt() is engine

    @blind
    def test_without_a_gpu_it_is_unverified(self) -> None:
        converter = Converter(small_onnx())
        converter.to_trt()
        assert converter.report.verdict == "unverified" and "no GPU" in str(converter.report)

    def test_a_batch_of_one_is_freed_where_the_graph_proves_it(self) -> None:
        converter = Converter(node_model(helper.make_node("Relu", ["x"], ["y"]), shape=(1, 3)))
        assert converter.to_trt().info.profile["x"] == ((1, 3), (1, 3), (16, 3))
        assert converter.to_trt(dynamic_batch=False).info.profile == {}
        joins = node_model(helper.make_node("Softmax", ["x"], ["y"], axis=0), shape=(1, 3))
        assert Converter(joins).to_trt().info.profile == {}
        with pytest.raises(ConversionError, match="batch"):
            Converter(joins).to_trt(dynamic_batch=True)

    def test_ranges_and_options_reach_the_engine(self) -> None:
        engine = Converter(small_onnx()).to_trt(
            dynamic_shapes={"batch": (2, 3, 4)}, compute_capability="SM89", builder_optimization_level=0, workspace=1 << 24
        )
        assert engine.info.profile["image"][1] == (3, 3, 8, 6) and engine.info.compute_capabilities == ("SM89",)
        fixed = Converter(small_onnx()).to_trt(dynamic_shapes={"batch": (5, 5, 5)})
        assert fixed.info.profile == {} and fixed.signature.inputs[0].shape == (5, 3, 8, 6)

    @pytest.mark.parametrize(
        ("options", "error", "said"),
        [
            ({"compute_capability": "SM1"}, SignatureError, "SM1.*SM89"),
            ({"dynamic_shapes": {"width": (1, 2, 3)}}, SignatureError, "width"),
            ({"timing_cache": "cache.bin"}, SignatureError, "timing_cache"),
            ({"refittable": True}, SignatureError, "refittable"),
            ({"hardware_compatibility": "ampere_plus"}, SignatureError, "hardware_compatibility"),
            ({"precision": "fp64"}, ValueError, "fp16"),
            ({"runtime": "cuda"}, ValueError, "tensorrt_rtx"),
            ({"builder_optimization_level": 9}, ValueError, "builder_optimization_level"),
            ({"workspace": -1}, ValueError, "workspace"),
            ({"workspace": "1G"}, ValueError, "workspace"),
            ({"calibration": [np.zeros((1, 3, 8, 6), np.float32)]}, SignatureError, "calibration"),
        ],
    )
    def test_options_that_mean_nothing(self, options, error, said) -> None:
        with pytest.raises(error, match=said):
            Converter(small_onnx()).to_trt(**options)

    def test_options_of_engines_mean_nothing_elsewhere(self) -> None:
        with pytest.raises(SignatureError, match="precision"):
            Converter(small_onnx()).to_onnx(precision="fp16")

    def test_all_operators_that_its_parser_refuses(self) -> None:
        nodes = [
            helper.make_node("NoSuchOperator", ["x"], ["a"], name="odd", domain="somebody.else"),
            helper.make_node("Other", ["a"], ["b"], name="other", domain="somebody.else"),
            helper.make_node("NoSuchOperator", ["b"], ["y"], name="odd too", domain="somebody.else"),
        ]
        with pytest.raises(UnsupportedOpsError, match=r"NoSuchOperator.*odd") as caught:
            Converter(node_model(*nodes)).to_trt()
        assert {(o.op, o.count, o.node) for o in caught.value.ops} == {("NoSuchOperator", 2, "odd"), ("Other", 1, "other")}

    def test_what_the_compiler_refuses_names_the_node(self) -> None:
        with pytest.raises(TranslationError, match=r"MatMul node .head.") as caught:
            Converter(small_onnx()).to_trt(compute_capability="SM75")
        assert (caught.value.op, caught.value.node) == ("MatMul", "head")

    def test_a_weight_is_handed_over_by_its_address_or_within_the_graph(self, monkeypatch) -> None:
        sizes = set()
        for limit in (1, 1 << 30):
            monkeypatch.setattr(build, "LARGE", limit)
            sizes.add(Converter(small_onnx()).to_trt().info.layers)
        assert len(sizes) == 1

    def test_an_input_whose_values_are_sizes_is_refused(self) -> None:
        target = helper.make_tensor_value_info("target", TensorProto.INT64, [2])
        model = node_model(helper.make_node("Reshape", ["x", "target"], ["y"]))
        model.graph.input.append(target)
        model.graph.output[0].type.tensor_type.shape.ClearField("dim")
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = "a"
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = "b"
        with pytest.raises(ConversionError, match="'target'"):
            Converter(model).to_trt()


@built
class TestFiles:
    """What is written, and what leads back."""

    @pytest.fixture
    def saved(self, tmp_path: Path) -> Path:
        onnx.save(small_onnx(), tmp_path / "net.onnx")
        return Converter(tmp_path / "net.onnx").save(tmp_path / "net.engine")

    def test_an_engine_goes_back_to_the_very_graph(self, saved: Path) -> None:
        assert sorted(p.name for p in saved.parent.iterdir()) == [
            "net.engine",
            "net.engine.json",
            "net.engine.onnx",
            "net.onnx",
        ]
        converter = Converter(saved)
        assert converter.to_onnx() == small_onnx()
        assert saved.with_name("net.engine.onnx").read_bytes() == saved.with_name("net.onnx").read_bytes()
        assert converter.report.verdict == "verified"
        assert converter.to_onnx(io_layout="channels_last") != small_onnx()

    def test_the_sidecar(self, saved: Path) -> None:
        said = json.loads(saved.with_name("net.engine.json").read_text())
        engine = TRTEngine.load(saved)
        assert engine == Converter(saved).source and bytes(engine) == saved.read_bytes()
        assert said["precision"] == "fp32" and said["runtime"] == "tensorrt_rtx" and said["versions"]["tensorrt-rtx"]
        assert said["compute_capabilities"] == list(runtimes.CAPABILITIES)
        assert said["signature"]["inputs"][0]["shape"] == ["batch", 3, 8, 6]
        assert said["source_hash"] == engine.source.digest()

    def test_values_and_files_of_the_persons_own(self, tmp_path: Path) -> None:
        engine = Converter(small_onnx()).to_trt().with_metadata({"labels": ["a", "ü"], "n": 3}, {"config.json": b"{}\x00"})
        for name in ("net.engine", "net.plan", "net.pt2"):
            loaded = TRTEngine.load(engine.save(tmp_path / name))
            assert loaded.meta_values == {"labels": ["a", "ü"], "n": 3} and loaded.extra_files == {"config.json": b"{}\x00"}
            assert loaded.content == engine.content and loaded.signature == engine.signature
            about = load_metadata(tmp_path / name)
            assert (about.values, about.extra_files) == (loaded.meta_values, loaded.extra_files)

    def test_an_engine_of_somebody_else(self, saved: Path, tmp_path: Path) -> None:
        foreign = shutil.copy(saved, tmp_path / "foreign.engine")
        with pytest.raises(NotConvertibleError, match="not made here"):
            Converter(foreign)

    def test_without_its_source_there_is_no_way(self, tmp_path: Path) -> None:
        path = Converter(small_onnx()).save(tmp_path / "net.engine", embed_source=False)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["net.engine", "net.engine.json"]
        converter = Converter(path)
        assert converter.signature.input_names == ("image",)
        for use in (converter.to_onnx, converter.to_torch, lambda: TRTEngine.load(path).refit({})):
            with pytest.raises(NotConvertibleError, match=r"source|embed_source"):
                use()

    @pytest.mark.parametrize(
        "damage",
        [
            lambda p: p.write_bytes(p.read_bytes()[:-1]),
            lambda p: p.with_name("net.engine.json").write_text("{}"),
            lambda p: p.with_name("net.engine.json").write_text("no json"),
            lambda p: onnx.save(node_model(helper.make_node("Relu", ["x"], ["y"])), p.with_name("net.engine.onnx")),
            lambda p: p.with_name("net.engine.json").write_bytes(b"\xff\xfe"),
            lambda p: p.with_name("net.engine.json").write_text("[" * 100_000),
            lambda p: p.with_name("net.engine.onnx").unlink(),
        ],
    )
    def test_files_that_do_not_belong_together(self, saved: Path, damage) -> None:
        damage(saved)
        with pytest.raises(CorruptModelError, match=r"net\.engine"):
            Converter(saved)

    def test_nothing_is_left_of_a_file_that_cannot_be_written(self, tmp_path: Path) -> None:
        engine = Converter(small_onnx()).to_trt()
        with pytest.raises(SaveError):
            engine.save(tmp_path / "nowhere" / "net.engine")
        with pytest.raises(SaveError, match="exported_program"):
            engine.save(tmp_path / "net.engine", output_format="torchscript")
        with pytest.raises(TypeError):
            engine.with_metadata({"a": object()}).save(tmp_path / "net.engine")
        assert not list(tmp_path.iterdir())


@built
class TestOtherWeights:
    """After training."""

    def test_back_from_torch_by_way_of_the_source(self) -> None:
        engine = Converter(small_onnx()).to_trt(dynamic_shapes={"batch": (1, 2, 3)}).with_metadata({"by": "me"})
        converter = Converter(engine)
        module = converter.to_torch()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter += 1
        trained = converter.to_origin_type(module)
        stored = {t.name: onnx.numpy_helper.to_array(t) for t in trained.source.whole().graph.initializer}
        before = {t.name: onnx.numpy_helper.to_array(t) for t in small_onnx().graph.initializer}
        for name in ("conv.weight", "conv.bias", "head"):
            np.testing.assert_allclose(stored[name], before[name] + 1, rtol=1e-6)
        assert trained.info.profile == engine.info.profile and trained.meta_values == {"by": "me"}
        assert engine.refit(module).source.whole() == trained.source.whole()
        assert engine.refit(module.state_dict()).source.whole() == trained.source.whole()

    def test_from_the_onnx_model_with_other_weights(self) -> None:
        engine, other = Converter(small_onnx()).to_trt(), small_onnx()
        weight = next(t for t in other.graph.initializer if t.name == "head")
        weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) * 2, "head"))
        refitted = engine.refit(other)
        assert refitted.source.whole() == other and refitted.info.source_hash != engine.info.source_hash
        assert refitted.signature == engine.signature
        other.opset_import[0].version += 1
        for model in (node_model(helper.make_node("Relu", ["x"], ["y"])), other):
            with pytest.raises(SignatureError, match="another"):
                engine.refit(model)


@built
class TestPrecisions:
    """What an engine computes in."""

    IMAGES = np.random.default_rng(0).random((3, 2, 3, 8, 6), np.float32)

    @pytest.mark.parametrize("precision", ["fp16", "bf16", "int8", "fp8"])
    def test_each_is_built(self, precision: str) -> None:
        calibration = list(self.IMAGES) if precision in ("int8", "fp8") else None
        engine = Converter(small_onnx()).to_trt(precision=precision, calibration=calibration)
        assert engine.info.precision == precision and engine.info.profile["image"][2] == (16, 3, 8, 6)
        assert [(s.name, s.dtype) for s in engine.signature.inputs] == [("image", "float32")]
        assert ("SM80" in engine.info.compute_capabilities) == (precision != "fp8")

    def test_samples_in_every_form(self) -> None:
        converter = Converter(small_onnx())
        forms = [list(self.IMAGES), [(x,) for x in self.IMAGES], [{"image": x} for x in self.IMAGES]]
        engines = [converter.to_trt(precision="int8", calibration=samples) for samples in forms]
        assert engines[0] is engines[1], "the same samples are another conversion"
        assert converter.to_trt(precision="int8", calibration=list(2 * self.IMAGES)) is not engines[0]
        assert engines[2].info.layers == engines[0].info.layers

    @pytest.mark.parametrize(
        ("calibration", "said"),
        [
            (None, "calibration"),
            ([], "calibration"),
            ([(1, 2)], "has 2 inputs"),
            ([{"picture": IMAGES[0]}], "picture"),
            ([IMAGES[0][:, :2]], "image"),
            ([IMAGES[0] * np.nan], "finite"),
            ([IMAGES[0][:0]], "empty"),
            (5, "list of inputs"),
        ],
    )
    def test_samples_that_do_not_fit(self, calibration, said) -> None:
        with pytest.raises((SignatureError, ValueError, TypeError), match=said):
            Converter(small_onnx()).to_trt(precision="int8", calibration=calibration)

    def test_what_would_not_be_in_the_precision_is_refused(self) -> None:
        relu = node_model(helper.make_node("Relu", ["x"], ["y"]))
        zeros = [np.zeros_like(self.IMAGES[0])]
        for model, samples in ((relu, [np.ones((2, 3), np.float32)]), (products(), zeros)):
            with pytest.raises(ConversionError, match="int8"):
                Converter(model).to_trt(precision="int8", calibration=[s[:, :3].reshape(-1, 3)[:2] for s in samples])
        half = node_model(helper.make_node("Relu", ["x"], ["y"]), dtype=TensorProto.FLOAT16)
        assert Converter(half).to_trt(precision="fp16").info.precision == "fp16"
        with pytest.raises(ConversionError, match="float16 itself"):
            Converter(half).to_trt(precision="bf16")


@built
class TestBorders:
    """An engine takes and gives what its model does, under its names."""

    @pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
    def test_one_value_under_two_names(self, precision: str, monkeypatch) -> None:
        model = products()
        model.graph.node.append(helper.make_node("Identity", ["y"], ["z"]))
        model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 3]))
        seen, check = [], build._check_border
        monkeypatch.setattr(
            build, "_check_border", lambda network, signature: seen.append(signature) or check(network, signature)
        )
        samples = [np.ones((1, 3), np.float32)] if precision == "int8" else None
        engine = Converter(model).to_trt(precision=precision, calibration=samples)
        assert engine.signature.output_names == ("y", "z") and seen == [engine.signature]

    def test_another_border_is_refused(self, monkeypatch) -> None:
        from mlconverter.formats.trt import prepare

        monkeypatch.setattr(prepare, "_name_outputs", lambda model, names: setattr(model.graph.outputs[0], "name", "other"))
        with pytest.raises(ConversionError, match="other"):
            Converter(small_onnx()).to_trt()

    def test_an_output_whose_shape_the_model_does_not_say(self, tmp_path: Path) -> None:
        model = products()
        model.graph.output[0].type.tensor_type.ClearField("shape")
        engine = Converter(model).to_trt()
        assert len(engine.signature.outputs[0].shape) == 2
        assert TRTEngine.load(engine.save(tmp_path / "net.pt2")).content == engine.content

    def test_strings_within_are_refused(self) -> None:
        model = node_model(helper.make_node("Relu", ["x"], ["y"]), opset=20)
        model.graph.initializer.append(helper.make_tensor("s", TensorProto.STRING, [200], [b"text"] * 200))
        for node in (helper.make_node("StringConcat", ["s", "s"], ["t"]), helper.make_node("Shape", ["t"], ["k"])):
            model.graph.node.append(node)
        model.graph.output.append(helper.make_tensor_value_info("k", TensorProto.INT64, [1]))
        with pytest.raises(UnsupportedOpsError, match="initializer"):
            Converter(model).to_trt()
