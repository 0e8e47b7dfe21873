"""Imports point one way, and ``import mlconverter`` is light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "mlconverter"

LAYERS = (
    {"errors", "signature", "options", "registry", "metadata"},
    {"hub"},
    {"verification", "cache", "report", "logs", "collecting"},
    {"conversion", "contract"},
    {"wayback", "batching", "intermediates"},
    {"base"},
    {"formats"},
    {"converter", "testing", "savers", "export", "train", "cli", "__init__", "__main__"},
)
"""Low to high: a module imports its own layer and those below. A new module at the top of the package is put here."""

HEAVY = ("torch", "tensorflow", "onnx", "onnxruntime", "numpy", "ai_edge_litert", "onnx_ir", "loguru")


def _module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _rank(module: str) -> int:
    top = [*module.split("."), "__init__"][1]
    ranks = [i for i, layer in enumerate(LAYERS) if top in layer]
    if not ranks:
        pytest.fail(f"'{top}' is in no layer; put it into LAYERS in {Path(__file__).name}.")
    return ranks[0]


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def imports(source: str, module: str, is_package: bool, known: set[str]) -> set[str]:
    """Modules of this package that a module imports when it runs, those inside functions too.

    Args:
        source: the module's text.
        module: its dotted name.
        is_package: whether it is an ``__init__``.
        known: every module there is: ``from a import b`` is ``a.b`` where that is one.
    """
    found = set()
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if _is_type_checking(node):  # a name for the type checker is no arrow: nothing is imported
            todo.extend(node.orelse)
            continue
        todo.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".") + (["__init__"] if is_package else [])
            base = parents[: len(parents) - node.level] if node.level else []
            origin = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                found.add(inner if inner in known else origin)
    return {f for f in found if f.split(".")[0] == "mlconverter"}


def refusal(source: str, target: str) -> str | None:
    """Why one module may not import another."""
    if _rank(target) > _rank(source):
        return "points up"
    a, b = source.split("."), target.split(".")
    if a[1:2] == b[1:2] == ["formats"] and len(a) > 2 and len(b) > 2 and a[2] != b[2]:
        return "goes from one format to another"
    return None


def _arrows() -> set[tuple[str, str]]:
    paths = sorted(PACKAGE.rglob("*.py"))
    known = {_module_name(p) for p in paths}
    arrows = set()
    for path in paths:
        module = _module_name(path)
        targets = imports(path.read_text("utf-8"), module, path.name == "__init__.py", known)
        arrows |= {(module, target) for target in targets}
    return arrows


def test_imports_point_one_way():
    wrong = [f"{a} → {b}: {reason}" for a, b in sorted(_arrows()) if (reason := refusal(a, b))]
    assert not wrong, "\n".join(wrong)


def test_every_exception_is_still_needed():
    assert ("mlconverter.hub.io", "mlconverter.signature") in _arrows()


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("mlconverter.hub.io", "from mlconverter.errors import SaveError", False),
        ("mlconverter.hub.io", "from mlconverter import base", True),
        ("mlconverter.hub.io", "import mlconverter.formats.onnx", True),
        ("mlconverter.hub.io", "def f():\n    from mlconverter.cache import atomic_write", True),
        ("mlconverter.hub.io", "from .. import base", True),
        ("mlconverter.hub.io", "from ..cache import x", True),
        ("mlconverter.hub.io", "from mlconverter import Converter", True),
        ("mlconverter.base", "from mlconverter.formats.onnx.runner import Runner", True),
        ("mlconverter.formats.torch.runner", "from mlconverter.formats.torch.names import x", False),
        ("mlconverter.formats.torch.runner", "from mlconverter.formats.tflite.names import x", True),
        ("mlconverter.formats.torch.runner", "from mlconverter.formats import tflite", True),
        ("mlconverter.formats.torch.runner", "from mlconverter.base import BaseConverter", False),
        ("mlconverter.errors", "if TYPE_CHECKING:\n    from mlconverter.verification.result import R", False),
        ("mlconverter.errors", "if TYPE_CHECKING:\n    pass\nelse:\n    from mlconverter.hub import io", True),
        ("mlconverter.cli", "import onnx\nfrom mlconverter.converter import Converter", False),
    ],
)
def test_the_rules_themselves(module, source, wrong):
    known = {"mlconverter.base", "mlconverter.formats.tflite", "mlconverter.hub.io"}
    reasons = {refusal(module, target) for target in imports(source, module, False, known)}
    assert any(reasons) == wrong


def test_importing_the_package_loads_no_framework():
    code = f"import sys, mlconverter; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


def test_the_main_class_loads_numpy_at_most():
    code = f"import sys; from mlconverter import Converter; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) <= {"numpy", "loguru"}
