"""Quantised models as plain ones: the rounding is gone, what limits values is not, and the integers have their way back."""

from collections import defaultdict

import numpy as np
import pytest
import torch
from ai_edge_litert import schema_py_generated as S
from onnx import TensorProto
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

from mlconverter import Converter
from mlconverter.errors import ConversionError
from mlconverter.formats.tflite.model import TFLiteModel
from tests import zoo
from tests.ops.onnx_torch.models import FLOAT, N, model, node, weight
from tests.ops.tflite_onnx.files import File
from tests.ops.tflite_onnx.test_quantised import CASES, made, op, q

RELU6 = 3


def plain(data, x: np.ndarray) -> np.ndarray:
    """What the model without its quantisation gives, by torch; it is compared with ONNX Runtime on the way."""
    converter = Converter(data, dequantize=True)
    module = converter.to_torch()
    assert converter.report.steps[-1].verdict == "verified"
    with torch.no_grad():
        return module(torch.from_numpy(x)).numpy()


def test_an_activation_that_a_files_grid_sees_to_stays():
    f = File()
    x = f.input((1, 8), "int8", quantization=q(0.1, 0))
    y = op(f, "ADD", [x, x], "int8", q(6 / 255, -128), (1, 8), options=S.AddOptionsT(fusedActivationFunction=RELU6))
    values = np.float32([[-3, -1, 0, 1, 2, 3, 5, 9]])
    np.testing.assert_allclose(plain(f.finish(y), values), np.clip(2 * values, 0, 6), rtol=1e-6)


@pytest.mark.parametrize(("zero", "limited"), [(0, True), (128, False)])
@pytest.mark.parametrize("output", ["float", "uint8"])
@pytest.mark.parametrize("opset", [10, 13, 21])
def test_an_activation_that_was_left_out_of_an_onnx_model_stays(zero, limited, output, opset):
    nodes = [node("Conv", "x w", "h"), node("QuantizeLinear", "h s z", "q")]
    nodes += [node("DequantizeLinear", "q s z", "y")] if output == "float" else []
    constants = {"w": weight(2, 3, 1, 1), "s": np.float32(6 / 255).reshape(()), "z": np.uint8(zero).reshape(())}
    proto = model(nodes, {"x": [N, 3, 4, 5]}, {"y": FLOAT} if output == "float" else {"q": TensorProto.UINT8}, constants, opset)
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32) * 5
    exact = np.einsum("nchw,oc->nohw", x, constants["w"][:, :, 0, 0])
    want = np.clip(exact, 0, 6) if limited else exact
    np.testing.assert_allclose(plain(proto, x), want, rtol=1e-5, atol=1e-5)


def test_integers_have_their_way_back():
    data = made(next(case for case in CASES if case.id == "FULLY_CONNECTED int8 relu"), 1)
    converter = Converter(data, dequantize=True)
    module = converter.to_torch()
    assert [str(s.dtype) for s in module.origin.signature.inputs] == ["float32"]
    assert bytes(converter.to_origin_type(module)) == data
    with torch.no_grad():
        next(module.parameters()).mul_(-1)
    tuned = converter.to_origin_type(module)
    assert bytes(tuned) != data and tuned.signature.inputs[0].dtype == "int8"
    assert converter.report.verdict == "verified"


def test_rounding_by_another_axis_is_no_pair():
    nodes = [node("QuantizeLinear", "x s z", "q", axis=1), node("DequantizeLinear", "q s z", "y", axis=2)]
    constants = {"s": np.float32([0.1, 0.2, 0.3]), "z": np.zeros(3, np.int8)}
    proto = model(nodes, {"x": [N, 3, 3]}, {"y": FLOAT}, constants, 13)
    with pytest.raises(ConversionError, match="nothing to do"):
        Converter(proto, dequantize=True).to_onnx()


def test_nothing_to_do():
    proto = model([node("Relu", "x", "y")], {"x": [N, 3]}, {"y": FLOAT}, {}, 13)
    with pytest.raises(ConversionError, match="nothing to do"):
        Converter(proto, dequantize=True).to_torch()


