"""What the training of every task shares."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mlconverter.errors import MissingDependencyError, SignatureError, TrainingError
from mlconverter.train.plots import History

if TYPE_CHECKING:
    from torch import Tensor, nn

TASKS: dict[str, type[BaseTrainer]] = {}
"""The tasks by name; a subclass enters itself by its class keyword."""


class BaseTrainer(ABC):
    """Trains a module in place. A task gives :meth:`loss`, and what else differs: ``class Mine(BaseTrainer, task="mine")``.

    Args:
        model: a module with trainable parameters, as ``converter.to_torch()`` gives it.
        train_dataloader: batches to learn from: pairs of inputs and targets, or inputs alone for a ``teacher``.
        valid_dataloader: batches that each epoch is judged by; without them its loss in training does that.
        test_dataloader: batches for :meth:`test`.
        freeze: names of parameters, or what they begin with, or how many layers from the first (``-1``: all but the last).
        teacher: what the outputs are to be like instead of targets: a converter, whose origin its own runtime runs, a module,
            or a function of the inputs.
        criterion: a loss instead of the task's: a function of outputs and targets.
        output: position or key of the output that is trained, where the model gives several.
        ema: decay of a moving average of the weights, ``0.999`` say; the average is what is judged and kept.
        seed: what shuffling and all random numbers follow from, together with the number of the epoch.
        output_dir: folder of the checkpoints ``last.ckpt`` and ``best.ckpt``; without it nothing is left on disk.
        progress: whether a progress bar is shown.

    Attributes:
        history: one dict an epoch: ``epoch``, ``train_loss``, ``valid_loss``, and the metrics as ``valid_<name>``.
        notes: what the first batch has shown of the model.
    """

    task: ClassVar[str] = ""
    best_by: ClassVar[tuple[str, str]] = ("loss", "min")
    """What of the validation decides on the best epoch, and whether that is the smallest or the largest."""

    def __init_subclass__(cls, *, task: str = "", **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if task:
            cls.task, TASKS[task] = task, cls

    def __init__(
        self,
        model: nn.Module,
        train_dataloader: Any = None,
        valid_dataloader: Any = None,
        test_dataloader: Any = None,
        *,
        freeze: str | Sequence[str] | int | None = None,
        teacher: Any = None,
        criterion: Callable[[Any, Any], Tensor] | None = None,
        output: int | str | None = None,
        ema: float | None = None,
        seed: int = 0,
        output_dir: str | os.PathLike[str] | None = None,
        progress: bool = True,
    ) -> None:
        try:
            from mlconverter.train import layers, loop, teachers
        except ModuleNotFoundError as error:
            raise MissingDependencyError(str(error.name).partition(".")[0], "train", "Training") from error
        self._runs = loop
        if not hasattr(model, "parameters"):
            raise SignatureError(f"Trained is a module, as converter.to_torch() gives it, not a {type(model).__name__}.")
        self.model = model
        self.loaders = {"train": train_dataloader, "valid": valid_dataloader, "test": test_dataloader}
        self.criterion, self.output, self.ema, self.seed, self.progress = criterion, output, ema, seed, progress
        self.history, self.notes = History(), list[str]()
        self.plan: dict[str, Any] = {}
        self.matrices: dict[str, Any] = {}
        self._best: nn.Module | None = None
        self._keeps = output_dir is not None
        self.folder = Path(output_dir or tempfile.mkdtemp(prefix="mlconverter-train-"))
        if not self._keeps:
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.teacher = None if teacher is None else teachers.as_function(teacher, model)
        if freeze is not None:
            layers.freeze(model, freeze)

    def __deepcopy__(self, memo: dict[int, Any]) -> BaseTrainer:
        return self  # averaging weights copies the loop, which refers to this

    # -- what a task gives -------------------------------------------------------------------------------------------

    def read(self, batch: Any) -> tuple[Any, Any]:
        """Inputs and targets of a batch; targets are ``None`` where it has none."""
        return (batch[0], batch[1]) if isinstance(batch, (tuple, list)) and len(batch) == 2 else (batch, None)

    def call(self, model: Callable[..., Any], inputs: Any, targets: Any) -> Any:
        """What the model gives for inputs, of which there may be a tuple."""
        outputs = model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)
        return outputs if self.output is None else outputs[self.output]

    @abstractmethod
    def loss(self, outputs: Any, targets: Any) -> Tensor | None:
        """What is minimised; ``None`` where a validation has none."""

    def metrics(self) -> Mapping[str, Any]:
        """Metrics of torchmetrics, of predictions and targets, by name."""
        return {}

    def predict(self, outputs: Any) -> Any:
        """What the metrics compare with the targets."""
        return outputs

    def truth(self, targets: Any) -> Any:
        """The targets as the metrics take them."""
        return targets

    def fits(self, outputs: Any, targets: Any) -> str | None:
        """Why outputs or targets are not what the task takes, on the first batch; targets are ``None`` for a teacher."""
        return None

    def distil(self, outputs: Any, taught: Any) -> Tensor:
        """How far the outputs are from the teacher's."""
        from torch.nn.functional import mse_loss

        pairs = zip(outputs, taught, strict=True) if isinstance(outputs, (tuple, list)) else [(outputs, taught)]
        first, *others = [mse_loss(own, other) for own, other in pairs]
        return sum(others, first)

    # -- what people call --------------------------------------------------------------------------------------------

    def new_head(self, num_classes: int) -> BaseTrainer:
        """Replace the last linear layer or 1×1 convolution by one for so many classes; gives the trainer itself."""
        from mlconverter.train import layers

        layers.new_head(self.model, num_classes)
        return self

    def train(
        self,
        epoch: int = 20,
        *,
        optimiser: str | Callable[[list[Any]], Any] = "AdamW",
        lr: float = 1e-4,
        patience: int | None = None,
        **lightning: Any,
    ) -> History:
        """Train, and give the history.

        Args:
            epoch: how many epochs.
            optimiser: the name of a class in ``torch.optim``, or a function from parameters to an optimiser.
            lr: the learning rate of one by name.
            patience: stop after so many epochs that were no better.
            **lightning: arguments of ``lightning.Trainer``: ``accelerator``, ``devices`` (1 by default), ``strategy``,
                ``precision``, ``num_nodes``, ``gradient_clip_val``, ``callbacks``, ``logger`` …

        Raises:
            TrainingError: nothing is trainable, there is no data, or what the model takes or gives does not fit it.
        """
        self.history = History()
        return self._fit({"epoch": epoch, "optimiser": optimiser, "lr": lr, "patience": patience, **lightning})

    def resume(self, path: str | os.PathLike[str], **changes: Any) -> History:
        """Go on from a checkpoint as if nothing had interrupted the training, and give the history.

        Args:
            path: a checkpoint, or a folder with ``last.ckpt``; those to come go to the same folder, where no other was given.
            **changes: arguments of :meth:`train` that are not what they were.

        Raises:
            FileNotFoundError: there is no checkpoint.
            TrainingError: it is of another task or model, or not of a trainer at all.
        """
        file = Path(path) / "last.ckpt" if Path(path).is_dir() else Path(path)
        plan = self._runs.plan_of(self, file, changes)
        if not self._keeps:
            self.folder, self._keeps = file.parent, True
        return self._fit(plan, file)

    def _fit(self, plan: dict[str, Any], checkpoint: Path | None = None) -> History:
        if not any(p.requires_grad for p in self.model.parameters()):
            raise TrainingError("No parameter of the model is trainable: set requires_grad, or freeze less of it.")
        if plan.get("num_nodes", 1) != 1 and not self._keeps:
            raise TrainingError("Several machines need an output_dir that all of them see: the best weights come from there.")
        self.plan, self._best = plan, None
        self._best = self._runs.fit(self, checkpoint)
        return self.history

    def test(self, **lightning: Any) -> dict[str, float]:
        """Loss and metrics of the best model on the test data, on the devices that trained where nothing else is said.

        Raises:
            TrainingError: there is no test data, or it does not fit.
        """
        options = {k: v for k, v in self.plan.items() if k in ("accelerator", "devices", "strategy", "precision", "num_nodes")}
        return self._runs.test(self, self._best or self.model, options | lightning)

    @property
    def best_model(self) -> nn.Module:
        """A copy of the model with the weights of the best epoch, in ``eval()`` mode: for ``converter.to_origin_type``.

        Raises:
            TrainingError: nothing was trained yet.
        """
        if self._best is None:
            raise TrainingError("There is no best model yet: call train() or resume() first.")
        return self._best

    def note(self, text: str) -> None:
        """Keep, and log, what the first batch has shown of the model."""
        from mlconverter.logs import get_logger

        self.notes.append(text)
        get_logger().info(text)
