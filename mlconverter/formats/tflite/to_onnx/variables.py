"""Variables: what a file keeps from call to call comes in as an input of the graph and goes out as an output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mlconverter.formats.tflite.structure import NUMPY_DTYPES, Array, Model, Operator, Subgraph, Tensor
from mlconverter.formats.tflite.to_onnx.builder import Builder
from mlconverter.formats.tflite.to_onnx.operands import Op, Operand, Variable
from mlconverter.formats.tflite.to_onnx.ops import translates
from mlconverter.hub.states import state_names
from mlconverter.signature import Dim, TensorSpec

if TYPE_CHECKING:
    from mlconverter.formats.tflite.to_onnx.translate import File

HANDLING = frozenset("VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE IF WHILE CALL".split())
"""Operators that take or give handles."""


@dataclass(frozen=True)
class State:
    """A variable that calls leave something in.

    Attributes:
        key: by which translators know it: its name, or the number of the tensor that holds it.
        tensor: that holds what it is.
        input: of the graph, by which it comes in.
        output: of the graph, by which it goes out.
        initial: what it is before the first call.
    """

    key: str | int
    tensor: Tensor
    input: TensorSpec
    output: TensorSpec
    initial: Array


def states_of(file: File, number: int, b: Builder) -> list[State]:
    """The states of a subgraph; variables that no call assigns become constants.

    Args:
        file: the file.
        number: of the subgraph.
        b: knows what is called what, and gets the constants.
    """
    model = file.model
    ops = [op for reached in file.reached(number) for op in file.ops(reached)]
    initial = {name: tensor for _, name, tensor in _initialised(model, ops)}
    found = []
    for name, held in _variables(model, ops).items():
        if any(o.op == "ASSIGN_VARIABLE" for o, _ in held):
            found.append(_state(file, b, name, name, held[0][1], model.view(initial[name])))
        else:
            b.variables[name] = file.constant(initial[name])
    for tensor in {t.index: t for op in ops for t in op.inputs if t is not None and t.is_variable}.values():
        # LiteRT sets 8-bit ones to what stands for zero, and all others to zero bits.
        zero = tensor.grid.zero_point[0] if tensor.grid is not None and tensor.dtype == "int8" else 0
        initial_value = np.full(tensor.shape, zero, tensor.dtype)
        found.append(_state(file, b, tensor.index, tensor.name or f"state_{tensor.index}", tensor, initial_value))
    return found


def _state(file: File, b: Builder, key: str | int, name: str, tensor: Tensor, initial: Array) -> State:
    came, goes = (b.unique(n) for n in state_names(name))
    shape: tuple[Dim, ...] = tensor.shape
    if file.free_batch and shape[:1] == (1,):
        shape = ("batch", *shape[1:])
    spec = TensorSpec(came, shape, tensor.dtype, quantization=tensor.grid)
    return State(key, tensor, spec, replace(spec, name=goes), initial)


def _variables(model: Model, ops: Iterable[Op]) -> dict[str, list[tuple[Operator, Tensor]]]:
    """By name: the operators that read or assign a variable, each with the tensor that has its value."""
    found: dict[str, list[tuple[Operator, Tensor]]] = {}
    for subgraph in {id(op.subgraph): op.subgraph for op in ops}.values():
        for operator, name in _named(subgraph):
            index = operator.outputs[0] if operator.op == "READ_VARIABLE" else operator.inputs[1]
            found.setdefault(name, []).append((operator, subgraph.tensors[index]))
    return found


def _named(subgraph: Subgraph) -> list[tuple[Operator, str]]:
    """The operators of a subgraph that read or assign a variable of it, and the variable's name."""
    names = {o.outputs[0]: _name(o) for o in subgraph.operators if o.op == "VAR_HANDLE"}
    using = (o for o in subgraph.operators if o.op in ("READ_VARIABLE", "ASSIGN_VARIABLE"))
    return [(o, names[o.inputs[0]]) for o in using if o.inputs[0] in names]


def _name(handle: Operator) -> str:
    return "/".join(part.decode() for part in (handle.options.container, handle.options.sharedName) if part)


def _initialised(model: Model, ops: Iterable[Op]) -> list[tuple[Operator, str, Tensor]]:
    """What subgraphs that run once assign: the operator, the variable's name, and the tensor of its value."""
    once = [model.subgraphs[op.options.initSubgraphIndex] for op in ops if op.key == "CALL_ONCE"]
    return [(o, name, graph.tensors[o.inputs[1]]) for graph in once for o, name in _named(graph) if o.op == "ASSIGN_VARIABLE"]


# Refusals


def _only_assigns(op: Op) -> str | None:
    graph = op.model.subgraphs[op.options.initSubgraphIndex]
    others = sorted({o.op for o in graph.operators} - {"VAR_HANDLE", "ASSIGN_VARIABLE"})
    if others:
        return f"what runs once does more than assign constants: {', '.join(others)}"
    values = [tensor for _, _, tensor in _initialised(op.model, [op])]
    missing = next((t for t in values if not op.model.is_constant(t) or t.dtype not in NUMPY_DTYPES), None)
    return None if missing is None else f"what runs once assigns '{missing.name}', which is no constant"


def _has_a_value(op: Op) -> str | None:
    name = _name(op.operator)
    everywhere = [Op(op.model, graph, o) for graph in op.model.subgraphs for o in graph.operators]
    if any(known == name for _, known, _ in _initialised(op.model, everywhere)):
        return None
    return f"the variable '{name}' has no value before the first call"


def _has_a_name(op: Op) -> str | None:
    if op.operator in [o for o, _ in _named(op.subgraph)]:
        return None
    return "its variable is handed to it from outside of its subgraph"


# Translators


@translates("CALL_ONCE", 1, check=_only_assigns)
def call_once(b: Builder, op: Op) -> list[Operand]:
    """CALL_ONCE → nothing: variables come in with their first values."""
    return []


@translates("VAR_HANDLE", 1, check=_has_a_value)
def var_handle(b: Builder, op: Op) -> Variable:
    """VAR_HANDLE → nothing: variables are values of the graph."""
    return Variable(_name(op.operator))


@translates("READ_VARIABLE", 1, check=_has_a_name)
def read_variable(b: Builder, op: Op, handle: Variable) -> Operand:
    """READ_VARIABLE → the variable's present value."""
    return b.variables[handle.name]


@translates("ASSIGN_VARIABLE", 1, check=_has_a_name)
def assign_variable(b: Builder, op: Op, handle: Variable, value: Operand) -> Sequence[Operand]:
    """ASSIGN_VARIABLE → the value that is read from now on, and goes out in the end."""
    b.variables[handle.name] = value
    return []


def assign(b: Builder, op: Op, position: int, value: Operand) -> None:
    """Let a tensor that an operator keeps from call to call be a value from now on."""
    b.variables[op.tensor(position).index] = value
