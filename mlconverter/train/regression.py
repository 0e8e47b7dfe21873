"""Numbers for each input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlconverter.train.base import BaseTrainer

if TYPE_CHECKING:
    from torch import Tensor


class RegressionTrainer(BaseTrainer, task="regression"):
    """Targets are numbers, as many as the model gives; the loss is the mean squared error."""

    def truth(self, targets: Any) -> Tensor:
        """One row of numbers for each input, so that (batch,) and (batch, 1) are the same."""
        return targets.flatten(1).float() if targets.ndim > 1 else targets[:, None].float()  # type: ignore[no-any-return]

    def predict(self, outputs: Any) -> Tensor:
        """One row of numbers for each input."""
        return self.truth(outputs)

    def fits(self, outputs: Any, targets: Any) -> str | None:
        """As many numbers on both sides."""
        from mlconverter.train.loop import described

        if not hasattr(outputs, "ndim") or outputs.ndim == 0:
            several = isinstance(outputs, (tuple, list, dict))
            return (
                f"expected is one tensor of numbers, the model gives {described(outputs)}." + several * " Say which by output=."
            )
        if targets is None or self.criterion is not None or self.truth(targets).shape == self.truth(outputs).shape:
            return None
        return f"expected are targets as the outputs, {described(outputs)}; the batch has {described(targets)}."

    def loss(self, outputs: Any, targets: Any) -> Tensor | None:
        """Mean squared error."""
        from torch.nn import functional as F

        if self.criterion is not None:
            return self.criterion(outputs, targets)
        return F.mse_loss(self.predict(outputs), self.truth(targets))

    def metrics(self) -> Mapping[str, Any]:
        """Mean absolute error, and root of the mean squared error."""
        from torchmetrics import MeanAbsoluteError, MeanSquaredError

        return {"mae": MeanAbsoluteError(), "rmse": MeanSquaredError(squared=False)}
