"""What the attributes of recurrent operators say."""

import pytest

from mlconverter.hub.recurrent import recurrence


def test_the_defaults():
    how = recurrence("LSTM", direction="bidirectional")
    assert how.backwards == (False, True)
    assert how.activations == ((("sigmoid", 0, 0), ("tanh", 0, 0), ("tanh", 0, 0)),) * 2
    assert how.is_usual and not how.batch_first


def test_the_typing_error_of_the_first_specification():
    assert recurrence("GRU", direction="foward").backwards == (False,)


def test_scales_are_consumed_by_the_functions_that_have_them():
    names = ["Tanh", "LeakyRelu", "Affine", "HardSigmoid"]
    how = recurrence("GRU", direction="bidirectional", activations=names, activation_alpha=[2, 3], activation_beta=[4])
    assert how.activations == ((("tanh", 0, 0), ("leakyrelu", 2, 0)), (("affine", 3, 4), ("hardsigmoid", 0.2, 0.5)))


def test_a_clip_of_zero_is_none():
    assert recurrence("RNN", direction="forward", clip=0.0).is_usual
    assert not recurrence("RNN", direction="forward", clip=1.0).is_usual


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"direction": "sideways"}, "'sideways' is no direction"),
        ({"activations": ["Sine"]}, "'sine' is no activation function"),
        ({"activations": ["ThresholdedRelu"]}, "no alpha or beta that everybody agrees on"),
        ({"activations": ["Affine"], "activation_alpha": [1]}, "no alpha or beta"),
        ({"activations": ["Tanh"], "direction": "bidirectional"}, "1 activation functions, not 2"),
    ],
)
def test_what_means_nothing_is_refused(attributes, reason):
    with pytest.raises(ValueError, match=reason):
        recurrence("RNN", **{"direction": "forward", **attributes})
