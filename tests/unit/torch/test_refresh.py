"""A module that was trained is converted with its new weights, without another export where only those have changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from mlconverter import Converter
from mlconverter.formats.torch import to_onnx
from mlconverter.formats.torch.refresh import NEW_WEIGHTS
from tests.unit.torch.test_storage import half_stored

SHAPE = ("batch", 3, 8, 8)


class Network(nn.Module):
    """Convolution, normalisation, a tied layer, and buffers that the graph computes something constant from."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("anchors", torch.arange(4.0))
        self.register_buffer("table", torch.tensor([3, 1, 0, 2]))
        self.scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = self.bn(self.conv(x)).relu().mean((2, 3))
        return self.second(self.first(pooled).relu()) * self.scale + (self.anchors * (self.table * 2 + 1)).sum()


@pytest.fixture
def exports(monkeypatch) -> list[str]:
    """One entry for every export."""
    calls: list[str] = []
    export = to_onnx.export

    def counted(*arguments, **named):
        calls.append("export")
        return export(*arguments, **named)

    monkeypatch.setattr(to_onnx, "export", counted)
    return calls


def _train(net: Network) -> None:
    optimiser = torch.optim.Adam(net.parameters(), 0.1)
    net.train()
    net(torch.randn(4, 3, 8, 8)).square().mean().backward()
    optimiser.step()
    net.eval()


def _data(net: Network) -> None:
    net.first.weight.data += 1


def _load(net: Network) -> None:
    net.load_state_dict({name: tensor + 1 if tensor.is_floating_point() else tensor for name, tensor in net.state_dict().items()})


def _new_tensor(net: Network) -> None:
    net.conv.bias = nn.Parameter(torch.ones(4))


def _scale(net: Network) -> None:
    net.scale = 3.0


def _anchors(net: Network) -> None:
    net.anchors += 1


def _table(net: Network) -> None:
    net.table += 1


def _head(net: Network) -> None:
    net.second = nn.Linear(4, 2)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (_train, True),
        (_data, True),
        (_new_tensor, True),
        (_load, True),
        (_anchors, True),
        (_table, False),
        (_scale, False),
        (_head, False),
    ],
)
def test_what_has_changed_decides(exports: list[str], change: Callable[[Network], None], kept: bool) -> None:
    torch.manual_seed(0)
    net = Network().eval()
    converter = Converter(net, input_shape=SHAPE)
    before = converter.to_onnx()
    change(net)
    after = converter.to_onnx()
    assert converter.report.verdict == "verified" and after != before
    assert len(exports) == (1 if kept else 2)
    assert (NEW_WEIGHTS in converter.report.steps[-1].notes) == kept
    assert after == Converter(net, input_shape=SHAPE, verify=False).to_onnx(), "another export gives something else"
    image = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1)).numpy()
    got = converter.to_tflite()(image[:1])
    torch.testing.assert_close(torch.from_numpy(got), net(torch.from_numpy(image[:1])).detach(), rtol=1e-4, atol=1e-4)


def test_another_export_is_remembered_by_its_options(exports: list[str]) -> None:
    net = Network().eval()
    converter = Converter(net, input_shape=SHAPE, verify=False)
    converter.to_onnx(opset=18)
    converter.to_onnx(opset=19)
    _data(net)
    assert [converter.to_onnx(opset=opset).opset_import[0].version for opset in (18, 19)] == [18, 19]
    assert len(exports) == 2


def test_what_was_recorded_is_recorded_anew(exports: list[str]) -> None:
    class Decides(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x) if float(self.fc.bias.sum()) > 0 else -self.fc(x)

    net = Decides().eval()
    nn.init.ones_(net.fc.bias)
    converter = Converter(net, input_shape=(2, 3))
    converter.to_onnx()
    nn.init.constant_(net.fc.bias, -1.0)
    converter.to_onnx()
    assert converter.report.verdict == "verified" and len(exports) == 2


def test_weights_that_are_seen_rounded_are_exported_anew(exports: list[str]) -> None:
    module = Converter(half_stored()).to_torch()
    converter = Converter(module)
    converter.to_onnx()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter *= 1.001
    converter.to_onnx()
    assert converter.report.verdict == "verified" and len(exports) == 2
