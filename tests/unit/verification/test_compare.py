import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlconverter.errors import SignatureError
from mlconverter.signature import Quantization
from mlconverter.verification.compare import compare_outputs, compare_tensors
from mlconverter.verification.dtypes import dtype_name, eps_of, int_range, kind_of
from mlconverter.verification.tolerance import ATOL, RTOL, Tolerance, Tolerances

LIMITS = Tolerances()
RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4)).astype(np.float32)


def compare(got, want, limits=LIMITS, quantization=None):
    return compare_tensors("y", got, want, limits, quantization)


@pytest.mark.parametrize(
    "x",
    [
        X,
        X.astype(np.float16),
        X.astype(ml_dtypes.bfloat16),
        X.astype(ml_dtypes.float8_e4m3fn),
        X.astype(np.complex64),
        np.array(["a", "é"], dtype=object),
        np.array([1, 2], dtype=ml_dtypes.int4),
        np.array([0, 2**64 - 1], dtype=np.uint64),
        np.array([True, False]),
        np.zeros((0, 3), np.float32),
        np.zeros((0,), np.int64),
        np.float32(3.0),
        np.array([np.nan, np.inf, -np.inf, 1.0]),
        np.full(3, np.nan, np.float32),
        np.array([1e308, -1e308]),
    ],
    ids=lambda x: f"{x.dtype}{list(x.shape)}",
)
def test_a_tensor_equals_itself(x):
    result = compare(x.copy(), x)
    assert result, result
    assert (result.max_abs_error, result.rtol_needed, result.worst, result.reason) == (0.0, 0.0, None, "")
    assert result.shape == x.shape


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (X[:1], X),
        (X.transpose(0, 2, 1), X),
        (np.zeros(1, np.float32), np.zeros((), np.float32)),
        (np.zeros((), np.float32), np.zeros(1, np.float32)),
        (np.ones((1, 3)), np.ones((3,))),
        (np.zeros((0, 3)), np.zeros((3, 0))),
        (np.zeros((2, 1)), np.zeros((2, 2))),
    ],
)
def test_shapes_are_not_broadcast_nor_permuted(got, want):
    result = compare(got, want)
    assert result.failed == "shape"
    assert str(got.shape) in result.reason
    assert math.isinf(result.rtol_needed)


def test_the_same_numbers_in_another_order_are_wrong():
    square = RNG.standard_normal((4, 4))
    assert compare(square.T, square).failed == "values"


@pytest.mark.parametrize(
    ("got", "want"),
    [
        ("float64", "float32"),
        ("float16", "bfloat16"),
        ("int32", "int64"),
        ("uint8", "int8"),
        ("bool", "uint8"),
        ("complex64", "float32"),
    ],
)
def test_dtypes_are_not_cast(got, want):
    make = lambda n: np.ones(3, ml_dtypes.bfloat16 if n == "bfloat16" else n)  # noqa: E731
    result = compare(make(got), make(want))
    assert result.failed == "dtype"
    assert result.reason == f"dtype is {got}, not {want}"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_one_value_that_is_not_finite_is_wrong_on_either_side(bad, dtype):
    want = np.ones((2, 3), dtype)
    got = want.copy()
    got[1, 2] = bad
    for a, b in ((got, want), (want, got)):
        result = compare(a, b, Tolerances(rtol=1e9))
        assert (result.failed, result.worst) == ("finite", (1, 2))
        assert math.isinf(result.max_abs_error)


@pytest.mark.parametrize(("a", "b"), [(np.inf, -np.inf), (np.nan, np.inf), (-np.inf, np.nan)])
def test_infinities_have_signs_and_nan_is_another_thing(a, b):
    assert compare(np.array([a]), np.array([b])).failed == "finite"


def test_values_next_to_a_nan_are_still_compared():
    want = np.array([np.nan, 1.0, 2.0], np.float32)
    result = compare(np.array([np.nan, 1.0, 2.5], np.float32), want)
    assert (result.failed, result.worst, result.max_abs_error, result.max_want) == ("values", (2,), 0.5, 2.0)


@given(
    st.sampled_from(["float16", "float32", "float64"]),
    st.floats(0.01, 1e3),
    st.sampled_from(["onnx", "tflite", "trt"]),
    st.integers(0, 11),
)
def test_twice_the_tolerance_fails_and_half_of_it_passes(dtype, scale, target, where):
    limits = Tolerances(target)
    want = (np.linspace(-1, 1, 12) * scale).astype(dtype).reshape(3, 4)
    bound = limits.of(dtype).bound(float(np.abs(want.astype(np.float64)).max()))
    for factor, passes in ((0.45, True), (2.1, False)):
        got = want.astype(np.float64)
        got.reshape(-1)[where] += factor * bound
        result = compare(got.astype(dtype), want, limits)
        assert bool(result) is passes
        if not passes:
            assert result.failed == "values"
            assert result.worst == np.unravel_index(where, (3, 4))
            assert result.max_abs_error == pytest.approx(2.1 * bound, rel=0.3)


