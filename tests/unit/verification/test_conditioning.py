"""The source's own spread excuses rounding, and nothing else."""

from typing import Any

import numpy as np
import pytest

from mlconverter.signature import IOSignature, TensorSpec
from mlconverter.verification import BaseRunner, verify_runners
from mlconverter.verification.conditioning import MOST, rounding_spread

SIGNATURE = IOSignature((TensorSpec("x", (1, 64), "float32"),), (TensorSpec("y", (1, 64), "float32"),))


class Formula(BaseRunner):
    """Runs a function of one array."""

    def __init__(self, function: Any) -> None:
        super().__init__("formula", SIGNATURE)
        self._function = function

    def _run(self, inputs):
        return {"y": self._function(inputs["x"]).astype(np.float32)}


def steep(x: np.ndarray) -> np.ndarray:
    """A sine of a large argument that is rounded to single precision: nothing of it is better known than 1e-4."""
    return np.sin((x * np.float32(1e4)).astype(np.float64))


def exact(x: np.ndarray) -> np.ndarray:
    """The same, its argument in double precision."""
    return np.sin(x.astype(np.float64) * 1e4)


def test_a_smooth_function_has_no_spread_to_speak_of():
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
    runner = Formula(lambda v: v * 2)
    assert rounding_spread(runner, {"x": x}, runner.run({"x": x}))["y"].max() < 1e-5


def test_rounding_of_an_ill_conditioned_source_passes_with_a_note():
    result = verify_runners(Formula(steep), Formula(exact))
    assert result, result.summary()
    assert any("ill-conditioned" in note for note in result.notes)


def test_a_tolerance_that_the_caller_sets_is_the_one_that_counts():
    assert verify_runners(Formula(steep), Formula(exact), rtol=1e-6).verdict == "wrong"


@pytest.mark.parametrize("factor", [1.001, 1.02])
def test_the_same_difference_from_a_well_conditioned_source_is_wrong(factor):
    assert verify_runners(Formula(lambda v: v), Formula(lambda v: v * np.float32(factor))).verdict == "wrong"


def test_no_spread_excuses_more_than_the_limit():
    def chaotic(v):
        return np.sin(v.astype(np.float64) * 1e9)

    result = verify_runners(Formula(chaotic), Formula(lambda v: chaotic(v) * (1 + 3 * MOST)))
    assert result.verdict == "wrong"


def test_one_value_that_jumps_excuses_no_others():
    def jumping(v):
        y = v.copy()
        y[:, 0] = np.sin(v.sum(axis=1, dtype=np.float64) * 1e7)
        return y

    def off(v):
        return np.concatenate([jumping(v)[:, :1], jumping(v)[:, 1:] * np.float32(1.005)], axis=1)

    assert verify_runners(Formula(jumping), Formula(jumping))
    assert verify_runners(Formula(jumping), Formula(off)).verdict == "wrong"


def test_moved_inputs_that_a_source_refuses_say_nothing():
    x = np.ones((1, 64), np.float32)

    def exacting(v):
        if not (v == 1).all():
            raise RuntimeError("only ones")
        return v

    assert rounding_spread(Formula(exacting), {"x": x}, {"y": x})["y"].max() == 0


def test_infinities_have_no_spread():
    x = np.ones((1, 64), np.float32)
    runner = Formula(lambda v: np.where(np.arange(64) == 3, np.inf, v))
    assert np.isfinite(rounding_spread(runner, {"x": x}, runner.run({"x": x}))["y"]).all()
