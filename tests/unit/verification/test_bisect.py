import numpy as np
import pytest

from mlconverter.errors import SignatureError
from mlconverter.verification import Permuted, Renamed, Tolerances, bisect_runners, first_difference, verify_runners
from tests.unit.verification.fakes import Fake, signature

VALUES = {"a": np.ones((1, 2, 3)), "b": np.arange(6.0).reshape(1, 2, 3), "c": np.array([5.0, 6.0])}
SIGNATURE = signature([("x", (1, 4, 4, 3))], [("y", (1, 4, 4, 3))])


class Shown(Fake):
    """y = tanh(x · first) · second, with the value between the two."""

    def __init__(self, first=1.0, second=1.0, sig=SIGNATURE, name="h", perm=None):
        super().__init__(sig, lambda **inputs: self.values(next(iter(inputs.values())))[1])
        self.first, self.second, self.between, self.perm = np.float32(first), np.float32(second), name, perm

    def values(self, x):
        hidden = np.tanh(x * self.first)
        return hidden, hidden * self.second

    def intermediates(self, inputs):
        hidden, result = self.values(next(iter(inputs.values())))
        return {self.between: hidden if self.perm is None else hidden.transpose(self.perm), "y": result}


@pytest.mark.parametrize("first", list(VALUES))
def test_the_first_in_order_is_named_though_later_ones_differ_more(first):
    order = list(VALUES)
    wrong = {n: v + (10.0 ** (1 + order.index(n)) if order.index(n) >= order.index(first) else 0.0) for n, v in VALUES.items()}
    found = first_difference(VALUES, dict(reversed(wrong.items())))
    assert found.name == first
    assert not found
    assert first_difference(VALUES, VALUES) is None


def test_fused_tensors_are_passed_over_and_nothing_in_common_is_an_error():
    assert first_difference(VALUES, {"c": VALUES["c"]}) is None
    assert first_difference(VALUES, {"c": VALUES["c"] + 1}).name == "c"
    for target in ({}, {"x": VALUES["a"]}):
        with pytest.raises(SignatureError, match="none by one name"):
            first_difference(VALUES, target)


@pytest.mark.parametrize("perm", [(0, 3, 1, 2), (0, 2, 3, 1)])
def test_the_other_layout_is_compared_in_its_order(perm):
    rng = np.random.default_rng(0)
    for shape in ((1, 4, 5, 3), (1, 4, 4, 4)):
        want = rng.normal(size=shape)
        assert first_difference({"a": want}, {"a": want.transpose(perm)}) is None
        assert first_difference({"a": want}, {"a": want.transpose(perm) * 2}).name == "a"
    assert first_difference({"a": rng.normal(size=(1, 4, 5, 3))}, {"a": rng.normal(size=(1, 4, 3, 5))}).failed == "shape"


def test_tolerances_are_the_callers():
    near = {"c": VALUES["c"] * 1.01}
    assert first_difference(VALUES, near).name == "c"
    assert first_difference(VALUES, near, Tolerances(rtol=0.1)) is None


def test_runners_that_show_their_tensors_are_bisected():
    inputs = {"x": np.ones((1, 4, 4, 3), np.float32)}
    assert bisect_runners(Shown(), Shown(), inputs) is None
    assert bisect_runners(Shown(), Shown(first=2), inputs).name == "h"
    assert bisect_runners(Shown(), Shown(second=2), inputs).name == "y"
    with pytest.raises(SignatureError, match="does not show"):
        bisect_runners(Shown(), Fake(SIGNATURE, lambda x: x), inputs)


class TestVerification:
    """What is wrong is bisected on the inputs on which it is, where that is asked for."""

    def test_the_first_difference_is_part_of_the_result(self):
        result = verify_runners(Shown(), Shown(first=1.5), bisect=True)
        assert result.verdict == "wrong"
        assert result.first_difference.name == "h"
        assert "first tensor that differs is h" in result.summary()
        assert verify_runners(Shown(), Shown(second=1.5), bisect=True).first_difference.name == "y"

    def test_only_where_it_is_asked_for_and_something_is_wrong(self):
        assert verify_runners(Shown(), Shown(first=1.5)).first_difference is None
        right = verify_runners(Shown(), Shown(), bisect=True)
        assert right
        assert right.first_difference is None

    def test_runners_without_tensors_say_so(self):
        result = verify_runners(Shown(), Fake(SIGNATURE, lambda x: x), bisect=True)
        assert (result.verdict, result.first_difference) == ("wrong", None)
        assert any("does not show" in note for note in result.notes)
        result = verify_runners(Shown(), Shown(first=2, name="other"), bisect=True)
        assert result.first_difference.name == "y"

    def test_a_target_in_other_names_or_axes_is_looked_through(self):
        other = signature([("in", (1, 4, 4, 3))], [("y", (1, 4, 4, 3))])
        renamed = Renamed(Shown(first=2, sig=other), ["x"], ["y"])
        assert verify_runners(Shown(), renamed, bisect=True).first_difference.name == "h"
        first = signature([("x", (1, 3, 4, 4))], [("y", (1, 3, 4, 4))])
        perms = {"x": (0, 3, 1, 2)}, {"y": (0, 3, 1, 2)}
        target = Shown(first=2, sig=first, perm=(0, 2, 3, 1))
        result = verify_runners(Shown(), target, bisect=True, input_perms=perms[0], output_perms=perms[1])
        assert result.first_difference.name == "h"
        hidden = Permuted(Fake(first, lambda x: x), *perms)
        with pytest.raises(SignatureError, match="does not show"):
            hidden.intermediates({"x": np.ones((1, 4, 4, 3), np.float32)})

    def test_a_target_that_does_not_run_between_its_operators_says_so(self):
        class Failing(Shown):
            def intermediates(self, inputs):
                raise SignatureError("nothing is kept")

        assert any("nothing is kept" in n for n in verify_runners(Shown(), Failing(first=2), bisect=True).notes)
