"""Training a converted module: loops, devices and checkpoints are Lightning's, metrics are torchmetrics'."""

from __future__ import annotations

import importlib
from typing import Any

from mlconverter.errors import SignatureError
from mlconverter.train.base import TASKS, BaseTrainer

__all__ = ["BaseTrainer", "Trainer"]

_TASKS = ("classification", "regression", "segmentation")


def Trainer(*arguments: Any, task: str = "classification", **choices: Any) -> BaseTrainer:  # noqa: N802 (it stands for the classes of the tasks)
    """The trainer of a task: ``Trainer(model=…, train_dataloader=…, valid_dataloader=…, test_dataloader=…, task="regression")``.

    Args:
        *arguments: see :class:`BaseTrainer`.
        task: ``"classification"``, ``"regression"``, ``"segmentation"``, or one of your own.
        **choices: see :class:`BaseTrainer` and the class of the task.

    Raises:
        SignatureError: there is no such task.
        MissingDependencyError: Lightning or torchmetrics is not installed.
    """
    if task in _TASKS:
        importlib.import_module(f"mlconverter.train.{task}")
    if task not in TASKS:
        known = ", ".join(sorted({*_TASKS, *TASKS}))
        raise SignatureError(f"There is no task '{task}'. Tasks: {known}. One of your own is a subclass of BaseTrainer.")
    return TASKS[task](*arguments, **choices)
