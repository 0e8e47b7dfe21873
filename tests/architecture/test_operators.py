"""No operator version is translated by accident: each has been reviewed, or is refused with the reason."""

import importlib

import pytest

from mlconverter.registry import OpRegistry, formats

REFUSED: dict[str, dict[tuple[str, int], str]] = {
    "onnx-tflite": {
        ("Cast", 1): "names the dtype by a string, for which the specification has no list",
        ("GlobalLpPool", 1): "p is a real number",
        ("LpPool", 1): "p is a real number, and the default of the pads is not said",
        ("Pad", 1): "experimental: its pads have another name",
        ("Split", 1): "sizes stand in an input or an attribute, and what both mean is not said",
        ("Tile", 1): "repeats along one axis that is an input",
        ("Upsample", 1): "experimental: one scale each for height and width",
    },
    "onnx-torch": {
        ("Cast", 1): "names the dtype by a string, for which the specification has no list",
        ("GlobalLpPool", 1): "p is a real number",
        ("LpPool", 1): "p is a real number, and the default of the pads is not said",
        ("Pad", 1): "experimental: its pads have another name",
        ("Split", 1): "sizes stand in an input or an attribute, and what both mean is not said",
        ("Tile", 1): "repeats along one axis that is an input",
        ("Upsample", 1): "experimental: one scale each for height and width",
        ("ai.onnx.ml::LabelEncoder", 1): "one side of it is always strings",
    },
}
"""By route: versions of translated operators that are refused on purpose, and why."""


def routes() -> dict[str, OpRegistry]:
    """The operators of every route of every format: ``op_routes = {"onnx-torch": "module:attribute"}``."""
    found = {}
    for cls in formats:
        for route, place in getattr(cls, "op_routes", {}).items():
            module, _, attribute = place.partition(":")
            registry = getattr(importlib.import_module(module), attribute)
            assert isinstance(registry, OpRegistry), f"{cls.__name__}.op_routes: {place} is no OpRegistry"
            assert registry.route == route, f"{place} is the registry of '{registry.route}', not of '{route}'"
            found[route] = registry
    return found


def _schema_versions(deprecated: bool) -> dict[str, set[int]]:
    """All versions of all operators in the installed ``onnx``, with or without deprecated ones."""
    import onnx.defs

    versions: dict[str, set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if deprecated or not schema.deprecated:
            name = f"{schema.domain}::{schema.name}" if schema.domain else schema.name
            versions.setdefault(name, set()).add(schema.since_version)
    return versions


def unreviewed(registry: OpRegistry, refused: dict[tuple[str, int], str]) -> list[str]:
    """Versions that nobody has looked at, and entries that say nothing true."""
    schemas, required = _schema_versions(deprecated=True), _schema_versions(deprecated=False)
    wrong = []
    for op in registry.ops():
        known = schemas.get(op)
        if known is None:
            if "::" not in op:
                wrong.append(f"{op}: there is no such operator")
            continue
        wrong += [f"{op}-{v}: there is no such version" for v in registry.versions(op) if v not in known]
        missing = sorted(v for v in required.get(op, ()) if registry.find(op, v) is None and (op, v) not in refused)
        wrong += [f"{op}-{v}: is not reviewed" for v in missing]
    for (op, version), reason in refused.items():
        if registry.find(op, version) is not None:
            wrong.append(f"{op}-{version}: is refused and translated")
        elif version not in schemas.get(op, ()) or not reason:
            wrong.append(f"{op}-{version}: the refusal is of no version or has no reason")
    return wrong


def test_every_version_of_a_translated_operator_is_reviewed_or_refused():
    wrong = [
        f"{route}: {line}"
        for route, registry in routes().items()
        if route.startswith("onnx-")
        for line in unreviewed(registry, REFUSED.get(route, {}))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_routes_that_read_onnx_are_found():
    named = {route for route in REFUSED if route.removeprefix("onnx-") in formats}
    assert named <= set(routes())


def test_every_translator_says_its_mapping():
    silent = {
        f"{route}: {op} ({translator.function.__qualname__})"
        for route, registry in routes().items()
        for op in registry.ops()
        for version in registry.versions(op)
        if not (translator := registry.find(op, version)) or not translator.summary
    }
    assert not silent, "\n".join(sorted(silent))


@pytest.mark.parametrize(
    ("op", "versions", "refused", "message"),
    [
        ("Softmax", (1, 11, 13), {}, None),
        ("Softmax", (11, 13), {("Softmax", 1): "another meaning of axis"}, None),
        ("Softmax", (11, 13), {}, "Softmax-1: is not reviewed"),
        ("Softmax", (1, 11, 12, 13), {}, "Softmax-12: there is no such version"),
        ("Softmacks", (1,), {}, "Softmacks: there is no such operator"),
        ("Softmax", (1, 11, 13), {("Softmax", 1): "x"}, "Softmax-1: is refused and translated"),
        ("Softmax", (1, 11, 13), {("Relu", 2): "x"}, "Relu-2: the refusal is of no version or has no reason"),
        ("com.example::Softmax", (1,), {}, None),
    ],
)
def test_the_rules_themselves(op, versions, refused, message):
    registry = OpRegistry("onnx-test")
    registry(op, *versions)(lambda: None)
    assert unreviewed(registry, refused) == ([message] if message else [])
