"""One class for each position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlconverter.train.classification import ClassificationTrainer

if TYPE_CHECKING:
    from torch import Tensor


class SegmentationTrainer(ClassificationTrainer, task="segmentation"):
    """Targets are maps of the numbers of classes, (batch, height, width), as large as the outputs.

    Args:
        *arguments: see :class:`~mlconverter.train.base.BaseTrainer`.
        channels_last: whether the outputs are (batch, height, width, classes) rather than (batch, classes, height, width).
        **choices: see :class:`~mlconverter.train.classification.ClassificationTrainer`.
    """

    expected = "one tensor (batch, classes, height, width), or with the classes last and channels_last=True"

    def __init__(self, *arguments: Any, channels_last: bool = False, **choices: Any) -> None:
        super().__init__(*arguments, **choices)
        self.channels_last = channels_last

    def arranged(self, outputs: Any) -> Tensor | None:
        """Scores with the classes along axis 1; ``None`` where the outputs are no maps."""
        if not hasattr(outputs, "movedim") or outputs.ndim != 4 or not outputs.is_floating_point():
            return None
        scores: Tensor = outputs.movedim(-1, 1) if self.channels_last else outputs
        return scores
