"""The operators that this route translates, and the small checks that their registrations share.

A translator takes the builder, the operator and the operator's inputs, and gives the output (or a list of them).
"""

from __future__ import annotations

from mlconverter.formats.tflite.to_onnx.operands import Op
from mlconverter.registry import Check, OpRegistry

translates = OpRegistry("tflite-onnx")

ACTIVATIONS = {0: "NONE", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6"}
"""Fused activations that are translated, by their number in the schema."""

IGNORED_ACTIVATIONS = {4: "TANH", 5: "SIGN_BIT"}
"""Fused activations that the schema knows and LiteRT's kernels leave out without a word."""

RECURRENT = frozenset(
    "BIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_RNN LSTM RNN SVDF UNIDIRECTIONAL_SEQUENCE_LSTM "
    "UNIDIRECTIONAL_SEQUENCE_RNN".split()
)
"""Operators whose kernels compute those activations, too, and whose checks look at them."""


def needs_constant(**inputs: int) -> Check:
    """A check that refuses nodes whose named inputs are not in the file: ``needs_constant(axis=1)``."""

    def check(op: Op) -> str | None:
        for name, index in inputs.items():
            if op.input(index) is not None and op.constant(index) is None:
                return f"its {name} are only known at run time"
        return None

    return check


def needs_rank(*ranks: int, index: int = 0) -> Check:
    """A check that refuses nodes whose input has another rank."""

    def check(op: Op) -> str | None:
        tensor = op.input(index)
        if tensor is None or tensor.rank in ranks:
            return None
        return f"its input '{tensor.name}' has rank {tensor.rank}; supported: {', '.join(map(str, ranks))}"

    return check


def needs_float(op: Op) -> str | None:
    """A check that refuses nodes on anything but floating-point tensors."""
    tensor = op.input(0)
    return None if tensor is None or tensor.real_dtype.startswith("float") else f"{tensor.dtype} input"


def needs_dtype(*dtypes: str, index: int = 0) -> Check:
    """A check that refuses nodes whose input has another dtype."""

    def check(op: Op) -> str | None:
        tensor = op.input(index)
        return None if tensor is None or tensor.real_dtype in dtypes else f"{tensor.dtype} input"

    return check


def all_of(*checks: Check) -> Check:
    """The first refusal of several checks."""

    def check(op: Op) -> str | None:
        return next((reason for c in checks if (reason := c(op))), None)

    return check