@given(st.floats(1e-5, 1e3), st.floats(1e-3, 1e5))
def test_the_rtol_that_would_have_passed_passes_and_a_smaller_one_does_not(error, scale):
    want = np.array([scale, 0.0])
    result = compare(want + np.array([0.0, error]), want)
    assert compare(want + np.array([0.0, error]), want, Tolerances(rtol=result.rtol_needed))
    if result.rtol_needed > 1e-9:
        assert not compare(want + np.array([0.0, error]), want, Tolerances(rtol=result.rtol_needed * 0.999))


@pytest.mark.parametrize(
    ("got", "want"),
    [(1.0, 2.0), (np.nan, 1.0), (np.int8(1), np.int8(2)), (True, False), (1 + 1j, 1 + 2j), (np.array("a"), np.array("b"))],
)
def test_tensors_without_axes_are_compared_too(got, want):
    result = compare(np.asarray(got), np.asarray(want))
    assert result.failed in ("values", "finite")
    assert (result.worst, result.shape) == ((), ())


def test_zeros_have_the_absolute_tolerance_alone():
    zeros = np.zeros(3)
    assert compare(zeros + 0.9 * ATOL, zeros)
    result = compare(zeros + 1.1 * ATOL, zeros, Tolerances(rtol=10.0))
    assert result.failed == "values"
    assert math.isinf(result.rtol_needed)


@pytest.mark.parametrize(
    ("got", "want", "distance"),
    [
        (np.array([255], np.uint8), np.array([0], np.uint8), 255),
        (np.array([0], np.uint8), np.array([1], np.uint8), 1),
        (np.array([-128], np.int8), np.array([127], np.int8), 255),
        (np.array([2**63 - 1], np.int64), np.array([-(2**63)], np.int64), 2**64 - 1),
        (np.array([2**64 - 1], np.uint64), np.array([0], np.uint64), 2**64 - 1),
        (np.array([2**62 + 1], np.int64), np.array([2**62], np.int64), 1),
        (np.array([-8], ml_dtypes.int4), np.array([7], ml_dtypes.int4), 15),
        (np.array([True]), np.array([False]), 1),
    ],
)
def test_integers_are_exact_and_their_distance_does_not_wrap(got, want, distance):
    result = compare(got, want, Tolerances(rtol=1e9))
    assert (result.failed, result.max_abs_error) == ("values", float(distance))
    assert math.isinf(result.rtol_needed)


def test_float16_differences_do_not_overflow():
    result = compare(np.array([60000.0], np.float16), np.array([-60000.0], np.float16))
    assert (result.failed, result.max_abs_error) == ("values", 120000.0)


def test_a_difference_beyond_float64_is_wrong():
    result = compare(np.array([1.7e308]), np.array([-1.7e308]), Tolerances(rtol=1.0))
    assert result.failed == "values"
    assert math.isinf(result.rtol_needed)


def test_the_parts_of_complex_numbers_are_compared_each():
    want = np.array([[1 + 1j, 2 + 2j]], np.complex64)
    assert compare(want.conj(), want).worst == (0, 1)
    assert compare(np.array([1 + 0.5j], np.complex64), np.array([1 + 1j], np.complex64)).max_abs_error == 0.5
    assert compare(np.array([complex(1, np.nan)]), np.array([complex(np.nan, 1)])).failed == "finite"


def test_text_is_compared_as_text():
    want = np.array([["a", "é"]], dtype=object)
    assert compare(np.array([["a", "é"]]), want)
    assert compare(np.array([[b"a", "é".encode()]], dtype=object), want)
    result = compare(np.array([["a", "e"]], dtype=object), want, Tolerances(rtol=1.0))
    assert (result.failed, result.worst) == ("values", (0, 1))


def test_quantised_integers_may_be_one_step_apart():
    how = Quantization((0.1,), (-128,))
    want = np.array([-128, 0, 127], np.int8)
    assert compare(np.array([-127, 1, 126], np.int8), want, quantization=how)
    result = compare(np.array([-126, 0, 127], np.int8), want, quantization=how)
    assert (result.failed, result.max_abs_error, result.tolerance, result.max_want) == ("values", 2.0, 1.0, 255.0)
    assert compare(np.array([-126, 0, 127], np.int8), want, Tolerances(rtol=result.rtol_needed), how)
    assert not compare(np.array([-127, 0, 127], np.int8), want), "one step is wrong where nothing is quantised"


def test_quantised_integers_do_not_wrap():
    how = Quantization((0.1,), (0,))
    assert compare(np.array([0], np.uint8), np.array([255], np.uint8), quantization=how).max_abs_error == 255


def test_zero_points_of_channels_are_along_their_axis():
    how = Quantization((0.1, 0.2), (0, 100), axis=1)
    want = np.array([[1, 101], [2, 102], [3, 98]], np.int16)
    assert compare(want, want, quantization=how).max_want == 3.0


