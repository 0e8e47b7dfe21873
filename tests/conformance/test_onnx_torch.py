"""ONNX's own node cases on the route ONNX → Torch: each is right or refused, and those that are right stay so.

``python -m tests.conformance.test_onnx_torch`` writes the list of those that are right anew.
"""

from typing import Any

import numpy as np
import pytest
import torch

from mlconverter import Converter
from mlconverter.errors import MLConverterError
from mlconverter.formats.torch.arrays import to_numpy, to_tensor
from tests.conformance.node_cases import NodeCase, Value, difference, structured_cases
from tests.conformance.pinned import PARTS, Pinned, plain_cases


def given(value: Value) -> Any:
    """A value as a module takes it: sequences are lists, what is absent is ``None``."""
    if isinstance(value, list):
        return [given(v) for v in value]
    return None if value is None else to_tensor(value)


def taken(result: Any, case: NodeCase) -> list[Value]:
    """What a module gave, in numpy, with the dtypes that are wanted where torch lacks them."""

    def one(value: Any, want: Value) -> Value:
        if isinstance(value, list):
            wanted = want if isinstance(want, list) and len(want) == len(value) else [None] * len(value)
            return [one(v, w) for v, w in zip(value, wanted, strict=True)]
        return None if value is None else to_numpy(value, want.dtype.name if isinstance(want, np.ndarray) else None)

    return one(list(result) if isinstance(result, tuple) else [result], case.outputs)


def outcome(case: NodeCase) -> str:
    """``right``, ``refused: …`` or ``wrong: …``."""
    try:
        module = Converter(case.model, verify=False).to_torch()
    except MLConverterError as error:
        return f"refused: {error}"
    try:
        inputs = given(case.inputs)
    except TypeError as error:
        return f"refused: torch has no such input: {error}"
    try:
        with torch.no_grad():
            result = module(*inputs)
    except Exception as error:
        return f"wrong: fails at run time: {type(error).__name__}: {error}"
    found = difference(taken(result, case), case)
    return "right" if found is None else f"wrong: {found}"


def _cases() -> list[NodeCase]:
    return [*plain_cases(), *structured_cases().values()]


PINNED = Pinned("onnx_torch", outcome, _cases)


@pytest.mark.parametrize("part", range(PARTS))
def test_each_case_is_right_or_refused(part):
    PINNED.check(part)


def test_the_list_names_each_case_once():
    assert PINNED.names() == sorted(set(PINNED.names()))


if __name__ == "__main__":
    PINNED.write()
