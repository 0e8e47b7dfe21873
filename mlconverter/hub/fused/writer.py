"""How an operator is written out in the place where it stands.

What writes one out is a short function, as translators are: it is handed a :class:`Writer`, the inputs of the node by
position and its attributes by name, and gives the values of the outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.hub.fused.defaults import DEFAULTS
from mlconverter.hub.model import SOURCE_KEY
from mlconverter.hub.naming import Names
from mlconverter.hub.nodes import BECAME_INPUTS, DEFAULT_DOMAINS, RUNTIMES_DOMAIN, Call, attributes_of, opset_of, schema
from mlconverter.hub.walk import graphs
from mlconverter.registry import OpRegistry

writes_out = OpRegistry("onnx-fused")

_SINCE = {
    "DequantizeLinear": 13,
    "Gelu": 20,
    "LayerNormalization": 17,
    "RMSNormalization": 23,
    "Range": 11,
    "Trilu": 14,
    "Where": 9,
}
"""The first opset that has an operator of those that are written here."""

_ADDED = frozenset(("LayerNormalization", "SimplifiedLayerNormalization"))
"""Operators that ONNX Runtime puts into the specification's domain, whatever its version."""

_REASON_KEY = "mlconverter.unknown"
"""Metadata key of a node that could not be written out: why."""


class Unknown(Exception):
    """What has to be known of an input is not, or not yet; the text says what."""


