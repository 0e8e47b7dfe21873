"""Whether an ONNX protobuf says something consistent, before anything relies on it.

What ``onnx.checker`` refuses and every reader copes with (nodes that stand in another order, say) is let pass; what
would be guessed at, or fail deep inside a conversion, is found here. The functions yield sentences, the most basic
problem first; whoever asks takes the first one, for later checks rely on earlier ones.
"""

from __future__ import annotations

import graphlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from mlconverter.hub import sparse
from mlconverter.hub.conformity import ELEMENT_TYPES, attributes_problem, schema_problem
from mlconverter.hub.nodes import DEFAULT_DOMAINS, schema
from mlconverter.hub.protobuf import PAYLOADS, messages, nbytes

if TYPE_CHECKING:
    import onnx


_ELEMENT_TYPES_OR_NONE = {*ELEMENT_TYPES, 0}
_TENSOR_TYPES = ("onnx.TypeProto.Tensor", "onnx.TypeProto.SparseTensor")


@dataclass(frozen=True)
class _Scope:
    """What can be used at a place in a model.

    Attributes:
        opsets: version of each operator set.
        functions: domain and name of the model's own functions.
        names: of values, those around a nested graph included.
        in_function: whether attributes can refer to those of a function.
    """

    opsets: Mapping[str, int]
    functions: frozenset[tuple[str, str]]
    names: frozenset[str] = frozenset()
    in_function: bool = False


def tensor_problems(proto: onnx.ModelProto) -> Iterator[str]:
    """What is wrong with texts, element types and tensors; of tensors that lie in other files, all but their elements."""
    seen: set[bytes] = set()

    def is_new(message: Any) -> bool:
        if message.DESCRIPTOR.name != "TypeProto":
            return True
        known, serialized = len(seen), message.SerializeToString()  # a model has far fewer types than values
        seen.add(serialized)
        return len(seen) > known

    for message in messages(proto, is_new):
        for name in _text_fields(message.DESCRIPTOR):
            value = getattr(message, name)
            if type(value) is not str and (type(value) is bytes or bytes in map(type, value)):
                yield f"{message.DESCRIPTOR.name}.{name} is {value!r}, which is no text in UTF-8"
        element_type = message.elem_type if message.DESCRIPTOR.full_name in _TENSOR_TYPES else 0
        if element_type not in _ELEMENT_TYPES_OR_NONE:
            yield f"the element type {element_type}, which a value is said to have, does not exist"
        problem = _tensor_problem(message) if message.DESCRIPTOR.name == "TensorProto" else None
        if problem is not None:
            yield f"tensor '{message.name}' {problem}"


@cache
def _text_fields(descriptor: Any) -> tuple[str, ...]:
    return tuple(f.name for f in descriptor.fields if f.type == f.TYPE_STRING)


def _tensor_problem(tensor: onnx.TensorProto) -> str | None:
    if tensor.data_type not in ELEMENT_TYPES:
        return f"has the element type {tensor.data_type}, which does not exist"
    if any(d < 0 for d in tensor.dims):
        return f"has the shape {list(tensor.dims)}"
    if tensor.HasField("segment"):
        return "is stored in segments, which nothing reads"
    if tensor.data_location == tensor.EXTERNAL:
        return None
    return _elements_problem(tensor)


