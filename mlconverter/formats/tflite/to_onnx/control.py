"""Branches and loops: the subgraphs that they run become graphs of a node, which read what they like from outside."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mlconverter.formats.tflite.layout import logical
from mlconverter.formats.tflite.to_onnx.builder import Builder, onnx_type
from mlconverter.formats.tflite.to_onnx.operands import Dims, Op, Operand, Runtime, Variable
from mlconverter.formats.tflite.to_onnx.ops import translates

Given = Operand | Variable


def _assigns_nothing(op: Op) -> str | None:
    """A check that refuses subgraphs that run themselves, and variables that are assigned in them."""
    waiting = list(op.bodies)
    for number in waiting:
        if op.model.subgraphs[number] is op.subgraph:
            return "a subgraph that runs itself"
        for inner in op.of(number):
            if inner.key == "ASSIGN_VARIABLE" or any(t is not None and t.is_variable for t in inner.inputs):
                return "a variable is assigned within a branch or a loop"
            waiting += [n for n in inner.bodies if n not in waiting]
    return None


@translates("CALL", 1, check=_assigns_nothing)
@translates("STABLEHLO_COMPOSITE", 1, check=_assigns_nothing)
def call(b: Builder, op: Op, *operands: Given) -> list[Given]:
    """CALL, STABLEHLO_COMPOSITE → what the subgraph consists of."""
    return b.inline(b, op.bodies[0], operands)


@translates("IF", 1, check=_assigns_nothing)
def if_(b: Builder, op: Op, condition: Operand, *operands: Given) -> list[Given]:
    """IF → If, its branches written out."""
    graphs, results = [], []
    for number in op.bodies:
        inner = b.nested()
        given = inner.inline(inner, number, [_inside(o) for o in operands])
        results.append([o for o in given if not isinstance(o, Variable)])
        graphs.append(inner.closed([], [inner.ask(o) for o in results[-1]]))
    values = b.emit_several("If", len(op.outputs), b.ask(condition), then_branch=graphs[0], else_branch=graphs[1])
    return [_result(value, *pair) for value, *pair in zip(values, *results, strict=True)]


def _result(value: ir.Value, one: Operand, other: Operand) -> Given:
    grid = one.grid if one.grid == other.grid else None
    return Runtime("", _common(one.dims, other.dims), one.dtype, {logical(one.rank): value}, grid)


@translates("WHILE", 1, check=_assigns_nothing)
def while_(b: Builder, op: Op, *operands: Given) -> list[Given]:
    """WHILE → Loop; what its body hands on as it is stays outside."""
    condition, body = op.bodies
    graph = op.model.subgraphs[body]
    carried = [i for i, (came, goes) in enumerate(zip(graph.inputs, graph.outputs, strict=True)) if came != goes]
    start = _scalar(b, b.inline(b, condition, operands)[0])
    inner = b.nested()
    given: list[Given] = [_inside(o) for o in operands]
    parameters = []
    for i in carried:
        tensor, operand = graph.tensors[graph.inputs[i]], operands[i]
        assert not isinstance(operand, Variable)
        dims = _common(_common(op.dims(tensor), op.dims(graph.tensors[graph.outputs[i]])), operand.dims)
        value = ir.Value(name=b.unique(tensor.name), shape=ir.Shape(dims), type=onnx_type(tensor.real_dtype))
        parameters.append(value)
        given[i] = Runtime(tensor.name, dims, tensor.real_dtype, {logical(len(dims)): value}, tensor.grid, None, tensor.dtype)
    results = inner.inline(inner, body, given)
    again = _scalar(inner, inner.inline(inner, condition, results)[0])
    step = ir.Value(name=b.unique("step"), shape=ir.Shape(()), type=onnx_type("int64"))
    going = ir.Value(name=b.unique("going"), shape=ir.Shape(()), type=onnx_type("bool"))
    kept = [_asked(inner, results[i]) for i in carried]
    whole = inner.closed([step, going, *parameters], [again, *kept])
    values = b.emit_several("Loop", len(carried), None, start, *(_asked(b, operands[i]) for i in carried), body=whole)
    made = list(operands)
    for i, value in zip(carried, values, strict=True):
        known = given[i]
        assert isinstance(known, Runtime)
        made[i] = Runtime("", known.dims, known.dtype, {logical(known.rank): value}, known.grid, None, known.stored_dtype)
    return made


def _inside(operand: Given) -> Given:
    return operand.seen_inside() if isinstance(operand, Runtime) else operand


def _asked(b: Builder, operand: Given) -> ir.Value:
    assert not isinstance(operand, Variable)
    return b.ask(operand)


def _scalar(b: Builder, condition: Given) -> ir.Value:
    value = _asked(b, condition)
    return b.emit("Squeeze", value) if condition.rank else value


def _common(one: Sequence[int | None], other: Sequence[int | None]) -> Dims:
    return tuple(a if a == c else None for a, c in zip(one, other, strict=True))