class Writer:
    """Writes nodes in the place of another.

    Args:
        model: the model, for what is imported and which names are taken.
        node: the node that is written out.
        names: the names that are taken.
    """

    def __init__(self, model: ir.Model, node: ir.Node, names: Names) -> None:
        self._model, self._node, self._names = model, node, names

    def __call__(self, op: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Write a node with one output."""
        return self.several(op, 1, *inputs, **attributes)[0]

    def several(self, op: str, count: int, *inputs: ir.Value | None, **attributes: Any) -> Sequence[ir.Value]:
        """Write a node with so many outputs; attributes that are ``None`` are left out."""
        opset = self._model.opset_imports.get("", 1)
        since, (became, names, _) = _SINCE.get(op, 1), BECAME_INPUTS.get(op, (0, (), int))
        if opset < became:  # where inputs were attributes
            attributes |= dict(zip(names, map(_as_attribute, inputs[1:]), strict=False))
            inputs = inputs[:1]
        given = [ir.convenience.convert_attribute(name, value) for name, value in attributes.items() if value is not None]
        named = [ir.Value(name=self._names.new(f"{self._base}_{op.lower()}")) for _ in range(count)]
        made = ir.Node("", op, inputs, given, outputs=named, version=since if since > opset else None, name=named[0].name)
        assert self._node.graph is not None
        self._node.graph.insert_before(self._node, made)
        return made.outputs

    def number(self, value: float, like: ir.Value | None = None) -> ir.Value:
        """A number in the element type of an input, the one in which the node computes by default."""
        dtype = self.dtype if like is None else like.dtype
        if dtype is None:
            raise Unknown(f"the element type of '{like.name if like else ''}' is not known before the model runs")
        return self.constant(np.array(value, dtype.numpy()))

    @property
    def dtype(self) -> ir.DataType:
        """The element type in which the node computes: that of its first real input."""
        known = (i.dtype for i in self._node.inputs if i is not None and i.dtype is not None)
        found = next((d for d in known if d.is_floating_point()), None)
        if found is None:
            raise Unknown("no input is known to be of real numbers")
        return found

    def ints(self, *values: int) -> ir.Value:
        """Integers in a row."""
        return self.constant(np.array(values, np.int64))

    def integer(self, value: int) -> ir.Value:
        """An integer without an axis."""
        return self.constant(np.array(value, np.int64))

    def is_read(self, output: int) -> bool:
        """Whether anything uses an output of the node."""
        if output >= len(self._node.outputs):
            return False
        return bool(self._node.outputs[output].uses()) or self._node.outputs[output].is_graph_output()

    def size(self, x: ir.Value, axis: int) -> ir.Value:
        """The length of an axis, as a value without an axis."""
        return self("Gather", self("Shape", x), self.integer(axis), axis=0)

    def transposed(self, x: ir.Value) -> ir.Value:
        """The last two axes swapped."""
        rank = rank_of(x)
        return self("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])

    @property
    def _base(self) -> str:
        return self._node.name or next((o.name for o in self._node.outputs if o.name), None) or self._node.op_type.lower()

    def constant(self, array: np.ndarray[Any, Any]) -> ir.Value:
        """Numbers that are no weight."""
        name = self._names.new(f"{self._base}_constant")
        tensor = ir.tensor(array, name=name)
        value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        value.metadata_props[SOURCE_KEY] = ""  # it has no place in the source, and is no weight
        self._model.graph.register_initializer(value)
        return value


def _as_attribute(value: ir.Value | None) -> Any:
    if value is None or value.const_value is None:
        raise Unknown("what is an attribute at the model's opset is computed while the model runs")
    return value.const_value.numpy().tolist()


def rank_of(value: ir.Value) -> int:
    """How many axes a value has.

    Raises:
        Unknown: that is not known.
    """
    if value.shape is None:
        raise Unknown(f"the rank of '{value.name}' is not known before the model runs")
    return len(value.shape)


def write_out(model: ir.Model) -> bool:
    """Write out what can be, in place; whether there was anything."""
    nodes = [node for graph in graphs(model) for node in graph if known_as(node, model.opset_imports) is not None]
    names, written = Names(model) if nodes else None, False
    for node in nodes:
        assert names is not None
        node.metadata_props.pop(_REASON_KEY, None)
        translator = writes_out.find(known_as(node, model.opset_imports) or "", 1)
        if translator is None or refusal(node, model.opset_imports) is not None:
            continue
        call, writer = _call(node, model.opset_imports), Writer(model, node, names)
        try:
            results = translator.function(writer, *call.inputs, **call.attributes)
            replace(writer, node, results if isinstance(results, (list, tuple)) else [results])
            written = True
        except Unknown as reason:
            node.metadata_props[_REASON_KEY] = str(reason)
        except (TypeError, ValueError, IndexError) as error:  # inputs or attributes that make no sense, or that nobody knew
            node.metadata_props[_REASON_KEY] = f"{type(error).__name__}: {error}"
    return written


def known_as(node: ir.Node, opsets: dict[str, int]) -> str | None:
    """The name of an operator of ONNX Runtime's own; it puts some into the specification's domain, or before their opset."""
    if node.domain == RUNTIMES_DOMAIN:
        return f"{RUNTIMES_DOMAIN}::{node.op_type}"
    if node.domain in DEFAULT_DOMAINS and schema(node.op_type, node.domain, opset_of(node, opsets)) is None:
        return f"{RUNTIMES_DOMAIN}::{node.op_type}" if node.op_type in _ADDED else None
    return None


def refusal(node: ir.Node, opsets: dict[str, int]) -> str | None:
    """Why a node cannot be written out, ``None`` where it can, or where nothing of that kind is."""
    name = known_as(node, opsets)
    if name is None:
        return None
    translator = writes_out.find(name, 1)
    if translator is None:
        return None
    reason = translator.check(_call(node, opsets)) if translator.check is not None else None
    return reason or node.metadata_props.get(_REASON_KEY)


def _call(node: ir.Node, opsets: dict[str, int]) -> Call:
    inputs = list(node.inputs)
    while inputs and inputs[-1] is None:
        inputs.pop()
    attributes = {**DEFAULTS.get(node.op_type, {}), **attributes_of(node, opset_of(node, opsets))}
    return Call(known_as(node, opsets) or node.op_type, 1, tuple(inputs), attributes)


def replace(w: Writer, node: ir.Node, results: Sequence[ir.Value | None]) -> None:
    """Put the results in the place of those outputs of a node that are read, under their names."""
    read = [i for i in range(len(node.outputs)) if w.is_read(i)]
    for i in read:
        if i >= len(results) or results[i] is None:
            raise Unknown(f"its output {i} is read")
    for i in read:
        old, new = node.outputs[i], results[i]
        assert new is not None
        if new.producer() is None:  # an input as it is
            new = w("Identity", new)
        new.type, new.shape = old.type, old.shape
        name, old.name = old.name, None
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        new.name = name
    assert node.graph is not None
    node.graph.remove(node, safe=True)
