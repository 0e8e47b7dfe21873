"""Training by the Trainer: it learns, goes back to the origin, can be interrupted, and says what does not fit."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mlconverter import BaseTrainer, Converter, MissingDependencyError, SignatureError, Trainer, TrainingError

pytest.importorskip("lightning", reason="lightning is not installed")
pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")

QUIET = {"progress": False}


def digits(count: int = 1500) -> TensorDataset:
    """Real handwritten digits, 8 × 8."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    pictures = torch.from_numpy((images / 16).astype(np.float32)).reshape(-1, 1, 8, 8)
    return TensorDataset(pictures[:count], torch.from_numpy(labels[:count]).long())


def loader(data, shuffle: bool = True, batch: int = 32) -> DataLoader:
    return DataLoader(data, batch, shuffle=shuffle)


def network(outputs: int = 10, *behind: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 32), nn.ReLU(), nn.Linear(32, outputs), *behind]
    return nn.Sequential(*layers).eval()


def deployed(*behind: nn.Module, outputs: int = 10) -> Converter:
    """A converter of an ONNX file of the network."""
    graph = Converter(network(outputs, *behind), input_shape=("batch", 1, 8, 8), verify=False).to_onnx()
    return Converter(graph)


class TestThereAndBack:
    """What it is for."""

    @pytest.mark.parametrize("behind", [(), (nn.Softmax(1),)], ids=["logits", "probabilities"])
    def test_it_learns_and_goes_back(self, behind) -> None:
        converter = deployed(*behind)
        train, rest = digits().tensors, TensorDataset(*(t[1200:] for t in digits().tensors))
        trainer = Trainer(
            model=converter.to_torch(),
            train_dataloader=loader(TensorDataset(*(t[:1200] for t in train))),
            valid_dataloader=loader(rest, False),
            test_dataloader=loader(rest, False),
            task="classification",
            **QUIET,
        )
        history = trainer.train(epoch=12, lr=1e-2)
        assert history is trainer.history and [row["epoch"] for row in history] == list(range(12))
        assert history[-1]["train_loss"] < history[0]["train_loss"] / 2
        found = trainer.test()
        assert found["test_accuracy"] >= 0.9, found
        best_row = min(history, key=lambda row: row["valid_loss"])
        assert found["test_accuracy"] == best_row["valid_accuracy"], "another epoch's weights"
        assert bool(trainer.notes) == bool(behind)
        assert trainer.matrices["confusion"].sum() == 300
        best = trainer.best_model
        assert not best.training
        back = converter.to_origin_type(best)
        assert converter.report.verdict == "verified" and converter.report.way_back.startswith("trained weights written back")
        images = rest.tensors[0].numpy()
        got = Converter(back)._inner.source_runner().run({converter.signature.input_names[0]: images})
        right = float((next(iter(got.values())).argmax(1) == rest.tensors[1].numpy()).mean())
        assert right == pytest.approx(found["test_accuracy"], abs=1e-6)

    def test_a_new_head_and_frozen_layers(self) -> None:
        converter = deployed()
        images, labels = digits(200).tensors
        data = TensorDataset(images, labels % 3)
        trainer = Trainer(converter.to_torch(), loader(data), task="classification", freeze=1, **QUIET).new_head(3)
        before = {n: p.clone() for n, p in trainer.model.named_parameters()}
        trainer.train(epoch=2, lr=5e-3)
        moved = {n for n, p in trainer.model.named_parameters() if not torch.equal(p, before[n])}
        frozen = {n for n, p in trainer.model.named_parameters() if not p.requires_grad}
        assert frozen and moved == before.keys() - frozen
        converter.to_origin_type(trainer.best_model)
        assert converter.report.way_back.startswith("converted anew") and converter.report.verdict == "verified"

    def test_learning_from_the_origin_without_labels(self) -> None:
        converter, images = deployed(), digits(200).tensors[0]
        module = converter.to_torch()
        student = copy.deepcopy(module)
        with torch.no_grad():
            for parameter in student.parameters():
                parameter += 0.05 * torch.randn_like(parameter)
        trainer = Trainer(student, loader(images), task="classification", teacher=converter, **QUIET)
        history = trainer.train(epoch=5, lr=1e-3)
        assert history[-1]["train_loss"] < history[0]["train_loss"] / 2

    def test_an_average_of_weights(self) -> None:
        trainer = Trainer(deployed().to_torch(), loader(digits(200)), task="classification", ema=0.9, **QUIET)
        trainer.train(epoch=2, lr=5e-3)
        own, best = dict(trainer.model.named_parameters()), dict(trainer.best_model.named_parameters())
        assert own.keys() == best.keys() and all(torch.isfinite(p).all() for p in best.values())

    def test_class_weights_move_the_answers(self) -> None:
        images, labels = digits(200).tensors
        data = TensorDataset(images, (labels == 3).long())
        counts = []
        for weights in ((1.0, 1.0), (1.0, 50.0)):
            trainer = Trainer(network(2), loader(data), task="classification", class_weights=weights, **QUIET)
            trainer.train(epoch=1, lr=1e-3)
            counts.append(int((trainer.best_model(images).argmax(1) == 1).sum()))
        assert counts[1] > counts[0]


