"""Half precision, put into a graph: TensorRT computes in the types that the graph has."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir

from mlconverter.formats.trt.newer import raise_opset
from mlconverter.formats.trt.sensitive import Staying, finite, is_real, staying, takes_half
from mlconverter.hub.fused.writer import Writer
from mlconverter.hub.naming import Names
from mlconverter.hub.walk import drop_unused, graphs, graphs_of

HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)

_SINCE = {ir.DataType.FLOAT16: 15, ir.DataType.BFLOAT16: 22}
"""The opset in which a BatchNormalization in half has its variances, divisors, in single precision; in which all has bfloat16."""

_MOST_NAMED = 4
"""Nodes that a note names at most."""


def to_half(model: ir.Model, dtype: ir.DataType) -> tuple[str, ...]:
    """Have a model compute in half precision, in place; inputs and outputs keep their types.

    Weights are stored in half. What is sensitive (``sensitive.py``) is computed in single precision between Casts, one for
    each value and direction. A model that computes in half anywhere is left as it is: somebody has chosen.

    Args:
        model: as ``normalise`` gives it, which has inferred types.
        dtype: FLOAT16 or BFLOAT16.

    Returns:
        Notes for the report.
    """
    if any(v is not None and v.dtype in HALVES for n in _computing(model) for v in (*n.inputs, *n.outputs)):
        return ("The model computes in half precision already; its types are kept.",)
    reason = raise_opset(model, _SINCE[dtype])
    stay = staying(model, dtype)
    notes = _notes(model, stay, dtype)
    if reason is not None and dtype is ir.DataType.BFLOAT16:
        notes = (*notes, f"Operators that have no bfloat16 before opset {_SINCE[dtype]} stay in float32: {reason}.")
    _Halving(model, dtype, stay).run()
    drop_unused(model)
    return notes


def _computing(model: ir.Model) -> list[ir.Node]:
    """Nodes that compute; what is stored in half may be computed in anything."""
    return [node for graph in graphs(model) for node in graph if node.op_type not in ("Cast", "CastLike")]


class _Halving:
    """Writes Casts where single precision and half meet.

    Args:
        model: it is changed.
        dtype: the half.
        stay: what stays in single precision.
    """

    def __init__(self, model: ir.Model, dtype: ir.DataType, stay: Staying) -> None:
        self._model, self._dtype, self._stay = model, dtype, stay
        self._names = Names(model)
        self._halves: dict[ir.Value, ir.Value] = {}  # by the value in single precision
        self._singles: dict[ir.Value, ir.Value] = {}  # by the value in half
        self._lowered: set[ir.Value] = set()

    def run(self) -> None:
        """Change the graph."""
        for node in list(self._model.graph):
            if node in self._stay.nodes:
                self._keep(node, node)
            elif any(map(is_real, (*node.inputs, *node.outputs))) or any(v in self._lowered for v in node.inputs):
                self._lower(node)
        for position, value in enumerate(self._model.graph.outputs):
            if value in self._lowered:
                self._give_out(position, value)

    def _keep(self, node: ir.Node, where: ir.Node) -> None:
        """Hand a node, its graphs included, everything in single precision."""
        for position, value in enumerate(node.inputs):
            if value in self._lowered:
                node.replace_input_with(position, self._single(value, where))
        for graph in graphs_of(node):
            for inner in graph:
                self._keep(inner, where)
            for position, value in enumerate(graph.outputs):
                if value in self._lowered:
                    graph.outputs[position] = self._single(value, where)

    def _lower(self, node: ir.Node) -> None:
        """Have a node compute in half."""
        for position, value in enumerate(node.inputs):
            takes = takes_half(node, position, self._dtype, self._model.opset_imports)
            if value in self._lowered and not takes:
                node.replace_input_with(position, self._single(value, node))
            elif takes and value is not None and is_real(value):
                node.replace_input_with(position, self._half(value, node))
        if node.op_type == "Cast" and is_real(node.outputs[0]):
            node.attributes["to"] = ir.AttrInt64("to", self._dtype.value)
        elif node.op_type == "ConstantOfShape" and is_real(node.outputs[0]):
            given = node.attributes.get("value")
            filler = np.zeros(1, np.float32) if given is None else given.as_tensor().numpy()
            node.attributes["value"] = ir.AttrTensor("value", ir.tensor(filler.astype(self._dtype.numpy())))
        for value in node.outputs:
            if is_real(value):
                value.type = ir.TensorType(self._dtype)
                self._lowered.add(value)
        if node.op_type == "Cast":
            self._drop_if_idle(node)

    def _drop_if_idle(self, node: ir.Node) -> None:
        """Take out a Cast that has become one to the same."""
        source, result = node.inputs[0], node.outputs[0]
        if source is not None and source.dtype is result.dtype and not result.is_graph_output():
            result.replace_all_uses_with(source)
            self._lowered.add(source)
            self._model.graph.remove(node, safe=True)

    def _half(self, value: ir.Value, node: ir.Node) -> ir.Value:
        """A value of single precision in half: stored so where it is a constant, cast where it is computed."""
        if value not in self._halves:
            self._halves[value] = self._stored(value) if value.const_value is not None else self._cast_down(value, node)
        return self._halves[value]

    def _stored(self, value: ir.Value) -> ir.Value:
        assert value.const_value is not None
        numbers = value.const_value.numpy()
        end = finite(self._dtype)
        with np.errstate(over="ignore"):
            # What is infinite stays so; what is beyond the range is a limit, or it would not have come here.
            array = np.where(np.isinf(numbers), numbers, np.clip(numbers, -end, end)).astype(self._dtype.numpy())
        name = self._names.new(f"{value.name}/{self._dtype.name.lower()}")
        half = ir.Value(name=name, shape=value.shape, type=ir.TensorType(self._dtype))
        half.const_value = ir.Tensor(array, self._dtype, name=name)
        self._model.graph.register_initializer(half)
        return half

    def _cast_down(self, value: ir.Value, node: ir.Node) -> ir.Value:
        w = Writer(self._model, node, self._names)
        if value in self._stay.beyond:
            ends = [w.constant(np.array(end, np.float32)) for end in (-finite(self._dtype), finite(self._dtype))]
            within = w("Clip", value, *ends)
            within.shape, within.type = value.shape, value.type
            return self._cast(within, self._dtype, w)
        return self._cast(value, self._dtype, w)

    def _single(self, value: ir.Value, node: ir.Node) -> ir.Value:
        """A value in half as one of single precision."""
        if value not in self._singles:
            self._singles[value] = self._cast(value, ir.DataType.FLOAT, Writer(self._model, node, self._names))
        return self._singles[value]

    @staticmethod
    def _cast(value: ir.Value, dtype: ir.DataType, w: Writer) -> ir.Value:
        result = w("Cast", value, to=dtype.value)
        result.shape, result.type = value.shape, ir.TensorType(dtype)
        return result

    def _give_out(self, position: int, value: ir.Value) -> None:
        """Have an output of the graph in single precision, under its name."""
        single = self._singles.get(value)
        if single is None:
            node = ir.Node("", "Cast", [value], [ir.AttrInt64("to", ir.DataType.FLOAT.value)])
            self._model.graph.append(node)
            single = self._singles[value] = node.outputs[0]
            single.shape, single.type = value.shape, ir.TensorType(ir.DataType.FLOAT)
        if not single.is_graph_output():
            single.name, value.name = value.name, self._names.new(f"{value.name}/{self._dtype.name.lower()}")
            maker = single.producer()
            assert maker is not None
            maker.name = maker.name or self._names.new(f"{single.name}_cast")
        self._model.graph.outputs[position] = single


def _notes(model: ir.Model, stay: Staying, dtype: ir.DataType) -> tuple[str, ...]:
    """What was decided, for people."""
    name = dtype.name.lower()
    real = [n for n in model.graph if any(map(is_real, (*n.inputs, *n.outputs)))]
    single = [n for n in real if n in stay.nodes]
    counted = ", ".join(f"{count} {op}" for op, count in Counter(n.op_type for n in single).most_common())
    notes = [
        f"The engine computes in {name}, {len(single)} of {len(real)} nodes in float32" + (f": {counted}." if counted else ".")
    ]
    if stay.constants:
        listed = [f"'{constant}' of {node.op_type} '{node.name}'" for node, constant in stay.constants.items()]
        more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
        notes.append(f"Constants that {name} does not hold keep their nodes in float32: {', '.join(listed[:_MOST_NAMED])}{more}.")
    return tuple(notes)
