"""The command line: what it prints, which exit code it gives, what it leaves behind."""

import io
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
import typer
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from typer.testing import CliRunner

from mlconverter import Converter
from mlconverter.cli import app, show, sources
from mlconverter.cli.inspection import inspect
from mlconverter.logs import disable_logging
from mlconverter.verification.result import VerificationResult
from tests import zoo


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Wide enough that no sentence is broken over two lines.
    monkeypatch.setenv("COLUMNS", "300")
    yield
    disable_logging()


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def small_model(path, op="Relu", seed=0, domain=""):
    """MatMul and one more operator, as a file."""
    weight = np.random.default_rng(seed).standard_normal((4, 3)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "matmul"), helper.make_node(op, ["h"], ["y"], "last", domain=domain)]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(weight, "w")],
    )
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


# -- convert ---------------------------------------------------------------------------------------------------------


def test_convert_writes_the_file_shows_the_steps_and_logs():
    small_model("net.onnx")
    result = run("convert", "net.onnx", "net.pt")
    assert result.exit_code == 0, result.output
    assert "onnx → torch" in result.stdout and "verified" in result.stdout and "net.pt written" in result.stdout
    log = Path("logs/converter.log").read_text("utf-8")
    assert "convert net.onnx → net.pt" in log and "onnx → torch" in log
    assert "mlconverter" not in result.stderr


def test_convert_says_where_nothing_was_compared():
    small_model("net.onnx")
    result = run("convert", "net.onnx", "net.pt", "--no-verify")
    assert result.exit_code == 0
    assert "onnx → torch is unverified: verify=False" in result.stdout


def test_convert_takes_a_function_that_gives_a_module_and_its_weights(tmp_path):
    import torch

    (tmp_path / "given_net.py").write_text("from torch import nn\n\ndef make():\n    return nn.Linear(4, 3)\n")
    torch.save({"weight": torch.full((3, 4), 2.0), "bias": torch.ones(3)}, "net.pt")
    result = run("convert", "given_net:make", "net.onnx", "--input-shape", "input=batch,4", "--weights", "net.pt")
    assert result.exit_code == 0, result.output
    model = onnx.load("net.onnx")
    assert [i.name for i in model.graph.input] == ["input"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert any(np.array_equal(numpy_helper.to_array(w), np.full((3, 4), 2.0)) for w in model.graph.initializer)


def test_convert_takes_the_format_where_the_extension_does_not_say_it():
    small_model("net.onnx")
    assert run("convert", "net.onnx", "net.weights", "--to", "torch").exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"), [(("--to", "coreml"), "There is no format 'coreml'"), ((), "No format has the extension '.mlmodel'")]
)
def test_a_format_that_does_not_exist_is_a_wrong_command_line(options, message):
    small_model("net.onnx")
    result = run("convert", "net.onnx", "net.mlmodel", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("destination", "options", "message"),
    [
        ("net.pt", ("--input-shape", "1,4"), "it is for torch models"),
    ],
)
def test_what_cannot_be_converted_is_said_and_leaves_no_file(tmp_path, destination, options, message):
    small_model("net.onnx")
    result = run("convert", "net.onnx", destination, *options)
    assert result.exit_code == 1
    assert message in result.stderr and "Traceback" not in result.output
    assert {p.name for p in tmp_path.iterdir()} == {"net.onnx", "logs"}
    assert "ERROR" in (tmp_path / "logs/converter.log").read_text("utf-8")


def test_all_unsupported_operators_are_listed():
    small_model("net.onnx", "Mystery", domain="com.example")
    result = run("convert", "net.onnx", "net.pt")
    assert result.exit_code == 1
    assert "com.example::Mystery" in result.stderr and "UnsupportedOpsError" in result.stderr


def test_a_damaged_file_is_a_failure():
    Path("net.onnx").write_bytes(b"\x08\x08not a model")
    result = run("convert", "net.onnx", "net.pt")
    assert result.exit_code == 1 and "CorruptModelError" in result.stderr


