"""Which integer kernels LiteRT has, and what they ask of their operands."""

from __future__ import annotations

FILTERS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
"""Operators of data, a filter and a bias, and the axis of the filter that is output channels."""

OPERANDS = frozenset(("ADD", "SUB", "MUL"))
"""Operators all of whose inputs are data."""

ONE = frozenset(("MEAN", "RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH"))
"""Operators of one operand whose result may be on another grid."""

JOINED = frozenset(("CONCATENATION",))
"""Those all of whose operands have to be on the grid of the result, which integers can be brought to."""

SAME = frozenset(("AVERAGE_POOL_2D",))
"""Those whose result has to be on the operand's."""

FIXED = {
    "LOGISTIC": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
    "SOFTMAX": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
    "TANH": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)},
}
"""Those whose result is on one grid always."""

MOVES = frozenset(
    "RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE STRIDED_SLICE SPLIT SPLIT_V GATHER CONCATENATION PAD PADV2 MAX_POOL_2D "
    "RESIZE_NEAREST_NEIGHBOR SPACE_TO_DEPTH DEPTH_TO_SPACE".split()
)
"""Operators that move elements, or pick the largest, and change none."""

REORDERS = frozenset(("TRANSPOSE", "RESHAPE", "SQUEEZE", "EXPAND_DIMS"))
"""Those that integers may go through on their way to an output."""

SIXTEEN_BITS = frozenset(
    "CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED ADD MUL RESHAPE TRANSPOSE STRIDED_SLICE PAD MAX_POOL_2D CONCATENATION".split()
)
"""Operators with a kernel for 16 bits."""

VERSIONS = {
    "int8": {
        "CONV_2D": 3,
        "DEPTHWISE_CONV_2D": 3,
        "FULLY_CONNECTED": 5,
        "RESHAPE": 1,
        "SQUEEZE": 1,
        "EXPAND_DIMS": 1,
        "HARD_SWISH": 1,
    },
    "int16": {"CONV_2D": 4, "DEPTHWISE_CONV_2D": 5, "FULLY_CONNECTED": 7, "ADD": 3, "MUL": 4, "MAX_POOL_2D": 3, "RESHAPE": 1},
}
"""The oldest versions that have such kernels, where it is not the second; those of ``uint8`` are the first."""


def version_of(op: str, dtype: str) -> int:
    """The oldest version of an operator that takes integers of a type."""
    return 1 if dtype not in VERSIONS or op == "QUANTIZE" else VERSIONS[dtype].get(op, 2)
