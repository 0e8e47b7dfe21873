import numpy as np
import pytest

from mlconverter.errors import SignatureError
from mlconverter.verification import Tolerances, bisect_runners, first_difference

VALUES = {"a": np.ones((1, 2, 3)), "b": np.arange(6.0).reshape(1, 2, 3), "c": np.array([5.0, 6.0])}
ORDER = ["a", "b", "c"]


def test_equal_values_have_no_difference():
    assert first_difference(VALUES, VALUES, ORDER) is None
    assert first_difference(VALUES.items(), iter(VALUES.items()), iter(ORDER)) is None


@pytest.mark.parametrize("first", ORDER)
def test_the_first_in_order_is_named_though_later_ones_differ_more(first):
    wrong = {n: v + (10.0 ** (1 + ORDER.index(n)) if ORDER.index(n) >= ORDER.index(first) else 0.0) for n, v in VALUES.items()}
    found = first_difference(VALUES, dict(reversed(wrong.items())), ORDER)
    assert found.name == first
    assert not found


def test_fused_tensors_are_passed_over_and_nothing_in_common_is_an_error():
    assert first_difference(VALUES, {"c": VALUES["c"]}, ORDER) is None
    assert first_difference(VALUES, {"c": VALUES["c"] + 1}, ORDER).name == "c"
    for target, order in (({}, ORDER), (VALUES, []), ({"x": VALUES["a"]}, ORDER)):
        with pytest.raises(SignatureError):
            first_difference(VALUES, target, order)


def test_names_axis_orders_and_tolerances_are_the_callers():
    target = {"a": VALUES["a"], "B": VALUES["b"].transpose(0, 2, 1)}
    perms = {"b": (0, 2, 1)}
    assert first_difference(VALUES, target, ORDER, names={"b": "B"}, perms=perms) is None
    assert first_difference(VALUES, target, ORDER, names={"b": "B"}).failed == "shape"
    assert first_difference(VALUES, {"b": VALUES["b"]}, ORDER, perms=perms).failed == "shape"
    near = {"c": VALUES["c"] * 1.01}
    assert first_difference(VALUES, near, ORDER).name == "c"
    assert first_difference(VALUES, near, ORDER, tolerances=Tolerances(rtol=0.1)) is None


def test_runners_that_show_their_tensors_are_bisected():
    class Shown:
        def __init__(self, factor):
            self.factor = factor

        def intermediates(self, inputs):
            inputs["x"] *= 2
            return {"h": inputs["x"] * self.factor, "y": inputs["x"] + 1}

    inputs = {"x": np.ones(3)}
    assert bisect_runners(Shown(1), Shown(1), inputs) is None
    assert bisect_runners(Shown(1), Shown(2), inputs).name == "h"
    assert inputs["x"].max() == 1
