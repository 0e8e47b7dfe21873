"""Operators that move the elements of quantised tensors and compute nothing: what stood on a grid stands on it afterwards."""

from __future__ import annotations

COPIES = {
    **dict.fromkeys(
        "BATCH_TO_SPACE_ND BROADCAST_TO DEPTH_TO_SPACE EXPAND_DIMS GATHER GATHER_ND RESHAPE RESIZE_NEAREST_NEIGHBOR "
        "REVERSE_SEQUENCE REVERSE_V2 SLICE SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT_V SQUEEZE STRIDED_SLICE TILE "
        "TRANSPOSE UNPACK".split(),
        0,
    ),
    "EMBEDDING_LOOKUP": 1,
    "SPLIT": 1,
}
"""Operators that copy integers, whatever the file says they stand for before and afterwards, and which input they copy from."""

_JOINS = {
    "CONCATENATION": slice(None),
    "DYNAMIC_UPDATE_SLICE": slice(0, 2),
    "MAXIMUM": slice(None),
    "MAX_POOL_2D": slice(0, 1),
    "MINIMUM": slice(None),
    "MIRROR_PAD": slice(0, 1),
    "PACK": slice(None),
    "PAD": slice(0, 1),
    "PADV2": slice(0, 3, 2),
    "REDUCE_MAX": slice(0, 1),
    "REDUCE_MIN": slice(0, 1),
    "SELECT": slice(1, 3),
    "SELECT_V2": slice(1, 3),
}
"""Operators that give elements of their operands, where all of these stand on one grid, and which inputs those are."""


def operands_of(key: str, count: int) -> list[int]:
    """Positions of the inputs whose elements an operator gives; none where it computes."""
    if key in COPIES:
        return [COPIES[key]]
    return list(range(count))[_JOINS[key]] if key in _JOINS else []
