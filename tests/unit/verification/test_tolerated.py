"""What may differ: by the format, by the caller, by the kernels of the source, and by a step of quantised values."""

import numpy as np
import pytest

from mlconverter.errors import ConversionError
from mlconverter.signature import Quantization
from mlconverter.verification import verify_runners
from tests.unit.verification.fakes import SIGNATURE, Fake, changed, model, signature, spec, verify


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


class TestFiniteOrNot:
    """Where a runtime's own kernels differ in whether a number is finite, a target may follow either."""

    def test_a_target_like_the_other_kernels(self):
        none = changed(y=lambda y: np.where(np.arange(y.size).reshape(y.shape) == 0, np.nan, y).astype(np.float32))
        source = TestOtherKernels.TwoSets(none)
        result = verify(none, source=source)
        assert result
        assert any("differ in which numbers are finite" in note for note in result.notes)

    def test_a_target_like_neither(self):
        none, endless = (
            changed(y=lambda y, bad=bad: np.where(np.arange(y.size).reshape(y.shape) == 0, bad, y).astype(np.float32))
            for bad in (np.nan, np.inf)
        )
        assert verify(endless, source=TestOtherKernels.TwoSets(none)).verdict == "wrong"
