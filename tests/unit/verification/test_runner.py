import numpy as np
import pytest

from mlconverter.errors import ConversionError, SignatureError
from mlconverter.signature import Quantization
from mlconverter.verification import BaseRunner, Permuted, Renamed
from tests.unit.verification.fakes import Fake, signature, spec

SIGNATURE = signature([("a", ("N", 2)), ("b", (), "int64")], [("y", ("N", 2)), ("z", ())])
A, B = np.array([[1.0, 2.0]], np.float32), np.array(3)


def runner(function=lambda a, b: {"z": np.asarray(a.sum()), "y": a * b}):
    return Fake(SIGNATURE, function)


def test_outputs_come_in_the_order_of_the_signature():
    with runner() as running:
        outputs = running.run({"b": B, "a": A})
    assert list(outputs) == ["y", "z"]
    np.testing.assert_array_equal(outputs["y"], [[3, 6]])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"a": A}, r"missing \['b'\]"),
        ({"a": A, "b": B, "c": B}, r"unknown \['c'\]"),
        ({"a": A.astype(np.float64), "b": B}, r"'a' is float64\[1, 2\]; its dtype has to be float32"),
        ({"a": A[0], "b": B}, r"'a' is float32\[2\]; it has to have 2 axes"),
        ({"a": A.T, "b": B}, r"axis 1 has to be 2, not 1"),
        ({"a": A, "b": B.reshape(1)}, r"'b' is int64\[1\]; it has to have 0 axes"),
        ({"a": A.tolist(), "b": B}, r"numpy array, not a list"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_before_the_run(inputs, message):
    fake = runner()
    with pytest.raises(SignatureError, match=message):
        fake.run(inputs)
    assert fake.calls == 0


@pytest.mark.parametrize(
    "outputs", [{"y": A}, {"y": A, "z": B, "w": B}, {}, {"y": [1.0], "z": B}, {"y": None, "z": B}], ids=lambda o: str(list(o))
)
def test_outputs_that_do_not_fit_are_refused_after_the_run(outputs):
    with pytest.raises(SignatureError, match=r"Fake 1\.0 gave"):
        runner(lambda a, b: outputs).run({"a": A, "b": B})


def test_what_a_runtime_raises_becomes_a_conversion_error_with_its_cause():
    def fail(a, b):
        raise RuntimeError("kernel missing")

    with pytest.raises(ConversionError, match=r"Fake 1\.0 .*RuntimeError: kernel missing") as caught:
        runner(fail).run({"a": A, "b": B})
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, SystemExit])
def test_what_says_nothing_about_the_model_passes_through(error):
    def fail(a, b):
        raise error

    with pytest.raises(error):
        runner(fail).run({"a": A, "b": B})


def test_outputs_survive_the_next_run():
    memory = np.zeros((1, 2), np.float32)

    def run(a, b):
        memory[...] = a
        return {"y": memory, "z": np.float32(0)}

    fake = runner(run)
    first = fake.run({"a": A, "b": B})["y"]
    fake.run({"a": A * 5, "b": B})
    np.testing.assert_array_equal(first, A)


def test_leaving_the_context_closes():
    closed = []

    class Closing(BaseRunner):
        def _run(self, inputs):
            return {}

        def close(self):
            closed.append(True)

    with pytest.raises(ZeroDivisionError), Closing("c", signature([], [])):
        raise ZeroDivisionError
    assert closed == [True]


def test_renamed_goes_by_position():
    fake = runner(lambda a, b: {"y": a * b, "z": np.asarray(a.sum())})
    renamed = Renamed(fake, ["x0", "x1"], ["o0", "o1"])
    outputs = renamed.run({"x1": B, "x0": A})
    np.testing.assert_array_equal(outputs["o0"], A * 3)
    assert list(outputs) == ["o0", "o1"] == list(renamed.signature.output_names)
    for inputs, outputs in ((["x"], ["o", "p"]), (["x", "x"], ["o", "p"]), (["x", "w"], ["o"])):
        with pytest.raises(SignatureError):
            Renamed(fake, inputs, outputs)


def test_permuted_shows_the_sources_axis_order():
    seen = []

    def run(x):
        seen.append(x)
        return x + 1

    how = Quantization((0.1,) * 4, (0,) * 4, axis=1)
    target = Fake(signature([spec("x", ("N", 4, 2, 3), quantization=how)], [("y", ("N", 4, 2, 3))]), run)
    shown = Permuted(target, {"x": (0, 3, 1, 2)}, {"y": (0, 3, 1, 2)})
    assert shown.signature.inputs[0].shape == shown.signature.outputs[0].shape == ("N", 2, 3, 4)
    assert shown.signature.inputs[0].quantization.axis == 3
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    y = shown.run({"x": x})["y"]
    np.testing.assert_array_equal(seen[0], x.transpose(0, 3, 1, 2))
    assert seen[0].flags["C_CONTIGUOUS"]
    np.testing.assert_array_equal(y, x + 1)


@pytest.mark.parametrize("perms", [{"w": (0, 1)}, {"x": (0, 1)}, {"x": (0, 1, 1)}, {"x": (0, 1, 3)}])
def test_permutations_that_fit_nothing_are_refused(perms):
    target = Fake(signature([("x", (1, 2, 3))], [("x", (1, 2, 3))]), lambda x: x)
    for arguments in ((perms, {}), ({}, perms)):
        with pytest.raises(SignatureError):
            Permuted(target, *arguments)
