"""The one LightningModule of all tasks, and the runs of Lightning over it."""

from __future__ import annotations

import copy
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning
import torch
from lightning.fabric.utilities.warnings import PossibleUserWarning
from lightning.pytorch import callbacks
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor, nn
from torchmetrics import MetricCollection

from mlconverter.errors import TrainingError
from mlconverter.train.plots import History
from mlconverter.train.teachers import origin_of

if TYPE_CHECKING:
    from mlconverter.train.base import BaseTrainer

_FAILURES = (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError)
"""What torch raises where sizes, dtypes or arguments do not fit."""


class Loop(lightning.LightningModule):
    """Steps and epochs, in the words of a task."""

    def __init__(self, task: BaseTrainer, model: nn.Module) -> None:
        super().__init__()
        self.task, self.model = task, model
        self.measured: dict[str, MetricCollection] = {}
        self.seen: set[str] = set()
        self.seeded: int | None = None

    # An epoch begins in the same state whatever was before it, so one that is done again is the same.

    def train_dataloader(self) -> Any:
        self._seed(self.trainer.fit_loop.epoch_progress.current.processed)  # type: ignore[attr-defined]
        return self.task.loaders["train"]

    def on_train_epoch_start(self) -> None:
        if self.seeded != self.current_epoch:  # the first epoch of a run has its iterator already
            self._seed(self.current_epoch)

    def _seed(self, epoch: int) -> None:
        self.seeded, seed = epoch, self.task.seed + epoch
        lightning.seed_everything(seed + 10_007 * self.global_rank, verbose=False)
        os.environ["PL_GLOBAL_SEED"] = str(self.task.seed)  # samplers of several processes add the epoch themselves
        loader = self.task.loaders["train"]
        for owner in (loader, getattr(loader, "sampler", None)):
            if isinstance(generator := getattr(owner, "generator", None), torch.Generator):
                generator.manual_seed(seed)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:
        return self._step(batch, "train")

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self._step(batch, "valid")

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self._step(batch, "test")

    def _step(self, batch: Any, stage: str) -> Tensor | None:
        task = self.task
        inputs, targets = task.read(batch)
        if targets is None and task.teacher is None:
            hint = "Give pairs of inputs and targets, a teacher=, or a read() of your own."
            raise TrainingError(f"A batch of the {stage} data has no targets: {described(batch)}. {hint}")
        outputs = self._outputs(inputs, targets, stage)
        try:
            if task.teacher is not None:
                loss: Tensor | None = task.distil(outputs, task.call(task.teacher, inputs, None))
            else:
                loss = (task.criterion or task.loss)(outputs, targets)
        except _FAILURES:
            self._refuse(stage, outputs, targets)  # a class that only this batch has, say
            raise
        if loss is not None:
            size = len(inputs[0] if isinstance(inputs, tuple) else inputs)
            self.log(f"{stage}_loss", loss, on_step=False, on_epoch=True, prog_bar=True, sync_dist=True, batch_size=size)
        if stage != "train" and targets is not None:
            if stage not in self.measured:
                self.measured[stage] = MetricCollection(dict(task.metrics())).to(self.device)
            self.measured[stage].update(task.predict(outputs), task.truth(targets))
        return loss

    def _outputs(self, inputs: Any, targets: Any, stage: str) -> Any:
        if stage in self.seen:
            return self.task.call(self.model, inputs, targets)
        self.seen.add(stage)
        try:
            outputs = self.task.call(self.model, inputs, targets)
        except torch.OutOfMemoryError:
            raise
        except _FAILURES as error:
            origin, layouts = origin_of(self.model), "'channels_first' or 'channels_last'"
            takes = "" if origin is None else "; it takes " + ", ".join(map(str, origin.signature.inputs))
            hint = "" if origin is None else f" Where the channels stand elsewhere, convert with io_layout={layouts}."
            text = f"The model does not take the first batch of the {stage} data, {described(inputs)}{takes}."
            raise TrainingError(f"{text} {type(error).__name__}: {error}.{hint}") from error
        self._refuse(stage, outputs, targets)
        return outputs

    def _refuse(self, stage: str, outputs: Any, targets: Any) -> None:
        if reason := self.task.fits(outputs, targets):
            raise TrainingError(f"The {stage} data and the model do not fit the task '{self.task.task}': {reason}")

    def on_validation_epoch_end(self) -> None:
        self._sum_up("valid")

    def on_test_epoch_end(self) -> None:
        self._sum_up("test")

    def _sum_up(self, stage: str) -> None:
        if stage in self.measured:
            for name, value in self.measured[stage].compute().items():
                if value.numel() == 1:
                    self.log(f"{stage}_{name}", value.float(), prog_bar=True)
                else:
                    self.task.matrices[name] = value.cpu().numpy()
            self.measured[stage].reset()

    def on_train_epoch_end(self) -> None:
        numbers = {k: float(v) for k, v in self.trainer.callback_metrics.items() if k.startswith(("train_", "valid_"))}
        rows = [row for row in self.task.history if row["epoch"] != self.current_epoch]
        self.task.history[:] = [*rows, {"epoch": self.current_epoch, **numbers}]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        plain = {k: v for k, v in self.task.plan.items() if v is None or isinstance(v, (str, int, float))}
        rest = sorted(set(self.task.plan) - set(plain))
        checkpoint["mlconverter"] = {"task": self.task.task, "plan": plain, "rest": rest, "history": list(self.task.history)}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.task.history = History(checkpoint["mlconverter"]["history"])

    def configure_optimizers(self) -> Any:
        wanted, parameters = self.task.plan["optimiser"], [p for p in self.model.parameters() if p.requires_grad]
        if not isinstance(wanted, str):
            return wanted(parameters)
        kinds = {name.lower(): kind for name, kind in vars(torch.optim).items() if isinstance(kind, type)}
        if wanted.lower() not in kinds:
            raise TrainingError(f"torch.optim has no optimiser '{wanted}'. It has: {', '.join(sorted(kinds))}.")
        return kinds[wanted.lower()](parameters, lr=self.task.plan["lr"])


