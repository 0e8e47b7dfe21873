"""What TensorRT's parser refuses as other words for the same: computed alike, and parsed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
import pytest

from mlconverter import Converter
from mlconverter.errors import ConversionError
from mlconverter.formats.trt.forms import parser_form
from mlconverter.formats.trt.half import to_half
from mlconverter.hub.io import load_model, to_proto
from mlconverter.hub.normalise import normalise
from tests import zoo
from tests.conformance.node_cases import difference, node_cases
from tests.unit.trt.building import built, checked, graph, outputs, refusal

_WIDE = np.concatenate([np.linspace(-40, 40, 157), [0.5, 1.5, 2.5, -0.5, -1.5]]).astype(np.float32)[None]


@dataclass(frozen=True)
class Case:
    """A graph, and what it becomes.

    Attributes:
        text: the graph.
        operators: the operators that it is written in.
        inputs: what it is run on.
        refused: whether the parser refuses it as it stands.
        opset: its operator set.
    """

    text: str
    operators: str
    inputs: list[np.ndarray] = field(default_factory=lambda: [_WIDE])
    refused: bool = True
    opset: int = 20


def _pair(zero: str, kind: str = "int8", scale: str = "float s = {0.25}") -> str:
    return (
        f"g (float[n,162] x) => (float[n,162] y) <{scale}, {kind} z = {{{zero}}}> "
        "{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"
    )


_INT8 = np.arange(-128, 128, dtype=np.int8)[None]
_CONV = (
    "g (float[n,2,3,3] x) => (float[n,2,3,3] y) <float s = {0.05}, int8 z = {%s}, int8[2,2,1,1] w = {1, -2, 3, -128}, "
    "float[2] t = {0.5, 0.25}, int8[2] u = {%s}, int32[2] b = {100, -200}, float[2] v = {0.025, 0.0125}> "
    "{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) e = DequantizeLinear<axis = 0>(w, t, u) "
    "c = DequantizeLinear<axis = 0>(b, v) y = Conv(d, e, c) }"
)
_IMAGE = [np.random.default_rng(0).uniform(-8, 8, (2, 2, 3, 3)).astype(np.float32)]
CASES = {
    "large letters": Case('g (float[n,162] x) => (float[162,n] y) { y = Einsum<equation = "Zb->bZ">(x) }', "Einsum"),
    "around zero": Case(_pair("0"), "QuantizeLinear DequantizeLinear", refused=False),
    "another zero": Case(_pair("-7"), "Div Round Clip Mul"),
    "zero at the end": Case(_pair("-128"), "Div Round Clip Mul"),
    "unsigned": Case(_pair("128", "uint8"), "Div Round Clip Mul"),
    "sixteen bits": Case(_pair("0", "int16"), "Div Round Clip Mul", opset=21),
    "by default unsigned": Case(
        "g (float[n,162] x) => (float[n,162] y) <float s = {0.25}> { q = QuantizeLinear(x, s) y = DequantizeLinear(q, s) }",
        "Div Round Clip Mul",
        refused=False,  # it is taken for int8
    ),
    "along an axis": Case(
        "g (float[n,3,2] x) => (float[n,3,2] y) <float[3] s = {1, 0.5, 0.25}, int8[3] z = {0, -128, 5}> "
        "{ q = QuantizeLinear<axis = 1>(x, s, z) y = DequantizeLinear<axis = 1>(q, s, z) }",
        "Div Round Add Clip Sub Mul",
        [np.random.default_rng(0).uniform(-99, 99, (4, 3, 2)).astype(np.float32)],
    ),
    "read by another grid": Case(
        "g (float[n,162] x) => (float[n,162] y) <float s = {0.25}, int8 z = {3}, float t = {0.5}, int8 u = {-9}> "
        "{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, t, u) }",
        "Div Round Clip Add Cast Cast Sub Mul",
    ),
    "integers at the border": Case(
        "g (int8[n,256] x) => (int8[n,256] y) <float s = {0.25}, int8 z = {3}, float t = {0.5}, int8 u = {-9}> "
        "{ r = DequantizeLinear(x, s, z) y = QuantizeLinear(r, t, u) }",
        "Cast Sub Mul Div Round Clip Add Cast",
        [_INT8],
    ),
    "unsigned integers at the border": Case(
        "g (uint8[n,256] x) => (uint8[n,256] y) <float s = {0.25}, uint8 z = {3}, float t = {0.5}> "
        "{ r = DequantizeLinear(x, s, z) y = QuantizeLinear(r, t, z) }",
        "Cast Sub Mul Div Round Clip Add Cast",
        [np.arange(256, dtype=np.uint8)[None]],
    ),
    "integers around zero at the border": Case(
        "g (int8[n,256] x) => (int8[n,256] y) <float s = {0.25}, int8 z = {0}, float t = {0.5}> "
        "{ r = DequantizeLinear(x, s, z) y = QuantizeLinear(r, t, z) }",
        "DequantizeLinear QuantizeLinear",
        [_INT8],
        refused=False,
    ),
    "a convolution of integers": Case(
        _CONV % ("0", "0, 0"), "QuantizeLinear DequantizeLinear DequantizeLinear Conv", _IMAGE, refused=True
    ),
    "a convolution with another zero": Case(_CONV % ("4", "0, 0"), "Div Round Clip Mul Conv", _IMAGE),
    "a weight with another zero": Case(_CONV % ("0", "0, 1"), "QuantizeLinear DequantizeLinear Conv", _IMAGE),
    "a product of integers": Case(
        "g (uint8[n,2] a) => (int32[n,2] y) <int8[2,2] b = {1, 2, -3, 127}, uint8 z = {12}, int8[2] u = {0, 3}> "
        "{ y = MatMulInteger(a, b, z, u) }",
        "Cast Sub MatMul Cast",
        [np.array([[0, 255], [7, 12]], np.uint8)],
    ),
    "quantised while it runs": Case(
        "g (float[n,162] x) => (uint8[n,162] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }",
        "",
    ),
    "double precision": Case(
        "g (float[n,162] x) => (float[n,162] y) <double[1] c = {0.1}> { d = Cast<to = 11>(x) e = Mul(d, c) y = Cast<to = 1>(e) }",
        "Mul",
        refused=False,
    ),
    "celu": Case("g (float[n,162] x) => (float[n,162] y) { y = Celu<alpha = 2.0>(x) }", "", refused=False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_same_in_other_words(name: str) -> None:
    case = CASES[name]
    source = graph(case.text, case.opset)
    before = to_proto(source)
    model, _ = parser_form(normalise(source))
    assert not case.operators or " ".join(n.op_type for n in model.graph) == case.operators
    for got, want in zip(outputs(checked(model), *case.inputs), outputs(before, *case.inputs), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)
    assert to_proto(source) == before


@built
@pytest.mark.parametrize("name", CASES)
def test_it_is_built(name: str) -> None:
    case = CASES[name]
    assert (refusal(to_proto(graph(case.text, case.opset))) is not None) == case.refused
    model, _ = parser_form(graph(case.text, case.opset))
    assert refusal(to_proto(model)) is None


PARSED = (
    "test_affine_grid_2d",
    "test_attention_4d",
    "test_attention_4d_softcap",
    "test_attention_4d_with_past_and_present",
    "test_attention_4d_attn_mask_3d_causal",
    "test_attention_4d_diff_heads_sizes",
    "test_celu_float16",
    "test_center_crop_pad_crop",
    "test_convinteger_with_padding",
    "test_dequantizelinear_axis",
    "test_dynamicquantizelinear",
    "test_layer_normalization_2d_axis1",
    "test_linear_attention_linear",
    "test_matmulinteger",
    "test_nllloss_NCd1d2_with_weight",
    "test_qlinearconv",
    "test_qlinearmatmul_2D_int8_float32",
    "test_quantizelinear_axis",
    "test_sce_mean_weight_log_prob",
)
"""Cases of the specification that the parser refuses, or takes for something else, as they stand."""


@pytest.mark.parametrize("name", PARSED)
def test_cases_of_the_specification(name: str) -> None:
    case = node_cases()[name]
    case = case.with_constants() if len(case.inputs) > 1 else case
    model, _ = parser_form(normalise(load_model(case.model)))
    assert difference(outputs(checked(model), *case.inputs), case) is None


@built
@pytest.mark.parametrize("name", PARSED)
def test_cases_of_the_specification_are_built(name: str) -> None:
    case = node_cases()[name]
    case = case.with_constants() if len(case.inputs) > 1 else case
    source = normalise(load_model(case.model))
    assert refusal(to_proto(source)) is not None
    model, _ = parser_form(source)
    assert refusal(to_proto(model)) is None


@pytest.mark.parametrize("border", ["int16[n,4] x) => (int16[n,4] y", "float[n,4] z, uint32[n,4] x) => (uint32[n,4] y"])
def test_types_that_no_engine_takes(border: str) -> None:
    with pytest.raises(ConversionError, match=r"takes x: u?int"):
        parser_form(graph(f"g ({border}) {{ y = Neg(x) }}".replace("Neg", "Identity" if "uint" in border else "Neg")))


def test_double_precision_at_the_border_is_refused() -> None:
    with pytest.raises(ConversionError, match="takes x: float64"):
        parser_form(graph("g (double[n,4] x) => (double[n,4] y) { y = Neg(x) }"))


def test_what_is_written_out_says_its_opset() -> None:
    text = "g (float[2,4] x) => (float[2,4] y, float[2,1] m%s) <float[4] s = {1,2,3,4}> { y, m = LayerNormalization(x, s) %s }"
    model, _ = parser_form(graph(text % ("", ""), 17))
    assert model.opset_imports[""] == 18  # since when the axes of ReduceMean are an input
    with pytest.raises(ConversionError, match=r"ReduceMean.*opset 18.*Split"):
        parser_form(graph(text % (", float[2,2] z, float[2,2] u", "z, u = Split<axis = 1>(x)"), 17))


def _quantised_file() -> ir.Model:
    return normalise(load_model(Converter(model_path=zoo.model("pymicro-wakeword", "okay_nabu.tflite"), verify=False).to_onnx()))


def test_a_quantised_file() -> None:
    source = _quantised_file()
    model, notes = parser_form(normalise(source))
    assert "single precision" in notes[0]
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-128, 128, [int(d) for d in v.shape], np.int8) for v in source.graph.inputs]
    for got, want in zip(outputs(checked(model), *inputs), outputs(to_proto(source), *inputs), strict=True):
        assert got.dtype == want.dtype and np.abs(got.astype(int) - want).max() <= 1


@built
def test_a_quantised_file_is_built_in_every_precision() -> None:
    assert "zero point" in (refusal(to_proto(_quantised_file())) or "")
    for dtype in (None, ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        model, _ = parser_form(_quantised_file())
        if dtype is not None:
            to_half(model, dtype)
        assert refusal(checked(model)) is None
