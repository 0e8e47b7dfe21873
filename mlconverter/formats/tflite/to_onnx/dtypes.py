"""Dtypes for which ONNX Runtime has no kernel: values go through another one that gives the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from mlconverter.formats.tflite.to_onnx.builder import Builder

_SMALL = frozenset({"int8", "uint8", "int16", "uint16"})

_NO_KERNEL = {
    "Clip": frozenset({"int16", "uint16"}),
    "DepthToSpace": frozenset({"int16", "int32", "uint16", "uint32", "bool"}),
    "Max": frozenset({"int16", "uint16"}),
    "Min": frozenset({"int16", "uint16"}),
    "Pad": frozenset({"int16", "uint16"}),
    "ReduceMax": frozenset({"int16", "uint16", "uint32", "bool"}),
    "ReduceMin": frozenset({"int16", "uint16", "uint32", "bool"}),
    "ReduceProd": _SMALL | {"uint32"},
    "ReduceSum": _SMALL | {"uint32"},
    "SpaceToDepth": frozenset({"int16", "int32", "uint16", "uint32", "bool"}),
    "Where": frozenset({"int16", "uint16", "uint64", "bool"}),
}
"""For each operator the dtypes that its kernels leave out and that another dtype can carry."""


def with_kernel(b: Builder, onnx: str, dtype: str, emit: Callable[..., ir.Value], *values: ir.Value) -> ir.Value:
    """What ``emit`` makes of values by an operator, in a dtype that the operator has a kernel for.

    Integers that overflow in the wider dtype end where they would have, because they are cut to their own width again.
    """
    if dtype not in _NO_KERNEL.get(onnx, ()):
        return emit(*values)
    # Blocks of an image are moved as floating-point numbers or bytes only.
    wide = "float64" if onnx in ("DepthToSpace", "SpaceToDepth") else "int64" if dtype in ("uint32", "uint64") else "int32"
    return b.cast(emit(*(b.cast(value, wide) for value in values)), dtype)


def chosen(b: Builder, condition: ir.Value, x: ir.Value, y: ir.Value, dtype: str) -> ir.Value:
    """Where, for every dtype."""
    return with_kernel(b, "Where", dtype, lambda x, y: b.emit("Where", condition, x, y), x, y)


def converted(b: Builder, value: ir.Value, before: str, after: str) -> ir.Value:
    """The value in another dtype, as LiteRT converts it.

    Numbers beyond the range of an integer, and what is none, become the nearest it has or its largest; ONNX leaves that
    open, and ONNX Runtime cuts bits off.
    """
    if not before.startswith("float") or np.dtype(after).kind not in "iu":
        return b.cast(value, after)
    limits = np.iinfo(after)
    if before == "float16":
        value, before = b.cast(value, "float32"), "float32"
    inside = b.emit("Less", value, b.scalar(float(limits.max), before))
    whole = b.cast(b.emit("Max", value, b.scalar(float(limits.min), before)), after)
    return chosen(b, inside, whole, b.scalar(int(limits.max), after), after)
