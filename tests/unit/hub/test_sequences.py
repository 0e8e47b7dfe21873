"""Sequences that are made and taken apart again, with lengths that are computed."""

import numpy as np
import onnx_ir as ir
import pytest

from mlconverter.hub.normalise import normalise
from tests.ops.onnx_tflite.check import check as check_tflite
from tests.ops.onnx_torch.check import check as check_torch
from tests.ops.onnx_torch.models import FLOAT, model, node

NUMBERS = {"zero": 0, "one": 1, "two": 2}


def halves(shape):
    """Two halves of what is twice as long as an input, as torch's exporter writes ``chunk`` along a free axis."""
    nodes = [
        node("Concat", "x x", "both", axis=0),
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "length"),
        node("SplitToSequence", "both length", "parts", axis=0),
        node("SequenceAt", "parts zero", "a"),
        node("SequenceAt", "parts one", "b"),
        node("Mul", "b two_f", "c"),
        node("Sub", "c a", "y"),
    ]
    numbers = {k: np.array(NUMBERS[k], np.int64) for k in ("zero", "one")} | {"two_f": np.array(2, np.float32)}
    return model(nodes, {"x": shape}, {"y": FLOAT}, numbers, 18)


@pytest.mark.parametrize("shape", [("batch", 3), (4, 3)])
def test_parts_of_a_computed_length(shape):
    made = halves(shape)
    assert not any("Sequence" in n.op_type for n in normalise(ir.from_proto(made)).graph)
    check_torch(made)
    check_tflite(made)
