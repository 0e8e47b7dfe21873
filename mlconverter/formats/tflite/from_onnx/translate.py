"""The walk over the graph, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from mlconverter.errors import TranslationError
from mlconverter.formats.tflite import layout
from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.custom import custom
from mlconverter.formats.tflite.from_onnx.kernels import STORED
from mlconverter.formats.tflite.from_onnx.ops import Refused, translates
from mlconverter.formats.tflite.from_onnx.sizes import ints_of, settled, shape_of
from mlconverter.formats.tflite.from_onnx.values import (
    Array,
    Constant,
    Dims,
    Graph,
    Ints,
    Operand,
    Runtime,
    Size,
    Sizes,
    Stored,
    Value,
    Wire,
)
from mlconverter.hub.evaluate import evaluate, evaluates
from mlconverter.hub.forms import Form, forms_of
from mlconverter.hub.io import dim_of, numpy_name
from mlconverter.hub.model import CUSTOM_DOMAIN
from mlconverter.hub.nodes import Call, call_of, opset_of, version_of
from mlconverter.hub.normalise import is_weight
from mlconverter.hub.refusing import Refusals

HALF = "float16"


class _Lost(Exception):
    """A graph within a node gives nothing, for a reason that has been noted."""


class Translation:
    """One walk over a normalised graph.

    Args:
        model: the graph.
        builder: where the operators are collected.
        outer: the walk over the graph around the one that a node holds.
    """

    def __init__(self, model: ir.Model, builder: Builder, outer: Translation | None = None) -> None:
        self.model, self.builder, self.outer = model, builder, outer
        self.values: dict[ir.Value, Value] = {}
        self.refusals: Refusals = Refusals(translates.route) if outer is None else outer.refusals
        self.lost: set[ir.Value] = set() if outer is None else outer.lost

    def run(self) -> Graph:
        """Translate the whole graph.

        Returns:
            The graph, with its inputs and outputs in order, in the model's own axis order and dtypes.

        Raises:
            UnsupportedOpsError: with every node that LiteRT has no kernel for.
            TranslationError: a node is inconsistent.
        """
        graph = self.model.graph
        inputs = [self._graph_input(v) for v in graph.inputs if v.name not in graph.initializers]
        for node in graph:
            self._translate(node)
        self.refusals.raise_if_any()
        self.builder.node = None
        taken = set(inputs)
        outputs = []
        for value in graph.outputs:
            wire = self._graph_output(value, taken)
            taken.add(wire)
            outputs.append(wire)
        return Graph("main", self.builder.operations, inputs, outputs)

    def nested(self, builder: Builder, graph: ir.Graph, given: Sequence[Operand]) -> list[Operand]:
        """Translate a graph that a node holds, in terms of operands that are its inputs; its outputs."""
        before = builder.node, builder.translate
        inner = Translation(self.model, builder, self)
        for value, operand in zip(graph.inputs, given, strict=True):
            inner.values[value] = inner._borrowed(operand)
        for node in graph:
            inner._translate(node)
        if not self.lost.isdisjoint(graph.outputs):
            raise _Lost
        results = [inner.value(v) for v in graph.outputs]
        builder.node, builder.translate = before
        return [inner._materialised(r) if isinstance(r, Sizes) else r for r in results]

    def _borrowed(self, value: Value) -> Value:
        """A value of somewhere else, where others may read it as well."""
        if not isinstance(value, Runtime):
            return value
        self.builder.shared.update(value.orders.values())
        return Runtime(value.name, value.dims, value.dtype, value.orders)

    # -- the border --------------------------------------------------------------------------------------------------

    def _graph_input(self, value: ir.Value) -> Wire:
        dims, dtype = _dims(value), numpy_name(value.dtype)
        if dims is None:
            raise TranslationError(value.name or "", "graph", f"the rank of input '{value.name}' is not known")
        if dtype not in STORED and dtype != HALF:
            raise TranslationError(value.name or "", "graph", f"TFLite does not compute with {dtype}, which '{value.name}' is")
        wire = Wire(value.name or "", dims, dtype)
        inner = self.builder.cast(wire, "float32") if dtype == HALF else wire
        self.values[value] = self._bound(Runtime(value.name or "", dims, dtype, {layout.logical(len(dims)): inner}), value)
        return wire

    def _graph_output(self, value: ir.Value, taken: set[Wire]) -> Wire:
        b, result = self.builder, self.value(value)
        if isinstance(result, Sizes):
            result = self._materialised(result)
        wire = b.ask(result)
        dtype = numpy_name(value.dtype)
        if dtype == HALF:
            wire = b.emit("CAST", wire, dims=wire.dims, dtype=HALF)
        if wire in taken or wire.data is not None:
            # What is an input, a constant or another output as well needs a tensor of its own.
            wire = b.copy(wire)
        wire.name = value.name or ""
        return wire

    # -- nodes -------------------------------------------------------------------------------------------------------

    def value(self, value: ir.Value) -> Value:
        """The translated value, a constant's on first use."""
        found = self.values.get(value)
        if found is None:
            if value.const_value is not None:
                found = Constant(value.const_value.numpy(), value.name or "", is_weight(value))
            elif self.outer is not None:
                found = self._borrowed(self.outer.value(value))
            else:
                raise TranslationError(value.name or "", "graph", f"value '{value.name}' is used before anything computes it")
            self.values[value] = found
        return found

    def _translate(self, node: ir.Node) -> None:
        # Behind what is refused, and of no known rank, nothing that could be said of a node would be its own fault.
        results = self._translated(node) if self.lost.isdisjoint(node.inputs) else None
        if results is None:
            # What else is refused comes to light as well.
            results = [_stand_in(output) for output in node.outputs]
            self.lost.update(output for output in node.outputs if output.shape is None)
        self.values.update(zip(node.outputs, results, strict=False))

    def _translated(self, node: ir.Node) -> list[Value] | None:
        """The outputs of a node, ``None`` where something of it is refused."""
        version = version_of(node, self.model.opset_imports) or 0
        call = call_of(node, opset_of(node, self.model.opset_imports), version)
        self.builder.node, self.builder.translate = node, self.nested
        try:
            inputs = [self._input(i) for i in call.inputs]
            results = self._known(call, inputs) or self._computed(call, inputs)
            bound = [self._result(o, r) for o, r in zip(node.outputs, results, strict=False)]
            if call.op == "Concat" and isinstance(bound[0], Runtime) and bound[0].rank == 1:
                bound[0].parts = tuple(i for i in inputs if i is not None)
            return bound
        except Refused as refused:
            self.refusals.add(node, version, f"{refused}")
        except _Lost:
            pass  # the reason has been noted
        except (TypeError, ValueError, LookupError, ArithmeticError, AssertionError) as error:
            if not self.refusals:  # behind a node that is refused nothing has to fit
                raise TranslationError(node.name or "", call.op, f"{type(error).__name__}: {error}") from error
        return None

    def _input(self, value: ir.Value | Array | None) -> Value | None:
        if value is None:
            return None
        return Constant(value) if isinstance(value, np.ndarray) else self.value(value)

    def _result(self, output: ir.Value, result: Value | Stored) -> Value:
        if isinstance(result, Runtime):  # the same tensors under another name
            return self._bound(Runtime(output.name or "", result.dims, result.dtype, result.orders), output)
        if not isinstance(result, Stored):
            return result
        wire, order = result
        stored: list[int | None] = [None] * len(order)
        for position, axis in enumerate(order):
            stored[axis] = wire.dims[position]
        dims = _dims(output) or (None,) * len(order)
        if len(dims) != len(order):
            raise ValueError(f"its result has rank {len(order)}, and shape inference says {len(dims)}")
        merged = tuple(s if d is None else d for d, s in zip(dims, stored, strict=True))
        wire.dims = layout.arranged(order, merged)
        dtype = numpy_name(output.dtype) if output.dtype is not None else wire.dtype
        return self._bound(Runtime(output.name or "", merged, dtype, {order: wire}), output)

    def _bound(self, runtime: Runtime, value: ir.Value) -> Runtime:
        """Note who reads a value: a tensor that several values or nodes share has to stay as it is."""
        runtime.sole = len(list(value.uses())) == 1 and not value.is_graph_output()
        if not runtime.sole:
            self.builder.shared.update(runtime.orders.values())
        return runtime

    # -- what never becomes a tensor ---------------------------------------------------------------------------------

    def _known(self, call: Call, inputs: list[Value | None]) -> list[Value] | None:
        """Sizes, arithmetic on them, and what is computed from constants alone."""
        if call.op in ("Shape", "Size"):
            return [shape_of(call, inputs[0])]
        inputs = [settled(i) for i in inputs]
        symbolic = any(isinstance(i, Sizes) for i in inputs)
        if not inputs or any(isinstance(i, Runtime) for i in inputs) or not evaluates(call.op, symbolic):
            return None
        arrays = [i.array if isinstance(i, Sizes) else i.value if isinstance(i, Constant) else None for i in inputs]
        attributes = dict(call.attributes)
        assert self.builder.node is not None
        if call.op == "Split" and len(inputs) < 2:
            attributes["num_outputs"] = len(self.builder.node.outputs)
        try:
            with np.errstate(all="ignore"):
                results = evaluate(call.op, arrays, attributes)
        except TypeError:
            return None  # depends on a size in a way that only the run time can tell
        if not symbolic:
            weight = any(isinstance(i, Constant) and i.is_weight for i in inputs)
            outputs = self.builder.node.outputs
            return [Constant(r, o.name or "", weight) for r, o in zip(results, outputs, strict=False)]
        dtypes = [numpy_name(o.dtype) for o in self.builder.node.outputs]
        return [Sizes(r, d if d in STORED else "int64") for r, d in zip(results, dtypes, strict=False)]

    def _materialised(self, sizes: Sizes) -> Runtime | Constant:
        """Sizes as a tensor."""
        known = settled(sizes)
        if isinstance(known, Constant):
            return known
        items = [i if isinstance(i, Size) else int(i) for i in sizes.array.reshape(-1)]
        wire = self.builder.reshape(self.builder.shape(items), sizes.array.shape)
        wire = self.builder.cast(wire, sizes.dtype)
        return Runtime("sizes", sizes.array.shape, sizes.dtype, {layout.logical(sizes.array.ndim): wire})

    # -- what becomes operators --------------------------------------------------------------------------------------

    def _computed(self, call: Call, inputs: list[Value | None]) -> Sequence[Value | Stored]:
        node = self.builder.node
        if node is not None and node.domain == CUSTOM_DOMAIN:
            return custom(self.builder, node, [self._settled(i) for i in inputs], call.attributes)
        translator = translates.find(call.op, call.version)
        assert translator is not None
        expected = forms_of(translator.function).of(len(inputs))
        if len(inputs) > len(expected):
            raise ValueError(f"takes {len(expected)} inputs, the node has {len(inputs)}")
        arguments = [self._as(value, kind, i) for i, (value, kind) in enumerate(zip(inputs, expected, strict=False))]
        results = translator.function(self.builder, *arguments, **call.attributes)
        return results if isinstance(results, list) else [results]

    def _as(self, value: Value | None, form: Form, position: int) -> Any:
        """A value in the first of the forms that the translator takes."""
        if value is None:
            return None
        if Ints in form and (ints := ints_of(value)) is not None:
            return ints
        if isinstance(value, Sizes):
            value = self._materialised(value)
        if isinstance(value, Constant) and Constant in form:
            return value
        if Runtime in form:
            return self._lifted(value) if isinstance(value, Constant) else value
        raise Refused(f"its input {position} is computed while the model runs")

    def _settled(self, value: Value | None) -> Operand | None:
        """A value as a tensor."""
        return self._materialised(value) if isinstance(value, Sizes) else value

    def _lifted(self, constant: Constant) -> Runtime:
        """A constant for a translator that takes what is computed."""
        wire = self.builder.ask(constant)
        return Runtime(constant.name, constant.dims, constant.dtype, {layout.logical(constant.rank): wire})


def _dims(value: ir.Value) -> Dims | None:
    if value.shape is None:
        return None
    return tuple(d if isinstance(d := dim_of(dim), int) else None for dim in value.shape)


def _stand_in(output: ir.Value) -> Runtime:
    """What takes the place of a result that cannot be computed."""
    dims = _dims(output) or ()
    dtype = numpy_name(output.dtype)
    wire = Wire(output.name or "", dims, dtype if dtype in STORED else "float32")
    return Runtime(output.name or "", dims, dtype, {layout.logical(len(dims)): wire})
