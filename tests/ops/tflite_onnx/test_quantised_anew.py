"""Quantised files through torch into files that are made anew: the same integers, by the kernels of the original."""

import copy
import pickle
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

from mlconverter import Converter
from mlconverter.formats.tflite.model import TFLiteModel
from tests.ops.tflite_onnx.files import File
from tests.ops.tflite_onnx.test_quantised import CASES, Case, made, op, out, q

NATIVE = "CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED ADD SUB MUL LOGISTIC TANH SOFTMAX RELU RELU6 LEAKY_RELU HARD_SWISH".split()
"""Operators with integer kernels of their own, of 8 bits at least."""

ELSEWHERE = ("keeps dimensions", "beta", "SUB int16", "LOGISTIC int16", "TANH int16")
"""Parts of the names of cases that have none: ranks that are free by then, another factor, or no kernel of 16 bits."""


def first_of_each() -> list[Case]:
    """One case of each operator, and of each type of those that have kernels of their own."""
    found: dict[tuple[str, ...], Case] = {}
    for case in CASES:
        op, kind, *_ = [*case.id.split(), ""]
        found.setdefault((op, kind) if op in NATIVE else (op,), case)
    return list(found.values())


def anew(module: nn.Module, like: TFLiteModel) -> TFLiteModel:
    """A file that the engine makes of a module, compared with it on the way."""
    converter = Converter(module, input_shape=[(spec.concrete(), spec.dtype) for spec in like.signature.inputs])
    result = converter.to_tflite()
    assert converter.report.verdict in ("verified", "inconclusive")  # what goes into one saturated number moves nothing
    return result


def operators(model: TFLiteModel) -> Counter:
    return Counter(o.op for o in model.structure.subgraphs[0].operators)


@pytest.mark.parametrize("case", first_of_each(), ids=lambda case: case.id)
def test_anew(case: Case):
    original = TFLiteModel(made(case, 1))
    result = anew(Converter(original, verify=False).to_torch(), original)
    rng = np.random.default_rng(0)
    given = [_random(rng, spec.concrete(), spec.dtype) for spec in original.signature.inputs]
    pairs = [zip(model.signature.input_names, given, strict=True) for model in (original, result)]
    with original.runner() as was, result.runner() as now:
        want, got = (list(r.run(dict(p)).values()) for r, p in zip((was, now), pairs, strict=True))
    for before, after in zip(want, got, strict=True):
        assert after.dtype == before.dtype and after.shape == before.shape
        apart = np.abs(after.astype(np.float64) - before.astype(np.float64)).max()
        assert apart <= (2 * case.steps if before.dtype.kind in "iu" else 1e-5)
    if case.id.split()[0] in NATIVE and not any(part in case.id for part in ELSEWHERE):
        assert case.id.split()[0] in operators(result)
        assert not any(t.dtype == "float32" for t in result.structure.subgraphs[0].tensors)


def _random(rng: np.random.Generator, shape, dtype) -> np.ndarray:
    if np.dtype(dtype).kind not in "iu":
        return rng.normal(size=shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape).astype(dtype)


def two_layers() -> bytes:
    """A convolution with an activation, and a product of what that gives."""
    f, rng = File(), np.random.default_rng(0)
    x = f.input((1, 8), "int8", quantization=q(0.05, 5))
    y = x
    for rows, columns in ((16, 8), (4, 16)):
        scales = rng.uniform(0.005, 0.01, rows)
        w = f.constant(rng.integers(-127, 128, (rows, columns)), "int8", quantization=q(scales))
        b = f.constant(rng.integers(-500, 500, rows), "int32", quantization=q(0.05 * scales))
        y = op(f, "FULLY_CONNECTED", [y, w, b], "int8", out(f, "int8"), (1, rows))
    return f.finish(y)


def changed() -> tuple[TFLiteModel, nn.Module]:
    """A quantised network with a head of somebody's own in the place of its last layer, of other numbers than it had."""
    original = TFLiteModel(two_layers())
    module = Converter(original).to_torch()
    (*_, last) = (name for name, layer in module.named_modules() if isinstance(layer, nn.Linear))
    torch.manual_seed(0)
    module.set_submodule(last, nn.Linear(16, 3))
    return original, module


def test_a_new_head_is_left_as_it_is():
    original, module = changed()
    result = anew(module, original)
    assert result.signature.inputs[0].quantization == original.signature.inputs[0].quantization
    assert result.signature.outputs[0].quantization == original.signature.outputs[0].quantization
    assert operators(result) == {"FULLY_CONNECTED": 2, "DEQUANTIZE": 1, "QUANTIZE": 1}
    inside = [t for t in result.structure.subgraphs[0].tensors if t.shape == (3, 16)]
    (head,) = (result.structure.view(t) for t in inside)
    np.testing.assert_array_equal(head, module.get_parameter(list(dict(module.named_parameters()))[-2]).detach())


@pytest.mark.parametrize("how", ["copied", "saved", "wrapped", "trained"])
def test_what_people_do_to_modules(how):
    original = TFLiteModel(two_layers())
    module = Converter(original).to_torch()
    if how == "copied":
        module = copy.deepcopy(module)
    elif how == "saved":
        module = pickle.loads(pickle.dumps(module))
    elif how == "wrapped":
        module = nn.Sequential(module)
    else:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(0.77)
    result = anew(module, original)
    assert operators(result) == operators(original)
    x = _random(np.random.default_rng(0), (1, 8), "int8")
    with torch.no_grad():
        want = module(torch.from_numpy(x)).numpy().astype(int)
    assert np.abs(np.asarray(result(x)).astype(int) - want).max() <= 1
    assert (how == "trained") == bool(np.any(np.asarray(result(x)) != np.asarray(original(x))))


def test_what_is_not_rounded_stays_so():
    original = TFLiteModel(two_layers())
    module = Converter(original).to_torch()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(0.77)
    module.round_to_storage = False
    weights = [t for t in anew(module, original).structure.subgraphs[0].tensors if t.shape == (16, 8)]
    assert [t.dtype for t in weights] == ["float32"]


@pytest.mark.parametrize("opset", [18, 21])
def test_opsets(opset):
    """16 bits are quantised by operators from opset 21 on, and by arithmetic before."""
    case = next(case for case in CASES if case.id == "FULLY_CONNECTED int16")
    original = TFLiteModel(made(case, 1))
    converter = Converter(Converter(original).to_torch(), opset=opset, verify="full")
    kinds = {n.op_type for n in converter.to_onnx().graph.node}
    assert ("QuantizeLinear" in kinds) == (opset == 21) and converter.report.verdict == "verified"


def test_onnx_keeps_the_names_and_the_integers():
    original = TFLiteModel(two_layers())
    converter = Converter(original)
    module, plain = converter.to_torch(), converter.to_onnx()
    result = Converter(module, input_shape=[((1, 8), "int8")]).to_onnx()
    quantised = [{n.output[0] for n in m.graph.node if n.op_type == "QuantizeLinear"} for m in (plain, result)]
    outputs = {plain.graph.output[0].name, result.graph.output[0].name}
    assert quantised[0] - outputs == quantised[1] - outputs != set()
    weights = [sorted(i.data_type for i in m.graph.initializer if len(i.dims) == 2) for m in (plain, result)]
    assert weights[0] == weights[1]
