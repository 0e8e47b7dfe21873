"""A network goes into a file of any format with what belongs to it, and that comes out equal; what fails leaves no file."""

import importlib.util
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import mlconverter
from mlconverter import Converter, Metadata, load_metadata, savers
from mlconverter import export as exports
from mlconverter.cli import app
from mlconverter.errors import (
    ConversionError,
    CorruptModelError,
    FormatError,
    MissingDependencyError,
    NotConvertibleError,
    SaveError,
    SignatureError,
    UnknownFormatError,
    UnsafeModelError,
    VerificationError,
)
from mlconverter.formats.trt.engine import TRTEngine
from mlconverter.hub import io as hub_io
from mlconverter.hub import protobuf
from mlconverter.logs import disable_logging
from mlconverter.report import Report
from mlconverter.testing import assert_same_outputs

VALUES = {
    "name": "größe",
    "version": [1, 2.5, None, True, {"deep": {"empty": []}}],
    "big": 10**30,
    "network_data_format": {"inputs": {"image": {"num_channels": 3, "channel_def": {"0": "image"}}}},
    "text": 'line\nbreak, "quotes" and \ud800',
}
FILES = {
    "inference.json": b'{"a": [1, null]}',
    "labels.txt": "Äpfel\n".encode(),
    "bytes.bin": bytes(range(256)),
    "empty": b"",
    "looks like;base64": b"aGVsbG8=",
    "odd;base64": b"\xff",
}

SHAPE = {"input_shape": ("batch", 3, 8, 8)}

built = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx") is None or not hasattr(TRTEngine, "with_metadata"),
    reason="TRTEngine.with_metadata is not there, or tensorrt_rtx is not installed",
)

FORMATS = {
    "net.pt2": (exports.torch_export, SHAPE),
    "net.ts": (exports.torchscript_export, SHAPE),
    "script.pt": (exports.torchscript_export, SHAPE),
    "net.onnx": (exports.onnx_export, SHAPE),
    "net.tflite": (exports.tflite_export, SHAPE),
    "net.engine": (exports.trt_export, SHAPE),
    "net.pt": (exports.ckpt_export, {}),
    "net.pth": (exports.ckpt_export, {}),
    "net.safetensors": (exports.ckpt_export, {}),
}

each_format = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[built] if name == "net.engine" else []) for name in FORMATS]
)


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))


