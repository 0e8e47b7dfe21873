"""What LiteRT's kernels take. Measured by running each operator on each element type and rank, in processes of their own.

Several kernels end the process, or answer wrongly, on plain 8-bit tensors, which they take for quantised ones; others
are missing for 64 bits. What is not in this table is never written into a file.
"""

from __future__ import annotations

from dataclasses import dataclass

STORED = frozenset("float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool".split())
"""The element types that tensors of the graph may have; half precision is computed in single precision."""


@dataclass(frozen=True)
class Kernel:
    """One operator of LiteRT.

    Attributes:
        dtypes: element types of the data that it takes.
        rank: the most axes that it takes.
        version: of the operator, the oldest that does what is written.
    """

    dtypes: frozenset[str]
    rank: int = 6
    version: int = 1


def _kernels(ops: str, dtypes: str, rank: int = 6, version: int = 1) -> dict[str, Kernel]:
    types = STORED if dtypes == "all" else frozenset(dtypes.split())
    return {op: Kernel(types, rank, version) for op in ops.split()}


KERNELS: dict[str, Kernel] = {
    # Arithmetic
    **_kernels("ADD MUL", "float32 int32 int64", 8),
    **_kernels("SUB", "float32 int32 int64", 8),
    **_kernels("DIV", "float32 int32", 8),
    **_kernels("SQUARED_DIFFERENCE", "float32 int32", 8),
    **_kernels("FLOOR_DIV", "float32 int8 int16 int32", 8),
    **_kernels("FLOOR_MOD", "float32 int8 int16 int32 int64", 8),
    **_kernels("MAXIMUM MINIMUM", "float32 int8 uint8 int16 int32 int64", 8),
    **_kernels("POW", "float32 int32", 8),
    **_kernels("EQUAL NOT_EQUAL", "float32 int32 int64 bool", 8),
    **_kernels("LESS LESS_EQUAL GREATER GREATER_EQUAL", "float32 int32 int64", 8),
    **_kernels("LOGICAL_AND LOGICAL_OR LOGICAL_NOT", "bool", 8),
    **_kernels("BITWISE_XOR RIGHT_SHIFT", "int8 uint8 int16 uint16 int32 uint32", 8),
    **_kernels("BITCAST", "float32 float16 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool", 8),
    **_kernels("ATAN2", "float32 float64", 8),
    **_kernels("SELECT_V2", "all", 8),
    # One operand
    **_kernels("ABS", "float32 int16 int32", 8),
    **_kernels("NEG", "float32 int8 int16 int32 int64", 8),
    **_kernels("SIGN", "float32 float64 int32", 8),
    **_kernels("EXP LOG SQRT RSQRT SQUARE SIN COS FLOOR CEIL ROUND", "float32", 8),
    **_kernels("RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 LOGISTIC TANH ELU HARD_SWISH", "float32", 8),
    **_kernels("GELU LEAKY_RELU", "float32"),
    **_kernels("SOFTMAX LOG_SOFTMAX", "float32"),
    **_kernels("PRELU", "float32", 4),
    **_kernels("CAST", "float32 float16 float64 int8 uint8 int16 uint16 int32 uint32 int64 bool", 8),
    **_kernels("DEQUANTIZE", "float16", 8),
    # Moving elements
    **_kernels("RESHAPE SQUEEZE EXPAND_DIMS SHAPE", "all", 8),
    **_kernels("TRANSPOSE", "all", 6),
    **_kernels("STRIDED_SLICE", "all", 5),
    **_kernels("CONCATENATION", "float32 int8 uint8 int16 int32 uint32 int64 bool"),
    **_kernels("SPLIT SPLIT_V", "float32 int8 uint8 int16 int32 int64"),
    **_kernels("PACK", "float32 int8 uint8 int16 int32 uint32 int64"),
    **_kernels("GATHER", "float32 int8 uint8 int16 int32 int64 bool", 8),
    **_kernels("GATHER_ND", "float32 int8 uint8 int16 int32 int64 bool"),
    **_kernels("SCATTER_ND", "float32 int8 uint8 int32 int64 bool"),
    **_kernels("TILE", "all"),
    **_kernels("BROADCAST_TO", "all", 8, version=3),
    **_kernels("PAD", "float32 int8 uint8 int16 int32 int64 bool", 5),
    **_kernels("PADV2", "float32 int8 uint8 int16 int32 int64 bool", 5),
    **_kernels("MIRROR_PAD", "all", 5),
    **_kernels("DYNAMIC_UPDATE_SLICE", "all"),
    **_kernels("REVERSE_SEQUENCE", "float32 uint8 int16 int32 int64"),
    **_kernels("REVERSE_V2", "float32 int8 uint8 int16 int32 int64 bool"),
    **_kernels("DEPTH_TO_SPACE SPACE_TO_DEPTH", "float32 int8 uint8 int32 int64", 4),
    # Graphs within the graph
    **_kernels("IF", "bool", 8),
    **_kernels("WHILE", "all", 8),
    # Reductions
    **_kernels("MEAN", "float32"),
    **_kernels("SUM REDUCE_PROD", "float32 int32 int64"),
    **_kernels("REDUCE_MAX REDUCE_MIN", "float32 int8 uint8 int16 int32 int64"),
    **_kernels("REDUCE_ALL REDUCE_ANY", "bool"),
    **_kernels("ARG_MAX ARG_MIN", "float32 int8 uint8 int32 bool"),
    **_kernels("CUMSUM", "float32 int32 int64"),
    **_kernels("TOPK_V2", "float32 int8 uint8 int16 int32 int64"),
    **_kernels("WHERE", "bool"),
    **_kernels("NON_MAX_SUPPRESSION_V4", "float32", 2),
    **_kernels("UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD", "float32 int32"),
    # Making tensors
    **_kernels("FILL", "int32 int64", 8),
    **_kernels("RANGE", "float32 int32 int64"),
    **_kernels("ONE_HOT", "int32 int64"),
    # Products and windows
    **_kernels("FULLY_CONNECTED", "float32"),
    **_kernels("BATCH_MATMUL", "float32", 5),
    **_kernels("CONV_2D DEPTHWISE_CONV_2D", "float32", 4),
    **_kernels("CONV_3D", "float32", 5),
    **_kernels("CONV_3D_TRANSPOSE", "float32", 5),
    **_kernels("TRANSPOSE_CONV", "float32", 4, version=3),
    **_kernels("AVERAGE_POOL_2D MAX_POOL_2D RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR", "float32", 4),
    **_kernels("LOCAL_RESPONSE_NORMALIZATION", "float32", 4),
}
"""By operator."""

