"""The walk over the graph: refuse everything unsupported at once, then translate node by node."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import onnx_ir as ir
import torch
from torch import fx

from mlconverter.errors import TranslationError
from mlconverter.formats.torch.from_onnx import idioms, runtime, unsigned
from mlconverter.formats.torch.from_onnx.builder import Bodies, Builder, ints_of
from mlconverter.formats.torch.from_onnx.moved import moves, view_step
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.values import (
    DTYPES,
    Array,
    Const,
    Ints,
    Moved,
    Sizes,
    Tensor,
    UnknownAtConversion,
    Value,
    dtype_of,
    know,
    rank_of,
    shape_of,
)
from mlconverter.formats.torch.runner import VALUE_KEY
from mlconverter.hub.evaluate import evaluate, evaluates, object_array
from mlconverter.hub.forms import Form, forms_of
from mlconverter.hub.io import numpy_name
from mlconverter.hub.model import ROLE_KEY, WEIGHT_KEY
from mlconverter.hub.nodes import Call, call_of, opset_of, version_of


class Translation:
    """One walk over a graph of a normalised model.

    Args:
        model: the model.
        graph: its graph, or one of a node.
        builder: where the code is recorded.
        outer: the walk that met the node.
        states: name and position of the outputs that the next call is given, by the names of the inputs that they become.
    """

    def __init__(
        self,
        model: ir.Model,
        graph: ir.Graph,
        builder: Builder,
        outer: Translation | None = None,
        states: Mapping[str, tuple[str, int]] | None = None,
    ) -> None:
        self.model, self.graph, self.builder, self.outer = model, graph, builder, outer
        self.states = states or {}
        self.values: dict[ir.Value, Value] = {}
        self.merged: set[ir.Node] = set()
        self._operands: dict[fx.Node, tuple[fx.Proxy, fx.Proxy]] = {}  # what is read from outside: there, and here
        builder.bodies = self._bodies

    def run(self) -> None:
        """Record the whole graph: placeholders, nodes, output."""
        for value in self.graph.inputs:
            if value.name in self.graph.initializers or value.name in self.states:
                continue
            placeholder = self._known(self._placeholder(_identifier(value.name or "input")), value)
            if self.builder.first_input is None and not isinstance(value.type, (ir.SequenceType, ir.OptionalType)):
                self.builder.first_input = placeholder
            self.values[value] = placeholder if self.outer is not None else self._checked(placeholder, value)
        kept = {value.name: value for value in self.graph.inputs if value.name in self.states}
        for name, value in kept.items():
            self.values[value] = self._known(self.builder.state(name or "", value, self.states[name or ""][0]), value)
        for node in self.graph:
            self._translate(node)
        # By position: a value may be two outputs, which have one name then.
        for name, (_, position) in self.states.items():
            self.builder.keep(name, self.builder.tensor(self.value(self.graph.outputs[position])))
        kept_places = {position for _, position in self.states.values()}
        given = [output for i, output in enumerate(self.graph.outputs) if i not in kept_places]
        results = tuple(self.builder.tensor(self.value(output)).node for output in given)
        self.builder.graph.output(results if len(results) != 1 or self.outer is not None else results[0])
        # Nothing that is recorded has a side effect; what no output needs can go.
        impure = {"placeholder", "output"}
        kept_paths = self.builder.states.values()
        self.builder.graph.eliminate_dead_code(lambda node: node.op in impure or node.target in kept_paths)

    def _placeholder(self, name: str) -> fx.Proxy:
        placeholder = self.builder.tracer.create_proxy("placeholder", name, (), {})
        # The graph makes the node's name unique and legal; under another one the argument could hide a value.
        placeholder.node.target = placeholder.node.name
        return placeholder

    def _bodies(self, graphs: dict[str, ir.Graph]) -> Bodies:
        """Graphs of the current node as parts of the module, all of which take the same operands."""
        walks = [Translation(self.model, graph, Builder(self.builder), self) for graph in graphs.values()]
        for walk in walks:
            walk.run()
        operands = {there.node: there for walk in walks for there, _ in walk._operands.values()}
        for walk in walks:
            first = next(node for node in walk.builder.graph.nodes if node.op != "placeholder")
            for there in operands.values():
                first.prepend(walk._operand(there).node)
        parts = tuple(self.builder.part(walk.builder, name) for name, walk in zip(graphs, walks, strict=True))
        return Bodies(parts, tuple(operands.values()))

    def _from_outside(self, value: Value) -> Value:
        """A value of the graph around this one: a constant is read here too, anything else becomes an operand."""
        value = value.record() if isinstance(value, Moved) else value
        if isinstance(value, Const):
            return value
        if isinstance(value, Sizes):
            items = [self._operand(i) if isinstance(i, fx.Proxy) else i for i in value.array.reshape(-1)]
            return Sizes(object_array(items).reshape(value.array.shape), value.dtype)
        return know(self._operand(cast(fx.Proxy, value)), shape_of(value), dtype_of(value))

    def _operand(self, there: fx.Proxy) -> fx.Proxy:
        if there.node not in self._operands:
            graph = self.builder.graph
            first = next((node for node in graph.nodes if node.op != "placeholder"), None)
            with nullcontext() if first is None else graph.inserting_before(first):
                self._operands[there.node] = there, self._placeholder(there.node.name)
        return self._operands[there.node][1]

    def _checked(self, placeholder: Tensor, value: ir.Value) -> Tensor:
        """An input, held to its batch where the model fixes it."""
        if value.dtype is ir.DataType.STRING and value.uses():
            raise TranslationError(value.name or "", "graph", f"the input '{value.name}' holds strings, which torch has not")
        size = value.shape[0] if value.shape and isinstance(value.type, ir.TensorType) else None
        if not isinstance(size, int):
            return placeholder
        return self._known(self.builder.call(runtime.fixed_batch, placeholder, value.name or "", size), value)

    def value(self, value: ir.Value) -> Value:
        """The translated value, a constant's on first use."""
        known = self.values.get(value)
        if known is None:
            if value.const_value is not None:
                weight, role = (value.metadata_props.get(key) for key in (WEIGHT_KEY, ROLE_KEY))
                known = Const(value.const_value.numpy(), value.name or "", weight, (), role)
            elif self.outer is not None:
                known = self._from_outside(self.outer.value(value))
            else:
                raise TranslationError(value.name or "", "graph", f"value '{value.name}' is used before anything computes it")
            self.values[value] = known
        return known

    def _translate(self, node: ir.Node) -> None:
        call = self.call(node)
        self.builder.node = node
        inputs = [self._input(i) for i in call.inputs]
        try:
            results = (
                self._shapes(call, inputs) or self._views(call, inputs) or self._moved(call, inputs) or self._record(call, inputs)
            )
        except UnknownAtConversion as error:
            raise TranslationError(_name(node), call.op, f"{error}") from error
        except (TypeError, ValueError, RuntimeError, IndexError, KeyError, ArithmeticError) as error:
            raise TranslationError(_name(node), call.op, f"{type(error).__name__}: {error}") from error
        for output, result in zip(node.outputs, results, strict=False):
            if isinstance(result, Tensor):
                result = self._known(result, output)
            self.values.setdefault(output, result)

    def call(self, node: ir.Node) -> Call:
        """A node in the calling form of the newest opset."""
        return call_of(node, opset_of(node, self.model.opset_imports), version_of(node, self.model.opset_imports) or 0)

    def _input(self, value: ir.Value | Array | None) -> Value | None:
        if value is None:
            return None
        return Const(value, "") if isinstance(value, np.ndarray) else self.value(value)

    @staticmethod
    def _known(tensor: Tensor | fx.Proxy, value: ir.Value) -> Tensor:
        node = cast(fx.Proxy, tensor).node
        if VALUE_KEY not in node.meta:
            node.meta[VALUE_KEY] = value.name
            if value.name and node.op != "placeholder":
                node._rename(_identifier(value.name.strip("/_")))
        shape = None if value.shape is None else tuple(d if isinstance(d, int) else None for d in value.shape)
        return know(tensor, shape, DTYPES.get(numpy_name(value.dtype)))

    # -- what never becomes a tensor ---------------------------------------------------------------------------------

    def _shapes(self, call: Call, inputs: list[Value | None]) -> list[Value] | None:
        """Sizes, and integer arithmetic on them."""
        if call.op in ("Shape", "Size"):
            return [self._shape(call, inputs[0])]
        if not any(isinstance(i, Sizes) for i in inputs) or not evaluates(call.op, symbolic=True):
            return None
        if not all(i is None or isinstance(i, Sizes) or (isinstance(i, Const) and i.weight is None) for i in inputs):
            return None
        arrays = [i.array if isinstance(i, Sizes) else i.value if isinstance(i, Const) else None for i in inputs]
        assert self.builder.node is not None
        try:
            results = evaluate(call.op, arrays, call.attributes)
        except TypeError:
            return None  # depends on a free size in a way that only the run time can tell
        dtypes = [numpy_name(o.dtype) for o in self.builder.node.outputs]
        return [Sizes(r, d if d in DTYPES else "int64") for r, d in zip(results, dtypes, strict=False)]

    def _shape(self, call: Call, of: Value | None) -> Value:
        of = of.record() if isinstance(of, Moved) else of
        if isinstance(of, Tensor) and rank_of(of) is None:
            bounds = call.attributes.get("start", 0), call.attributes.get("end")
            return know(self.builder.call(runtime.size if call.op == "Size" else runtime.shape, of, *bounds), None, torch.int64)
        if isinstance(of, Tensor):
            items = list(of.shape)
        else:
            assert of is not None
            items = list((of.array if isinstance(of, Sizes) else of.value).shape)
        if call.op == "Size":
            return Sizes(object_array([math.prod(items)]).reshape(()))
        return Sizes(object_array(items)[call.attributes.get("start", 0) : call.attributes.get("end")])

    def _views(self, call: Call, inputs: list[Value | None]) -> list[Value] | None:
        """Moving the axes of a weight is a step of its way, not something to compute."""
        const = inputs[0] if inputs else None
        if not isinstance(const, Const) or const.weight is None or any(isinstance(i, (Tensor, Sizes)) for i in inputs):
            return None
        step = view_step(call, const, [i for i in inputs[1:] if isinstance(i, Const)])
        return None if step is None else [const.seen(step)]

    def _moved(self, call: Call, inputs: list[Value | None]) -> list[Value] | None:
        """What is made of constants alone waits until something computes with it; a layer may see through it."""
        constants = tuple(i for i in inputs if i is None or isinstance(i, (Const, Moved)))
        if len(constants) < len(inputs) or not moves(call, constants):
            return None
        node, recorded = self.builder.node, list[Tensor]()
        assert node is not None

        def record(output: int) -> Tensor:
            if not recorded:
                reader, self.builder.node = self.builder.node, node
                results = zip(self._record(call, inputs), node.outputs, strict=False)
                recorded.extend(self._known(cast("Tensor", result), value) for result, value in results)
                self.builder.node = reader
            return recorded[output]

        count = len(node.outputs)
        return [Moved(call, constants, i, count, partial(record, i)) for i in range(count)]

    # -- what becomes code -------------------------------------------------------------------------------------------

    def _record(self, call: Call, inputs: list[Value | None]) -> list[Value]:
        assert self.builder.node is not None
        if self.builder.node in self.merged:
            return []
        translator = translates.find(call.op, call.version)
        assert translator is not None
        idiom = idioms.recognise(self, self.builder.node)
        if idiom is not None:
            return [idiom]
        expected = forms_of(translator.function).of(len(inputs))
        if len(inputs) > len(expected):
            raise ValueError(f"takes {len(expected)} inputs, the node has {len(inputs)}")
        arguments = [self._as(value, kind, i) for i, (value, kind) in enumerate(zip(inputs, expected, strict=False))]
        results = unsigned.through_signed(self.builder, call.op, translator.function, arguments, call.attributes)
        if isinstance(results, Merged):
            for reader in results.readers:
                self.merged.add(reader)
                self.values[reader.outputs[0]] = self._known(results.result, reader.outputs[0])
            return [results.result]
        return list(results) if isinstance(results, (list, tuple)) else [results]

    def _as(self, value: Value | None, form: Form, position: int) -> Any:
        """A value in the first of the forms that the translator takes."""
        if value is None:
            return None
        if isinstance(value, (Const, Moved)) and type(value) in form:
            return value
        if Ints in form and (ints := ints_of(value)) is not None:
            return ints
        if Tensor in form:
            return self.builder.tensor(value)
        raise UnknownAtConversion(f"input {position} is computed while the model runs; this translator needs it before")


@dataclass(frozen=True)
class Merged:
    """What a translator returns that has translated all readers of its node along with it.

    Attributes:
        result: the value of the readers' first output.
        readers: the nodes that need no translation any more.
    """

    result: Tensor
    readers: tuple[ir.Node, ...]


def _name(node: ir.Node) -> str:
    """What a node is called: its name, or that of its first output, which always has one."""
    return node.name or next((o.name for o in node.outputs if o.name), "")


def _identifier(name: str) -> str:
    clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return clean if clean and not clean[0].isdigit() and clean not in _MEANT_OTHERWISE else f"input_{clean}"


_MEANT_OTHERWISE = ("self", "runtime", "torch", "nn", "F", "math", "operator", "device")
"""What recorded code calls something else."""
