"""Half precision in a graph: what it computes, what stays in single precision, and that TensorRT builds it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from mlconverter.formats.trt.half import to_half
from mlconverter.formats.trt.newer import raise_opset
from mlconverter.hub.io import load_model, to_proto
from mlconverter.hub.normalise import normalise
from tests import zoo
from tests.unit.trt.building import built, checked, distance, exported, graph, outputs, refusal

HALF, BRAIN, SINGLE = ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT


@dataclass(frozen=True)
class Case:
    """A graph of one input of numbers.

    Attributes:
        text: the graph.
        single: operators that compute in single precision; the others do in half.
        casts: how many Casts there are.
        note: what the notes say.
        dtype: the half.
        input: what it is run on.
    """

    text: str
    single: str = ""
    casts: int = 2
    note: str = ""
    dtype: ir.DataType = HALF
    input: np.ndarray = field(default_factory=lambda: np.random.default_rng(0).standard_normal((2, 8), np.float32) * 3)


_WEIGHTS = ", ".join(f"{v:.3f}" for v in np.random.default_rng(1).standard_normal(64) * 0.5)


def _of(body: str, constants: str = "", given: str = "float[n,8] x", gives: str = "float[n,8] y") -> str:
    """A graph that may multiply by ``w``, which is what half is for."""
    return f"g ({given}) => ({gives}) <float[8,8] w = {{{_WEIGHTS}}}{constants}> {{ {body} }}"


CASES = {
    "all": Case(_of("r = MatMul(x, w) s = Sigmoid(r) y = MatMul(s, w)")),
    "cheap from end to end": Case(_of("r = Relu(x) s = Sigmoid(r) y = Add(s, r)"), "Relu Sigmoid Add", 0),
    "softmax": Case(_of("r = MatMul(x, w) s = Softmax(r) y = MatMul(s, w)"), "Softmax", 4),
    "softmax at the end": Case(_of("r = MatMul(x, w) y = Softmax(r)"), "Softmax", 2),
    "softmax at both ends": Case(_of("t = Neg(x) y = Softmax(t)"), "Neg Softmax", 0),
    "no casts between": Case(_of("r = MatMul(x, w) s = Softmax(r) t = Neg(s) u = Exp(t) y = MatMul(u, w)"), "Softmax Neg Exp", 4),
    "one cast for two": Case(
        _of("r = MatMul(x, w) s = Softmax(r) e = Exp(r) t = MatMul(s, w) u = MatMul(s, w) v = Mul(t, u) y = Mul(v, e)"),
        "Softmax Exp Mul",
        4,
    ),
    "layer norm": Case(
        _of("r = MatMul(x, w) l = LayerNormalization(r, s) y = MatMul(l, w)", ", float[8] s = {1,2,3,4,5,6,7,8}"),
        "LayerNormalization",
        4,
    ),
    "layer norm in parts": Case(
        _of(
            "r = MatMul(x, w) m = ReduceMean(r, a) d = Sub(r, m) p = Pow(d, two) v = ReduceMean(p, a) u = Add(v, e) "
            "q = Sqrt(u) z = Div(d, q) y = MatMul(z, w)",
            ", int64[1] a = {-1}, float two = {2}, float e = {1e-12}",
        ),
        "Pow ReduceMean Add Sqrt Div",
        4,
        "'e' of Add",
    ),
    "mask": Case(
        _of("r = MatMul(x, w) s = Add(r, m) t = Softmax(s) y = MatMul(t, w)", ", float[8] m = {0,0,0,-3.4e38,0,0,0,-1e38}"),
        "Add Softmax",
        4,
        "'m' of Add",
    ),
    "mask that is used in half": Case(
        _of("r = MatMul(x, w) s = Add(r, m) t = Sigmoid(s) y = MatMul(t, w)", ", float[8] m = {0,0,0,-3.4e38,0,0,0,-1e38}"),
        "Add Clip",
        4,
        "'m' of Add",
    ),
    "epsilon": Case(
        _of("r = MatMul(x, w) q = Relu(r) s = Add(q, e) t = Div(q, s) y = MatMul(t, w)", ", float e = {1e-12}"),
        "Add Div",
        4,
        "'e' of Add",
    ),
    "small bias": Case(_of("r = MatMul(x, w) s = Add(r, b) y = MatMul(s, w)", ", float[8] b = {1e-9,0,0,0,0,0,0,-2e-9}")),
    "limits": Case(_of("r = MatMul(x, w) c = Clip(r, l, h) y = MatMul(c, w)", ", float l = {0}, float h = {3.4e38}")),
    "short sum": Case(
        _of("r = MatMul(x, w) s = ReduceSum(r, a) y = Mul(s, r)", ", int64[1] a = {-1}"),
    ),
    "long sum": Case(
        _of("r = MatMul(w, x) s = ReduceSum(r, a) y = MatMul(w, s)", ", int64[1] a = {-1}", "float[8,300] x", "float[8,1] y"),
        "ReduceSum",
        4,
        input=np.full((8, 300), 0.1, np.float32),
    ),
    "positions": Case(
        _of(
            "i = Cast<to = 7>(x) p = Cast<to = 1>(i) a = Mul(p, f) c = Cos(a) y = MatMul(c, w)",
            ", float[8] f = {1,0.5,0.25,0.1,0.05,0.01,0.005,0.001}",
        ),
        "Cast Cast Mul Cos",
        2,
        input=np.full((1, 8), 3001.0, np.float32),
    ),
    "resize": Case(
        _of(
            "r = MatMul(x, w) q = Reshape(r, t) u = Resize(q, , s) v = Reshape(u, k) y = MatMul(v, w)",
            ", float[4] s = {1,1,2,1}, int64[4] t = {0,1,1,-1}, int64[2] k = {-1,8}",
            gives="float[m,8] y",
        ),
    ),
    "two outputs": Case(_of("y = MatMul(x, w) z = Sigmoid(y)", gives="float[n,8] y, float[n,8] z"), casts=3),
    "an input as an output": Case(_of("y = MatMul(x, w) s = Neg(x)", gives="float[n,8] y, float[n,8] s"), "Neg", 2),
    "comparison": Case(_of("r = MatMul(x, w) b = Greater(r, c) s = Where(b, r, c) y = MatMul(s, w)", ", float c = {0.5}")),
    "graphs of nodes": Case(
        _of(
            "r = MatMul(x, w) t = ReduceMax<keepdims = 0>(r) b = Greater(t, c) s = If (b) <then_branch = "
            "one () => (float[n,8] o) { o = Add(r, c) }, else_branch = two () => (float[n,8] p) { p = Sub(r, c) }> "
            "y = MatMul(s, w)",
            ", float c = {0.5}",
        ),
        "If",
        4,
    ),
    "steps of a grid": Case(
        _of(
            "r = MatMul(x, w) d = Div(r, s) i = Round(d) c = Clip(i, l, h) e = Mul(c, s) y = MatMul(e, w)",
            ", float s = {0.001}, float l = {-32768}, float h = {32767}",
        ),
        "Div Round Clip Mul",
        4,
    ),
    "brain": Case(_of("r = MatMul(x, w) s = Softmax(r) y = MatMul(s, w)"), "Softmax", 4, dtype=BRAIN),
}


def operators(model: ir.Model, dtype: ir.DataType) -> str:
    """What takes or gives numbers of a type, but for Casts between single precision and half."""
    halves = {HALF, BRAIN, SINGLE}
    found = []
    for node in model.graph:
        ends = [v.dtype for v in (*node.inputs[:1], *node.outputs)]
        if dtype in ends and not (node.op_type == "Cast" and halves.issuperset(ends)):
            found.append(node.op_type)
    return " ".join(found)


@pytest.mark.parametrize("name", CASES)
def test_what_stays_and_what_it_computes(name: str) -> None:
    case = CASES[name]
    model = graph(case.text)
    before = to_proto(model)
    notes = to_half(model, case.dtype)
    proto = checked(model)
    assert operators(model, SINGLE) == case.single
    assert sum(n.op_type == "Cast" and case.dtype in (n.inputs[0].dtype, n.outputs[0].dtype) for n in model.graph) == case.casts
    assert case.note in " ".join(notes) and ("does not hold" in " ".join(notes)) == bool(case.note)
    assert [o.type for o in proto.graph.output] == [o.type for o in before.graph.output]
    if case.dtype is HALF:
        for got, want in zip(outputs(proto, case.input), outputs(before, case.input), strict=True):
            assert distance(got, want) < 5e-3


@built
@pytest.mark.parametrize("name", CASES)
def test_it_is_built(name: str) -> None:
    model = graph(CASES[name].text)
    to_half(model, CASES[name].dtype)
    assert refusal(to_proto(model), "SM80", "SM120") is None


@pytest.mark.parametrize("dtype", [HALF, BRAIN])
def test_a_model_in_half_keeps_its_types(dtype: ir.DataType) -> None:
    model = graph(CASES["layer norm"].text)
    to_half(model, dtype)
    before = to_proto(model)
    for again in (HALF, BRAIN):
        assert "already" in to_half(model, again)[0]
        assert to_proto(model) == before


def test_weights_that_are_stored_in_half_are_taken_as_they_are() -> None:
    proto = onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 20]>' + _of("v = Cast<to = 1>(w) y = MatMul(x, v)"))
    weights = numpy_helper.to_array(proto.graph.initializer[0]).astype(np.float16)
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))
    model = normalise(load_model(proto))
    to_half(model, HALF)
    assert [n.op_type for n in model.graph] == ["Cast", "MatMul", "Cast"]
    assert list(model.graph.initializers) == ["w"]


def test_tensors_are_shared_and_the_source_is_untouched() -> None:
    source = graph(CASES["layer norm"].text)
    before = to_proto(source)
    copy = normalise(source)
    to_half(copy, HALF)
    assert to_proto(source) == before
    assert copy.graph.initializers["s"].const_value is source.graph.initializers["s"].const_value


_AXES = "float[n,1,8] y"


@pytest.mark.parametrize(
    ("text", "opset", "raised"),
    [
        (_of("y = MatMul(x, w)"), 20, True),
        (_of("y = MatMul(x, w)"), 22, True),
        (_of("y = MatMul(x, w)"), 11, True),
        (_of("y = MatMul(x, w)"), 6, False),  # operands were not broadcast as they are now
        (_of("y = Softmax(x)"), 11, True),  # over the last of two axes
        (_of("y = Softmax<axis = 0>(x)"), 11, False),  # over both
        (_of("r = ReduceMean<axes = [1]>(x) y = Mul(r, x)"), 17, True),
        (_of("y = Unsqueeze<axes = [1]>(x)", gives=_AXES), 11, True),
        (_of("y = Clip<min = -0.5, max = 0.25>(x)"), 9, True),
        (_of("y = Clip<max = 0.25>(x)"), 9, True),
        (_of("y = Slice<starts = [1], ends = [3], axes = [1]>(x)", gives="float[n,2] y"), 9, True),
        (_of("y = Pad<pads = [0, 1, 0, 0], value = 3.0>(x)", gives="float[n,9] y"), 9, True),
        (_of("y, z = Split<axis = 1, split = [3, 5]>(x)", gives="float[n,3] y, float[n,5] z"), 11, True),
        (_of("y, z = Split<axis = 1>(x)", gives="float[n,4] y, float[n,4] z"), 17, False),  # into how many is not said
        (_of("y = Upsample<mode = \"nearest\">(x, s)", ", float[2] s = {1, 1}"), 9, False),  # there is none any more
        (_of("y = BatchNormalization(x, s, s, s, s)", ", float[8] s = {1,2,3,4,5,6,7,8}"), 9, True),
        (_of("r = Unsqueeze(x, a) s = Unsqueeze(r, a) y = AveragePool<kernel_shape = [1, 1]>(s)", ", int64[1] a = {1}",
             gives="float[n,1,1,8] y"), 18, True),
    ],
)  # fmt: skip
def test_a_newer_opset_only_where_all_means_the_same(text: str, opset: int, raised: bool) -> None:
    model = graph(text, opset)
    x = np.random.default_rng(0).standard_normal((2, 8), np.float32)
    want = outputs(to_proto(model), x) if opset > 6 else []
    assert (raise_opset(model, 22) is None) == raised
    assert model.opset_imports[""] == (22 if raised else opset)
    for got, value in zip(outputs(checked(model), x) if want else [], want, strict=True):
        np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("opset", [9, 14, 20])
def test_variances_stay_in_single_precision(opset: int) -> None:
    # Next to a MatMul it would be fused by ONNX Runtime, which takes it for granted that all is in half.
    text = "r = MatMul(x, w) t = Tanh(r) b = BatchNormalization(t, s, s, s, v) u = Tanh(b) y = MatMul(u, w)"
    model = graph(_of(text, ", float[8] s = {1,2,3,4,5,6,7,8}, float[8] v = {1e5,1e-9,1,1,1,1,1,1}"), opset)
    x, before = np.random.default_rng(0).standard_normal((2, 8), np.float32), to_proto(model)
    to_half(model, HALF)
    assert [v.dtype for v in next(n for n in model.graph if n.op_type == "BatchNormalization").inputs] == [HALF, *[SINGLE] * 4]
    assert distance(outputs(checked(model), x)[0], outputs(before, x)[0]) < 5e-3


def test_bfloat16_where_the_opset_is_too_old_is_said() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1,4,4,4] x) => (float[1,4,1,1] y) <float[4,4,1,1] w = {1,2,3,4,'
        "5,6,7,8,9,1,2,3,4,5,6,7}> { c = Conv(x, w) a, b = Split<axis = 2>(c) d = Add(a, b) y = GlobalAveragePool(d) }"
    )
    model = normalise(load_model(proto))
    assert "opset 22" in to_half(model, BRAIN)[-1]
    checked(model)
    assert model.graph[0].op_type == "Conv"


def _attention():
    import torch

    class Attention(torch.nn.Module):
        """A block with a mask, and a normalisation of its own making."""

        def __init__(self):
            super().__init__()
            self.norm, self.qkv, self.out = torch.nn.LayerNorm(64), torch.nn.Linear(64, 192), torch.nn.Linear(64, 64)

        def forward(self, x):
            mask = torch.full((12, 12), torch.finfo(torch.float32).min).triu(1)
            q, k, v = self.qkv(self.norm(x)).reshape(-1, 12, 3, 4, 16).permute(2, 0, 3, 1, 4)
            weights = (q @ k.transpose(2, 3) / 4 + mask).softmax(-1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(-1, 12, 64))
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    torch.manual_seed(0)
    return Attention().eval()


def _recurrent(kind: str):
    import torch

    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = getattr(torch.nn, kind)(64, 16, 2, batch_first=True, bidirectional=True)
            self.head = torch.nn.Linear(32, 5)

        def forward(self, x):
            return self.head(self.layers(x)[0])

    torch.manual_seed(0)
    return Recurrent().eval()


MODULES = {
    "attention": (_attention, (12, 64)),
    "lstm": (functools.partial(_recurrent, "LSTM"), (12, 64)),
    "gru": (functools.partial(_recurrent, "GRU"), (12, 64)),
    "resnet18": (zoo.torch_models()["resnet18"], (3, 224, 224)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    pytest.importorskip("torch")
    make, shape = MODULES[name]
    source = load_model(exported(make, *shape))
    model = normalise(source)
    to_half(model, HALF)
    x = np.random.default_rng(0).standard_normal((2, *shape), np.float32) if len(shape) == 2 else zoo.torch_input(name)
    want = outputs(to_proto(source), x)[0]
    # Random weights may blow up what half takes away from the input alone: no calculation in half can be better than that.
    rounded = outputs(to_proto(source), x.astype(np.float16).astype(np.float32))[0]
    assert distance(outputs(checked(model), x)[0], want) < max(5e-3, 2 * distance(rounded, want))


@built
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("dtype", [HALF, BRAIN])
def test_modules_are_built_with_a_free_batch(name: str, dtype: ir.DataType) -> None:
    pytest.importorskip("torch")
    make, shape = MODULES[name]
    model = normalise(load_model(exported(make, *shape)))
    to_half(model, dtype)
    assert refusal(checked(model)) is None
    kinds = {v.dtype for n in model.graph for v in n.inputs if v is not None and n.op_type in ("Conv", "MatMul", "Gemm", "LSTM")}
    assert kinds == {dtype}
