import itertools

import numpy as np
import pytest

from mlconverter.errors import ConversionError, SignatureError, VerificationError
from mlconverter.signature import Quantization
from mlconverter.verification import RunComparison, VerificationResult, session, verify_runners
from mlconverter.verification.compare import compare_tensors
from mlconverter.verification.tolerance import Tolerances
from tests.unit.verification.fakes import Fake, signature, spec

SIGNATURE = signature(outputs=[("y", ("N", 3, 8, 8)), ("z", ("N", 3, 8, 8))])
FIXED = signature([("x", (1, 3, 8, 8))], [("y", (1, 3, 8, 8)), ("z", (1, 3, 8, 8))])


def model(x):
    return {"y": np.tanh(x), "z": x[:, ::-1] * 2}


SOURCE = Fake(SIGNATURE, model, "Source 1.0")


def verify(function, level="full", sig=SIGNATURE, source=SOURCE, **options):
    return verify_runners(source, Fake(sig, function, "Target 2.0"), level=level, **options)


def changed(**changes):
    """The model with some outputs changed by functions."""
    return lambda x: {n: changes.get(n, lambda v: v)(v) for n, v in model(x).items()}


@pytest.mark.parametrize("level", ["fast", "full"])
def test_the_same_model_is_verified(level):
    result = verify(model, level)
    assert result, result.summary()
    assert (result.verdict, result.reason, result.source, result.target) == ("verified", "", "Source 1.0", "Target 2.0")
    assert result.raise_if_wrong() is result
    assert result.seconds > 0
    assert "verified: Target 2.0 against Source 1.0" in result.summary()


def test_levels_run_what_they_promise():
    assert [(r.kind, r.batch) for r in verify(model, "fast").runs] == [("natural", 1), ("edge", 1), ("natural", 3)]
    full = [(r.inputs, r.seed, r.batch) for r in verify(model, "full", seed=5).runs]
    assert len(set(full)) == len(full) == 8
    assert {k for k, _, _ in full} == {"natural inputs", "edge inputs", "noise inputs"}
    assert {b for _, _, b in full} == {1, 3}
    assert min(s for _, s, _ in full) == 5


def test_a_fixed_batch_on_either_side_is_not_varied():
    for source, target in ((FIXED, SIGNATURE), (SIGNATURE, FIXED), (FIXED, FIXED)):
        for level in ("fast", "full"):
            result = verify(model, level, sig=target, source=Fake(source, model))
            assert result
            assert {r.batch for r in result.runs} == {1}
            assert any("fixes a batch" in note for note in result.notes) is (source is SIGNATURE)


def one_element(factor):
    def change(y):
        bound = Tolerances().of("float32").bound(float(np.abs(y).max()))
        y = y.copy()
        y.reshape(-1)[17] += factor * bound
        return y

    return change


@pytest.mark.parametrize(
    ("change", "check_name"),
    [
        (lambda y: y.transpose(0, 1, 3, 2), "values"),
        (lambda y: y[:, ::-1], "values"),
        (lambda y: y.transpose(0, 2, 3, 1), "shape"),
        (lambda y: y[:, :1], "shape"),
        (lambda y: y[None], "shape"),
        (lambda y: y.astype(np.float64), "dtype"),
        (lambda y: y.astype(np.float16), "dtype"),
        (lambda y: np.where(np.arange(8) == 7, np.float32("nan"), y), "finite"),
        (np.zeros_like, "values"),
        (lambda y: -y, "values"),
        (one_element(2.0), "values"),
    ],
)
@pytest.mark.parametrize("output", ["y", "z"])
def test_mutations_are_wrong(change, check_name, output):
    result = verify(changed(**{output: change}), "fast")
    assert (result.verdict, bool(result)) == ("wrong", False)
    assert {c.failed for c in result.comparisons if not c} == {check_name}
    assert {c.name for c in result.comparisons if not c} == {output}
    assert f"'{output}'" in result.reason
    with pytest.raises(VerificationError, match="wrong") as caught:
        result.raise_if_wrong()
    assert caught.value.result is result


def test_less_than_the_tolerance_passes():
    assert verify(changed(y=one_element(0.5)))


