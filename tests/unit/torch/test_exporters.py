"""The older exporter takes what the newer one refuses, and what it records is held against the module on other inputs."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from torch import nn

from mlconverter import ConversionError, Converter
from mlconverter.formats.torch import to_onnx


class Careful(nn.Module):
    """A check in Python that always comes out the same: no exporter can know that, a trace need not."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 5)
        self.twin = nn.BatchNorm2d(4)  # its values are those of the other one: ones and zeros
        self.scale = nn.Parameter(torch.rand(4, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.twin(self.norm(self.conv(x)) * self.scale)
        if features.abs().max() < 0:
            raise ValueError("impossible")
        return self.head(features.mean((2, 3)))


SHAPE = (1, 3, 8, 8)


def exported(module: nn.Module, **options):
    converter = Converter(module.eval(), input_shape=SHAPE, **options)
    return converter, converter.to_onnx()


class TestSecondTry:
    """A module that only the older exporter takes."""

    def test_is_exported_and_that_is_said(self) -> None:
        converter, proto = exported(Careful())
        onnx.checker.check_model(proto)
        assert converter.report.verdict == "verified"
        notes = " ".join(converter.report.notes)
        assert "dynamo=True" in notes and "data-dependent" in notes, "which exporter, and why"
        assert "test_exporters.py, line" in notes, "what was decided once and for all"

    def test_has_its_own_names_and_a_free_batch(self) -> None:
        module = Careful()
        converter, proto = exported(module, input_names="my pixels", output_names="classes")
        assert {i.name for i in proto.graph.initializer} >= {n for n, _ in module.named_parameters()}
        assert [v.name for v in (*proto.graph.input, *proto.graph.output)] == ["my pixels", "classes"]
        assert [s.shape[0] for s in (*converter.signature.inputs, *converter.signature.outputs)] == ["batch", "batch"]
        images = torch.randn(4, 3, 8, 8)
        (got,) = ort.InferenceSession(proto.SerializeToString()).run(None, {"my pixels": images.numpy()})
        np.testing.assert_allclose(got, module(images).detach().numpy(), rtol=1e-4, atol=1e-5)

    def test_weights_of_equal_values_stay_apart(self) -> None:
        """That exporter makes one of them where it is told that nothing is trained."""
        module = Careful()
        _, proto = exported(module)
        again = Converter(proto).to_torch()
        assert len(list(again.parameters())) == len(list(module.parameters()))

    def test_is_not_made_where_the_first_succeeds(self, monkeypatch) -> None:
        monkeypatch.setattr(to_onnx, "by_tracing", lambda *rest: pytest.fail("asked for nothing"))
        converter = Converter(nn.Linear(4, 3), input_shape=(1, 4))
        converter.to_onnx()
        assert converter.report.notes == ()

    def test_leaves_the_module_as_it_is(self) -> None:
        module = Careful().train()
        module.norm.eval()
        Converter(module, input_shape=SHAPE).to_onnx()
        assert module.training and module.head.training and not module.norm.training

    def test_writes_opsets_that_the_first_does_not(self) -> None:
        converter, proto = exported(nn.Conv2d(3, 4, 3), opset=13)
        assert next(o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")) == 13
        assert converter.report.verdict == "verified"
        with pytest.raises(ConversionError, match=r"(?s)free batch:.*opset.*by tracing:.*opset"):
            exported(nn.Conv2d(3, 4, 3), opset=99)

    def test_a_batch_that_the_record_fixes(self) -> None:
        class Rows(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                if x.abs().max() < 0:
                    raise ValueError("impossible")
                return torch.stack([row * (i + 1) for i, row in enumerate(x)])

        converter, proto = exported(Rows())
        assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1
        assert any("The batch stays fixed" in note for note in converter.report.notes)
        with pytest.raises(ConversionError, match="not what the module computes on other inputs"):
            exported(Rows(), dynamic_batch=True)


class Deciding(nn.Module):
    """A module that decides in Python by what it is given."""

    def __init__(self, decide) -> None:
        super().__init__()
        self.decide = decide
        self.fc = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) if self.decide(x) else self.fc(x) * 2


DECISIONS = {
    "the sign of a sum": lambda x: x.sum() > 0,
    "the sign of an element": lambda x: x.reshape(-1)[0] >= 0,
    "the largest": lambda x: x.max() < 2,
    "far away": lambda x: x.abs().max() < 20,
    "small": lambda x: x.abs().max() > 0.1,
    "nothing there": lambda x: x.any(),
    "a mean": lambda x: float(x.mean()) > -0.3,
    "a count": lambda x: int((x > 0.5).sum()) > 40,
    "through numpy": lambda x: x.detach().numpy().sum() > 0,
}


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_that_is_taken_by_values_is_not_fixed_in_silence(decision: str) -> None:
    """Also where nobody asks for the final comparison: the record is compared before."""
    converter = Converter(Deciding(DECISIONS[decision]), input_shape=SHAPE, verify=False)
    with pytest.raises(ConversionError, match=r"(?s)free batch:.*by tracing: the recorded run is not what the module computes"):
        converter.to_onnx()


def test_a_value_that_is_read_in_python_is_not_fixed_in_silence() -> None:
    class Reading(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * float(x.detach().numpy().max())

    with pytest.raises(ConversionError, match="not what the module computes on other inputs"):
        Converter(Reading(), input_shape=SHAPE, verify=False).to_onnx()


def test_what_cannot_be_judged_is_refused() -> None:
    """A record of random numbers is no record of the module."""

    class Random(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.abs().max() < 0:
                raise ValueError("impossible")
            return x + torch.rand(8).sum().item()

    with pytest.raises(ConversionError, match="other inputs"):
        Converter(Random(), input_shape=SHAPE).to_onnx()


def test_a_graph_module_with_a_hook_is_exported_with_it() -> None:
    """``torch.export`` runs the graphs of such modules, and not their hooks."""
    module = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
    module.register_forward_hook(lambda layer, arguments, result: result - 3)
    module.register_forward_pre_hook(lambda layer, arguments: (arguments[0] * 2,))
    converter = Converter(module, input_shape=SHAPE)
    proto = converter.to_onnx()
    assert converter.report.verdict == "verified"
    assert {i.name for i in proto.graph.initializer} >= {"0.weight", "0.bias"}


def test_names_of_weights_that_values_of_the_graph_have_too() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.add, self.mul = nn.Parameter(torch.rand(8)), nn.Parameter(torch.rand(8))
            self.module = nn.Linear(8, 8)
            self.inputs_0 = nn.Parameter(torch.rand(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.module((x + self.add) * self.mul) * self.inputs_0

    module = Named()
    converter = Converter(module, input_shape=SHAPE)
    proto = converter.to_onnx()
    onnx.checker.check_model(proto)
    assert converter.report.verdict == "verified"
    assert {i.name for i in proto.graph.initializer} >= {n for n, _ in module.named_parameters()}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda net: torch.compile(net, backend="eager"),
        nn.DataParallel,
        torch.optim.swa_utils.AveragedModel,
        lambda net: torch.jit.trace(net, torch.rand(2, 8)),
        lambda net: torch.export.export(net, (torch.rand(2, 8),), dynamic_shapes=({0: torch.export.Dim.AUTO},)).module(),
    ],
    ids=["compiled", "parallel", "averaged", "traced", "exported"],
)
def test_what_torch_has_made_of_a_module(wrapped) -> None:
    converter = Converter(wrapped(nn.Sequential(nn.Linear(8, 3), nn.ReLU())), input_shape=(1, 8))
    converter.to_onnx()
    assert converter.report.verdict == "verified" and converter.signature.inputs[0].shape == ("batch", 8)


def test_a_module_that_does_more_in_eval_is_left_alone() -> None:
    """Merging weights, say; nothing would undo it afterwards."""

    class Merging(nn.Linear):
        merged = False

        def train(self, mode: bool = True):
            self.merged = not mode
            return super().train(mode)

    module = Merging(8, 3)
    Converter(module, input_shape=(1, 8)).to_onnx()
    assert module.training and not module.merged
