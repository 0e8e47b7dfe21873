"""Models that are compared: what counts as wrong, as verified, and as neither."""

import itertools

import numpy as np
import pytest

from mlconverter.errors import ConversionError, SignatureError, VerificationError
from mlconverter.verification import RunComparison, VerificationResult, session, verify_runners
from mlconverter.verification.compare import compare_tensors
from mlconverter.verification.tolerance import Tolerances
from tests.unit.verification.fakes import FIXED, SIGNATURE, SOURCE, Fake, changed, model, signature, verify


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