def test_regression() -> None:
    images, labels = digits(300).tensors
    data = TensorDataset(images, labels.float())
    trainer = Trainer(deployed(outputs=1).to_torch(), loader(data), loader(data, False), task="regression", **QUIET)
    history = trainer.train(epoch=6, lr=5e-3)
    assert history[-1]["valid_rmse"] < history[0]["valid_rmse"] and history[-1]["valid_mae"] < 3


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
def test_segmentation(last: bool) -> None:
    class Maps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x).permute(0, 2, 3, 1) if last else self.conv(x)

    images = digits(200).tensors[0]
    data = TensorDataset(images, (images[:, 0] > 0.4).long())
    trainer = Trainer(Maps(), loader(data), loader(data, False), task="segmentation", channels_last=last, **QUIET)
    history = trainer.train(epoch=6, lr=5e-2)
    assert history[-1]["valid_accuracy"] > 0.95


class TestInterruptions:
    """A training that goes on is the one that was not interrupted."""

    def test_resuming_gives_the_weights_of_an_uninterrupted_run(self, tmp_path: Path) -> None:
        def trainer(folder: Path) -> BaseTrainer:
            return Trainer(network(), loader(digits(200)), loader(digits(200), False), output_dir=folder, **QUIET)

        whole = trainer(tmp_path / "whole")
        whole.train(epoch=4, lr=5e-3)
        first = trainer(tmp_path / "parts")
        first.train(epoch=2, lr=5e-3)
        torch.manual_seed(99)  # what happened meanwhile does not matter
        second = trainer(tmp_path / "parts")
        second.resume(tmp_path / "parts", epoch=4)
        assert [row["epoch"] for row in second.history] == [0, 1, 2, 3]
        for name, tensor in whole.model.state_dict().items():
            torch.testing.assert_close(second.model.state_dict()[name], tensor, rtol=0, atol=1e-6)
        assert {p.name for p in (tmp_path / "parts").iterdir()} == {"best.ckpt", "last.ckpt"}

    def test_checkpoints_that_do_not_fit(self, tmp_path: Path) -> None:
        trainer = Trainer(network(), loader(digits(64)), output_dir=tmp_path, **QUIET)
        with pytest.raises(FileNotFoundError, match="nothing"):
            trainer.resume(tmp_path / "nothing.ckpt")
        trainer.train(epoch=1)
        with pytest.raises(TrainingError, match="another model"):
            Trainer(network(3), loader(digits(64)), **QUIET).resume(tmp_path)
        with pytest.raises(TrainingError, match="classification"):
            Trainer(network(), loader(digits(64)), task="regression", **QUIET).resume(tmp_path)

    def test_nothing_is_left_behind(self, tmp_path: Path, monkeypatch) -> None:
        monkeypatch.chdir(tmp_path)
        state, mode = torch.random.get_rng_state(), network()
        Trainer(mode, loader(digits(64)), **QUIET).train(epoch=1)
        torch.manual_seed(0)
        assert not list(tmp_path.iterdir()) and not mode.training and len(state)