@pytest.mark.parametrize("format", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_what_onnx_runtimes_own_tool_quantised(format, tmp_path):
    """Every layer of the plain model computes what it computed before, with the weights that were rounded."""
    rng = np.random.default_rng(0)
    nodes = [
        node("Conv", "x w b", "h", pads=[1, 1, 1, 1]),
        node("Relu", "h", "r"),
        node("MaxPool", "r", "m", kernel_shape=[2, 2]),
    ]
    nodes += [node("Conv", "m v", "g", pads=[1, 1, 1, 1]), node("Add", "m g", "a"), node("Concat", "a m", "c", axis=1)]
    nodes += [node("GlobalAveragePool", "c", "p"), node("Flatten", "p", "f"), node("Gemm", "f k", "y")]
    constants = {"w": weight(4, 3, 3, 3), "b": weight(4), "v": weight(4, 4, 3, 3), "k": weight(8, 1)}
    proto = model(nodes, {"x": [N, 3, 8, 8]}, {"y": FLOAT}, constants, 13)
    batches = iter([{"x": rng.normal(size=(4, 3, 8, 8)).astype(np.float32)} for _ in range(4)])
    reader = type("Reader", (CalibrationDataReader,), {"get_next": lambda self: next(batches, None)})()
    quantize_static(proto, tmp_path / "q.onnx", reader, quant_format=format, per_channel=True)
    x = rng.normal(size=(3, 3, 8, 8)).astype(np.float32)
    exact = Converter(proto).to_torch()
    with torch.no_grad():
        want = exact(torch.from_numpy(x)).numpy()
    converter = Converter(tmp_path / "q.onnx", dequantize=True)
    assert {n.op_type for n in converter.to_onnx().graph.node} <= {n.op_type for n in proto.graph.node} | {
        "Min",
        "Reshape",
        "Identity",
    }
    assert_close_but_not_equal(plain(tmp_path / "q.onnx", x), want, 0.02)


def assert_close_but_not_equal(got: np.ndarray, want: np.ndarray, part: float) -> None:
    difference = np.abs(got - want).max() / np.abs(want).max()
    assert 0 < difference < part


@pytest.mark.parametrize("member", zoo.members("pymicro-wakeword", ".tflite"))
def test_states_are_real_numbers_too(member):
    """A wake word as a plain network: it hears what the integers hear, can be trained, and goes back into its file."""
    path = zoo.model("pymicro-wakeword", member)
    converter = Converter(path, dequantize=True, verify="full")
    plain, whole = converter.to_torch(), Converter(path).to_torch()
    assert converter.report.verdict == "verified"
    assert {b.dtype for b in plain.buffers()} == {torch.float32}
    (spec,), rng = TFLiteModel.load(path).signature.inputs, np.random.default_rng(0)
    (scale,), (zero,) = spec.quantization.scale, spec.quantization.zero_point
    kept = defaultdict(list)
    with torch.no_grad():
        for call in range(30):
            x = np.clip(rng.normal(-90 + 60 * np.sin(call / 3), 40, spec.concrete()), -128, 127).astype(np.int8)
            want = whole(torch.from_numpy(x)).numpy().astype(np.float32) / 256
            got = plain(torch.from_numpy(((x.astype(np.int64) - zero) * scale).astype(np.float32))).numpy()
            np.testing.assert_allclose(got, want, atol=0.02)
            for name, values in whole.named_buffers():
                if name.endswith("states.value"):
                    kept[name].append([values.flatten().float(), plain.get_buffer(name).flatten().clone()])
    assert len(kept) == 6
    alike = [np.corrcoef(np.concatenate(pairs, axis=1))[0, 1] for pairs in kept.values()]
    assert min(alike) > 0.98
    assert bytes(converter.to_origin_type(plain)) == path.read_bytes()
    plain.reset_state()
    plain(torch.zeros(spec.concrete())).sum().backward()
    assert all(p.grad is not None for p in plain.parameters())
