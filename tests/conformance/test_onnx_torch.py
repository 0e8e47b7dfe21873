"""ONNX's own node cases on the route ONNX → Torch: each is right or refused, and those that are right stay so.

``python -m tests.conformance.test_onnx_torch`` writes the list of those that are right anew.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mlconverter import Converter
from mlconverter.errors import MLConverterError
from mlconverter.formats.torch.arrays import to_numpy, to_tensor
from tests.conformance.node_cases import NodeCase, Value, difference, node_cases, structured_cases

PASSES = Path(__file__).with_name("passes_onnx_torch.txt")
PARTS = 8


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


def outcomes(part: int, parts: int) -> dict[str, str]:
    cases = [c for case in node_cases().values() for c in ((case, case.with_constants()) if len(case.inputs) > 1 else (case,))]
    both = [*cases, *structured_cases().values()][part::parts]
    return {case.name: outcome(case) for case in both}


@pytest.mark.parametrize("part", range(PARTS))
def test_each_case_is_right_or_refused(part):
    listed = set(PASSES.read_text().splitlines())
    found = outcomes(part, PARTS)
    wrong = [f"{name}: {verdict}" for name, verdict in found.items() if verdict.startswith("wrong")]
    assert not wrong, "\n".join(wrong)
    lost = [f"{name}: {verdict}" for name, verdict in found.items() if verdict != "right" and name in listed]
    assert not lost, "cases that were right before:\n" + "\n".join(lost)
    new = [name for name, verdict in found.items() if verdict == "right" and name not in listed]
    if new:
        warnings.warn(f"add to {PASSES.name} (python -m {__name__}): {', '.join(new)}", stacklevel=1)


def test_the_list_names_each_case_once():
    lines = PASSES.read_text().splitlines()
    assert lines == sorted(set(lines))


if __name__ == "__main__":
    found = outcomes(0, 1)
    print("\n".join(f"{name}: {verdict}" for name, verdict in found.items() if verdict.startswith("wrong")), file=sys.stderr)
    PASSES.write_text("".join(f"{name}\n" for name in sorted(n for n, verdict in found.items() if verdict == "right")))
