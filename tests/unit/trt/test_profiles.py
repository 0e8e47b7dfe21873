"""Ranges of free dimensions: derived from the signature, or said by the person."""

from __future__ import annotations

from typing import Any

import pytest

from mlconverter import SignatureError
from mlconverter.formats.trt.profiles import fixed_dims, guessed, profile_of
from mlconverter.options import ConvertOptions
from mlconverter.signature import IOSignature, TensorSpec


def signature(**shapes: tuple[int | str | None, ...]) -> IOSignature:
    layout = {name: "channels_first" if len(shape) == 4 else None for name, shape in shapes.items()}
    return IOSignature(tuple(TensorSpec(name, shape, "float32", layout[name]) for name, shape in shapes.items()), ())


def ranges(**given: Any) -> Any:
    return ConvertOptions().having(dynamic_shapes=given).dynamic_shapes


TOKENS = signature(ids=("batch", "seq"), mask=("batch", "seq"), one=(1, 4))


@pytest.mark.parametrize(
    ("inputs", "given", "profile"),
    [
        (signature(x=(2, 3)), None, {}),
        (signature(x=("batch", 3)), None, {"x": ((1, 3), (1, 3), (16, 3))}),
        (signature(x=(None, 3)), None, {"x": ((1, 3), (1, 3), (16, 3))}),
        (signature(x=("n", 3, "h", "w")), None, {"x": ((1, 3, 32, 32), (1, 3, 224, 224), (16, 3, 1024, 1024))}),
        (TOKENS, None, dict.fromkeys(("ids", "mask"), ((1, 1), (1, 128), (16, 512)))),
        (TOKENS, ranges(seq=(2, 8, 9)), dict.fromkeys(("ids", "mask"), ((1, 2), (1, 8), (16, 9)))),
        (
            signature(a=("batch", "s"), b=("batch", 2)),
            ranges(a=((2, 3), (4, 5), (6, 7))),
            {"a": ((2, 3), (4, 5), (6, 7)), "b": ((2, 2), (4, 2), (6, 2))},
        ),
        (signature(x=("batch", None)), ranges(**{"x:1": [5, 6, 7]}), {"x": ((1, 5), (1, 6), (16, 7))}),
        (
            signature(x=(1, "past + seq"), y=(1, "seq")),
            ranges(seq=(2, 3, 4), past=(1, 2, 3)),
            {"x": ((1, 3), (1, 5), (1, 7)), "y": ((1, 2), (1, 3), (1, 4))},
        ),
    ],
)
def test_ranges(inputs: IOSignature, given: Any, profile: Any) -> None:
    assert profile_of(inputs, given) == profile


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (ranges(nothing=(1, 2, 3)), "nothing"),
        (ranges(s=(3, 2, 4)), "rise"),
        (ranges(s=(0, 2, 4)), "rise"),
        (ranges(s=(1, "2", 4)), "smallest, usual, largest"),
        (ranges(a=((1, 2), (1, 3))[0:1] * 3, b=((1, 5, 2),) * 3), "two ranges|Axis 2"),
        (ranges(a=((1,), (1,), (1,))), "rank"),
        (ranges(b=((1, 2, 3), (1, 2, 3), (1, 2, 3))), "Axis 2 of input b"),
        (ranges(a=((1, 2), (1, 2), (1, 2)), s=(3, 3, 3)), "two ranges"),
    ],
)
def test_ranges_that_do_not_fit(given: Any, said: str) -> None:
    with pytest.raises(SignatureError, match=said):
        profile_of(signature(a=("batch", "s"), b=("batch", "s", 2)), given)


@pytest.mark.parametrize("given", [{"s": 3}, {"s": (1, 2)}, {3: (1, 2, 3)}, [("s",)]])
def test_what_is_no_range_at_all(given: Any) -> None:
    with pytest.raises(TypeError, match="smallest, usual, largest"):
        ConvertOptions().having(dynamic_shapes=given)


def test_a_range_of_one_size_fixes_the_dimension() -> None:
    inputs = signature(x=("batch", "s"), y=("s", 2))
    assert fixed_dims(inputs, profile_of(inputs, ranges(s=(5, 5, 5)))) == {"s": 5}


def test_what_nobody_said_is_said_to_be_guessed() -> None:
    inputs = signature(x=("batch", "s"), y=("batch", None))
    assert "s, y:1" in guessed(inputs, None)
    assert "y:1" in guessed(inputs, ranges(s=(1, 2, 3))) and "s," not in guessed(inputs, ranges(s=(1, 2, 3)))
    assert not guessed(inputs, ranges(s=(1, 2, 3), y=((1, 1), (1, 2), (1, 3))))
    assert not guessed(signature(x=("batch", 3)), None)
