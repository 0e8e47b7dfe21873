"""Models after ONNX Runtime's optimisers: the same outputs, all of it trainable, and back into the optimised file."""

import io
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import nn

from mlconverter import Converter
from tests.ops.onnx_torch.check import compare, run_torch
from tests.unit.torch.test_recurrent import train

HEADS, SIZE = 4, 32


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(SIZE, SIZE) for _ in range(4))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, steps, _ = x.shape
        q, k, v = (
            part(x).view(batch, steps, HEADS, SIZE // HEADS).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        seen = torch.softmax(q @ k.transpose(-1, -2) / (SIZE // HEADS) ** 0.5 + mask, -1) @ v
        return self.out(seen.transpose(1, 2).reshape(batch, steps, SIZE))


class Block(nn.Module):
    def __init__(self, approximate: str) -> None:
        super().__init__()
        self.attention, self.first, self.second = Attention(), nn.LayerNorm(SIZE), nn.LayerNorm(SIZE)
        self.up, self.down, self.approximate = nn.Linear(SIZE, 2 * SIZE), nn.Linear(2 * SIZE, SIZE), approximate

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.first(x + self.attention(x, mask))
        return self.second(x + self.down(nn.functional.gelu(self.up(x), approximate=self.approximate)))


class Encoder(nn.Module):
    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(50, SIZE), nn.Embedding(8, SIZE), nn.Embedding(2, SIZE)
        self.norm = nn.LayerNorm(SIZE)
        self.blocks = nn.ModuleList(Block(approximate) for _ in range(2))

    def forward(self, ids: torch.Tensor, kinds: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.words(ids) + self.kinds(kinds) + self.places(torch.arange(ids.shape[1])))
        bias = (1.0 - mask[:, None, None, :].float()) * -10000.0
        for block in self.blocks:
            x = block(x, bias)
        return x


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(c, 8, 3, padding=1) for c in (3, 8, 8, 8))
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.layers[0](x))
        x = torch.relu(x + self.layers[1](x))
        x = torch.sigmoid(self.layers[2](x)) + nn.functional.leaky_relu(self.layers[3](x), 0.1)
        return torch.relu(self.head(x.mean((2, 3))))


def tokens(batch: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(batch)
    mask = np.arange(8) < rng.integers(3, 9, (batch, 1))
    return {"ids": rng.integers(0, 50, (batch, 8)), "kinds": rng.integers(0, 2, (batch, 8)), "mask": mask.astype(np.int64)}


def image(batch: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(batch).normal(size=(batch, 3, 16, 16)).astype(np.float32)}


def exported(module: nn.Module, feeds: dict[str, np.ndarray]) -> onnx.ModelProto:
    """The module as ONNX of an old opset, in which normalisations and activations are several nodes."""
    file = io.BytesIO()
    names = list(feeds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(torch.from_numpy(v) for v in feeds.values()),
            file,
            dynamo=False,
            opset_version=14,
            input_names=names,
            output_names=["y"],
            dynamic_axes={name: {0: "batch"} for name in (*names, "y")},
        )
    return onnx.load_from_string(file.getvalue())


def by_session(proto: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath, options.log_severity_level = str(folder / "optimised.onnx"), 4
    ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "optimised.onnx")


def by_script(proto: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    onnx.save(proto, folder / "plain.onnx")
    return optimizer.optimize_model(str(folder / "plain.onnx"), "bert", num_heads=HEADS, hidden_size=SIZE, opt_level=1).model


CASES = {
    "transformer": (Encoder, tokens, by_session, {"BiasGelu", "LayerNormalization"}),
    "transformer by tanh": (lambda: Encoder("tanh"), tokens, by_session, {"FusedMatMul"}),
    "transformer by the script": (Encoder, tokens, by_script, {"Attention", "SkipLayerNormalization", "BiasGelu"}),
    "convolutions": (Convolutions, image, by_session, {"FusedConv", "FusedGemm"}),
}


@pytest.mark.parametrize("name", CASES)
def test_an_optimised_model_is_the_same_and_trains(name, tmp_path):
    make, inputs, optimise, fused = CASES[name]
    torch.manual_seed(0)
    original = make().eval()
    with torch.no_grad():  # equal weights, as untrained normalisations have them, are one in the file
        for parameter in original.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    proto = optimise(exported(original, inputs(2)), tmp_path)
    assert fused <= {n.op_type for n in proto.graph.node}
    converter = Converter(proto, verify=False)
    module = converter.to_torch()
    for batch in (1, 3):
        with torch.no_grad():
            want = original(*map(torch.from_numpy, inputs(batch).values())).numpy()
        compare(run_torch(module, inputs(batch)), [want])
    # The session makes a constant of places that are the same for all inputs; it has no layer before it.
    constant = original.places.weight.numel() if isinstance(original, Encoder) and optimise is by_session else 0
    assert sum(p.numel() for p in module.parameters()) == sum(p.numel() for p in original.parameters()) - constant

    before = {k: v.clone() for k, v in module.state_dict().items()}
    train(module, *map(torch.from_numpy, inputs(3).values()), rate=1e-3)
    trained = [not torch.equal(before[k], v) for k, v in module.state_dict().items()]
    assert np.mean(trained) > 0.8  # a bias of keys moves no score, and a dead unit none of its weights
    back = converter.to_origin_type(module)
    assert [n.op_type for n in back.graph.node] == [n.op_type for n in proto.graph.node]
    for batch in (1, 3):
        session = ort.InferenceSession(back.SerializeToString(), providers=["CPUExecutionProvider"])
        feeds = {i.name: inputs(batch)[i.name] for i in session.get_inputs()}
        kinds = {i.name: np.int32 if "int32" in i.type else feeds[i.name].dtype for i in session.get_inputs()}
        typed = {k: v.astype(kinds[k]) for k, v in feeds.items()}
        compare(run_torch(module, typed), session.run(None, typed))