def test_a_wrong_result_has_an_exit_code_of_its_own_and_leaves_no_file(monkeypatch, tmp_path):
    small_model("net.onnx")
    result = VerificationResult("wrong", "output 'y' is off")
    monkeypatch.setattr("mlconverter.base.compared", lambda *arguments, **choices: result)
    shown = run("convert", "net.onnx", "net.pt")
    assert shown.exit_code == 3
    assert "onnx → torch is wrong: output 'y' is off" in shown.stdout and "VerificationError" in shown.stderr
    assert not (tmp_path / "net.pt").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing.onnx", "net.pt"), "there is no file 'nothing.onnx'"),
        (("net.onnx", "nowhere/net.pt"), "there is no folder 'nowhere'"),
        (("net.onnx", "net.pt", "--verify", "some"), "some"),
        (("net.onnx", "net.pt", "--input-shape", "1x3"), "'1x3' is no shape"),
        (("net.onnx", "net.pt", "--weights", "net.onnx"), "goes with package.module:function"),
        (("no_such_module_here:make", "net.onnx"), "cannot be imported"),
        (("net.onnx",), "Missing argument"),
    ],
)
def test_a_wrong_command_line_is_told_apart(arguments, message):
    small_model("net.onnx")
    result = run("convert", *arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_what_nobody_expected_is_a_panel_and_with_debug_a_traceback(monkeypatch):
    small_model("net.onnx")
    monkeypatch.setattr(Converter, "save", lambda self, path, format=None, **options: {}["key"])
    result = run("convert", "net.onnx", "net.pt")
    assert result.exit_code == 1
    assert "KeyError: 'key'" in result.stderr and "please report it" in result.stderr and "Traceback" not in result.stderr
    result = run("--debug", "convert", "net.onnx", "net.pt")
    assert result.exit_code == 1 and "Traceback" in result.stderr


def test_a_folder_that_cannot_be_written_to_is_no_reason_not_to_convert(tmp_path):
    small_model("net.onnx")
    (tmp_path / "logs").write_text("a file where the folder would be")
    result = run("convert", "net.onnx", "net.pt")
    assert result.exit_code == 0 and "No log is written" in result.stderr


# -- the other commands ----------------------------------------------------------------------------------------------


def test_inspect_shows_an_onnx_model():
    small_model("net.onnx")
    result = run("inspect", "net.onnx")
    assert result.exit_code == 0, result.output
    for text in ("opset", "17", "MatMul", "Relu", "batch × 4", "float32", "yes"):
        assert text in result.stdout
    facts = inspect(Path("net.onnx"))
    assert [(o.op, o.version, o.count) for o in facts.operators] == [("MatMul", 13, 1), ("Relu", 14, 1)]
    assert [(c.dtype, c.tensors, c.values, c.size) for c in facts.constants] == [("float32", 1, 12, 48)]
    assert {o.target: bool(o.refusal) for o in facts.outlooks} == {
        "tflite": False,
        "torch": False,
        "trt": find_spec("tensorrt_rtx") is None,
    }


def test_inspect_names_the_operators_in_the_way():
    small_model("net.onnx", "Mystery", domain="com.example")
    result = run("inspect", "net.onnx")
    assert result.exit_code == 0
    assert "1 refused" in result.stdout and "1 operator not supported (onnx-tflite)" in result.stdout


def test_inspect_shows_a_tflite_model():
    path = zoo.model("mediapipe", "face_landmark_with_attention.tflite")
    result = run("inspect", path)
    assert result.exit_code == 0, result.output
    for text in ("schema version", "custom::TransformLandmarks", "5 refused", "1 × 192 × 192 × 3", "channels_last", "1.2 M"):
        assert text in result.stdout
    # What stops two formats is said once.
    assert result.stdout.count("custom::TransformLandmarks (version 2)") == 1


def test_inspect_shows_a_checkpoint():
    import torch

    torch.save({"weight": torch.zeros(3, 4)}, "net.pt")
    result = run("inspect", "net.pt")
    assert result.exit_code == 0 and "weights only, 1 tensors" in result.stdout


def test_verify_tells_equal_from_different():
    small_model("a.onnx")
    small_model("b.onnx")
    small_model("c.onnx", seed=1)
    same = run("verify", "a.onnx", "b.onnx")
    assert same.exit_code == 0 and "verified" in same.stdout
    other = run("verify", "a.onnx", "c.onnx", "--level", "fast")
    assert other.exit_code == 3 and "wrong" in other.stdout
    # With a tolerance that a constant would pass nothing is verified.
    anything = run("verify", "a.onnx", "c.onnx", "--rtol", "100")
    assert anything.exit_code == 3 and "inconclusive" in anything.stdout
    assert run("verify", "a.onnx", "nothing.onnx").exit_code == 2
    assert run("verify", "a.onnx", "b.onnx", "--match", "luck").exit_code == 2


def test_formats_and_routes_are_listed():
    result = run("formats")
    assert result.exit_code == 0 and all(name in result.stdout for name in ("onnx", "tflite", "torch", ".pth"))
    result = run("ops")
    assert result.exit_code == 0 and "tflite-onnx" in result.stdout
    assert run("ops", "--route", "nowhere").exit_code == 2


def test_ops_says_what_operators_become():
    result = run("ops", "--route", "tflite-onnx")
    assert result.exit_code == 0
    (row,) = [line for line in result.stdout.splitlines() if " RELU6 " in line]
    assert "Clip between 0 and 6" in row


def test_version_and_help():
    from mlconverter import __version__

    assert __version__ in run("--version").stdout
    assert run("--help").exit_code == 0


def test_help_loads_no_framework():
    heavy = ("torch", "onnx", "onnx_ir", "onnxruntime", "numpy", "ai_edge_litert", "loguru")
    code = "import sys\nsys.argv = ['mlconverter', '--help']\ntry:\n    from mlconverter.cli import main\n    main()\nfinally:\n"
    code += f"    print(*(m for m in {heavy!r} if m in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == ""


def test_the_package_runs_as_a_module():
    result = subprocess.run([sys.executable, "-m", "mlconverter", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("mlconverter ")


# -- what is typed and what is printed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], None),
        (["1,3,224,224"], (1, 3, 224, 224)),
        (["?,3"], (None, 3)),
        (["1,3", "2"], [(1, 3), (2,)]),
        (["x=batch,3"], {"x": ("batch", 3)}),
        (["x=1,3", "ids=1,16:int64"], {"x": (1, 3), "ids": ((1, 16), "int64")}),
    ],
)
def test_shapes_are_read(given, expected):
    assert sources.input_shapes(given) == expected


@pytest.mark.parametrize("given", [["1x3"], [""], ["x="], ["1,,3"], ["x=1,3", "2"], ["x=1", "x=2"], ["-1,3"]])
def test_what_is_no_shape_is_refused(given):
    with pytest.raises(typer.BadParameter):
        sources.input_shapes(given)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (837, "837"), (101390, "101.4 K"), (11_689_512, "11.7 M"), (7 * 10**9, "7.0 G")]
)
def test_large_numbers_can_be_read(value, text):
    assert show.number(value) == text