class TestWhatDoesNotFit:
    """Each says what was expected."""

    DATA = digits(64)

    @pytest.mark.parametrize(
        ("model", "data", "choices", "error", "said"),
        [
            (network(), DATA, {"task": "clasification"}, SignatureError, "classification"),
            (nn.Sequential(nn.Flatten(), nn.ReLU()), DATA, {}, TrainingError, "trainable"),
            (network(3), DATA, {}, TrainingError, "classes 0 to 2: new_head"),
            (network(), TensorDataset(DATA.tensors[0], DATA.tensors[1].float()), {}, TrainingError, "numbers of classes"),
            (network(), TensorDataset(DATA.tensors[0]), {}, TrainingError, "targets"),
            (network(), TensorDataset(DATA.tensors[0][:, :, :4], DATA.tensors[1]), {}, TrainingError, "first batch"),
            (network(), TensorDataset(*(t[:0] for t in DATA.tensors)), {}, (TrainingError, ValueError), "batch|num_samples"),
            (network(), DATA, {"task": "segmentation"}, TrainingError, "height"),
            (network(3), DATA, {"task": "regression"}, TrainingError, "targets as the outputs"),
            (network(), DATA, {"class_weights": (1, 2)}, TrainingError, "2 class_weights for 10"),
            (network(), DATA, {"freeze": "nowhere"}, SignatureError, "nowhere"),
            (network(), DATA, {"teacher": 3}, SignatureError, "teacher"),
            ("no module", DATA, {}, SignatureError, "str"),
        ],
    )
    def test_errors(self, model, data, choices, error, said) -> None:
        with pytest.raises(error, match=said):
            Trainer(copy.deepcopy(model), loader(data, len(data) > 0), **choices, **QUIET).train(epoch=1)

    def test_what_was_not_given(self) -> None:
        trainer = Trainer(network(), **QUIET)
        with pytest.raises(TrainingError, match="train_dataloader"):
            trainer.train(epoch=1)
        with pytest.raises(TrainingError, match="best model"):
            assert trainer.best_model
        with pytest.raises(TrainingError, match="test_dataloader"):
            trainer.test()
        with pytest.raises(SignatureError, match="head"):
            Trainer(nn.Sequential(nn.Conv2d(1, 2, 3)), **QUIET).new_head(3)

    def test_a_plot_without_matplotlib_names_the_extra(self, monkeypatch, tmp_path: Path) -> None:
        import sys

        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        trainer = Trainer(network(), loader(digits(64)), **QUIET)
        with pytest.raises(MissingDependencyError, match=r"mlconverter\[train\]"):
            trainer.train(epoch=1).plot(tmp_path / "curves.png")
        assert not list(tmp_path.iterdir())


def test_curves_and_a_confusion_matrix_are_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from mlconverter.train.plots import ConfusionMatrix

    data = digits(64)
    trainer = Trainer(network(), loader(data), loader(data, False), **QUIET)
    trainer.train(epoch=2).plot(tmp_path / "curves.png")
    ConfusionMatrix(trainer.matrices["confusion"]).plot(tmp_path / "confusion.png")
    for name in ("curves.png", "confusion.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_a_task_of_ones_own() -> None:
    class Codes(BaseTrainer, task="codes"):
        def loss(self, outputs, targets):
            return (outputs - targets).abs().mean()

    images, labels = digits(64).tensors
    data = TensorDataset(images, nn.functional.one_hot(labels, 10).float())
    history = Trainer(network(), loader(data), task="codes", **QUIET).train(epoch=2, lr=1e-2)
    assert history[1]["train_loss"] < history[0]["train_loss"]