def _elements_problem(tensor: onnx.TensorProto) -> str | None:
    from onnx.helper import tensor_dtype_to_field

    dtype, size = ir.DataType(tensor.data_type), math.prod(tensor.dims)
    what = f"{dtype.name.lower()}{list(tensor.dims)}"
    held = {name: count for name in PAYLOADS if (count := len(getattr(tensor, name)))}
    if len(held) > 1:
        return f"holds its elements more than once, in {' and '.join(held)}"
    if not held:
        return f"is {what} and holds no elements" if size else None
    ((name, count),) = held.items()
    if name not in ("raw_data", tensor_dtype_to_field(dtype.value)) or (name == "raw_data" and dtype is ir.DataType.STRING):
        return f"is {what} and holds its elements in {name}, where they do not belong"
    if name == "raw_data":
        wanted = nbytes(tensor)
    elif dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
        wanted = 2 * size
    elif dtype is not ir.DataType.STRING and dtype.bitwidth in (2, 4):  # several share an integer
        wanted = -(-size * dtype.bitwidth // 8)
    else:
        wanted = size
    if count != wanted:
        return f"is {what}, for which {name} has {count} instead of {wanted} {'bytes' if name == 'raw_data' else 'entries'}"
    if dtype.name.startswith("FLOAT6"):
        try:
            ir.serde.TensorProtoTensor(tensor).numpy()
        except ValueError as error:
            return f"is {what}: {error}"
    return None


def graph_problems(proto: onnx.ModelProto) -> Iterator[str]:
    """What is wrong with operator sets, names, the order of nodes, and nodes as the specification has them."""
    if not (proto.graph.node or proto.graph.output):
        yield "it has nothing in its graph"
    if not proto.opset_import:
        yield "it has no operator set"
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    for domain, version in ((_domain(e.domain), e.version) for e in proto.opset_import):
        if any(_domain(d) == domain and v != version for d, v in opsets.items()):
            yield f"it imports the operator set '{domain}' in several versions"
    opsets = {_domain(domain): version for domain, version in opsets.items()}
    yield from _repeated([f"{f.domain}::{f.name} {f.overload}".strip() for f in proto.functions], "there are several functions")
    for value in proto.graph.input:
        if not (value.type.tensor_type.elem_type or value.type.WhichOneof("value") not in (None, "tensor_type")):
            yield f"the input '{value.name}' has no element type"
    own = _Scope(opsets, frozenset((f.domain, f.name) for f in proto.functions))
    yield from _graph_problems(proto.graph, own)
    for function in proto.functions:
        theirs = {**opsets, **{_domain(entry.domain): entry.version for entry in function.opset_import}}
        yield from _function_problems(function, replace(own, opsets=theirs, in_function=True))
    yield from _recursion(proto.functions)


def _domain(domain: str) -> str:
    return "" if domain in DEFAULT_DOMAINS else domain


def _repeated(names: Iterable[str], what: str) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield f"{what} '{name}'"
        seen.add(name)


def _title(node: onnx.NodeProto) -> str:
    return f"{node.op_type} node '{node.name or next(filter(None, node.output), '')}'"


def _graph_problems(graph: onnx.GraphProto, scope: _Scope) -> Iterator[str]:
    inputs = [value.name for value in graph.input]
    constants = [t.name for t in (*graph.initializer, *(s.values for s in graph.sparse_initializer)) if t.name]
    made = [name for node in graph.node for name in node.output if name]
    if not all(inputs):
        yield "there is an input without a name"
    yield from _repeated(inputs, "there are several inputs")
    yield from _repeated(constants, "there are several initializers")
    yield from _repeated([*dict.fromkeys([*inputs, *constants]), *made], "more than one place defines the value")
    scope = replace(scope, names=scope.names.union(inputs, constants, made))
    for value in graph.output:
        if value.name not in scope.names:
            yield f"nothing computes the output '{value.name}'"
    yield from filter(None, map(sparse.problem, graph.sparse_initializer))
    yield from _node_problems(graph.node, scope)


def _function_problems(function: onnx.FunctionProto, scope: _Scope) -> Iterator[str]:
    where = f"function '{function.name}': "
    made = [name for node in function.node for name in node.output if name]
    scope = replace(scope, names=frozenset([*function.input, *made]))
    for problem in _repeated([*function.input, *made], "more than one place defines the value"):
        yield where + problem
    for name in function.output:
        if name not in scope.names:
            yield f"{where}nothing computes the output '{name}'"
    for problem in _node_problems(function.node, scope):
        yield where + problem


def _node_problems(nodes: Iterable[onnx.NodeProto], scope: _Scope) -> Iterator[str]:
    for node in nodes:
        for name in node.input:
            if name and name not in scope.names:
                yield f"{_title(node)} reads '{name}', which nothing computes"
        problem = _node_problem(node, scope)
        if problem is not None:
            yield f"{_title(node)} {problem}"
        for graph in _graphs(node):
            yield from _graph_problems(graph, scope)
    if _in_order(nodes):
        return
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    cycle = _cycle({i: {makers[name] for name in _reads(node) if name in makers} for i, node in enumerate(nodes)})
    if cycle:
        yield f"the nodes {', '.join(_title(list(nodes)[i]) for i in cycle)} wait for one another"


def _in_order(nodes: Iterable[onnx.NodeProto]) -> bool:
    """Whether each node reads nothing that it or one behind it gives."""
    waiting = {name for node in nodes for name in node.output if name}
    for node in nodes:
        if not waiting.isdisjoint(_reads(node)):
            return False
        waiting.difference_update(node.output)
    return True


def _node_problem(node: onnx.NodeProto, scope: _Scope) -> str | None:
    problem = attributes_problem(node, in_function=scope.in_function)
    domain = _domain(node.domain)
    if problem is not None or (node.domain, node.op_type) in scope.functions:
        return problem
    if domain not in scope.opsets:
        return "is of the standard operator set, which the model does not import" if domain == "" else None
    found = schema(node.op_type, domain, scope.opsets[domain])
    return None if found is None else schema_problem(node, found)


def _graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _nodes(holder: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph or function, those of their graphs included."""
    for node in holder.node:
        yield node
        for graph in _graphs(node):
            yield from _nodes(graph)


def _reads(node: onnx.NodeProto) -> set[str]:
    """Names that a node needs, those that its nested graphs take from around them included."""
    names = set(node.input)
    for graph in _graphs(node):
        inner = {value.name for value in graph.output}.union(*map(_reads, graph.node))
        made = [*graph.input, *graph.initializer, *(s.values for s in graph.sparse_initializer)]
        names |= inner.difference((value.name for value in made), *(n.output for n in graph.node))
    return names


def _cycle(needs: Mapping[Any, Iterable[Any]]) -> list[Any]:
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def _recursion(functions: Iterable[onnx.FunctionProto]) -> Iterator[str]:
    calls = {}
    for function in functions:
        called = [(n.domain, n.op_type, n.overload) for n in _nodes(function)]
        calls[function.domain, function.name, function.overload] = called
    cycle = _cycle({caller: [c for c in called if c in calls] for caller, called in calls.items()})
    if cycle:
        yield f"the functions {', '.join(name for _, name, _ in cycle)} call one another"