def test_names_in_square_brackets_are_printed_as_they_are():
    table = show.table("a")
    table.add_row(*[show.escape("[red]name[/red]")])
    console = Console(width=80, file=io.StringIO())
    console.print(table)
    assert "[red]name[/red]" in console.file.getvalue()


def test_cache_shows_and_removes_what_is_kept():
    small_model("net.onnx")
    Converter("net.onnx", output_dir="kept", verify=False).to_tflite()
    result = run("cache", "--size", "--folder", "kept")
    assert result.exit_code == 0 and "1 files" in result.stdout and len(list(Path("kept").glob("*.tflite"))) == 1
    result = run("cache", "--clear", "--folder", "kept")
    assert result.exit_code == 0 and "removed" in result.stdout and not list(Path("kept").glob("*.tflite"))


@pytest.mark.skipif(find_spec("tensorrt_rtx") is None, reason="tensorrt_rtx is not installed")
def test_an_engine_with_a_precision_and_ranges():
    small_model("net.onnx")
    result = run("convert", "net.onnx", "net.engine", "--precision", "fp16", "--size-range", "batch=2,3,4")
    assert result.exit_code == 0, result.output
    info = Converter("net.engine").source.info
    assert info.precision == "fp16" and [shape[0] for shape in next(iter(info.profile.values()))] == [2, 3, 4]
    for text in ("batch", "batch=1,2", "=1,2,3", "batch=a,b,c"):
        assert run("convert", "net.onnx", "net.engine", "--size-range", text).exit_code == 2
    assert run("convert", "net.onnx", "net.tflite", "--precision", "fp16").exit_code == 1
