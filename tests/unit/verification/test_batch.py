import numpy as np
import pytest

from mlconverter.verification import batch_failure, batch_is_free
from tests.unit.verification.fakes import Fake, signature


def failure(function, n=3, inputs=(("x", ("N", 6)),), outputs=(("y", None),)):
    return batch_failure(Fake(signature(inputs, outputs), function), n)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_items_by_themselves_are_proved(n):
    assert failure(lambda x: np.tanh(x), n) is None
    assert failure(lambda x: np.repeat(x, 4, axis=0), n) is None, "several rows an item"
    assert failure(lambda x: {"y": x * 2, "k": np.ones(4)}, n, outputs=(("y", None), ("k", (4,)))) is None
    assert failure(lambda x: np.where(x > 5, np.nan, x).astype("f4"), n) is None
    assert failure(lambda x: x[:, 0] > 0, n) is None


def test_an_input_without_a_batch_serves_all_items():
    inputs = (("x", ("N", 6)), ("w", (6, 2)))
    assert failure(lambda x, w: x @ w, inputs=inputs) is None


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x - x.mean(axis=0), "is not that of 3 single runs"),
        (lambda x: x[::-1], "is not that of 3 single runs"),
        (lambda x: np.repeat(x[:1], len(x), axis=0), "is not that of 3 single runs"),
        (lambda x: np.tile(x, (4, 1)), "is not that of 3 single runs"),
        (lambda x: x[:1], "the shape (1, 6) for one item and (1, 6) for 3"),
        (lambda x: x.sum(), "the shape () for one item"),
        (lambda x: x.T, "for one item and"),
        (lambda x: x.reshape(1, 6), "does not run"),
        (lambda x: np.ones_like(x), "'y' is the same for all inputs"),
        (lambda x: np.full_like(x, np.nan), "'y' is the same for all inputs"),
        (lambda x: np.where(x > x[:, :1], np.nan, 1.0), "'y' is the same for all inputs"),
        (lambda x: x[0, : 2 + int(x[0, 0] > 0)], "shapes"),
    ],
)
def test_items_that_meet_are_found(function, words):
    reason = failure(function)
    assert reason is not None
    assert words in reason


@pytest.mark.parametrize("beyond", [0.5, 5.0, 12.0])
def test_items_that_meet_only_beyond_natural_values_are_found(beyond):
    """A maximum over the batch that counts where something is large, and one where something is far below zero."""
    for sign in (1, -1):
        reason = failure(lambda x, sign=sign: x + np.maximum((sign * x).max(axis=0) - np.float32(beyond), 0))
        assert reason is not None
        assert "is not that of 3 single runs" in reason


def test_an_item_is_held_against_its_own_size():
    """What leaks from one item to the next is small beside the largest item, and large beside the next."""

    def leak(x):
        return x + np.float32(3e-3) * np.roll(x.mean(axis=1, keepdims=True), 1, axis=0) * (len(x) > 1)

    assert "is not that of 3 single runs" in failure(leak)


def test_an_output_without_a_batch_may_not_depend_on_the_input():
    outputs = (("y", ("N", 6)), ("k", (6,)))
    assert "no batch axis and differs" in failure(lambda x: {"y": x, "k": x[0]}, outputs=outputs)
    assert failure(lambda x: {"y": x, "k": np.full(6, np.nan)}, outputs=outputs) is None
    assert failure(lambda x: np.ones(6), outputs=(("k", (6,)),)) == "no output has a batch"


def test_every_output_has_to_change():
    outputs = (("y", None), ("z", None))
    assert "'z' is the same" in failure(lambda x: {"y": x, "z": 1 / (1 + np.exp(-np.abs(x) - 50))}, outputs=outputs)


def test_an_output_that_changes_on_few_samples_is_given_more():
    """A sigmoid that is full unless all of a small input is near the middle."""
    saturated = Fake(signature((("x", ("N", 6)),), (("y", None),)), lambda x: np.clip(x * 1e4, -1, 1).round())
    calm = Fake(saturated.signature, lambda x: np.clip(np.abs(x).max(axis=1) * 1e2 - 5, 0, 1).round())
    assert batch_failure(saturated) is None
    assert batch_failure(calm) is None
    assert calm.calls > saturated.calls


def test_samples_that_a_model_refuses_prove_nothing_and_natural_ones_have_to_run():
    def fragile(x):
        if np.abs(x).max() > 4:
            raise RuntimeError("out of range")
        return x

    assert failure(fragile) is None

    def never(x):
        raise RuntimeError("no kernel")

    assert "no kernel" in failure(never)


def test_a_batch_that_is_not_there_cannot_be_proved():
    assert failure(lambda x: x, inputs=(("x", (1, 6)),)) == "no input has a free batch"
    assert "later axis" in failure(lambda x: x, inputs=(("x", ("N", "N")),))
    with pytest.raises(ValueError):
        failure(lambda x: x, 1)


def test_a_batch_is_free_where_it_is_free_in_both():
    free, fixed = signature([("x", ("N", 6))]), signature([("x", (1, 6))])
    unranked, other = signature([("x", None)]), signature([("x", ("batch", 6))])
    assert batch_is_free(free, free)
    assert batch_is_free(free, other)
    assert batch_is_free(free, unranked)
    assert not batch_is_free(free, fixed)
    assert not batch_is_free(fixed, free)


class Rounding(Fake):
    """A quantised model of two operators: whole numbers, which come out a step apart in batches, and what is made of those."""

    def __init__(self, behind):
        super().__init__(signature((("x", ("N", 6)),), (("y", None),)), lambda x: self._behind(self._whole(x)))
        self._behind = behind

    quantized = ("q",)

    @staticmethod
    def _whole(x: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(x * 20) + (len(x) > 1), -128, 127).astype(np.int8)

    def intermediates(self, inputs):
        return {"q": self._whole(inputs["x"]), **self.run(inputs)}

    def resumed(self, inputs, values):
        return {"q": self._whole(inputs["x"]), "y": self._behind(values.get("q", self._whole(inputs["x"])))}


def large(q: np.ndarray) -> np.ndarray:
    """Something that a step changes beyond every tolerance."""
    return np.sin(q.astype(np.float32) * 2)


def test_quantised_operators_are_judged_one_by_one():
    assert batch_failure(Rounding(large)) is None


@pytest.mark.parametrize("meets", [lambda q: large(q)[::-1], lambda q: large(q) + large(q).mean(axis=0) * (len(q) > 1)])
def test_items_that_meet_behind_quantised_values_are_found(meets):
    assert "is not that of 3 single runs" in batch_failure(Rounding(meets))
