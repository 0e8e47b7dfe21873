"""Values whose shape is computed from sizes of the model's inputs: what it is, and one size less to compute."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from mlconverter.hub.sizes import Free

Size = int | str
"""A size, or the name of a free one."""


def settle(graph: ir.Graph, node: ir.Node, known: Mapping[ir.Value, np.ndarray]) -> bool:
    """Give what a node shapes its shape, and a Reshape of one free size a constant target; whether there was news.

    Args:
        graph: the node's.
        node: any node.
        known: sizes that are computed, some of them free.
    """
    if node.op_type not in ("Reshape", "Expand", "ConstantOfShape"):
        return False
    asked, result = node.inputs[-1], node.outputs[0]
    target = None if asked is None else _target(asked, known)
    if asked is None or target is None or (0 in target and "allowzero" in node.attributes):
        return False
    sizes = target if node.op_type == "ConstantOfShape" else _shaped(node, target)
    if sizes is None or -1 in sizes:
        return False
    shape = ir.Shape([s if isinstance(s, int) else ir.SymbolicDim(s) for s in sizes])
    news, result.shape = result.shape != shape, shape
    if node.op_type == "Reshape" and asked.const_value is None and sum(isinstance(s, str) for s in sizes) <= 1:
        node.replace_input_with(1, _constant(graph, f"{result.name}_shape", [s if isinstance(s, int) else -1 for s in sizes]))
        return True
    return news


def _shaped(node: ir.Node, target: list[Size]) -> list[Size] | None:
    source = node.inputs[0]
    if len(node.inputs) < 2 or source is None or source.shape is None:
        return None
    given = [d if isinstance(d, int) else d.value for d in source.shape]
    if None in given:
        return None
    return (reshaped if node.op_type == "Reshape" else expanded)(given, target)  # type: ignore[arg-type]


def expanded(given: Sequence[Size], target: Sequence[Size]) -> list[Size] | None:
    """What a shape becomes where it is repeated, ``None`` where that is not known; -1 stands for the size that there is."""
    rank = max(len(given), len(target))
    before, after = ([*[1] * (rank - len(sizes)), *sizes] for sizes in (given, target))
    if any(b != a and b != 1 and a not in (1, -1) for b, a in zip(before, after, strict=True)):
        return None
    return [b if a in (1, -1) else a for b, a in zip(before, after, strict=True)]


def reshaped(given: Sequence[Size], target: Sequence[Size]) -> list[Size] | None:
    """What a shape becomes, ``None`` where that is not known.

    Args:
        given: the shape before.
        target: what is asked for; 0 stands for the size that there is, -1 for what is left.
    """
    wanted = [given[axis] if size == 0 and axis < len(given) else size for axis, size in enumerate(target)]
    names, asked = (Counter(s for s in sizes if isinstance(s, str)) for sizes in (given, wanted))
    numbers, fixed = (math.prod(s for s in sizes if isinstance(s, int) and s != -1) for sizes in (given, wanted))
    if asked - names or not numbers or not fixed or numbers % fixed:
        return None  # other sizes than there are, or no elements at all
    left = list((names - asked).elements())
    rest = numbers // fixed
    if -1 not in wanted:
        return wanted if rest == 1 and not left else None
    if len(left) > 1 or (left and rest != 1):
        return None  # a product that has no name
    return [(left[0] if left else rest) if size == -1 else size for size in wanted]


def _target(asked: ir.Value, known: Mapping[ir.Value, np.ndarray]) -> list[Size] | None:
    """What a Reshape asks for; ``None`` where some of it has no name."""
    array = known.get(asked)
    if array is None:
        array = None if asked.const_value is None else asked.const_value.numpy()
    if array is None or array.dtype.kind not in "iuO":
        return None
    sizes: list[Size] = []
    for size in array.reshape(-1):
        named = size.name if isinstance(size, Free) else int(size) if isinstance(size, (int, np.integer)) else None
        if named is None or (isinstance(named, int) and named < -1):
            return None
        sizes.append(named)
    return sizes


def _constant(graph: ir.Graph, name: str, sizes: list[int]) -> ir.Value:
    while name in graph.initializers:
        name += "_"
    array = np.array(sizes, np.int64)
    value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(ir.DataType.INT64))
    value.const_value = ir.tensor(array, name=name)
    graph.register_initializer(value)
    return value
