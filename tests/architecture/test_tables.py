"""The operator tables of the README say what the registries say."""

from pathlib import Path

import pytest

from mlconverter.cli import tables
from mlconverter.registry import OpRegistry, formats

README = Path(__file__).parents[2] / "README.md"


def test_the_tables_of_the_readme_are_current():
    text = README.read_text("utf-8")
    assert text == tables.renewed(text), "run: make tables"


def test_every_route_has_a_table_with_every_operator():
    text = README.read_text("utf-8")
    for route, place in tables.routes().items():
        assert f"<code>{route}</code>" in text
        assert all(f"| {op} |" in text for op in tables.registry(place).ops())


def test_the_limits_of_the_readme_still_hold():
    limits = README.read_text("utf-8").partition("## Limits")[2]
    registries = {route: tables.registry(place) for route, place in tables.routes().items()}
    assert "onnx-tflite" not in registries or "cannot be made from an ONNX" not in limits
    assert "trt" not in formats or "TensorRT** is not there yet" not in limits
    assert "SequenceInsert" in limits and "SequenceInsert" not in registries["onnx-tflite"].ops()
    assert "`HASHTABLE`" in limits and "HASHTABLE" not in registries["tflite-onnx"].ops()


def test_a_document_without_marks_is_not_touched():
    with pytest.raises(ValueError, match="has no lines"):
        tables.renewed("nothing to renew")


def test_versions_that_mean_the_same_stand_in_one_row(monkeypatch):
    registry = OpRegistry("a-b")

    @registry("Softmax", 13)
    def new(g, x):
        """Softmax → x | y."""

    @registry("Softmax", 1, 11, check=lambda node: None)
    def old(g, x):
        """Softmax up to opset 12 → z."""

    monkeypatch.setattr(tables, "registry", lambda place: registry)
    rows = tables.operators("any:where")
    assert [(r.op, r.versions, r.mapping, r.conditional) for r in rows] == [
        ("Softmax", (1, 11), "z", True),
        ("Softmax", (13,), "x | y", False),
    ]
    text = tables.markdown({"a-b": "any:where"})
    assert "<code>a-b</code>: 1 operators" in text
    assert "| Softmax | 1, 11 | z \\* |\n| Softmax | 13 | x \\| y |" in text
