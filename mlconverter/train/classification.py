"""One class for each input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlconverter.train.base import BaseTrainer

if TYPE_CHECKING:
    from torch import Tensor

PROBABILITIES = "The model gives probabilities (a softmax or sigmoid stands at its end): the loss is taken of their logarithm."


class ClassificationTrainer(BaseTrainer, task="classification"):
    """Targets are numbers of classes; one output alone is the score of class 1 against class 0.

    Args:
        *arguments: see :class:`BaseTrainer`.
        class_weights: how much each class counts in the loss.
        probabilities: whether the model gives probabilities rather than logits; by default the first batch tells.
        ignore_index: a target that does not count.
        **choices: see :class:`BaseTrainer`.
    """

    temperature = 2.0
    """By how much a teacher's distribution is softened."""

    def __init__(
        self,
        *arguments: Any,
        class_weights: Sequence[float] | None = None,
        probabilities: bool | None = None,
        ignore_index: int = -100,
        **choices: Any,
    ) -> None:
        super().__init__(*arguments, **choices)
        self.class_weights, self.probabilities, self.ignore_index = class_weights, probabilities, ignore_index
        self.num_classes = 0

    expected = "one tensor (batch, classes)"

    def arranged(self, outputs: Any) -> Tensor | None:
        """Scores with the classes along axis 1; ``None`` where the outputs are nothing of that kind."""
        if not hasattr(outputs, "flatten") or outputs.ndim == 0 or not outputs.is_floating_point():
            return None
        flat: Tensor = outputs.flatten(1) if outputs.ndim > 1 else outputs[:, None]
        return flat if max(outputs.shape[1:], default=1) == flat.shape[1] else None

    def truth(self, targets: Any) -> Tensor:
        """Numbers of classes, without an axis of size 1."""
        return targets.squeeze(1).long() if targets.ndim > 1 and targets.shape[1] == 1 else targets.long()  # type: ignore[no-any-return]

    def fits(self, outputs: Any, targets: Any) -> str | None:
        """Scores for each class, and numbers of those classes."""
        from mlconverter.train.loop import described

        scores = self.arranged(outputs)
        if scores is None:
            several = isinstance(outputs, (tuple, list, dict))
            return f"expected is {self.expected}, the model gives {described(outputs)}." + several * " Say which one by output=."
        single = scores.shape[1] == 1
        self.num_classes = classes = 2 if single else scores.shape[1]
        if self.probabilities is None:
            self.probabilities = _are_probabilities(scores)
            if self.probabilities:
                self.note(PROBABILITIES)
        if self.class_weights is not None and len(self.class_weights) != classes:
            return f"there are {len(self.class_weights)} class_weights for {classes} classes."
        if targets is None or self.criterion is not None:
            return None
        truth, places = self.truth(targets), (len(scores), *scores.shape[2:])
        if (targets.is_floating_point() and not single) or truth.shape != places:
            return f"expected are targets int64{list(places)}, numbers of classes; the batch has {described(targets)}."
        counted = truth[truth != self.ignore_index]
        if counted.numel() and not 0 <= int(counted.min()) <= int(counted.max()) < classes:
            worst = int(counted.min()) if int(counted.min()) < 0 else int(counted.max())
            return (
                f"class {worst} is among the targets, and the model knows classes 0 to {classes - 1}: new_head() gives it others."
            )
        return None

    def log_probabilities(self, outputs: Any, probabilities: bool | None) -> Tensor:
        """Logarithms of the classes' probabilities, along axis 1."""
        import torch
        from torch.nn import functional as F

        scores = self.arranged(outputs)
        assert scores is not None  # by fits
        if probabilities:
            pair = torch.cat((1 - scores, scores), 1) if scores.shape[1] == 1 else scores
            return pair.clamp_min(torch.finfo(pair.dtype).tiny).log()
        return torch.cat((F.logsigmoid(-scores), F.logsigmoid(scores)), 1) if scores.shape[1] == 1 else scores.log_softmax(1)

    def loss(self, outputs: Any, targets: Any) -> Tensor | None:
        """Cross-entropy."""
        from torch.nn import functional as F

        if self.criterion is not None:
            return self.criterion(outputs, targets)
        found = self.log_probabilities(outputs, self.probabilities)
        weights = None if self.class_weights is None else found.new_tensor(self.class_weights)
        return F.nll_loss(found, self.truth(targets), weights, ignore_index=self.ignore_index)

    def distil(self, outputs: Any, taught: Any) -> Tensor:
        """Divergence of the distribution from the teacher's, both softened."""
        from torch.nn import functional as F

        origin = self.log_probabilities(taught, _are_probabilities(self.arranged(taught)))
        own, other = (
            (x / self.temperature).log_softmax(1) for x in (self.log_probabilities(outputs, self.probabilities), origin)
        )
        return F.kl_div(own, other, log_target=True, reduction="sum") * (self.temperature**2 * own.shape[1] / own.numel())

    def predict(self, outputs: Any) -> Tensor:
        """The likeliest class."""
        return self.log_probabilities(outputs, self.probabilities).argmax(1)

    def metrics(self) -> Mapping[str, Any]:
        """Share of right answers, F1 averaged over the classes, confusion matrix."""
        from torchmetrics import classification as kinds

        rest: dict[str, Any] = {"num_classes": self.num_classes, "ignore_index": self.ignore_index}
        return {
            "accuracy": kinds.MulticlassAccuracy(**rest, average="micro"),
            "f1": kinds.MulticlassF1Score(**rest),
            "confusion": kinds.MulticlassConfusionMatrix(**rest),
        }


def _are_probabilities(scores: Any) -> bool:
    """Whether scores are what a softmax gives, or a sigmoid where there is one class alone."""
    import torch

    if bool((scores < 0).any()) or bool((scores > 1.001).any()):
        return False
    sums = scores.float().sum(1)
    return scores.shape[1] == 1 or torch.allclose(sums, torch.ones_like(sums), atol=1e-2)