def state(net):
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def same_state(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def left(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.fixture
def out(tmp_path):
    """A folder for what is written, and nothing else."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


# -- there and back --------------------------------------------------------------------------------------------------


@each_format
def test_metadata_and_files_come_back_equal(name, out):
    exporter, options = FORMATS[name]
    save = exporter.keywords["saver"]
    made = exporter.keywords["converter"](network(), **options)
    assert save(made, out / name, meta_values=VALUES, more_extra_files=FILES) == out / name
    assert load_metadata(out / name) == Metadata(VALUES, FILES)
    save(made, str(out / name), meta_values=None, more_extra_files=None, include_config_vals=False, append_timestamp=False)
    assert load_metadata(out / name) == Metadata()


@each_format
def test_an_export_has_its_checkpoint_metadata_and_configuration(name, out, tmp_path):
    exporter, options = FORMATS[name]
    trained, net = network(1), network(2)
    torch.save({"epoch": 3, "net": trained.state_dict()}, tmp_path / "best.pt")
    (tmp_path / "meta.json").write_text(json.dumps(VALUES), "utf-8")
    (tmp_path / "train.yaml").write_text("lr: 0.1\nsteps: [1, 2]\n", "utf-8")
    (tmp_path / "inference.json").write_text('{"size":   [96, 96]}', "utf-8")
    path = exporter(
        net,
        out / name,
        checkpoint=tmp_path / "best.pt",
        key_in_checkpoint="net",
        meta=tmp_path / "meta.json",
        config_files=[tmp_path / "train.yaml", str(tmp_path / "inference.json")],
        **options,
    )
    assert path == out / name
    found = load_metadata(path)
    assert found.values == VALUES
    files = {"train.json": {"lr": 0.1, "steps": [1, 2]}, "inference.json": {"size": [96, 96]}}
    assert {n: json.loads(content) for n, content in found.extra_files.items()} == files
    assert same_state(state(net), state(trained))  # the caller's network is the one in the file
    assert net.training
    if name != "net.engine":
        assert_computes(path, trained.eval())


def assert_computes(path, trained):
    x = torch.rand(5, 3, 8, 8)
    with torch.no_grad():
        want = trained(x)
    if path.name == "net.pt2":
        got = torch.export.load(path).module()(x)
    elif path.name in ("net.ts", "script.pt"):
        got = torch.jit.load(path)(x)
    elif path.suffix in (".onnx", ".tflite"):
        assert_same_outputs(trained, path, input_shape=("batch", 3, 8, 8))
        return
    else:
        loaded = network(7)
        Converter(loaded, path, input_shape=(1, 3, 8, 8))  # this package's own reader knows its files
        got = loaded.eval()(x)
    torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-5)


def test_a_checkpoint_is_of_use_to_others(out):
    net = network()
    found = torch.load(exports.ckpt_export(net, out / "net.pt", meta=VALUES), weights_only=True)
    assert same_state(found["state_dict"], state(net)) and found["metadata"] == VALUES
    from safetensors.torch import load_file

    assert same_state(load_file(exports.ckpt_export(net, out / "net.safetensors", meta=VALUES)), state(net))


def test_files_without_an_extension_get_that_of_the_format(out):
    names = {
        exporter(network(), out / "net", meta=VALUES, **options).name for exporter, options in FORMATS.values() if options == {}
    }
    names.add(exports.torchscript_export(network(), str(out / "net"), **SHAPE).name)
    assert names == {"net.pt", "net.ts"} == set(left(out))


def test_a_saver_of_ones_own_names_its_file(out):
    def saver(model, filepath, meta_values, more_extra_files):
        Path(f"{filepath}.own").write_text(json.dumps([meta_values, sorted(more_extra_files)]))

    path = exports.export(network(), out / "net", converter=exports.as_it_is, saver=saver, meta={"a": 1})
    assert path == out / "net.own" and json.loads(path.read_text()) == [{"a": 1}, []]
    assert left(out) == ["net.own"]


@pytest.mark.parametrize("use_trace", [True, False])
def test_free_dimensions_stay_free_in_programs(out, use_trace):
    net = nn.Sequential(nn.Conv2d(3, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU())
    shape = ("batch", 3, "height", 9)
    program = torch.export.load(exports.torch_export(net, out / "net.pt2", input_shape=shape)).module()
    script = torch.jit.load(exports.torchscript_export(net, out / "net.ts", input_shape=shape, use_trace=use_trace))
    x = torch.rand(4, 3, 13, 9)
    net.eval()
    for loaded in (program, script):
        torch.testing.assert_close(loaded(x), net(x))
    fixed = torch.export.load(exports.torch_export(net, out / "net.pt2", input_shape=(1, 3, 9, 9))).module()
    with pytest.raises((RuntimeError, AssertionError)):
        fixed(x)


@pytest.mark.parametrize(
    ("name", "step"), [("net.pt2", "torch → program"), ("net.ts", "torch → TorchScript"), ("net.onnx", "torch → onnx")]
)
def test_what_was_done_is_reported(name, step, out):
    exporter, options = FORMATS[name]
    report = Report()
    exporter(network(), out / name, report=report, **options)
    assert [s.name for s in report.steps] == [step] and report.verdict == "verified"
    exporter(network(), out / name, report=report, verify=False, **options)
    assert report.verdict == "unverified"


def test_code_without_shapes_is_not_called_verified(out):
    report = Report()
    exports.torchscript_export(network(), out / "net.ts", use_trace=False, report=report)
    assert report.verdict == "unverified"


# -- one function ----------------------------------------------------------------------------------------------------


def test_the_six_exports_are_one_function():
    six = {name: getattr(exports, f"{name}_export") for name in ("torch", "torchscript", "onnx", "tflite", "trt", "ckpt")}
    assert all(isinstance(e, partial) and e.func is exports.export and not e.args for e in six.values())
    assert all(set(e.keywords) == {"converter", "saver"} for e in six.values())
    assert all(e.keywords["saver"].func is savers.save for e in six.values())
    assert len({id(e.keywords["saver"]) for e in six.values()}) == 6


def test_the_module_is_not_hidden_by_a_name_and_loads_no_framework():
    assert mlconverter.export is exports
    heavy = ("torch", "onnx", "onnxruntime", "numpy", "ai_edge_litert", "onnx_ir", "yaml", "loguru")
    code = f"import sys, mlconverter.export; print(*(m for m in {heavy!r} if m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


# -- what fails leaves nothing ---------------------------------------------------------------------------------------


def _pickled(path):
    torch.save({"state_dict": network().state_dict(), "code": print}, path)


def _renamed(path):
    torch.save({f"other_{name}": tensor for name, tensor in network().state_dict().items()}, path)


def _reshaped(path):
    torch.save({**network().state_dict(), "5.weight": torch.zeros(6, 4)}, path)


def _fewer(path):
    torch.save({"model": {n: t for n, t in network().state_dict().items() if n != "5.bias"} | {"surplus": torch.zeros(1)}}, path)


CHECKPOINTS = {
    "wrong keys": (_renamed, None, SignatureError, ["Missing", "5.weight", "Unexpected", "other_5.weight"]),
    "missing and unexpected": (_fewer, "model", SignatureError, ["Missing", "5.bias", "Unexpected", "surplus"]),
    "wrong shape": (_reshaped, None, SignatureError, ["5.weight", "size mismatch"]),
    "pickle": (_pickled, None, UnsafeModelError, ["run code"]),
    "no such key": (_fewer, "net", SignatureError, ["'net'", "'model'"]),
    "no such file": (lambda path: None, None, FileNotFoundError, ["weights.pt"]),
    "damaged": (lambda path: path.write_bytes(b"PK\3\4damaged"), None, CorruptModelError, ["weights.pt"]),
    "a program": (
        lambda path: exports.torch_export(network(), path.with_suffix(".pt2"), **SHAPE).rename(path),
        None,
        NotConvertibleError,
        ["torch.export.load"],
    ),
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_a_checkpoint_that_does_not_fit_changes_nothing(kind, out, tmp_path):
    make, key, error, words = CHECKPOINTS[kind]
    path = tmp_path / "weights.pt"
    make(path)
    net = network(3)
    before = state(net)
    with pytest.raises(error) as caught:
        exports.ckpt_export(net, out / "net.pt", checkpoint=path, key_in_checkpoint=key)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert same_state(state(net), before) and left(out) == []


def test_weights_are_found_in_safetensors_and_behind_a_prefix(out, tmp_path):
    from safetensors.torch import save_file

    trained, net = network(1), network(2)
    save_file({f"ema.{name}": tensor for name, tensor in trained.state_dict().items()}, tmp_path / "w.safetensors")
    exports.ckpt_export(net, out / "net.pt", checkpoint=tmp_path / "w.safetensors", key_in_checkpoint="ema")
    assert same_state(state(net), state(trained))
    with pytest.raises(SignatureError, match="no checkpoint was given"):
        exports.ckpt_export(net, out / "other.pt", key_in_checkpoint="ema")
    with pytest.raises(SignatureError, match=r"nn\.Module, not str"):
        exports.ckpt_export("net", out / "other.pt", checkpoint=tmp_path / "w.safetensors")
    assert left(out) == ["net.pt"]


def _never(model, **options):
    raise AssertionError("nothing is converted that cannot be saved")


@pytest.mark.parametrize("format", ["torch", "torchscript", "onnx", "tflite", "trt", "ckpt"])
def test_another_extension_is_refused_before_anything_is_converted(format, out):
    exporter = getattr(exports, f"{format}_export")
    save = exporter.keywords["saver"]
    for call in (lambda p: exporter(network(), p, converter=_never), lambda p: save(network(), p)):
        with pytest.raises(SaveError) as caught:
            call(out / "net.xyz")
        assert all(extension in str(caught.value) for extension in (".xyz", *save.keywords["extensions"]))
    assert left(out) == []


def test_savers_refuse_what_they_do_not_write(out):
    for save, name in (
        (savers.save_onnx, "ModelProto"),
        (savers.save_torchscript, "ScriptModule"),
        (savers.save_trt, "TRTEngine"),
    ):
        with pytest.raises(SaveError, match=f"{name}, not a Sequential"):
            save(network(), out / "net")
    with pytest.raises(SaveError, match="False"):
        savers.save_checkpoint(network(), out / "net", append_timestamp=True)
    with pytest.raises(SignatureError, match="bytes"):
        savers.save_checkpoint(network(), out / "net", more_extra_files={"a": "text"})
    with pytest.raises(SignatureError, match=r"metadata\.json"):
        savers.save_checkpoint(network(), out / "net", more_extra_files={"metadata.json": b"{}"})
    with pytest.raises(SignatureError, match="a is a set"):
        savers.save_checkpoint(network(), out / "net", meta_values={"a": {1}})
    assert left(out) == []


CONFIGS = {
    "the same stem twice": ({"a.json": "{}", "a.yaml": "x: 1"}, SignatureError, r"a\.json.*a\.yaml"),
    "broken JSON": ({"a.json": '{"x": '}, FormatError, r"a\.json' is no readable JSON"),
    "broken YAML": ({"a.yaml": "x: [1"}, FormatError, r"a\.yaml' is no readable YAML"),
    "YAML that makes objects": ({"a.yaml": "x: !!python/object/apply:os.getcwd []"}, FormatError, "no readable YAML"),
    "no text": ({"a.json": b"\xff\xfe{}"}, FormatError, "no readable JSON"),
    "another kind": ({"a.toml": "x = 1"}, FormatError, "neither JSON nor YAML"),
    "not there": ({"a.json": None}, FileNotFoundError, r"a\.json"),
    "what JSON has no word for": ({"a.yaml": "x: 2020-01-01"}, SignatureError, r"a\.yaml.*date"),
    "the name of the values": ({"metadata.yaml": "x: 1"}, SignatureError, r"metadata\.json"),
}


def _written(folder, files):
    for name, content in files.items():
        if content is not None:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return [folder / name for name in files]


@pytest.mark.parametrize("kind", CONFIGS)
def test_configuration_that_cannot_be_read(kind, out, tmp_path):
    files, error, message = CONFIGS[kind]
    with pytest.raises(error, match=message):
        exports.ckpt_export(network(), out / "net.pt", converter=_never, config_files=_written(tmp_path, files))
    assert left(out) == []


@pytest.mark.parametrize(
    ("files", "error", "message"),
    [
        ({"meta.json": "[1]"}, FormatError, "holds a list"),
        ({"meta.json": "{"}, FormatError, "no readable JSON"),
        ({"meta.json": None}, FileNotFoundError, "meta.json"),
    ],
)
def test_values_that_cannot_be_read(files, error, message, out, tmp_path):
    (path,) = _written(tmp_path, files)
    with pytest.raises(error, match=message):
        exports.ckpt_export(network(), out / "net.pt", converter=_never, meta=path)
    assert left(out) == []


def test_the_extra_for_yaml_is_named(out, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    (path,) = _written(tmp_path, {"a.yaml": "x: 1"})
    with pytest.raises(MissingDependencyError, match=r"mlconverter\[yaml\]"):
        exports.ckpt_export(network(), out / "net.pt", config_files=path)
    assert left(out) == []


@each_format
def test_places_that_cannot_be_written_to(name, out):
    exporter, options = FORMATS[name]
    with pytest.raises(SaveError, match="does not exist"):
        exporter(network(), out / "nowhere" / name, converter=_never, **options)
    (out / name).mkdir()
    with pytest.raises(SaveError, match="folder"):
        exporter(network(), out / name, **options)
    made = exporter.keywords["converter"](network(), **options)
    with pytest.raises(SaveError, match="does not exist"):
        exporter.keywords["saver"](made, out / "nowhere" / name)
    assert left(out) == [name] and left(out / name) == []


def test_a_saver_that_fails_leaves_what_was_there(out):
    (out / "net.own").write_text("before")

    def saver(model, filepath, **about):
        Path(filepath).write_text("half")
        Path(filepath).with_suffix(".data").write_text("beside it")
        raise failures.pop()

    def idle(model, filepath, **about):
        Path(filepath).with_suffix(".a").touch()
        Path(filepath).with_suffix(".b").touch()

    failures = [KeyError("x"), OSError(28, "No space left on device")]
    for error in (SaveError, KeyError):
        with pytest.raises(error):
            exports.export(network(), out / "net.own", converter=exports.as_it_is, saver=saver)
    with pytest.raises(SaveError, match="no such file was written"):
        exports.export(network(), out / "net.own", converter=exports.as_it_is, saver=idle)
    assert left(out) == ["net.own"] and (out / "net.own").read_text() == "before"


class Deciding(nn.Module):
    """What a trace gets wrong, and an export refuses."""

    def forward(self, x):
        return x + 1 if x.sum() > 0 else x * 2


def test_a_wrong_program_is_not_written(out):
    report = Report()
    with pytest.raises(VerificationError):
        exports.torchscript_export(Deciding(), out / "net.ts", input_shape=(2, 4), report=report)
    assert report.verdict == "wrong"
    with pytest.raises(ConversionError, match="exported program"):
        exports.torch_export(Deciding(), out / "net.pt2", input_shape=(2, 4))
    assert exports.torchscript_export(Deciding(), out / "net.ts", input_shape=(2, 4), use_trace=False).is_file()
    assert left(out) == ["net.ts"]


# -- single formats --------------------------------------------------------------------------------------------------


def test_files_without_metadata_have_none(tmp_path):
    net = network().eval()
    for name in ("net.onnx", "net.tflite", "net.pt", "net.safetensors"):
        path = Converter(net, input_shape=(1, 3, 8, 8)).save(tmp_path / name)
        assert load_metadata(path) == Metadata()
    torch.export.save(torch.export.export(net, (torch.rand(1, 3, 8, 8),)), tmp_path / "net.pt2")
    torch.jit.save(torch.jit.trace(net, torch.rand(1, 3, 8, 8)), tmp_path / "net.ts")
    torch.save({"metadata": {"a": 1}, "state_dict": {}}, tmp_path / "training.pt")
    torch.save([1], tmp_path / "list.pt")
    torch.save({"metadata": {"a": 1}}, tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
    for name in ("net.pt2", "net.ts", "training.pt", "list.pt", "legacy.pt"):
        assert load_metadata(tmp_path / name) == Metadata()


def test_other_files_are_the_usual_errors(tmp_path):
    (tmp_path / "x.txt").write_text("text")
    (tmp_path / "x.onnx").write_bytes(b"\x08\x08no model")
    (tmp_path / "x.tflite").write_bytes(b"\x1c\0\0\0TFL3damaged")
    (tmp_path / "x.safetensors").write_bytes(b"\x40" + bytes(7) + b"{damaged" + bytes(99))
    _pickled(tmp_path / "x.pt")
    torch.jit.save(torch.jit.script(nn.ReLU()), tmp_path / "x.ts", _extra_files={"metadata.json": b"{"})
    torch.jit.save(torch.jit.script(nn.ReLU()), tmp_path / "y.ts", _extra_files={"metadata.json": b"[]"})
    errors = {
        "x.txt": UnknownFormatError,
        "gone.onnx": FileNotFoundError,
        "x.onnx": CorruptModelError,
        "x.tflite": CorruptModelError,
        "x.safetensors": CorruptModelError,
        "x.pt": UnsafeModelError,
        "x.ts": CorruptModelError,
        "y.ts": CorruptModelError,
    }
    for name, error in errors.items():
        with pytest.raises(error):
            load_metadata(tmp_path / name)


def test_an_onnx_model_keeps_its_own_entries_and_is_not_changed(tmp_path, monkeypatch):
    proto = exports.to_onnx(network(), **SHAPE)
    proto.metadata_props.add(key="author", value="somebody")
    before = proto.SerializeToString()
    savers.save_onnx(proto, tmp_path / "a.onnx", meta_values={"old": 1}, more_extra_files={"old.txt": b"old"})
    assert proto.SerializeToString() == before
    again = onnx.load(tmp_path / "a.onnx")
    onnx.checker.check_model(again)
    savers.save_onnx(again, tmp_path / "b.onnx", meta_values=VALUES, more_extra_files=FILES)
    found = onnx.load(tmp_path / "b.onnx")
    onnx.checker.check_model(found)  # which refuses a key that is there twice
    assert {p.key: p.value for p in found.metadata_props}["author"] == "somebody"
    assert load_metadata(tmp_path / "b.onnx") == Metadata(VALUES, FILES)
    del found.metadata_props[1:]
    assert found == proto


@pytest.mark.parametrize("limit", [0, 2])
def test_an_onnx_model_beyond_2_gb_has_its_metadata_too(tmp_path, monkeypatch, limit):
    net = nn.Linear(64, 64)
    proto = exports.to_onnx(net, input_shape=("batch", 64))
    # The model alone fits, with its metadata it does not; or it does not fit at all.
    most = len(proto.SerializeToString()) + 10 if limit else 1000
    monkeypatch.setattr(hub_io, "LARGEST_PROTOBUF", most)
    monkeypatch.setattr(protobuf, "LARGEST_PROTOBUF", most)
    savers.save_onnx(proto, tmp_path / "net.onnx", meta_values=VALUES, more_extra_files=FILES)
    assert left(tmp_path) == ["net.onnx", "net.onnx.data"]
    assert load_metadata(tmp_path / "net.onnx") == Metadata(VALUES, FILES)
    assert_same_outputs(net.eval(), tmp_path / "net.onnx", input_shape=("batch", 64))


def test_metadata_go_through_conversions_of_files(tmp_path):
    path = exports.onnx_export(network(), tmp_path / "net.onnx", meta=VALUES, **SHAPE)
    tflite = Converter(path).save(tmp_path / "net.tflite")
    assert load_metadata(tflite).values == VALUES
    assert load_metadata(Converter(tflite).save(tmp_path / "back.onnx")).values == VALUES


# -- the command line ------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of one's own with a network, its checkpoint, metadata and configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "exported_net.py").write_text("from torch import nn\n\ndef make():\n    return nn.Linear(4, 3)\n")
    torch.save({"net": {"weight": torch.full((3, 4), 2.0), "bias": torch.ones(3)}}, "best.pt")
    (tmp_path / "meta.json").write_text('{"name": "a network"}')
    (tmp_path / "train.yaml").write_text("lr: 0.1")
    (tmp_path / "test.json").write_text(json.dumps({"long": "word " * 100}))
    yield tmp_path
    disable_logging()
    sys.modules.pop("exported_net", None)


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


ALONG = "--checkpoint best.pt --key-in-checkpoint net --meta meta.json --config train.yaml --config test.json".split()


@pytest.mark.parametrize("format", ["torch", "torchscript", "onnx", "tflite", pytest.param("trt", marks=built), "ckpt"])
def test_export_on_the_command_line(format, folder, monkeypatch):
    shape = () if format == "ckpt" else ("--input-shape", "input=batch,4")
    result = run("export", "exported_net:make", "net", "--format", format, *ALONG, *shape)
    assert result.exit_code == 0, result.output
    path = folder / f"net{getattr(exports, f'{format}_export').keywords['saver'].keywords['extensions'][0]}"
    assert f"{path.name} written" in result.stdout
    assert format == "ckpt" or "verified" in result.stdout
    assert "export exported_net:make → net" in (folder / "logs/converter.log").read_text("utf-8")
    assert load_metadata(path).values == {"name": "a network"}
    monkeypatch.setenv("COLUMNS", "40")
    shown = run("metadata", path)
    assert shown.exit_code == 0 and '"name": "a network"' in shown.stdout and "train.json, 11 bytes" in shown.stdout
    assert "word " * 100 in shown.stdout  # whatever the width of the terminal
    if format == "onnx":
        assert any(np.array_equal(onnx.numpy_helper.to_array(w), np.full((3, 4), 2.0)) for w in onnx.load(path).graph.initializer)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("exported_net:make", "net.onnx", "--format", "ckpt"), 2, ".safetensors"),
        (("exported_net:make", "net.onnx", "--format", "coreml"), 2, "coreml"),
        (("exported_net:make", "nowhere/net.onnx", "--format", "onnx"), 2, "there is no folder 'nowhere'"),
        (("exported_net.make", "net.onnx", "--format", "onnx"), 2, "is not package.module:function"),
        (("exported_net:gone", "net.onnx", "--format", "onnx"), 2, "cannot be imported"),
        (("exported_net:make", "net.pt", "--format", "ckpt", "--no-verify"), 2, "does nothing for a checkpoint"),
        (("exported_net:make", "net.pt", "--format", "ckpt", "--input-shape", "1,4"), 2, "does nothing for a checkpoint"),
        (("exported_net:make", "net.pt", "--format", "ckpt", "--meta", "gone.json"), 2, "gone.json"),
        (("exported_net:make", "net.pt", "--format", "ckpt", "--checkpoint", "best.pt"), 1, "do not fit"),
        (("exported_net:make", "net.onnx", "--format", "onnx"), 1, "give input_shape"),
    ],
)
def test_what_is_wrong_has_its_exit_code_and_leaves_no_file(arguments, code, message, folder):
    result = run("export", *arguments)
    assert result.exit_code == code, result.output
    assert message in " ".join(result.output.replace("│", " ").split())
    assert not list(folder.glob("net*"))


def test_metadata_of_a_file_that_has_none(folder):
    assert "No metadata" in run("metadata", "best.pt").stdout
    assert run("metadata", "gone.pt").exit_code == 2
    assert run("metadata", "meta.json").exit_code == 1


@pytest.mark.parametrize(
    ("values", "files", "said"),
    [
        ({0: "cat"}, {}, "key 0 is no text"),
        ({"a": {1: "x", "1": "y"}}, {}, "key 1 in a"),
        ({"a": [0.0, float("nan")]}, {}, r"a\[1\] is nan"),
        ({"a": {"b": np.float32(1)}}, {}, "a.b is a float32"),
        ({}, {5: b""}, "5 is no name|names of text"),
        ({}, {"": b""}, "names of text"),
        ({}, {"folder/": b""}, "names of text"),
        ({}, {"a\0b": b""}, "names of text"),
        ({}, {"\ud800": b""}, "names of text"),
        ({}, {"mlconverter.json": b""}, "keeps for itself"),
    ],
)
def test_what_would_come_back_as_something_else_is_refused(values, files, said, out):
    for save in (savers.save_checkpoint, savers.save_onnx, savers.save_torchscript):
        model = network() if save is savers.save_checkpoint else exports.to_onnx(network(), **SHAPE, verify=False)
        model = exports.to_torchscript(network(), **SHAPE, verify=False) if save is savers.save_torchscript else model
        with pytest.raises(SignatureError, match=said):
            save(model, out / "net", meta_values=values, more_extra_files=files)
    assert left(out) == []


def test_names_of_files_mislead_nobody(out):
    script = exports.to_torchscript(network(), **SHAPE, verify=False)
    path = savers.save_torchscript(script, out / "extra_files.ts", meta_values={"a": 1}, more_extra_files={"b": b"c"})
    assert load_metadata(path) == Metadata({"a": 1}, {"b": b"c"})
    program = exports.to_exported_program(network(), **SHAPE, verify=False)
    files = {"constants.pkl": b"k", "data.pkl": b"d", "binary": b"\xff"}
    path = savers.save_exported_program(program, out / "net.pt2", meta_values={"a": 1}, more_extra_files=files)
    assert load_metadata(path) == Metadata({"a": 1}, files)


def test_networks_without_values_are_refused_by_every_saver_of_weights(out):
    class Extra(nn.Module):
        def get_extra_state(self):
            return {"x": 1}

    for net, name, error in (
        (nn.LazyLinear(3), "net.pt", SignatureError),
        (nn.Linear(3, 3, device="meta"), "net.safetensors", SignatureError),
        (Extra(), "net.safetensors", SaveError),
    ):
        with pytest.raises(error):
            exports.ckpt_export(net, out / name)
    with pytest.raises(SaveError, match="header"):
        savers.save_checkpoint(network(), out / "net.safetensors", more_extra_files={"b": bytes(range(256)) * 400_000})
    for place in (out, out / "..", ""):
        with pytest.raises(SaveError, match="no name of a file"):
            savers.save_checkpoint(network(), place)
    assert left(out) == []


def test_a_dict_of_outputs_becomes_torchscript(out):
    class Two(nn.Module):
        def forward(self, x):
            return {"sum": x + 1, "product": x * 2}

    path = exports.torchscript_export(Two(), out / "net.ts", input_shape=(2, 3))
    assert set(torch.jit.load(path)(torch.ones(2, 3))) == {"sum", "product"}


def test_other_files_go_along(out, tmp_path):
    (tmp_path / "a.json").write_text("\ufeff{}", "utf-8")
    both = {"config_files": tmp_path / "a.json", "extra_files": {"labels.txt": b"cat\n"}}
    path = exports.ckpt_export(network(), out / "net.pt", **both)
    assert load_metadata(path).extra_files == {"a.json": b"{}", "labels.txt": b"cat\n"}
    with pytest.raises(SignatureError, match=r"a\.json"):
        exports.ckpt_export(network(), out / "other.pt", **{**both, "extra_files": {"a.json": b""}})


def test_what_nothing_compared_is_warned_of(out, recwarn):
    class Ids(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(50, 4)

        def forward(self, ids):
            return self.table(ids).sum(1)

    shape = {"input_shape": ((2, 7), "int64")}
    exports.onnx_export(Ids(), out / "a.onnx", report=Report(), **shape)
    exports.onnx_export(Ids(), out / "b.onnx", verify=False, **shape)
    assert not [w for w in recwarn if "unverified" in str(w.message)]
    with pytest.warns(UserWarning, match="unverified"):
        exports.onnx_export(Ids(), out / "c.onnx", **shape)


def test_metadata_of_an_engine_need_its_json_alone(out):
    pytest.importorskip("tensorrt_rtx", reason="tensorrt_rtx is not installed")
    path = exports.trt_export(network(), out / "net.engine", meta={"z": 1, "a": 2}, report=Report(), **SHAPE)
    path.with_name("net.engine.onnx").unlink()
    assert list(load_metadata(path).values) == ["z", "a"]
