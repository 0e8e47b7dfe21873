"""ONNX's own node cases as models with inputs and expected outputs."""

import warnings
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import onnx
from onnx import numpy_helper

RANDOM = ("test_bernoulli", "test_training_dropout")
"""Cases whose expected values are draws of another generator."""


@dataclass(frozen=True)
class NodeCase:
    """One case: a model, its inputs in graph order, and what must come back."""

    name: str
    model: onnx.ModelProto
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
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


@lru_cache(maxsize=1)
def node_cases() -> dict[str, NodeCase]:
    """All cases whose inputs and outputs are tensors, by name."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    cases = {}
    for case in collected:
        if not case.data_sets or case.name.startswith(RANDOM):
            continue
        inputs, outputs = case.data_sets[0]
        infos = [*case.model.graph.input, *case.model.graph.output]
        arrays = [_array(value) for value in (*inputs, *outputs)]
        if any(a is None for a in arrays) or any(i.type.WhichOneof("value") != "tensor_type" for i in infos):
            continue
        cases[case.name] = NodeCase(
            case.name, case.model, arrays[: len(inputs)], arrays[len(inputs) :], case.rtol, max(case.atol, 1e-5)
        )
    return cases


def _array(value):
    if value is None or isinstance(value, (list, tuple)):
        return None
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def difference(got: list[np.ndarray], case: NodeCase) -> str | None:
    """What is wrong with outputs; ``None`` where nothing is. Types that numpy lacks may come back as wider ones."""
    if len(got) != len(case.outputs):
        return f"{len(got)} outputs, not {len(case.outputs)}"
    for g, want in zip(got, case.outputs, strict=True):
        if g.shape != want.shape:
            return f"shape {g.shape}, not {want.shape}"
        if hasattr(np, want.dtype.name) and g.dtype != want.dtype:
            return f"dtype {g.dtype}, not {want.dtype}"
        kind = np.complex128 if want.dtype.kind == "c" else np.float64
        if g.dtype.kind in "iu" and want.dtype.kind in "iu" and np.array_equal(g, want):
            continue
        with np.errstate(invalid="ignore"):  # a NaN of eight bits stays one
            wide, expected = g.astype(kind), want.astype(kind)
        if not np.allclose(wide, expected, rtol=case.rtol, atol=case.atol, equal_nan=True):
            return "values"
    return None