def fit(task: BaseTrainer, checkpoint: Path | None) -> nn.Module:
    """Train by a task's plan, from the start or from a checkpoint; gives a copy of the model with the best weights."""
    judged = task.loaders["valid"] is not None
    for stage in ("train", "valid") if judged else ("train",):
        _refuse_empty(task, stage)
    name, mode = task.best_by if judged else ("loss", "min")
    by: dict[str, Any] = {"monitor": f"{'valid' if judged else 'train'}_{name}", "mode": mode}
    # Two of them: one alone writes the last epoch only where that is the best.
    common: dict[str, Any] = {"save_on_train_epoch_end": True, "enable_version_counter": False}
    keeper = callbacks.ModelCheckpoint(task.folder, "best", **by, **common)
    latest = callbacks.ModelCheckpoint(task.folder, "last", **common)
    added = [keeper, latest, *(task.plan.get("callbacks") or [])]
    if task.plan["patience"] is not None:
        added.append(callbacks.EarlyStopping(**by, patience=task.plan["patience"], check_on_train_epoch_end=True))
    if task.ema is not None:  # of parameters only: tables and counts have no mean
        added.append(callbacks.EMAWeightAveraging(decay=task.ema, use_buffers=False))
    task.model.train()
    for part in task.model.modules():
        own = list(part.parameters(recurse=False))
        if own and not any(p.requires_grad for p in own):
            part.eval()  # frozen: its statistics stay as they are, too
    options = {k: v for k, v in task.plan.items() if k not in ("epoch", "optimiser", "lr", "patience", "callbacks")}
    with _running(task, options, max_epochs=task.plan["epoch"], callbacks=added) as trainer:
        trainer.fit(Loop(task, task.model), val_dataloaders=task.loaders["valid"], ckpt_path=checkpoint, weights_only=True)
    task.model.eval()
    last = Path(keeper.dirpath or task.folder) / "last.ckpt"
    if not last.is_file():
        raise TrainingError("Nothing was trained: the train data gave no batch, or no epoch was asked for.")
    task.history = History(_read(last)["mlconverter"]["history"])  # all that a process leaves that was spawned
    state = _read(Path(keeper.best_model_path or last))["state_dict"]
    best = copy.deepcopy(task.model)
    best.load_state_dict({key.removeprefix("model."): value for key, value in state.items()})
    trainer.strategy.barrier()  # the folder may go with the process that made it
    return best.eval()