def test_swapped_outputs_are_wrong():
    assert verify(lambda x: dict(zip("yz", reversed(model(x).values()), strict=True))).verdict == "wrong"


@pytest.mark.parametrize("names", [["y"], ["z", "y"], ["y", "z", "w"], ["y", "Z"], []])
def test_output_names_and_their_order_are_part_of_the_contract(names):
    target = Fake(signature(outputs=[(n, ("N", 3, 8, 8)) for n in names]), lambda x: dict.fromkeys(names, x))
    result = verify_runners(SOURCE, target)
    assert (result.verdict, result.runs) == ("wrong", ())
    assert str(names) in result.reason


def test_input_names_and_their_order_are_part_of_the_contract():
    def pair(*names):
        sig = signature([(n, (4,)) for n in names], [("y", (4,))])
        return Fake(sig, lambda **inputs: inputs[names[0]] + 2 * inputs[names[-1]])

    assert verify_runners(pair("a", "b"), pair("a", "b"))
    for other in (("b", "a"), ("a",), ("a", "c")):
        assert verify_runners(pair("a", "b"), pair(*other)).verdict == "wrong"


@pytest.mark.parametrize(("shape", "dtype"), [((1, 8, 8, 3), "float32"), (("N", 3, 8, 8), "float16"), ((1, 3, 8), "float32")])
def test_another_input_shape_or_dtype_is_wrong(shape, dtype):
    sig = signature([("x", shape, dtype)], [("y", None), ("z", None)])
    result = verify(model, "fast", sig)
    assert result.verdict == "wrong"
    assert "does not run" in result.reason


def test_an_error_only_on_edge_inputs_or_only_at_the_second_batch_shows():
    edge = verify(lambda x: model(np.where(x < -1, 0, x).astype(np.float32)), "fast")
    assert [bool(r) for r in edge.runs] == [True, False, True]
    for level in ("fast", "full"):
        batch = verify(lambda x: {n: v if len(x) == 1 else v[::-1] for n, v in model(x).items()}, level)
        assert {bool(r) for r in batch.runs if r.batch == 1} == {True}
        assert batch.verdict == "wrong"


def test_a_target_that_fails_is_wrong_with_its_error():
    def fail(x):
        if len(x) == 3:
            raise RuntimeError("baked batch")
        return model(x)

    result = verify(fail)
    assert result.verdict == "wrong"
    assert "baked batch" in result.reason
    assert any("baked batch" in str(row["reason"]) and row["ok"] is False for row in result.rows())


def test_a_source_that_fails_on_some_samples_leaves_them_out_and_says_so():
    def fragile(x):
        if len(x) == 3 or x.min() < -15:
            raise RuntimeError("out of range")
        return model(x)

    result = verify(model, source=Fake(SIGNATURE, fragile))
    assert result
    assert {r.kind for r in result.runs} == {"natural", "noise"}
    assert any("out of range" in n for n in result.notes)


def test_a_source_that_never_runs_leaves_the_target_unverified():
    def fail(x):
        raise RuntimeError("no kernel")

    result = verify(model, source=Fake(SIGNATURE, fail))
    assert (result.verdict, bool(result), result.runs) == ("unverified", False, ())
    assert "no kernel" in result.reason
    assert result.raise_if_wrong() is result


def test_nothing_compared_is_wrong():
    empty = signature(outputs=[])
    assert verify_runners(Fake(empty, lambda x: {}), Fake(empty, lambda x: {})).verdict == "wrong"
    assert verify(model, inputs=[]).verdict == "wrong"


def test_false_runs_nothing():
    source = Fake(SIGNATURE, model)
    result = verify_runners(source, source, level=False)
    assert (result.verdict, result.reason, source.calls) == ("unverified", "verify=False", 0)
    assert not result
    for level in ("slow", True, None):
        with pytest.raises(ValueError):
            verify_runners(source, source, level=level)


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


