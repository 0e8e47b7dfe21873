import sys

import pytest

from mlconverter.errors import UnknownFormatError
from mlconverter.registry import FormatRegistry, OpRegistry


class TestFormatRegistry:
    @pytest.fixture
    def registry(self, tmp_path, monkeypatch):
        """A registry over a package with the formats ``one`` and ``two``, each a folder that registers itself."""
        package = tmp_path / "some_formats"
        for name in ("one", "two"):
            (package / name).mkdir(parents=True)
            text = (
                f"import some_formats\n\nclass {name.title()}: ...\n\nsome_formats.registry.register('{name}', {name.title()})\n"
            )
            (package / name / "__init__.py").write_text("")
            (package / name / "converter.py").write_text(text)
        (package / "__init__.py").write_text("registry = None\n")
        monkeypatch.syspath_prepend(tmp_path)
        registry = FormatRegistry("some_formats", "no.such.group")
        import some_formats

        some_formats.registry = registry
        yield registry
        for module in [m for m in sys.modules if m.split(".")[0] == "some_formats"]:
            del sys.modules[module]

    def test_folders_are_found_at_the_first_look(self, registry):
        assert "some_formats.one" not in sys.modules
        assert registry.names() == ("one", "two")
        assert registry["one"].__name__ == "One"
        assert {c.__name__ for c in registry} == {"One", "Two"}

    def test_a_format_that_is_not_there_names_those_that_are(self, registry):
        assert "three" not in registry
        with pytest.raises(UnknownFormatError, match="three") as caught:
            registry["three"]
        assert caught.value.known == ("one", "two")

    def test_one_name_is_for_one_class(self, registry):
        registry.register("x", int)
        registry.register("x", int)
        with pytest.raises(ValueError, match=r"int already; str"):
            registry.register("x", str)

    def test_a_format_can_be_taken_out_and_its_name_used_again(self, registry):
        registry.register("x", int)
        registry.unregister("x")
        registry.unregister("x")
        registry.register("x", str)
        assert registry["x"] is str

    def test_formats_of_other_distributions_come_by_entry_point(self, registry, monkeypatch):
        class Entry:
            def load(self):
                registry.register("theirs", dict)

        monkeypatch.setattr("mlconverter.registry.entry_points", lambda group: [Entry()] if group == "no.such.group" else [])
        assert "theirs" in registry


class TestOpRegistry:
    @pytest.fixture
    def registry(self):
        return OpRegistry("onnx-test")

    def test_a_translator_is_found_at_the_versions_it_was_reviewed_for(self, registry):
        @registry("Softmax", 11, 13)
        def softmax(x):
            """torch.softmax(x, axis).

            More about it.
            """

        translator = registry.find("Softmax", 13)
        assert translator is registry.find("Softmax", 11)
        assert (translator.op, translator.versions, translator.function) == ("Softmax", {11, 13}, softmax)
        assert translator.summary == "torch.softmax(x, axis)."
        assert translator.check is None
        assert registry.versions("Softmax") == (11, 13)

    def test_a_version_that_nobody_reviewed_is_refused_with_the_reason(self, registry):
        registry("Softmax", 13, 11)(lambda x: x)
        assert registry.find("Softmax", 14) is None
        assert registry.refusal("Softmax", 14) == "version 14 is not reviewed; reviewed: 11, 13"
        assert registry.refusal("Softmax", 13) is None
        assert registry.refusal("Relu", 6) == "no translator"

    def test_one_function_may_translate_several_operators(self, registry):
        function = registry("A", 1)(registry("B", 1)(lambda x: x))
        assert registry.find("A", 1).function is registry.find("B", 1).function is function
        assert registry.ops() == ("A", "B")

    def test_versions_may_have_translators_of_their_own(self, registry):
        old = registry("Softmax", 1, 11)(lambda x: x)
        new = registry("Softmax", 13)(lambda x: x)
        assert (registry.find("Softmax", 11).function, registry.find("Softmax", 13).function) == (old, new)

    def test_two_translators_of_one_version_are_an_error_that_names_both(self, registry):
        def first(x): ...

        registry("Softmax", 13)(first)
        with pytest.raises(ValueError, match="Softmax-13 is translated by first already"):
            registry("Softmax", 13)(lambda x: x)

    def test_a_check_is_kept(self, registry):
        def check(node):
            return "never"

        registry("Relu", 6, check=check)(lambda x: x)
        assert registry.find("Relu", 6).check is check

    def test_a_translator_without_a_docstring_has_no_summary(self, registry):
        registry("Relu", 6)(lambda x: x)
        assert registry.find("Relu", 6).summary == ""
