import inspect

import pytest

from mlconverter import errors


def _classes():
    return [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, Exception)]


def test_every_error_has_one_root():
    assert all(issubclass(c, errors.MLConverterError) for c in _classes())


@pytest.mark.parametrize(
    ("parent", "children"),
    [
        (
            "MLConverterError",
            {"FormatError", "SignatureError", "ConversionError", "VerificationError", "SaveError", "TrainingError"},
        ),
        (
            "FormatError",
            {"UnknownFormatError", "CorruptModelError", "NotConvertibleError", "UnsafeModelError", "MissingDependencyError"},
        ),
        ("ConversionError", {"NotRunnableError", "UnsupportedOpsError", "TranslationError"}),
    ],
)
def test_the_tree(parent, children):
    assert {c.__name__ for c in _classes() if c.__bases__ == (getattr(errors, parent),)} == children


def test_an_unknown_format_names_the_known_ones():
    error = errors.UnknownFormatError("There is no format 'x'.", known=["onnx", "tflite"])
    assert error.known == ("onnx", "tflite")
    assert str(error) == "There is no format 'x'. Known formats: onnx, tflite."
    assert str(errors.UnknownFormatError("Nothing is known.")) == "Nothing is known."


def test_a_missing_dependency_says_how_to_install_it():
    error = errors.MissingDependencyError("torch", "torch", "to_torch()")
    assert (error.package, error.extra) == ("torch", "torch")
    assert "pip install 'mlconverter[torch]'" in str(error)
    assert str(error).startswith("to_torch() needs 'torch'")


def test_unsupported_operators_are_listed_all_at_once():
    ops = [
        errors.UnsupportedOp("Foo", 13, 7, "node_1", "no translator"),
        errors.UnsupportedOp("com.example::Bar", 1, 1, "node_9", "mode 'x' is not reviewed"),
    ]
    error = errors.UnsupportedOpsError("onnx-torch", ops)
    assert error.ops == tuple(ops)
    for text in ("2 operators", "onnx-torch", "Foo (version 13), 7x, first at 'node_1'", "Bar", "mode 'x'", "mlconverter ops"):
        assert text in str(error)


def test_a_translation_error_names_node_and_operator():
    error = errors.TranslationError("conv_3", "Conv", "the weight has no shape")
    assert (error.node, error.op) == ("conv_3", "Conv")
    assert str(error) == "Conv node 'conv_3': the weight has no shape"


def test_a_verification_error_carries_its_result():
    result = object()
    assert errors.VerificationError("wrong", result).result is result