class TestOtherKernels:
    """A full verification runs the source by its runtime's other kernels, too, and says how far those are apart."""

    class TwoSets(Fake):
        """A source whose other kernels are off by a factor."""

        def __init__(self, other):
            super().__init__(SIGNATURE, model)
            self.other = other

        def other_kernels(self):
            if isinstance(self.other, Exception):
                raise self.other
            return Fake(SIGNATURE, self.other)

    def test_their_distance_is_the_sources_spread(self):
        result = verify(model, source=self.TwoSets(changed(y=lambda y: y * np.float32(1.01))))
        assert result
        assert result.spread["y"] == pytest.approx(0.01, rel=0.02)
        assert result.spread["z"] == 0
        assert "differ most in output 'y'" in result.summary()

    def test_it_excuses_nothing(self):
        off = changed(y=lambda y: y * np.float32(1.01))
        assert verify(off, source=self.TwoSets(off)).verdict == "wrong"

    def test_fast_does_without(self):
        assert not verify(model, "fast", source=self.TwoSets(model)).spread

    def test_kernels_that_do_not_run_the_model_are_a_note(self):
        def fail(x):
            raise RuntimeError("no kernel")

        for other in (fail, ConversionError("no kernel")):
            result = verify(model, source=self.TwoSets(other))
            assert result
            assert any("no kernel" in note for note in result.notes)


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


def test_a_model_that_writes_into_its_inputs_does_not_help_the_other():
    def scribbling(x):
        result = model(x)
        x[...] = 0
        return result

    assert verify(scribbling, source=Fake(SIGNATURE, scribbling))
    assert verify(lambda x: model(x * 0), source=Fake(SIGNATURE, scribbling)).verdict == "wrong"


def test_given_inputs_are_used_alone():
    x = np.linspace(-1, 1, 2 * 3 * 64, dtype=np.float32).reshape(2, 3, 8, 8)
    result = verify(model, inputs={"x": x})
    assert result
    assert [(r.kind, r.seed, r.batch) for r in result.runs] == [("given", None, 2)]
    assert len(verify(model, inputs=[{"x": x}, {"x": x * 2}]).runs) == 2
    assert verify(lambda x: model(x * 2), inputs={"x": x}).verdict == "wrong"
    # The same input twice says nothing about whether an output changes, and that is not the output's fault.
    assert verify(model, inputs=[{"x": x}, {"x": x}])
    with pytest.raises(SignatureError):
        verify(model, inputs={"x": x.astype(np.float64)})


def test_only_a_permutation_that_was_asked_for_is_undone():
    perm = (0, 2, 3, 1)
    nhwc = signature([("x", ("N", 8, 8, 3))], [("y", ("N", 8, 8, 3)), ("z", ("N", 8, 8, 3))])

    def target(x):
        return {n: v.transpose(perm) for n, v in model(x.transpose(0, 3, 1, 2)).items()}

    outputs = {"y": perm, "z": perm}
    assert verify(target, sig=nhwc, input_perms={"x": perm}, output_perms=outputs)
    assert verify(target, sig=nhwc, output_perms=outputs).verdict == "wrong"
    assert verify(target, sig=nhwc, input_perms={"x": perm}).verdict == "wrong"
    wrong = {"y": perm, "z": (0, 3, 1, 2)}
    assert verify(target, sig=nhwc, input_perms={"x": perm}, output_perms=wrong).verdict == "wrong"
    with pytest.raises(SignatureError):
        verify(target, sig=nhwc, input_perms={"nope": perm})


def test_tolerance_follows_the_target_format_and_the_caller():
    off = changed(y=lambda y: y * np.float32(1 + 5e-4), z=lambda z: z * np.float32(1 + 5e-4))
    assert verify(off, target_format="onnx").verdict == "wrong"
    assert verify(off, target_format="tflite")
    assert verify(off, target_format="tflite", rtol=1e-4).verdict == "wrong"
    needed = verify(off).rtol_needed
    assert needed == pytest.approx(5e-4, rel=0.1)
    assert verify(off, rtol=needed)


def test_what_the_sources_own_kernels_differ_by_can_be_the_tolerance():
    other_kernels = verify(changed(y=lambda y: y * np.float32(1.02)))
    assert not other_kernels
    assert verify(changed(y=lambda y: y * np.float32(0.981)), rtol=other_kernels.rtol_needed)
    assert verify(changed(y=lambda y: y * np.float32(0.97)), rtol=other_kernels.rtol_needed).verdict == "wrong"


