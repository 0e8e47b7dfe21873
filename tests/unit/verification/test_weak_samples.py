"""Samples that show too little: others are tried, and what stays unseen is inconclusive."""

import numpy as np
import pytest

from mlconverter.verification import verify_runners
from tests.unit.verification.fakes import SIGNATURE, Fake, signature, verify


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (lambda x: np.ones_like(x), "the same"),
        (lambda x: 1e5 + np.tanh(x), "the same"),
        (lambda x: np.zeros_like(x), "zero or empty"),
        (lambda x: np.full_like(x, np.nan), "never finite"),
        (lambda x: x[:, :0], "zero or empty"),
    ],
)
@pytest.mark.parametrize("level", ["fast", "full"])
def test_an_output_that_shows_nothing_is_inconclusive(output, words, level):
    def weak(x):
        return {"y": np.tanh(x), "z": output(x)}

    sig = signature(outputs=[("y", None), ("z", None)])
    result = verify(weak, level, sig=sig, source=Fake(sig, weak))
    assert (result.verdict, bool(result)) == ("inconclusive", False)
    assert "'z'" in result.reason
    assert "'y'" not in result.reason
    assert words in result.reason
    assert result.raise_if_wrong() is result


@pytest.mark.parametrize("level", ["fast", "full"])
def test_one_number_everywhere_but_where_there_is_none_is_inconclusive(level):
    def weak(x):
        return np.where(x > 5, np.nan, 2).astype(np.float32)

    sig = signature(outputs=[("y", None)])
    result = verify(weak, level, sig=sig, source=Fake(sig, weak))
    assert result.verdict == "inconclusive"
    assert "the same" in result.reason


def test_samples_that_show_too_little_are_followed_by_others():
    """What a source refuses, or is silent on, leaves one sample; a second one shows what it does."""

    def rarely(x):
        if np.abs(x).max() > 5:
            raise RuntimeError("out of range")
        return {"y": np.tanh(x), "z": np.maximum(np.abs(x).max(axis=(1, 2, 3)) - 2, 0)}

    sig = signature(outputs=[("y", None), ("z", None)])
    fixed = signature([("x", (1, 3, 8, 8))], [("y", None), ("z", None)])
    result = verify(rarely, "fast", sig=fixed, source=Fake(fixed, rarely))
    assert result, result.summary()
    assert [r.inputs for r in result.runs][:2] == ["natural inputs", "noise inputs"]
    assert (
        verify(lambda x: {**rarely(x), "z": np.zeros(len(x), np.float32)}, "fast", sig=sig, source=Fake(sig, rarely)).verdict
        == "wrong"
    )


class TestInputs:
    """Every input has to change something, or a target could leave it out."""

    SIG = signature([("a", (1, 256)), ("b", (1, 256))], [("y", (1, 256))])

    def verify(self, source, target, level="fast"):
        return verify_runners(Fake(self.SIG, source), Fake(self.SIG, target), level=level)

    def test_one_that_counts_is_looked_for(self):
        assert self.verify(lambda a, b: a + b, lambda a, b: a + b)
        assert self.verify(lambda a, b: a + b, lambda a, b: a).verdict == "wrong"

    @pytest.mark.parametrize("level", ["fast", "full"])
    def test_one_that_changes_nothing_on_any_sample_is_inconclusive(self, level):
        def rare(a, b):
            return np.where(b.max() > 1e4, 0, a).astype(np.float32)

        result = self.verify(rare, lambda a, b: a, level)
        assert result.verdict == "inconclusive"
        assert "input 'b' changes no output" in result.reason

    def test_one_that_counts_in_large_numbers_only_is_found_by_more_samples(self):
        def late(a, b):
            return a + np.maximum(b - 21, 0)

        assert self.verify(late, lambda a, b: a).verdict == "wrong"
        assert self.verify(late, late)

    def test_inputs_that_the_caller_gives_are_the_callers(self):
        given = {"a": np.ones((1, 256), np.float32), "b": np.ones((1, 256), np.float32)}
        source = Fake(self.SIG, lambda a, b: a)
        assert verify_runners(source, source, inputs=given)


