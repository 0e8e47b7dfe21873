"""Layers that torch does not have."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class DropoutBy(nn.Module):
    """Dropout by a ratio that is computed while the model runs; like ``nn.Dropout`` it obeys ``train()``."""

    def forward(self, x: torch.Tensor, ratio: torch.Tensor) -> torch.Tensor:
        """``x`` itself, or with elements dropped while training."""
        return F.dropout(x, float(ratio.reshape(()).item())) if self.training else x
