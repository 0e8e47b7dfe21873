"""ONNX's own node cases as models with inputs and expected outputs."""

import re
import warnings
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import onnx
from onnx import numpy_helper

RANDOM = re.compile(r"test_bernoulli|test_training_dropout(?!_zero_ratio)")
"""Cases whose expected values are draws of another generator."""

Value = np.ndarray | list["Value"] | None
"""A tensor, a sequence, or an optional value that is absent."""


@dataclass(frozen=True)
class NodeCase:
    """One case: a model, its inputs in graph order, and what must come back."""

    name: str
    model: onnx.ModelProto
    inputs: list[Value]
    outputs: list[Value]
    rtol: float
    atol: float

    def with_constants(self) -> "NodeCase":
        """The same case with every input but the first as an initializer, which is how weights stand in real models."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for info, array in list(zip(model.graph.input, self.inputs, strict=True))[1:]:
            model.graph.initializer.append(numpy_helper.from_array(array, info.name))
        del model.graph.input[1:]
        return NodeCase(f"{self.name} const", model, self.inputs[:1], self.outputs, self.rtol, self.atol)


def node_cases() -> dict[str, NodeCase]:
    """All cases whose inputs and outputs are tensors, by name."""
    return {name: case for name, case in _cases().items() if _of_tensors(case.model)}


def structured_cases() -> dict[str, NodeCase]:
    """All cases with an input or output that is a sequence or an optional value, by name."""
    return {name: case for name, case in _cases().items() if not _of_tensors(case.model)}


@lru_cache(maxsize=1)
def _cases() -> dict[str, NodeCase]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    cases = {}
    for case in collected:
        if not case.data_sets or RANDOM.match(case.name):
            continue
        inputs, outputs = (_value(list(values)) for values in case.data_sets[0])
        cases[case.name] = NodeCase(case.name, case.model, inputs, outputs, case.rtol, max(case.atol, 1e-5))
    return cases


def _of_tensors(model: onnx.ModelProto) -> bool:
    return all(i.type.WhichOneof("value") == "tensor_type" for i in (*model.graph.input, *model.graph.output))


def _value(value) -> Value:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_value(v) for v in value]
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def difference(got: list[Value], case: NodeCase) -> str | None:
    """What is wrong with outputs; ``None`` where nothing is. Types that numpy lacks may come back as wider ones."""
    return _differs(got, case.outputs, case)


def _differs(got: Value, want: Value, case: NodeCase) -> str | None:
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"{len(got) if isinstance(got, list) else 'no list'} of values, not {len(want)}"
        return next((found for g, w in zip(got, want, strict=True) if (found := _differs(g, w, case))), None)
    if got is None or want is None:
        return None if got is want else "a value is absent"
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if hasattr(np, want.dtype.name) and got.dtype != want.dtype:
        return f"dtype {got.dtype}, not {want.dtype}"
    if got.dtype.kind in "iu" and want.dtype.kind in "iu" and np.array_equal(got, want):
        return None
    kind = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):  # a NaN of eight bits stays one
        wide, expected = got.astype(kind), want.astype(kind)
    return None if np.allclose(wide, expected, rtol=case.rtol, atol=case.atol, equal_nan=True) else "values"