def test_outputs_go_by_name_and_none_is_left_out():
    a, b = np.ones(2), np.zeros(2)
    assert all(compare_outputs({"b": b, "a": a}, {"a": a, "b": b}, LIMITS))
    swapped = compare_outputs({"a": b, "b": a}, {"a": a, "b": b}, LIMITS)
    assert [c.failed for c in swapped] == ["values", "values"]
    missing = compare_outputs({"a": a}, {"a": a, "b": b}, LIMITS)
    assert [(c.name, c.failed) for c in missing] == [("a", None), ("b", "name")]
    extra = compare_outputs({"a": a, "b": b}, {"a": a}, LIMITS)
    assert [(c.name, c.failed) for c in extra] == [("a", None), ("b", "name")]
    assert compare_outputs({}, {}, LIMITS) == ()


def test_the_table_gives_what_the_design_says():
    assert Tolerances("torch").of("float32") == Tolerances("onnx").of("float32") == Tolerance(1e-4, 1e-6, graded=True)
    assert Tolerances("tflite").of("float32").rtol == 1e-3
    assert Tolerances("onnx").of("float16").rtol > 1e-3
    assert Tolerances("keras").of("float32") == Tolerances("onnx").of("float32")
    for exact in ("int8", "int64", "uint64", "bool", "str"):
        assert Tolerances("tflite", 0.5).of(exact).bound(1e9) == 0.0


def test_exact_is_exact_whatever_else_is_set():
    assert Tolerance(1.0, 1.0, exact=True).bound(5.0) == 0.0
    assert math.isinf(Tolerance(1.0, 1.0, exact=True).rtol_needed(0.5, 5.0))


@pytest.mark.parametrize("dtype", [*RTOL, "float8_e4m3fn", "float8_e5m2", "float6_e3m2fn", "float4_e2m1fn"])
@pytest.mark.parametrize("rtol", [None, 0.0])
def test_no_tolerance_is_below_four_eps(dtype, rtol):
    for target in ("torch", "onnx", "tflite", "trt", "*"):
        assert Tolerances(target, rtol).of(dtype).rtol >= 4 * eps_of(dtype) > 0


def test_smaller_values_are_held_against_their_own_size():
    """Logits beside those that are masked, scores beside coordinates: the largest value excuses nothing of them."""
    rng = np.random.default_rng(0)
    for large in (640.0, 1e4, float(np.finfo(np.float32).max)):
        want = np.concatenate([rng.random(40), np.full(40, large)]).astype(np.float32)
        off = want.copy()
        off[:40] += np.float32(5e-3)
        result = compare(off, want)
        assert (result.failed, bool(result)) == ("parts", False)
        assert "half of those are off by 0.005" in result.reason
        assert compare(off, want, Tolerances(rtol=1e-4)), "the caller's tolerance is the only one"
        off = want.copy()
        off[:40] += np.float32(2e-4)
        assert compare(off, want), "ten times the tolerance, of their own size"


def test_a_few_small_values_may_carry_the_rounding_of_large_ones():
    want = np.linspace(-1e3, 1e3, 101, dtype=np.float32)
    assert compare(want + np.float32(5e-2), want), "every fourth is small, and none of those is off by its own size"
    few = np.array([1e3, 1e-3], np.float32)
    assert compare(few + np.float32(5e-2), few), "too few to have parts"


def test_zeros_that_are_most_of_a_tensor_stay_zeros():
    want = np.zeros(64, np.float32)
    want[:8] = 100
    assert compare(want + np.float32(1e-7), want)
    assert compare(want + np.float32(1e-3), want).failed == "parts"


def test_quantised_values_may_be_a_step_apart_where_ties_are():
    how = Quantization((0.1,), (3,))
    want = np.arange(-100, 100, dtype=np.int8)
    for part, passes in ((0.1, True), (0.4, False), (1.0, False)):
        off = want + (np.arange(200) < part * 200).astype(np.int8)
        assert bool(compare(off, want, quantization=how)) is passes
    assert compare(want + np.int8(1), want, Tolerances(rtol=0.0), how), "the caller's tolerance is the only one"
    assert compare(np.array([5], np.int8), np.array([6], np.int8), quantization=how)
    clipped = np.where(np.arange(200) < 190, -128, want).astype(np.int8)
    assert compare(clipped, clipped, quantization=how)


@pytest.mark.parametrize("rtol", [math.nan, math.inf, -1.0])
def test_a_tolerance_that_lets_anything_pass_is_refused(rtol):
    with pytest.raises(ValueError):
        Tolerances(rtol=rtol)


def test_names_of_types():
    assert dtype_name(ml_dtypes.bfloat16) == dtype_name("bfloat16") == "bfloat16"
    assert {dtype_name(d) for d in ("object", "string", np.dtype("U3"), np.dtype("S2"), object)} == {"str"}
    assert dtype_name(">f4") == "float32"
    assert (kind_of("bfloat16"), kind_of("uint4"), kind_of("int8"), kind_of("bool")) == ("float", "int", "int", "bool")
    assert (int_range("int4"), int_range("uint8")) == ((-8, 7), (0, 255))
    with pytest.raises(SignatureError, match="float99"):
        dtype_name("float99")
    with pytest.raises(SignatureError):
        compare(np.zeros(1, "datetime64[s]"), np.zeros(1, "datetime64[s]"))