DATA_INPUT = {"SPLIT": 1, "SELECT_V2": 1, "SCATTER_ND": 1, "TRANSPOSE_CONV": 2, "CONV_3D_TRANSPOSE": 2}
"""Operators whose data are not their first input."""

WIDER = {
    "int8": "int32",
    "uint8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "uint32": "int64",
    "uint64": "int64",
    "bool": "int32",
}
"""Where a kernel is missing, the type in which the same integers can be computed and cut back to the same bits."""

SIGN_BLIND = frozenset(
    "ADD SUB MUL NEG EQUAL NOT_EQUAL SUM REDUCE_PROD CUMSUM CONCATENATION SPLIT SPLIT_V PACK GATHER GATHER_ND PAD PADV2 "
    "REVERSE_V2 REVERSE_SEQUENCE SCATTER_ND".split()
)
"""What 64 bits mean alike with and without a sign. There is no wider type, so nothing else is computed without."""

ORDERS = frozenset("LESS LESS_EQUAL GREATER GREATER_EQUAL MAXIMUM MINIMUM".split())
"""What looks at the order of its operands alone: it is that of the signed numbers 2⁶³ below."""


def refusal(op: str, dtype: str, rank: int) -> str | None:
    """Why LiteRT cannot run an operator on such data, ``None`` where it can."""
    kernel = KERNELS[op]
    if dtype not in kernel.dtypes:
        return f"LiteRT's {op} does not take {dtype}"
    if rank > kernel.rank:
        return f"LiteRT's {op} takes at most {kernel.rank} axes, not {rank}"
    return None


def fitting(op: str, dtype: str) -> str | None:
    """The type in which an operator can be computed on such data: their own, a wider one, or ``None``."""
    dtypes = KERNELS[op].dtypes
    if dtype == "uint64" and op not in SIGN_BLIND:
        return dtype if dtype in dtypes else None
    return dtype if dtype in dtypes else wider if (wider := WIDER.get(dtype)) in dtypes else None