def test(task: BaseTrainer, model: nn.Module, options: dict[str, Any]) -> dict[str, float]:
    """Loss and metrics of a model on the test data."""
    _refuse_empty(task, "test")
    with _running(task, options) as trainer:
        (found,) = trainer.test(Loop(task, model.eval()), task.loaders["test"], verbose=False)
    return dict(found)


def plan_of(task: BaseTrainer, file: Path, changes: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the run that wrote a checkpoint, with changes.

    Raises:
        FileNotFoundError: there is no such file.
        TrainingError: it is not one of such a run, or an argument is missing that no checkpoint holds.
    """
    if not file.is_file():
        raise FileNotFoundError(f"There is no checkpoint '{file}'.")
    saved = _read(file)
    kept = saved.get("mlconverter", {"task": None, "rest": ()})
    shapes = {key.removeprefix("model."): value.shape for key, value in saved["state_dict"].items()}
    if kept["task"] != task.task:
        raise TrainingError(f"'{file}' is a checkpoint of the task {kept['task']!r}, not of {task.task!r}.")
    if shapes != {key: value.shape for key, value in task.model.state_dict().items()}:
        raise TrainingError(f"'{file}' has the weights of another model; where that had a new_head(), give this one the same.")
    if missing := [name for name in kept["rest"] if name not in changes]:
        raise TrainingError(
            f"'{file}' cannot hold these arguments of train(): {', '.join(missing)}. Give them to resume() again."
        )
    return kept["plan"] | changes  # type: ignore[no-any-return]


def _read(file: Path) -> dict[str, Any]:
    return torch.load(file, map_location="cpu", weights_only=True)  # type: ignore[no-any-return]


def _refuse_empty(task: BaseTrainer, stage: str) -> None:
    loader = task.loaders[stage]
    if loader is None or (hasattr(type(loader), "__len__") and len(loader) == 0):
        what = "There is no" if loader is None else "No batch is in the"
        raise TrainingError(
            f"{what} {stage}_dataloader. Give the trainer one with data; drop_last=True drops a batch that is not full."
        )


@contextmanager
def _running(task: BaseTrainer, options: dict[str, Any], **more: Any) -> Iterator[lightning.Trainer]:
    """Lightning's trainer, without what it says of the machine and of loaders, and the caller's random numbers as they were."""
    defaults: dict[str, Any] = {"devices": 1, "logger": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    defaults |= {"enable_progress_bar": task.progress, "default_root_dir": task.folder}
    loggers = {name: logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")}
    levels = {name: logger.level for name, logger in loggers.items()}
    with warnings.catch_warnings(), isolate_rng(include_cuda=False):
        warnings.simplefilter("ignore", PossibleUserWarning)
        try:
            for logger in loggers.values():
                logger.setLevel(logging.WARNING)
            yield lightning.Trainer(**(defaults | options | more))
        finally:
            for name, level in levels.items():
                loggers[name].setLevel(level)


def described(value: Any) -> str:
    """Dtypes and shapes of what a batch or a model's output is made of."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(described, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {described(item)}' for key, item in value.items())}}}"
    return type(value).__name__
