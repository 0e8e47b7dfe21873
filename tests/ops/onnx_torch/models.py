"""Small ONNX models from a few words."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
N = "batch"


def weight(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """A node; names are separated by blanks, and ``_`` stands for an absent input."""
    absent = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(op, absent, outputs.split(), **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[Any] | tuple[int, Sequence[Any]]],
    outputs: dict[str, int],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 21,
) -> onnx.ModelProto:
    """A model; inputs are shapes of float32 or ``(element type, shape)``, outputs their element type."""
    infos = []
    for name, given in inputs.items():
        kind, shape = given if len(given) == 2 and isinstance(given[1], (tuple, list)) else (FLOAT, given)
        infos.append(helper.make_tensor_value_info(name, kind, shape))
    graph = helper.make_graph(
        list(nodes),
        "graph",
        infos,
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 10
    return made


def said(made: onnx.ModelProto, *shape) -> onnx.ModelProto:
    """The model with the shape of its last output said."""
    value = made.graph.output[-1]
    value.CopyFrom(helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shape))
    return made
