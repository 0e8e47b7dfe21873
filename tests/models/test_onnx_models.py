"""Real ONNX models into PyTorch, and back into their own protobuf."""

import numpy as np
import onnx
import pytest
import torch

from mlconverter import Converter
from mlconverter.formats.onnx.runner import OnnxRuntimeRunner
from mlconverter.formats.torch.runner import TorchRunner
from mlconverter.verification import verify_runners
from tests import zoo

RTOL = 1e-4

SIZES = {
    "ch_PP-OCRv4_det_infer.onnx": {"x": (3, 160, 192)},
    "ch_PP-OCRv4_rec_infer.onnx": {"x": (3, 48, 192)},
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": {"x": (3, 48, 192)},
    "plcmos_v2.onnx": {"degraded_audio": (1, 50, 257)},
    "Run_1663915512_Stage_0.onnx": {"input": (3, 64, 160)},
    "Run_1668423760_Stage_0.onnx": {"input": (3, 64, 160)},
}
"""Sizes of inputs that have other free dimensions than the first, as the models' own application feeds them."""

RECURRENT = [
    ("silero-vad", "silero_vad_openvino_16k.onnx"),
    ("silero-vad", "silero_vad_16k_sequence.onnx"),
    ("speechmos", "aecmos_models/Run_1663915512_Stage_0.onnx"),
    ("speechmos", "aecmos_models/Run_1668423760_Stage_0.onnx"),
    ("speechmos", "plcmos_models/plcmos_v2.onnx"),
]
STATEFUL = ("Run_1663915512_Stage_0.onnx", "Run_1668423760_Stage_0.onnx")
"""Models whose batch is free, and whose state is that of a batch of 1."""

PACKAGED = [
    *(("rapidocr-onnxruntime", name) for name in SIZES if name.startswith("ch_")),
    *RECURRENT,
    *(("speechmos", m) for m in zoo.members("speechmos") if "dnsmos_models/" in f"/{m}" and "pdnsmos" not in m),
]
LIGHT = sorted(zoo.light_models())


def inputs_of(model: onnx.ModelProto, name: str, batch: int) -> dict[str, np.ndarray]:
    """Noise around a half, of the sizes that a model is fed with."""
    rng = np.random.default_rng(batch)
    initial = {i.name for i in model.graph.initializer}
    made = {}
    for value in model.graph.input:
        if value.name in initial:
            continue
        dims = [d.dim_value if d.dim_value > 0 else None for d in value.type.tensor_type.shape.dim]
        rest = SIZES.get(name, {}).get(value.name, tuple(dims[1:]))
        assert None not in rest, f"{name} needs sizes"
        made[value.name] = rng.normal(0.5, 0.5, (dims[0] or batch, *rest)).astype(np.float32)
    return made


def batch_is_free(model: onnx.ModelProto) -> bool:
    """Whether the first input's batch is not fixed."""
    initial = {i.name for i in model.graph.initializer}
    first = next(v for v in model.graph.input if v.name not in initial)
    return first.type.tensor_type.shape.dim[0].dim_value <= 0


@pytest.mark.parametrize("name", [*(m for _, m in PACKAGED), *LIGHT])
def test_there_and_back(name: str) -> None:
    """ONNX Runtime and torch agree; untouched comes back equal; trained weights land in the initializers."""
    package = next((p for p, m in PACKAGED if m == name), None)
    proto = onnx.load(zoo.model(package, name)) if package else zoo.light_models()[name]()
    before = proto.SerializeToString(deterministic=True)
    converter = Converter(model=proto, verify=False)
    module = converter.to_torch()

    given = [inputs_of(proto, name.rpartition("/")[2], 1)]
    if batch_is_free(proto) and not name.endswith(STATEFUL):
        given.append(inputs_of(proto, name.rpartition("/")[2], 2))
    signature = converter.signature
    with OnnxRuntimeRunner(proto, signature) as source:
        result = verify_runners(source, TorchRunner(module, signature), inputs=given, rtol=RTOL)
    assert result, result.summary()

    assert converter.to_origin_type() == proto
    assert converter.to_origin_type().SerializeToString(deterministic=True) == before

    assert list(module.parameters())
    outputs = module(*[torch.from_numpy(v) for v in given[0].values()])
    sum(o.square().mean() for o in (outputs if isinstance(outputs, tuple) else (outputs,))).backward()
    optimiser = torch.optim.SGD(module.parameters(), lr=1e-3)
    optimiser.step()
    tuned = converter.to_origin_type()
    assert tuned != proto
    assert [n.name for n in tuned.graph.node] == [n.name for n in proto.graph.node]
    with OnnxRuntimeRunner(tuned, signature) as target:
        result = verify_runners(TorchRunner(module, signature), target, inputs=given[:1], rtol=RTOL)
    assert result, result.summary()
    assert proto.SerializeToString(deterministic=True) == before, "the source was changed"
