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
    assert failure(lambda x: {"y": x * 2, "k": np.ones(4)}, n, outputs=(("y", None), ("k", None))) is None


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
        (lambda x: x[:1], "no batch axis and differs"),
        (lambda x: x.sum(), "no batch axis and differs"),
        (lambda x: x.T, "for one item and"),
        (lambda x: x.reshape(1, 6), "does not run"),
        (lambda x: np.ones_like(x), "no output changes"),
        (lambda x: x[0, : 2 + int(x[0, 0] > 0)], "shapes"),
    ],
)
def test_items_that_meet_are_found(function, words):
    reason = failure(function)
    assert reason is not None
    assert words in reason


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