def test_quantised_outputs_may_be_a_step_apart_and_other_integers_may_not():
    def sig(how):
        return signature([("x", (1, 3, 8, 8))], [spec("y", (1, 3, 8, 8), "int8", quantization=how)])

    def steps(n):
        some = np.arange(192).reshape(1, 3, 8, 8) % 10 == 0
        return lambda x: np.clip(x * 10, -100, 100).astype(np.int8) + (np.int8(n) * some).astype(np.int8)

    def all_steps(x):
        return steps(0)(x) + np.int8(1)

    quantised, plain = sig(Quantization((0.1,), (0,))), sig(None)
    assert verify_runners(Fake(quantised, steps(0)), Fake(quantised, steps(1)))
    assert verify_runners(Fake(quantised, steps(0)), Fake(quantised, steps(2))).verdict == "wrong"
    assert verify_runners(Fake(quantised, steps(0)), Fake(quantised, all_steps)).verdict == "wrong"
    assert verify_runners(Fake(plain, steps(0)), Fake(plain, steps(1))).verdict == "wrong"


def test_an_unknown_rank_is_unverified_until_inputs_are_given():
    sig = signature([("x", None)], [("y", None)])
    source = Fake(sig, lambda x: x)
    assert verify_runners(source, source).verdict == "unverified"
    assert verify_runners(source, source, inputs={"x": np.ones(3, np.float32)})


def test_fast_stops_after_its_time(monkeypatch):
    ticks = itertools.count(0, 100)
    monkeypatch.setattr(session.time, "perf_counter", lambda: next(ticks))
    result = verify(model, "fast")
    assert len(result.runs) == 1
    assert sum("left out" in n for n in result.notes) == 1
    two = signature([("a", (1, 4)), ("b", (1, 4))], [("y", (1, 4))])
    source = Fake(two, lambda a, b: a + b)
    assert len(verify_runners(source, source).runs) == 1, "nor are inputs exchanged"
    assert len(verify(model, "full").runs) == 8


def test_a_runner_may_be_any_object_with_the_right_methods():
    class Bare:
        name, signature = "bare", SIGNATURE

        def run(self, inputs):
            if "x" not in inputs:
                raise ConversionError("no x")
            return model(inputs["x"])

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    assert verify_runners(Bare(), Bare())


def test_a_result_cannot_claim_what_was_not_compared():
    good = compare_tensors("y", np.ones(2), np.ones(2), Tolerances())
    bad = compare_tensors("y", np.ones(2), np.zeros(2), Tolerances())
    run = RunComparison("natural", 0, 1, (good,))
    assert run
    assert VerificationResult("verified", runs=(run,))
    assert not RunComparison("natural", 0, 1, ())
    assert not RunComparison("natural", 0, 1, (good,), error="crashed")
    for runs in ((), (RunComparison("edge", 0, 1),), (run, RunComparison("edge", 0, 1, (good, bad)))):
        with pytest.raises(ValueError):
            VerificationResult("verified", runs=runs)
    for verdict in ("wrong", "inconclusive", "unverified"):
        with pytest.raises(ValueError):
            VerificationResult(verdict)
        assert not VerificationResult(verdict, "because", runs=(run,))


def test_rows_are_plain_values_with_the_same_columns():
    for result in (verify(model), verify(changed(y=np.zeros_like)), verify(lambda x: 1 / 0)):
        rows = result.rows()
        assert len(rows) == sum(len(r.outputs) or 1 for r in result.runs)
        assert len({tuple(r) for r in rows}) == 1
        assert all(v is None or isinstance(v, (str, int, float, bool)) for row in rows for v in row.values())
        assert [r["ok"] for r in rows].count(True) == sum(map(bool, result.comparisons))


def test_worst_is_the_failed_one_before_any_that_passed():
    result = verify(changed(y=one_element(0.9), z=one_element(1.5)), "fast")
    assert result.worst.name == "z"
    assert not result.worst
    assert verify(changed(y=one_element(0.9)), "fast").worst.name == "y"