class TestSaturation:
    """A steep sigmoid is a threshold on nearly every sample, and not between them."""

    SIG = signature([("x", (1, 3, 8, 8))], [("y", (1, 3, 8, 8))])

    @staticmethod
    def steep(x):
        return (1 / (1 + np.exp(-np.clip((x.astype(np.float64) - 0.47) * 5e4, -700, 700)))).astype(np.float32)

    @staticmethod
    def step(x):
        return (x > 0.47).astype(np.float32)

    def test_a_threshold_in_its_place_is_wrong(self):
        assert verify_runners(Fake(self.SIG, self.steep), Fake(self.SIG, self.steep), level="fast")
        result = verify_runners(Fake(self.SIG, self.steep), Fake(self.SIG, self.step), level="fast")
        assert result.verdict == "wrong"
        assert "inputs between two others" in result.reason

    def test_what_is_a_threshold_is_verified(self):
        assert verify_runners(Fake(self.SIG, self.step), Fake(self.SIG, self.step), level="fast")

    def test_integers_and_single_numbers_are_no_trouble(self):
        sig = signature([("n", (1,), "int64")], [("y", (1,))])
        source = Fake(sig, lambda n: (n * 0.5).astype(np.float32))
        assert verify_runners(source, source, level="fast")


def test_pictures_of_the_other_range_are_tried_where_those_of_the_first_show_nothing():
    sig = signature([("x", (1, 3, 8, 8))], [("y", None)])

    def bright(x):
        return np.maximum(x.mean(axis=(1, 2, 3)) - 30, 0)

    result = verify_runners(Fake(sig, bright), Fake(sig, bright), level="fast")
    assert result
    assert "natural inputs times 255" in {r.inputs for r in result.runs}
    assert verify_runners(Fake(sig, bright), Fake(sig, lambda x: bright(x) * 0), level="fast").verdict == "wrong"


def test_wrong_outranks_inconclusive():
    weak = Fake(SIGNATURE, lambda x: {"y": np.tanh(x), "z": np.ones_like(x)})
    assert verify(lambda x: {"y": x, "z": np.ones_like(x)}, source=weak).verdict == "wrong"


def test_constants_by_signature_are_no_weakness():
    constant = signature([], [("y", (2,))])
    assert verify_runners(Fake(constant, lambda: np.ones(2)), Fake(constant, lambda: np.ones(2)))
    assert verify_runners(Fake(constant, lambda: np.ones(2)), Fake(constant, lambda: np.zeros(2))).verdict == "wrong"
    assert verify_runners(Fake(constant, lambda: np.zeros(2)), Fake(constant, lambda: np.zeros(2)))
    sig = signature(outputs=[("y", ("N", 3, 8, 8)), ("z", (0, 4))])
    source = Fake(sig, lambda x: {"y": x, "z": np.zeros((0, 4))})
    assert verify_runners(source, source)


def test_a_source_that_draws_random_numbers_is_inconclusive():
    rng = np.random.default_rng(0)

    def random(x):
        return {"y": np.tanh(x), "z": rng.standard_normal(x.shape).astype(np.float32)}

    result = verify(random, source=Fake(SIGNATURE, random))
    assert result.verdict == "inconclusive"
    assert "differs from itself" in result.reason
    # A difference is excused only where it is of the kind and about the size of the source's own.
    for other in (lambda x: x * 0 + np.float32(1e4), lambda x: x[:, :1], lambda x: x.astype(np.float64), lambda x: x * np.nan):
        far = verify(lambda x, other=other: {"y": np.tanh(x), "z": other(x)}, source=Fake(SIGNATURE, random))
        assert far.verdict == "wrong"
        assert "'z'" in far.reason
    # The other output is still judged.
    bad = verify(lambda x: {"y": x, "z": random(x)["z"]}, source=Fake(SIGNATURE, random))
    assert bad.verdict == "wrong"
    assert "'y'" in bad.reason
