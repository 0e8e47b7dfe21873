"""Options in the forms in which people give them become one plain value, or are refused by name."""

from collections import OrderedDict

import pytest

from mlconverter.options import ConvertOptions

LAYOUTS = (("image", "channels_first"), ("map", "channels_last"))


class TestNames:
    """``input_names`` and ``output_names``."""

    @pytest.mark.parametrize("option", ["input_names", "output_names"])
    @pytest.mark.parametrize(
        ("given", "names"),
        [("ab", ("ab",)), (["a", "b"], ("a", "b")), (("a", "b"), ("a", "b")), (None, None), ([], ())],
        ids=["text", "list", "tuple", "none", "empty"],
    )
    def test_are_a_tuple(self, option: str, given, names) -> None:
        options = ConvertOptions().having(**{option: given})
        assert getattr(options, option) == names
        assert hash(options) is not None

    @pytest.mark.parametrize("option", ["input_names", "output_names"])
    @pytest.mark.parametrize("given", [3, ["a", 3], [None], b"ab", {"a": "b"}, {"a"}, [["a"]]], ids=str)
    def test_are_text(self, option: str, given) -> None:
        with pytest.raises(TypeError, match=option):
            ConvertOptions().having(**{option: given})


class TestLayouts:
    """``io_layout``."""

    @pytest.mark.parametrize(
        "given",
        [
            dict(LAYOUTS),
            OrderedDict(reversed(LAYOUTS)),
            LAYOUTS,
            list(LAYOUTS),
            [list(pair) for pair in LAYOUTS],
            tuple(reversed(LAYOUTS)),
        ],
        ids=["dict", "another order", "pairs", "list of pairs", "list of lists", "reversed"],
    )
    def test_by_name_are_one_value(self, given) -> None:
        options = ConvertOptions().having(io_layout=given)
        assert options.io_layout == LAYOUTS
        assert hash(options) == hash(ConvertOptions(io_layout=LAYOUTS))

    @pytest.mark.parametrize("given", ["channels_first", None])
    def test_for_all_stay_as_they_are(self, given) -> None:
        assert ConvertOptions().having(io_layout=given).io_layout == given

    @pytest.mark.parametrize(
        "given",
        [["channels_first"], ["channels_first", "channels_last"], ("channels_first",), 3, [("a", "b", "c")], {"channels_first"}],
        ids=str,
    )
    def test_of_another_form_are_refused(self, given) -> None:
        with pytest.raises(TypeError, match="layouts by name"):
            ConvertOptions().having(io_layout=given)

    def test_that_contradict_each_other_are_refused(self) -> None:
        with pytest.raises(ValueError, match="more than once"):
            ConvertOptions().having(io_layout=[("a", "channels_first"), ("a", "channels_last")])

    def test_that_do_not_exist_are_refused(self) -> None:
        for given in ("NCHW", {"a": "NCHW"}):
            with pytest.raises(ValueError, match="channels_first"):
                ConvertOptions().having(io_layout=given)
