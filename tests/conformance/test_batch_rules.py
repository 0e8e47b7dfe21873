"""Where a rule says that items of a batch stay apart, they do: on the specification's own cases, along every axis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx.backend.test.case.node import collect_testcases

from mlconverter.hub import batch_layers, batch_ml, batch_rules  # noqa: F401
from mlconverter.hub.batch_axis import RULES, Batch, Mixes, Op, follow
from mlconverter.hub.nodes import call_of, opset_of, version_of

ITEMS = 3
MOST_PLACES = 60
SAYS_HOW_MANY = ("Shape", "Size")
"""Their results say how large a batch is, and nothing of its items."""

LEFT_OUT = {"Reshape": "its target is adapted to the batch first", "Dropout": "draws"}


LEAST = 125
"""Of so many operators some case says that items stay apart; the others mix them, or do not run here."""


def cases() -> dict[str, list]:
    """Cases of single nodes by operator, of those that have a rule."""
    found: dict[str, list] = {}
    for case in collect_testcases(None):
        nodes = case.model.graph.node
        if len(nodes) != 1 or case.name.endswith("_expanded"):
            continue
        name = f"{nodes[0].domain}::{nodes[0].op_type}" if nodes[0].domain else nodes[0].op_type
        if name in RULES.keys() - LEFT_OUT:
            found.setdefault(name, []).append(case)
    return found


def session(model: onnx.ModelProto) -> ort.InferenceSession | None:
    """The model with inputs of any shape, ``None`` where ONNX Runtime does not take it."""
    free = onnx.ModelProto()
    free.CopyFrom(model)
    for value in (*free.graph.input, *free.graph.output):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        return ort.InferenceSession(free.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # ONNX Runtime raises classes of its own, one for each status, without a common base
        return None


def places(arrays: dict[str, np.ndarray]) -> Iterator[dict[str, int]]:
    """Axes along which some of the inputs could have a batch: equally long ones."""
    names = list(arrays)[:4]
    for count in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, count):
            for axes in itertools.islice(itertools.product(*(range(arrays[n].ndim) for n in chosen)), MOST_PLACES):
                sizes = {arrays[n].shape[a] for n, a in zip(chosen, axes, strict=True)}
                if len(sizes) == 1 and sizes != {0}:
                    yield dict(zip(chosen, axes, strict=True))


def item(arrays: dict[str, np.ndarray], batch: dict[str, int], number: int) -> dict[str, np.ndarray]:
    """One item: a slice of each input that has the batch, made a little different from the other items."""
    made = dict(arrays)
    for name, axis in batch.items():
        value = np.take(arrays[name], [number % arrays[name].shape[axis]], axis=axis)
        made[name] = (value * (1 + 0.3 * number)).astype(value.dtype) if value.dtype.kind == "f" else value
    return made


def op_of(node: ir.Node, opsets: dict[str, int], given: dict[str, np.ndarray], batch: dict[str, int], results: dict) -> Op:
    """The operator as the walk over a graph would see it; what has no batch is constant."""
    call = call_of(node, opset_of(node, opsets), version_of(node, opsets) or 0)
    inputs = tuple(
        v
        if not isinstance(v, ir.Value)
        else ir.Value(name=v.name, const_value=None if v.name in batch else ir.tensor(given[v.name]))
        for v in call.inputs
    )
    arrays = [given[v.name] if isinstance(v, ir.Value) else v for v in inputs]
    return Op(
        replace(call, inputs=inputs),
        tuple(Batch(batch[v.name]) if isinstance(v, ir.Value) and v.name in batch else None for v in inputs),
        tuple(None if a is None else a.shape for a in arrays),
        tuple(results[o.name].shape if o.name in results else None for o in node.outputs),
    )


def compared(case) -> int:
    """For how many places of the batch a rule says that items stay apart, each of them held against single runs."""
    runner, model = session(case.model), ir.from_proto(case.model)
    node = model.graph[0]
    arrays = dict(zip((v.name for v in model.graph.inputs), case.data_sets[0][0], strict=False))
    if runner is None or any(not isinstance(a, np.ndarray) or a.dtype == object for a in arrays.values()):
        return 0
    names, count = [o.name for o in runner.get_outputs()], 0
    for batch in places(arrays):
        items = [item(arrays, batch, number) for number in range(ITEMS)]
        try:
            singles = [dict(zip(names, runner.run(None, given), strict=True)) for given in items]
        except Exception:  # as above
            continue  # one slice of these inputs is nothing that the operator takes
        if not all(isinstance(v, np.ndarray) for v in singles[0].values()):
            continue
        try:
            found = follow(op_of(node, model.opset_imports, items[0], batch, singles[0]))
        except Mixes:
            continue
        axes = {o.name: b for o, b in zip(node.outputs, found, strict=True) if o.name in names}
        if any(b is not None and singles[0][n].shape[b.axis] != b.rows for n, b in axes.items()):
            continue  # the walk over a graph refuses this
        joined = {**arrays, **{n: np.concatenate([i[n] for i in items], axis) for n, axis in batch.items()}}
        together = dict(zip(names, runner.run(None, joined), strict=True))
        count += 1
        for name, where in axes.items():
            if node.op_type not in SAYS_HOW_MANY:
                parts = [s[name] for s in singles]
                want = parts[0] if where is None else np.concatenate(parts, where.axis)
                np.testing.assert_allclose(together[name], want, 1e-3, 1e-4, err_msg=f"{case.name}: {batch} → {where}")
    return count


def test_what_is_said_to_keep_items_apart_does() -> None:
    tried = {op: sum(compared(case) for case in found) for op, found in cases().items()}
    assert sum(map(bool, tried.values())) >= LEAST, sorted(op for op, count in tried.items() if not count)
